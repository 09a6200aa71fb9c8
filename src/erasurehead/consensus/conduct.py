"""How a plan is carried out: for how long, what is evaluated on the way, and which hooks watch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from erasurehead.consensus.watcher import Watcher
from erasurehead.errors import check_count, invalid, real


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Conduct:
    """The settings of a run that are not part of its plan.

    Arguments:
        steps: number of steps of each peer, on average.
        evaluate_every: steps per peer between two evaluations of the mean model.
        metrics: whether metrics on the test samples are computed, too.
        records: whether to keep a row for each step of each peer.
        until: seconds of the clock after which the run ends; None for no limit.
        target: the objective of the mean model at which it ends; None for none.
        watchers: hooks that watch.
        resume: the state of an earlier run with the same arguments, which continues bit for bit. Virtual clock only.
        keep_state: whether the result has its final state. Virtual clock only.
        stop: called after each evaluation of the mean model; returning a sentence ends training.
    """

    steps: int
    evaluate_every: float = 1.0
    metrics: bool = True
    records: bool = True
    until: float | None = None
    target: float | None = None
    watchers: Sequence[Watcher] = ()
    resume: Mapping[str, Any] | None = None
    keep_state: bool = False
    stop: Callable[[], str] = lambda: ""

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        if not (math.isfinite(real(self.evaluate_every)) and self.evaluate_every > 0):
            raise invalid("evaluate_every", "must be a positive number of steps", self.evaluate_every)
        if self.until is not None and not real(self.until) > 0:
            raise invalid("until", "must be a positive number of seconds, or None", self.until)

    @property
    def end(self) -> float:
        """Seconds of the clock after which it ends; inf for no limit."""
        return math.inf if self.until is None else self.until
