"""Advice for a run whose model has diverged: which step size is small enough."""

from __future__ import annotations

import math

from erasurehead._internal.arrays import Array
from erasurehead.datasets import Dataset
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.errors import DataError
from erasurehead.runs._config import parts
from erasurehead.runs._config.sections import Config
from erasurehead.schemes._text import parse_rate
from erasurehead.training import Callback, Run, StepRow


class LeastCounted(Callback):
    """Keeps the least coverage of a step, by which its gradient is scaled up.

    Attributes:
        coverage: the least fraction of the gradient that a step counted, in (0, 1].
        neglected: whether some tasks were hardly ever counted, so that no step size is to blame.
    """

    def __init__(self) -> None:
        self.coverage = 1.0
        self.neglected = False

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if row.stepped and row.coverage > 0.0:
            self.coverage = min(self.coverage, row.coverage)

    def on_end(self, run: Run) -> None:
        self.neglected = bool(run.neglected)


def remedy(config: Config, data: Dataset | ShardFolder, heaviest: float, least: LeastCounted, lag: float) -> str:
    """Return which step size would not diverge, as a sentence; empty if no step size was set.

    Arguments:
        config: configuration of the run that diverged.
        data: its data.
        heaviest: the greatest weight of a sample, relative to the mean.
        least: the run's least coverage; the less a step counts, the larger its curvature.
        lag: how many steps old its gradients are, of which each step counts but few.
    """
    section = config.optimizer
    if section.rate is None:
        return ""
    rate = parse_rate(section.rate)(0)
    try:
        safe = parts.safe_rate(data, str(config.problem.loss), float(config.problem.l2 or 0.0), heaviest, lag)
    except DataError:
        safe = math.inf
    safe *= 1.0 if lag else least.coverage
    if safe < rate:
        return f"The step size was {section.rate}; --rate {safe:.2g} is small enough for these data."
    return (
        f"The step size was {section.rate}; go down tenfold until it converges, and take the optimizer "
        "gradient_descent, which adds no momentum."
    )
