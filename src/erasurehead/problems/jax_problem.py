"""`problems.jax`: a loss of the user's own in JAX as a problem, on workers with JAX or, decompiled, without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from erasurehead._internal.arrays import Array
from erasurehead.errors import invalid
from erasurehead.problems.differentiable import (
    DifferentiableProblem,
    Differentiated,
    check_mean,
    check_test,
    checked_metrics,
)
from erasurehead.problems.jax_model import JaxModel, called, canonical, form_of, jax_library, precision
from erasurehead.problems.trees import Nest, check_data


@final
class JaxProblem(DifferentiableProblem):
    """A loss of the user's own that JAX differentiates; `jax` makes one."""

    preload = ("erasurehead.problems.one_thread_jax", "erasurehead.problems.jax_model")

    def parameters(self, x: Array) -> Any:
        """Return the parameters that a vector such as `run.x` holds, as the loss takes them: arrays of JAX."""
        assert isinstance(self._whole, JaxModel)
        return self._whole.parameters(x)


def jax(
    loss: Callable[[Any, Any], Any],
    parameters: Any,
    data: Nest,
    *,
    batch_size: int | None = None,
    seed: int = 0,
    l2: float = 0.0,
    test: Nest = None,
    metrics: Callable[[Any, Any], Any] | None = None,
) -> JaxProblem:
    """Return the problem of minimising a loss that is written in JAX.

    Workers are sent the loss as they are sent the rest of your program; where they run, JAX must be installed
    (`pip install 'erasurehead[jax]'`). The model computes in the dtypes of its parameters; if one of them is of
    float64, JAX's 64-bit types are turned on for this problem.

    Arguments:
        loss: `loss(parameters, batch)`, pure: the mean over the samples of the batch, one real number.
        parameters: the first ones: arrays of real numbers in whatever JAX takes for a tree.
        data: arrays in dicts, lists and tuples; the first axis of each is the samples. A batch has the same form.
        batch_size: samples of each task that a step looks at, drawn from seed, task and step; None for all.
        seed: of these draws.
        l2: factor of the penalty `l2 * ||x||^2` over all parameters.
        test: samples of the form of `data` that models are measured on; None for none.
        metrics: `metrics(parameters, test)`, a dict of numbers; by default the mean loss, as `loss`.

    Raises:
        InvalidArgument: if the loss fails, or is no finite mean; parameters are no arrays; data do not fit together.
        MissingExtra: if JAX is not installed.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    >>> problem = jax(lambda w, batch: ((batch[0] @ w - batch[1]) ** 2).mean(), np.zeros(3), (X, y))
    >>> bool(np.allclose(problem.gradient(problem.initial()), -2 * X.T @ y / 60))
    True
    """
    if not callable(loss):
        raise invalid("loss", "must be a function of parameters and a batch", loss)
    form, first = form_of(parameters)
    checked, n_samples = check_data(data, "data")
    samples = canonical(checked, form, "data")
    given_test = check_test(test, checked)
    samples_test = None if given_test is None else canonical(given_test, form, "test")
    check_mean(lambda batch: called(loss, parameters, batch, form), samples, n_samples, precision(form), "loss")
    whole = JaxModel(loss, form)

    def measure(x: Array, held: Nest) -> dict[str, float]:
        if metrics is None:
            return {"loss": whole.loss(x, whole.place(held))}
        with jax_library().enable_x64(form.x64):
            return checked_metrics(metrics(whole.parameters(x), whole.place(held)))

    model: Differentiated = whole
    return JaxProblem(model, whole, first, samples, n_samples, batch_size, seed, l2, samples_test, measure)
