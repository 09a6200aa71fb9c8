"""Snapshots of the model while training runs, evaluated when it is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from erasurehead._internal.arrays import Array, Tree
from erasurehead.problems.base import Problem
from erasurehead.training.callbacks import Callback
from erasurehead.training.result import Evaluation
from erasurehead.training.rows import StepRow

MOST_BYTES = 10**9
"""Memory that the models kept for evaluation may take."""

MOST_KEPT = 5_000
"""Models that are kept for evaluation: as many points as any figure can show."""


class Snapshots(Callback):
    """Keeps the models that are to be evaluated. Optimizers never change a model in place, so that none is copied.

    All together take at most a gigabyte: where there would be more, every second one is given up, again and again.

    Arguments:
        every: keep the model after every so many steps, and the last; 0 for none.
        initial: the model before the first step.
        last: number of steps of the run.
    """

    def __init__(self, every: int, initial: Array, last: int) -> None:
        self.every = every
        self.last = last
        self.kept: list[tuple[int, float, Array]] = [(0, 0.0, initial)] if every else []

    def on_step_end(self, row: StepRow, x: Array) -> None:
        done = row.step + 1
        if self.every and (done % self.every == 0 or done == self.last):
            self.kept.append((done, row.end, x))
            if len(self.kept) > max(min(MOST_BYTES // x.nbytes, MOST_KEPT), 2):
                self.every *= 2
                self.kept = [kept for kept in self.kept if kept[0] % self.every == 0]

    def state(self) -> dict[str, Tree]:
        """Return all that `restore` needs."""
        return {"every": self.every, "kept": [[step, time, x] for step, time, x in self.kept]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.every = int(state["every"])
        self.kept = [(int(step), float(time), x) for step, time, x in state["kept"]]

    def evaluate(self, problem: Problem) -> Iterator[Evaluation]:
        """Yield the metrics of every model kept; nothing if the problem has nothing to evaluate on."""
        for step, time, x in self.kept:
            if metrics := problem.metrics(x):
                yield Evaluation(step, time, metrics)
