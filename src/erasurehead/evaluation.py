"""Snapshots of the model while training runs, evaluated when it is over."""

from __future__ import annotations

from erasurehead.arrays import Array
from erasurehead.instruments import Instrument
from erasurehead.problems.base import Problem
from erasurehead.records.rows import StepRow
from erasurehead.run import Evaluation


class Snapshots(Instrument):
    """Keeps the models that are to be evaluated. Optimizers never change a model in place, so that none is copied.

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

    def evaluate(self, problem: Problem) -> list[Evaluation]:
        """Return the metrics of every model kept; empty if the problem has nothing to evaluate on."""
        evaluations = [Evaluation(step, time, problem.metrics(x)) for step, time, x in self.kept]
        return [evaluation for evaluation in evaluations if evaluation.metrics]
