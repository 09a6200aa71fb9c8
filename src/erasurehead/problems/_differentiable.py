"""Problems whose loss is the user's own function of batches of samples, differentiated by JAX or PyTorch."""

from __future__ import annotations

import math
import pickle
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, final

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # ships none
import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.errors import check_count, check_type, invalid, real
from erasurehead.problems._base import Exact, Problem, Shard, remaining
from erasurehead.problems._mini_batches import draw_batch, noise_seed
from erasurehead.problems._penalties import Penalty
from erasurehead.problems._trees import Nest, check_data, leaves, rows_of

_MOST_ROWS = 4096
"""Batch size with which the coordinator evaluates a loss over all samples."""

PROBE = 8
"""Number of samples on which a loss is first tried, and shows whether it draws random numbers."""


class Differentiated(ABC):
    """A loss with its gradient, as it runs on a worker: the parameters are one vector.

    Attributes:
        n_parameters: length of that vector.
        dtype: of gradients: the shortest of numpy's types, from float32 on, that holds every parameter.
    """

    n_parameters: int
    dtype: str

    @abstractmethod
    def place(self, batch: Nest) -> Any:
        """Return a batch as the library takes it."""

    @abstractmethod
    def differentiate(self, x: Array, batch: Any, noise: int | None = None) -> tuple[float, Array]:
        """Return the mean loss over a batch, and its gradient.

        Arguments:
            x: the parameters, shape (n_parameters,).
            batch: a batch as returned by `place`.
            noise: seed of the random numbers that the model draws in training, such as for dropout; None in evaluation.
        """

    @abstractmethod
    def loss(self, x: Array, batch: Any) -> float:
        """Return the mean loss of the parameters x over a batch, with the model in evaluation mode."""

    def draws(self, batch: Any) -> bool:
        """Return whether the model draws random numbers in training, such as for dropout.

        Arguments:
            batch: a batch as returned by `place`.
        """
        return False


def by_value(model: type[Differentiated], *arguments: object) -> Any:
    """Return how to pickle a model with functions of the user's program: so that even the plain pickle can load it."""
    return _made, (model, cast("Any", cloudpickle).dumps(arguments, protocol=5))


def _made(model: type[Differentiated], arguments: bytes) -> Differentiated:
    return model(*pickle.loads(arguments))


@final
class DifferentiableShard(Shard):
    """The tasks of a user's own loss that one worker holds.

    Arguments:
        model: the loss.
        data: all samples; those of the tasks are kept.
        tasks: ranges of samples.
        n_samples: number of samples of the whole problem.
        batch_size: number of samples of each task in a mini-batch; None for all.
        seed: seed of the mini-batches.
    """

    def __init__(
        self,
        model: Differentiated,
        data: Nest,
        tasks: Sequence[slice],
        n_samples: int,
        batch_size: int | None,
        seed: int,
    ) -> None:
        self.support, self.n_tasks = None, len(tasks)
        self._model, self._n_samples, self._batch_size, self._seed = model, n_samples, batch_size, seed
        self._tasks = [
            (rows, rows_of(data, rows)) for rows in tasks
        ]  # which rows says what a task is, whoever holds it
        self._placed: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_placed": {}}

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        total, empty = 0.0, True
        for number, ((rows, _), coefficient) in enumerate(zip(self._tasks, coefficients, strict=True)):
            if coefficient == 0.0:
                continue
            factor = float(coefficient) * (rows.stop - rows.start) / self._n_samples
            noise = noise_seed(self._seed, rows, step)
            loss, gradient = self._model.differentiate(local, self._batch(number, step), noise)
            with np.errstate(over="ignore", invalid="ignore"):  # the coordinator refuses what is not finite
                total += factor * loss
                if empty:
                    np.multiply(gradient, factor, out=out)
                else:
                    out += factor * gradient
            empty = False
        if empty:
            out[:] = 0.0
        return total

    def _batch(self, number: int, step: int) -> Any:
        (rows, data), size = self._tasks[number], self._batch_size
        if size is not None and size < rows.stop - rows.start:
            return self._model.place(rows_of(data, draw_batch(self._seed, rows, step, size)))
        if number not in self._placed:
            self._placed[number] = self._model.place(data)
        return self._placed[number]


