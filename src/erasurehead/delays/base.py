"""What a delay model is: seconds added to a worker's work, drawn from (seed, worker, step)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from erasurehead.arrays import Array
from erasurehead.errors import invalid


class Delays(ABC):
    """How slow workers are. The same seed gives the same delays to every scheme, on every engine.

    A model is plain immutable data: it is sent to worker processes, and a run's `config.toml` names it by `str(model)`.
    """

    @abstractmethod
    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        """Return the delays of workers 0..n_workers-1 in successive steps, in seconds, shape (count, n_workers).

        A delay depends on its worker, step and unit only, not on what else is asked for: rows asked for one by one,
        in blocks, or for more workers are the same numbers. inf means that the worker does not answer.

        Arguments:
            first: the first step, from 0.
            count: how many steps, at least 1.
            n_workers: how many workers, at least 1.
            unit: 0 for the first message of a step, 1 for the second, and so on: each draws its own.
            work: tasks that the message combines, one number or one a worker, for laws in which the delay grows
                with the load.
            out: where to write, shape (count, n_workers), C-contiguous; made if None.
        """

    @abstractmethod
    def __str__(self) -> str:
        """Return the model as it is written in a configuration: `"exponential(mean=0.5, seed=0)"`."""

    def check_workers(self, n_workers: int) -> None:
        """Raise if the model does not go with so many workers: it names one that is not there, or has too few.

        Raises:
            InvalidArgument: naming the argument.
        """
        return

    def row(self, step: int, n_workers: int, unit: int = 0, work: float | Array = 1.0) -> Array:
        """Return the delays of workers 0..n_workers-1 in one step, in seconds, shape (n_workers,).

        Raises:
            InvalidArgument: if the model gives what is no delay: NaN, a negative number, or not one a worker.
        """
        return check_rows(self, self.rows(step, 1, n_workers, unit, work), step, 1, n_workers)[0]

    def places(self, first: int, count: int, n_workers: int, unit: int = 0) -> Array | None:
        """Return who goes first among messages of a step that arrive at the same moment, shape (count, n_workers).

        The smaller number goes first. None, as for all models but recorded runs, leaves it to be drawn: see
        `erasurehead.delays.ties`.

        Arguments:
            first, count, n_workers, unit: as for `rows`.
        """
        return None

    def seconds(self, worker: int, step: int, unit: int = 0, work: float = 1.0) -> float:
        """Return the delay of one worker, in seconds."""
        return float(self.row(step, worker + 1, unit, work)[worker])

    def __add__(self, other: Delays) -> Delays:
        from erasurehead.delays.composed import Sum

        return Sum((self, other))


def check_rows(model: Delays, rows: object, first: int, count: int, n_workers: int) -> Array:
    """Return what a model gave for some steps, which for models of one's own need not be delays.

    Raises:
        InvalidArgument: naming the step, the worker and what came.
    """
    values = numbers(rows, f"what the delay model {model} returns")
    if values.shape != (count, n_workers):
        raise invalid(f"what the delay model {model} returns", f"must have shape {(count, n_workers)}", values.shape)
    wrong = np.argwhere(~(values >= 0.0))
    if len(wrong):
        step, worker = (int(place) for place in wrong[0])
        raise invalid(
            f"the delay of worker {worker} in step {first + step}, by {model},", "must be a number of seconds of at "
            "least 0, or inf", float(values[step, worker]),
        )  # fmt: skip
    return values


def numbers(values: object, argument: str) -> Array:
    """Return an array of float64 of what the user gave for one.

    Raises:
        InvalidArgument: if it holds no numbers, or its rows are not of one length.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise invalid(argument, "must be numbers, in rows of equal length", values) from None


def room(out: Array | None, count: int, n_workers: int) -> Array:
    """Return `out`, or a new array of shape (count, n_workers) where it is None."""
    return np.empty((count, n_workers)) if out is None else out
