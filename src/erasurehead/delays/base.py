"""What a delay model is: seconds added to a worker's work, drawn from (seed, worker, step)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from erasurehead.arrays import Array


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

    def row(self, step: int, n_workers: int, unit: int = 0, work: float | Array = 1.0) -> Array:
        """Return the delays of workers 0..n_workers-1 in one step, in seconds, shape (n_workers,)."""
        return self.rows(step, 1, n_workers, unit, work)[0]

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


def room(out: Array | None, count: int, n_workers: int) -> Array:
    """Return `out`, or a new array of shape (count, n_workers) where it is None."""
    return np.empty((count, n_workers)) if out is None else out
