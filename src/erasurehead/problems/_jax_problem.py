"""`problems.jax`: the user's own loss in JAX as a problem, on workers with JAX or, decompiled, without it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, final

from erasurehead._internal.arrays import Array
from erasurehead.decompile import DecompiledSource
from erasurehead.errors import UNSAID, check_count, invalid
from erasurehead.problems._additivity import Value, check_adds_up, if_it_computes, mean_of, weight_per_sample
from erasurehead.problems._decompiled import (
    GRADIENT,
    DecompiledModel,
    check_accepted,
    check_gradient,
    check_hashes,
    check_tasks,
    places_of,
    read_gradient,
    write_sources,
)
from erasurehead.problems._differentiable import (
    PROBE,
    DifferentiableProblem,
    DifferentiableShard,
    Differentiated,
    check_test,
    checked_metrics,
)
from erasurehead.problems._jax_model import JaxModel, called, canonical, form_of, jax_library, mean_of_pair, precision
from erasurehead.problems._penalties import Penalty, as_penalty
from erasurehead.problems._trees import Nest, check_data, rows_of

_PRELOAD = ("erasurehead.problems._one_thread_jax", "erasurehead.problems._jax_model")


@final
class JaxProblem(DifferentiableProblem):
    """A problem whose loss is the user's own function, differentiated by JAX; made by `jax`."""

    def __init__(
        self,
        *parts: Any,
        sources: Mapping[str, DecompiledSource] = MappingProxyType({}),
        hashes: frozenset[str] = frozenset(),
        without_jax: bool = False,
    ) -> None:
        super().__init__(*parts)
        self.sampled = self.batch_size is not None
        self.sources: Mapping[str, DecompiledSource] = MappingProxyType(dict(sources))
        """The sources that workers run, by name: for a person to read, and accept by their hashes."""
        self._hashes, self._numpy = hashes, without_jax
        self.preload = ("erasurehead.problems._decompiled",) if without_jax else _PRELOAD

    def shard(self, tasks: Sequence[slice]) -> DifferentiableShard:
        if self.sources:
            assert self.batch_size is not None
            check_tasks(tasks, self.batch_size)
            if self._numpy or self._hashes:
                check_accepted(self.sources, self._hashes)
        return super().shard(tasks)

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
    penalty: Penalty | None = None,
    test: Nest = None,
    metrics: Callable[[Any, Any], Any] | None = None,
    gradient: DecompiledSource | str | os.PathLike[str] | None = None,
    worker_backend: Literal["jax", "numpy"] = "jax",
    hashes: str | Sequence[str] = (),
) -> JaxProblem:
    """Return the problem of minimising a loss that is written in JAX.

    The loss is sent to workers together with the rest of your program; JAX must be installed where they run
    (`pip install 'erasurehead[jax]'`). The model computes in the dtypes of its parameters; if one of them is float64,
    JAX's 64-bit types are enabled for this problem.

    Arguments:
        loss: `loss(parameters, batch)`, pure: the mean over the samples of the batch, one real number. Where samples
            count differently (class weights, ignored tokens, masks): the weighted sum of the losses and the sum of the
            weights, `(sum, weight)`; what is minimised is the sum over all samples divided by their weight.
        parameters: the initial ones: arrays of real numbers in any structure that JAX takes as a tree.
        data: arrays in dicts, lists and tuples; the first axis of each array is that of the samples. Batches have the
            same form.
        batch_size: number of samples of each task in a mini-batch, drawn from seed, task and step; None for all.
        seed: seed of these draws.
        l2: factor of the penalty `l2 * ||x||^2` over all parameters.
        penalty: another penalty, such as `ElasticNet(l1=0.01)`; l2 must then be left out.
        test: test samples, in the form of `data`; None for none.
        metrics: `metrics(parameters, test)`, returning a dict of numbers; by default the mean loss, named `loss`.
        gradient: an edited source of `gradient(parameters, batch)`, or its file, to use in place of JAX's own gradient;
            for batches of `batch_size` samples, which must be given. It is run like the rest of your program, after it
            was compared with JAX's at the initial parameters.
        worker_backend: `"numpy"` sends workers the loss and its gradient as decompiled source, so that they need no
            JAX; `batch_size` must then be given.
        hashes: SHA-256 sums of sources that you have read (`problem.sources`) and accept. Workers run no source for
            numpy that is not among them; if any are given, they run no other edited gradient either.

    Raises:
        InvalidArgument: if the loss fails, or is not a finite mean; parameters are not arrays; or data do not fit
            together.
        MissingExtra: if JAX is not installed.
        DataError: if the file of an edited gradient cannot be read.
        Unsupported: if the loss has no counterpart in numpy; the error says what and where.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    >>> problem = jax(lambda w, batch: ((batch[0] @ w - batch[1]) ** 2).mean(), np.zeros(3), (X, y))
    >>> bool(np.allclose(problem.gradient(problem.initial()), -2 * X.T @ y / 60))
    True
    """
    penalized = as_penalty(l2, penalty, ())
    if not callable(loss):
        raise invalid("loss", "must be a function of parameters and a batch", loss)
    form, first = form_of(parameters)
    checked, n_samples = check_data(data, "data")
    samples = canonical(checked, form, "data")
    samples_test = check_test(test, checked, lambda given: canonical(given, form, "test"))
    user, user_model = loss, JaxModel(loss, form)

    def value(x: Array, batch: Nest) -> Value:
        return called(user, user_model.parameters(x), batch, form)

    weight = weight_per_sample(value, first, samples, n_samples)
    if weight is not None:
        if gradient is not None:
            raise invalid(
                "gradient",
                "must be left out where the loss returns a sum and its weight",
                UNSAID,
                "or write the loss as a mean",
            )
        loss = partial(mean_of_pair, user, weight)
    whole = JaxModel(loss, form)
    exact = whole
    if precision(form) >= 1e-4:  # too coarse to tell a mean from something else
        dtypes = tuple("float64" if one == "float64" else "float32" for one in form.dtypes)
        wide = JaxModel(loss, replace(form, dtypes=dtypes))
        exact = if_it_computes(wide, whole, first, rows_of(samples, slice(0, PROBE)))
    check_adds_up(exact, first, samples, n_samples, precision(exact.form), weight is not None)

    def measure(x: Array, test_data: Nest) -> dict[str, float]:
        if metrics is None:
            return {"loss": mean_of(value(x, test_data))}
        with jax_library().enable_x64(form.x64):
            return checked_metrics(metrics(whole.parameters(x), whole.place(test_data)))

    if worker_backend not in ("jax", "numpy"):
        raise invalid("worker_backend", "must be 'jax' or 'numpy'", worker_backend)
    accepted = check_hashes(hashes)
    source = None if gradient is None else read_gradient(gradient)
    sources: dict[str, DecompiledSource] = {}
    model: Differentiated = whole
    if source is not None or worker_backend == "numpy":
        library = jax_library()
        batch = _example(samples, batch_size, n_samples)
        if source is not None:
            check_gradient(source, loss, parameters, batch, form, library)
            sources = {GRADIENT: source}
            model = whole = JaxModel(loss, form, source, batch_size)
        if worker_backend == "numpy":
            tree = places_of(parameters, library)
            sources = write_sources(loss, parameters, batch, form, source, library)
            model = DecompiledModel(sources, form, tree, accepted)
    return JaxProblem(
        model,
        whole,
        first,
        samples,
        n_samples,
        batch_size,
        seed,
        penalized,
        samples_test,
        measure,
        sources=sources,
        hashes=accepted,
        without_jax=worker_backend == "numpy",
    )


def _example(samples: Nest, batch_size: int | None, n_samples: int) -> Nest:
    """Return the first batch: sources are for batches of a fixed size."""
    if batch_size is None:
        raise invalid(
            "batch_size",
            "must be given where gradients are sources, which are for batches of one size",
            UNSAID,
            "take the number of samples of a task, for all of them",
        )
    return rows_of(samples, slice(0, check_count("batch_size", batch_size, 1, n_samples)))
