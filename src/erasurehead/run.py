"""What training returns: the model, what happened on the way, and how good the model was when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasurehead.arrays import Array
from erasurehead.records.rows import ArrivalRow, StepRow


@dataclass(frozen=True)
class Evaluation:
    """How good the model was after a number of steps.

    Attributes:
        step: number of steps done; 0 is the initial model.
        time: seconds of training until then.
        metrics: such as `{"auc": 0.84}`.
    """

    step: int
    time: float
    metrics: Mapping[str, float]


@dataclass(eq=False)
class Run:
    """A training run.

    Attributes:
        scheme: its name.
        engine: its name.
        x: the final model, shape (n_parameters,).
        steps: one row a step.
        arrivals: one row a message.
        start_seconds: from nothing to all workers ready; not part of any other time.
        evaluations: metrics of the model along the way; empty if there is nothing to evaluate on.
        stopped: why training ended before its last step; empty if it did not.
        summary: what `summary.json` says of it, or would, if it could have been written, with `model`: the folder that
            its model was saved in, None if there is none; empty if no records were to be kept.
    """

    scheme: str
    engine: str
    x: Array
    steps: Sequence[StepRow] = ()
    arrivals: Sequence[ArrivalRow] = ()
    start_seconds: float = 0.0
    evaluations: list[Evaluation] = field(default_factory=list[Evaluation])
    stopped: str = ""
    summary: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def seconds(self) -> float:
        """Wall time of all steps, with all the waiting, without start and evaluation."""
        return self.steps[-1].end if self.steps else 0.0

    @property
    def seconds_per_step(self) -> float:
        """Mean wall time of a step; NaN if there is none."""
        return self.seconds / len(self.steps) if self.steps else float("nan")

    @property
    def losses(self) -> Array:
        """Estimate of the training objective at the beginning of each step; NaN where nothing had arrived."""
        return np.array([np.nan if row.loss is None else row.loss for row in self.steps])

    @property
    def times(self) -> Array:
        """Seconds of training at the end of each step."""
        return np.array([row.end for row in self.steps])

    def time_to(self, metric: str, target: float) -> float | None:
        """Return the seconds of training after which a metric first reached a target, or None if it never did.

        Losses and errors (`loss`, `mse`, `log_loss`) are to fall to the target, all others to rise to it.
        """
        falling = metric in LOWER_IS_BETTER
        for evaluation in self.evaluations:
            value = evaluation.metrics[metric]
            if value <= target if falling else value >= target:
                return evaluation.time
        return None


@dataclass(frozen=True, eq=False)
class Resumption:
    """Where an earlier run is to go on.

    Attributes:
        state: as `Instrument.settled` was given it.
        steps: the rows of the steps up to there.
        arrivals: the rows of the messages up to there.
    """

    state: Mapping[str, Any]
    steps: Sequence[StepRow]
    arrivals: Sequence[ArrivalRow]


LOWER_IS_BETTER = frozenset({"loss", "mse", "log_loss", "objective"})
"""Metrics that are to fall."""
