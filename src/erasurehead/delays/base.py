"""What a delay model is: seconds added to a worker's work, drawn from (seed, worker, step)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from erasurehead.arrays import Array


class Delays(ABC):
    """How slow workers are. The same seed gives the same delays to every scheme, on every engine.

    A model is plain immutable data: it is sent to worker processes, and a run's `config.toml` names it.
    """

    @abstractmethod
    def row(self, step: int, n_workers: int, unit: int = 0, work: float = 1.0) -> Array:
        """Return the delays of workers 0..n_workers-1 in one step, in seconds, shape (n_workers,).

        The delay of a worker does not depend on how many workers are asked for: `row(s, n)[:k] == row(s, k)`.

        Arguments:
            step: the optimizer's step, from 0.
            n_workers: how many workers.
            unit: 0 for the first message of a step, 1 for the second, and so on: each draws its own.
            work: tasks that the message combines, for laws in which the delay grows with the load.
        """

    def seconds(self, worker: int, step: int, unit: int = 0, work: float = 1.0) -> float:
        """Return the delay of one worker, in seconds."""
        return float(self.row(step, worker + 1, unit, work)[worker])