class DifferentiableProblem(Problem):
    """The mean of the user's own loss over all samples, plus a penalty; see `jax` and `torch`.

    A step's gradient is that of all samples, or of `batch_size` samples of each task, which are drawn from the seed,
    the task and the step: its expectation is the full gradient, and replicas of a task send the same. Without
    `batch_size` the problem is stochastic only if the model draws random numbers of its own.

    Arguments:
        model: the loss, as it runs on workers.
        whole: the loss, as the coordinator evaluates it over all samples.
        initial: the initial parameters, shape (n_parameters,).
        data: arrays of numpy with the samples along their first axes, checked.
        n_samples: number of samples.
        batch_size: number of samples of each task in a mini-batch; None for all.
        seed: seed of the mini-batches.
        penalty: the penalty on the parameters.
        test: samples that models are measured on, or None.
        measure: function that returns quality measures on the test samples, by name.
    """

    convex = False

    def __init__(
        self,
        model: Differentiated,
        whole: Differentiated,
        initial: Array,
        data: Nest,
        n_samples: int,
        batch_size: int | None,
        seed: int,
        penalty: Penalty,
        test: Nest,
        measure: Callable[[Array, Nest], dict[str, float]],
    ) -> None:
        self.n_samples, self.n_parameters, self.dtype = n_samples, model.n_parameters, model.dtype
        self._penalize(0.0, penalty)
        self.seed = check_count("seed", seed, at_least=0)
        self.batch_size = None if batch_size is None else check_count("batch_size", batch_size, 1, n_samples)
        self._model, self._whole, self._first, self._data = model, whole, initial.astype(self.dtype), data
        self._test, self._measure = test, measure
        few = rows_of(data, slice(0, min(n_samples, PROBE)))
        self.stochastic = self.batch_size is not None or model.draws(model.place(few))

    def initial(self) -> Array:
        """Return the parameters that the user gave, as one vector, shape (n_parameters,)."""
        return self._first.copy()

    def shard(self, tasks: Sequence[slice]) -> DifferentiableShard:
        return DifferentiableShard(self._model, self._data, tasks, self.n_samples, self.batch_size, self.seed)

    def loss(self, x: Array) -> float:
        return self._mean(x, (), self._without_slope).loss

    def gradient(self, x: Array) -> Array:
        return self._mean(x, (), self._whole.differentiate).gradient

    def sample_gradients(self, models: Array, rows: IntArray) -> Array:
        """Return the gradients of several models over samples of their own; see `Sampled`.

        Random numbers of the model, such as for dropout, are drawn from its parameters and its samples.
        """
        gradients = np.empty_like(models)
        for number, (model, own) in enumerate(zip(models, rows, strict=True)):
            noise = zlib.crc32(own.tobytes(), zlib.crc32(model.tobytes()))
            with np.errstate(over="ignore", invalid="ignore"):  # a model that has diverged is noticed by the caller
                batch = self._model.place(rows_of(self._data, own))
                gradients[number] = self._model.differentiate(model, batch, noise)[1]
        return gradients

    def exact(self, points: Sequence[Array], without: Sequence[slice] = ()) -> list[Exact]:
        return [self._mean(x, without, self._whole.differentiate) for x in points]

    def losses(self, points: Sequence[Array], without: Sequence[slice] = ()) -> list[Exact]:
        return [self._mean(x, without, self._without_slope) for x in points]

    def metrics(self, x: Array) -> dict[str, float]:
        """Return the user's metrics on the test samples, or the mean loss over them; empty without test samples."""
        return {} if self._test is None else self._measure(x, self._test)

    def _without_slope(self, x: Array, batch: Any) -> tuple[float, float]:
        return self._whole.loss(x, batch), math.nan

    def _mean(self, x: Array, without: Sequence[slice], measured: Callable[[Array, Any], tuple[float, Any]]) -> Exact:
        total, gradient, count = 0.0, np.zeros(self.n_parameters), 0
        for rows in self._blocks(without):
            size = rows.stop - rows.start
            loss, slope = measured(x, self._whole.place(rows_of(self._data, rows)))
            total += size * loss
            gradient += size * slope
            count += size
        return Exact(total / count if count else math.nan, gradient / (count or math.nan), count)

    def _blocks(self, without: Sequence[slice]) -> list[slice]:
        most = max(_MOST_ROWS, self.batch_size or 0)
        return [
            slice(low, min(low + most, rows.stop))
            for rows in remaining(self.n_samples, without)
            for low in range(rows.start, rows.stop, most)
        ]


def check_test(test: Nest, data: Nest, convert: Callable[[Nest], Nest]) -> Nest:
    """Return samples for testing as numpy arrays, converted as those to train on are; None if there are none.

    Raises:
        InvalidArgument: if they are not of the same form as the training data.
    """
    if test is None:
        return None
    checked, _ = check_data(test, "test")
    forms = [[_form(one) for _, one in leaves(side)] for side in (data, checked)]
    if forms[0] != forms[1]:
        raise invalid("test", f"must hold arrays like those of data, {forms[0]}", forms[1])
    return convert(checked)


def _form(array: Any) -> str:
    return f"({', '.join(['samples', *map(str, array.shape[1:])])}{',' * (array.ndim == 1)})"


def checked_metrics(result: Any) -> dict[str, float]:
    """Return the result of the user's metrics function, or raise if it is not a dict of numbers by name."""
    check_type("metrics", result, Mapping, "must return a dict of numbers by name")
    named: dict[str, float] = {}
    for name, value in cast("Mapping[Any, Any]", result).items():
        number = real(value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value)
        if not isinstance(name, str) or (math.isnan(number) and not _is_nan(value)):
            raise invalid("metrics", "must return a dict of numbers by name", {name: value})
        named[name] = number
    return named


def _is_nan(value: Any) -> bool:
    try:
        return bool(value != value)
    except Exception:
        return False
