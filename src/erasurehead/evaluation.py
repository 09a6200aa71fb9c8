"""Snapshots of the model while training runs, evaluated when it is over."""

from __future__ import annotations

from collections.abc import Iterator

from erasurehead.arrays import Array
from erasurehead.instruments import Instrument
from erasurehead.problems.base import Problem
from erasurehead.records.rows import StepRow
from erasurehead.run import Evaluation

MOST_BYTES = 10**9
"""Memory that the models kept for evaluation may take."""


class Snapshots(Instrument):
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

    def step(self, row: StepRow, x: Array) -> None:
        done = row.step + 1
        if self.every and (done % self.every == 0 or done == self.last):
            self.kept.append((done, row.end, x))
            if len(self.kept) > max(MOST_BYTES // x.nbytes, 2):
                self.every *= 2
                self.kept = [kept for kept in self.kept if kept[0] % self.every == 0]

    def evaluate(self, problem: Problem) -> Iterator[Evaluation]:
        """Yield the metrics of every model kept; nothing if the problem has nothing to evaluate on."""
        for step, time, x in self.kept:
            if metrics := problem.metrics(x):
                yield Evaluation(step, time, metrics)
