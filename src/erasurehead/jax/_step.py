"""A step of a team's, as a loop calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, final

import numpy as np

from erasurehead.errors import UNSAID, invalid
from erasurehead.jax._form import PytreeForm, Transformation, jax, jnp, mapped
from erasurehead.jax._model import PytreeModel
from erasurehead.jax._programs import Programs, programs


@final
class TeamStep:
    """A step that is a team's: `params, state, metrics = step(params, state, batch)`.

    Made by `JaxTeam.step`. `metrics` are what the loss returns. Parameters and state are given away, as to a jitted
    function that donates them: go on with those that are returned.

    Arguments:
        loss: of parameters, a batch, and a key if it has an argument of this name.
        optimizer: of optax's form.
        has_aux, weighted: what the loss returns.
        begin: called with the model, once there is one.
        meet: makes the step of a model, a batch and the words that keys are made of, and returns what the loss returns.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        optimizer: Transformation,
        has_aux: bool,
        weighted: bool,
        begin: Callable[[PytreeModel], None],
        meet: Callable[[PytreeModel, Any], Any],
    ) -> None:
        self._loss, self._optimizer, self._returns = loss, optimizer, (has_aux, weighted)
        self._begin, self._meet = begin, meet
        self.draws = "key" in inspect.signature(loss).parameters
        self._model: PytreeModel | None = None

    def init(self, params: Any) -> tuple[Any, Any]:
        """Return the first parameters, which are those of rank 0 in all ranks, and the optimizer's state.

        Arguments:
            params: a pytree of arrays of floating-point numbers, each on one device.

        Raises:
            InvalidArgument: if they are none, or ranks differ in what must be alike.
        """
        if self._model is not None:
            raise invalid("step.init", "must be called once", "a second time")
        form = PytreeForm.of(params)
        params = mapped(jnp.asarray, params)
        arguments = self._loss, self._optimizer, form, *self._returns, self.draws
        try:
            made = programs(*arguments)
        except TypeError:  # a loss that cannot be found again
            made = Programs(*arguments)
        self._model = PytreeModel(made, self._optimizer, form, params)
        self._begin(self._model)
        return self._model.lend()

    def __call__(self, params: Any, state: Any, batch: Any) -> tuple[Any, Any, Any]:
        """Make a step; return parameters, state, and what the loss returns for this batch."""
        model = self._model
        if model is None:
            raise invalid("step", "must be called after step.init", "before it", "params, state = step.init(params)")
        if jax.tree.structure(params) != model.form.tree:
            raise invalid(
                "params", f"must be as they were in step.init, {model.form.tree}", str(jax.tree.structure(params))
            )
        if any(hasattr(leaf, "is_deleted") and leaf.is_deleted() for leaf in jax.tree.leaves((params, state))):
            raise invalid(
                "params and state",
                "must be those that the last step returned, as it donates what it is given",
                UNSAID,
                "params, state, metrics = step(params, state, batch)",
            )
        model.take_back(params, state)
        metrics = self._meet(model, batch)
        return *model.lend(), metrics


def samples_of(batch: Any) -> int:
    """Return how many samples a batch has: the length of its first array."""
    return next((np.shape(leaf)[0] for leaf in jax.tree.leaves(batch) if np.ndim(leaf)), 0)
