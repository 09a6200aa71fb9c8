"""The options of a run that are not part of its plan: when it ends, what is evaluated and recorded, callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from erasurehead._internal.documents import Entries
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._rows import MeanRow, PeerRow, ViewChangeRow
from erasurehead.errors import check_count, check_positive, invalid, real
from erasurehead.trackers import Tracker
from erasurehead.training import Callback
from erasurehead.training._callbacks import check_callbacks


class ConsensusCallback(Callback):
    """Hooks that are called during a run without a coordinator; all are empty by default.

    Of those of runs with a coordinator, `on_notice` and `own_notices` are called here, too; and on the virtual clock
    `on_state`, after each evaluation, with the number of steps per peer so far, and a state as `train(resume=...)`
    takes it.
    """

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        """Called before training begins.

        Arguments:
            plan: the plan of the run.
            steps: number of steps of each peer, on average.
        """

    def on_step(self, row: PeerRow) -> None:
        """Called after each step of a peer."""

    def on_mean(self, row: MeanRow) -> None:
        """Called after each evaluation of the mean model."""

    def on_view_change(self, row: ViewChangeRow) -> None:
        """Called when peers have left or rejoined, or a network partition has begun or healed."""

    def on_done(self, status: str) -> None:
        """Called when training is over, with how it ended: see `ConsensusRun`."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingOptions:
    """The options of a run that are not part of its plan.

    Arguments:
        steps: number of steps of each peer, on average.
        evaluate_every: steps per peer between two evaluations of the mean model.
        metrics: whether to compute metrics on the test samples, too.
        records: whether to keep a row for each step of each peer.
        until: seconds of the clock after which the run ends; None for no limit.
        target: the run ends when the objective of the mean model is at most this; None for no target.
        callbacks: called during the run; trackers may be among them.
        resume: the state of an earlier run with the same arguments, which continues bit for bit; virtual clock only.
        keep_state: whether the result has the final state of the run; virtual clock only.
        stop: called after each evaluation of the mean model, and with real peers several times a second; if it returns
            a reason, and not "", the run ends.
    """

    steps: int
    evaluate_every: float = 1.0
    metrics: bool = True
    records: bool = True
    until: float | None = None
    target: float | None = None
    callbacks: Sequence[ConsensusCallback | Tracker] = ()
    resume: Entries | None = None
    keep_state: bool = False
    stop: Callable[[], str] = lambda: ""

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_callbacks(self.callbacks)
        check_positive("evaluate_every", self.evaluate_every, "must be a positive number of steps")
        if self.until is not None and not real(self.until) > 0:
            raise invalid("until", "must be a positive number of seconds, or None", self.until)

    @property
    def end(self) -> float:
        """Seconds of the clock after which the run ends; inf for no limit."""
        return math.inf if self.until is None else self.until
