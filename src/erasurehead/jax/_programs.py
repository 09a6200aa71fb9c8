"""What a rank compiles: its loss's gradient, its optimizer's step, and a pytree as one vector and back."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast, final

import numpy as np

from erasurehead.errors import invalid
from erasurehead.jax._averages import Averages
from erasurehead.jax._form import PytreeForm, Transformation, jax, jnp


@contextmanager
def _by_turns() -> Generator[None]:
    """Let one process of a host compile at a time, where they share what they have compiled: the others read it."""
    folder = jax.config.jax_compilation_cache_dir
    lock = nullcontext()
    if folder and "://" not in folder:
        with suppress(OSError):  # of which JAX itself says something
            Path(folder).mkdir(0o700, parents=True, exist_ok=True)
            lock = (Path(folder) / "erasurehead.lock").open("w")
    with lock as file:
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # which is released if the process dies
        yield


@final
class Programs:
    """The compiled parts of a step.

    Arguments:
        loss: of parameters, a batch, and a key if `draws`.
        optimizer: of optax's form.
        form: of the parameters.
        has_aux: whether the loss returns something beside its value.
        weighted: whether its value is a pair, a sum of losses and that of their weights.
        draws: whether it takes a key.

    Attributes:
        averages: what the optimizer averages.
        gradients: a gradient whose room is taken, parameters, a batch and the words of a key to what the loss returns,
            its weight, its gradient, and whether that is finite.
        sums: the same without room, of sums that are not divided by their weights; the weight of a mean is 1.
        update: parameters, state and gradient to parameters and state after a step, and None; or, with a share that is
            not None, after `prepared` of `averages`, and what that squares.
        alone: parameters, state, batch and words to parameters and state after a step, and what the loss returns.
        at: a vector to the parameters that lie in it, after such whose room is taken, or None.
        with_momentum, with_moments: those of `averages`, and then `update`, if the gradient is not None; after
            parameters whose room is taken, a state, the gradient, and the share.
        rates: those of `averages`.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        optimizer: Transformation,
        form: PytreeForm,
        has_aux: bool,
        weighted: bool,
        draws: bool,
    ) -> None:
        def differentiated(params: Any, batch: Any, words: Any, divides: bool = True) -> tuple[Any, Any, Any]:
            keys = {"key": jax.random.fold_in(jax.random.key(words[0]), words[1])} if draws else {}

            def value(params: Any) -> Any:
                found = loss(params, batch, **keys)
                total, aux = _pair(found, "has_aux", "the loss and whatever else there is") if has_aux else (found, 0)
                total, weight = _pair(total, "weighted", "a sum and its weight") if weighted else (total, 1.0)
                weight = jax.lax.stop_gradient(_checked(weight * 1.0 if weight is not None else weight))
                return _checked(total) / (weight if divides else 1.0), (weight, aux)

            (found, (weight, aux)), grads = jax.value_and_grad(value, has_aux=True)(params)
            return (found, aux) if has_aux else found, weight, grads

        def gradients(params: Any, batch: Any, words: Any, divides: bool = False) -> tuple[Any, ...]:
            found = differentiated(params, batch, words, divides)
            leaves = jax.tree.leaves(found[2])

            def every() -> Any:
                return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()

            total = sum(leaf.sum(dtype=form.wide) for leaf in leaves)  # a quarter of the time
            return *found, jax.lax.cond(jnp.isfinite(total), lambda: True, every)

        def add(own: Any, by: Any) -> Any:
            return (own + by).astype(own.dtype)

        def update(params: Any, state: Any, grads: Any, share: Any = None) -> tuple[Any, Any, Any]:
            squared = None
            if share is not None:
                state, squared = averages.prepared(params, state, grads, share)
            updates, state = optimizer.update(grads, state, params)
            return jax.tree.map(add, params, updates), state, squared

        def taken(made: Callable[..., Any]) -> Callable[..., Any]:
            def call(_: Any, state: Any, grads: Any, share: Any, *version: Any) -> tuple[Any, ...]:
                params, state, *more = made(state, *version)
                return *((params, state, None) if grads is None else update(params, state, grads, share)), *more

            return jax.jit(call, donate_argnums=(0, 1), keep_unused=True)

        def alone(params: Any, state: Any, batch: Any, words: Any) -> tuple[Any, Any, Any]:
            metrics, _, grads = differentiated(params, batch, words)
            return *update(params, state, grads)[:2], metrics

        self.averages = averages = Averages(optimizer, form)
        self.gradients = _compiled(_in_room_of(partial(gradients, divides=True)), 2, donate_argnums=0, keep_unused=True)
        self.sums = _compiled(gradients, 1)
        self.alone = _compiled(alone, 2, donate_argnums=(0, 1))
        self.update = jax.jit(update, donate_argnums=(0, 1))
        self.rates = jax.jit(averages.rates)
        self.at = jax.jit(_in_room_of(form.params), donate_argnums=0, keep_unused=True)
        self.with_momentum, self.with_moments = taken(averages.with_momentum), taken(averages.with_moments)


def _in_room_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with one more argument, the first, which is of use only as it is given away."""

    def call(_: Any, *arguments: Any) -> Any:
        return function(*arguments)

    return call


def _pair(found: Any, option: str, what: str) -> Any:
    """Return the two parts of what a loss returns.

    Raises:
        InvalidArgument: if it returns something else.
    """
    if not isinstance(found, tuple | list) or len(cast("Any", found)) != 2:
        raise invalid("loss", f"must return a pair with {option}=True, {what}", _told(found))
    return cast("Any", found)


def _checked(found: Any) -> Any:
    """Return a loss.

    Raises:
        InvalidArgument: if it is not one floating-point number.
    """
    alone = getattr(found, "shape", None) == () and jnp.issubdtype(found.dtype, jnp.floating)
    if not alone and not isinstance(found, float):
        raise invalid(
            "loss",
            "must return one floating-point number, such as the mean over a batch's samples",
            _told(found),
            "give team.step has_aux=True if it returns something else, too, or weighted=True if it returns a sum and "
            "its weight"
            if isinstance(found, tuple | list)
            else "",
        )
    return found


def _told(found: Any) -> str:
    if isinstance(found, tuple | list):
        return f"{type(cast('Any', found)).__name__} of {len(cast('Any', found))}"
    shape = getattr(found, "shape", None)
    return type(found).__name__ if shape is None else f"{found.dtype} of shape {shape}"


def _compiled(function: Callable[..., Any], batch: int, **options: Any) -> Callable[..., Any]:
    """Return a compiled function, which ranks compile by turns for each form of the argument with this number."""
    program, seen = jax.jit(function, **options), set[Any]()

    def call(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments[batch])
        form = tree, *((np.shape(leaf), getattr(leaf, "dtype", None)) for leaf in leaves)
        if form in seen:
            return program(*arguments)
        with _by_turns():
            found = program(*arguments)
        seen.add(form)
        return found

    return call


programs = lru_cache(maxsize=16)(Programs)
"""Programs that are the same for all ranks of a simulation."""
