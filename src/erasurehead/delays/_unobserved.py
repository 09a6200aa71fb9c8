"""What a trace says about unobserved delays: of workers that were not waited for, or did not answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray
from erasurehead.delays._kaplan_meier import kaplan_meier
from erasurehead.delays._trace import Trace
from erasurehead.errors import DataError

Absent: TypeAlias = Literal["censored", "dead", "late"]
"""What happened to a worker that has no row in a round: all that is known is that it took longer than the round's
latest answer (censored), or it never answered (dead), or it answered later (late)."""

ABSENT: tuple[Absent, ...] = ("censored", "dead", "late")

_SURE = 0.01  # probability of declaring any worker gone although workers are absent only by chance
_OWN = 20  # number of own samples from which a worker's unobserved delays are drawn from those alone


@dataclass(frozen=True, eq=False)
class Completed:
    """A trace as a table without missing values.

    Attributes:
        seconds: shape (rounds, workers); inf for a worker that never answers.
        absent: whether the trace has no row there, shape (rounds, workers).
        gone: workers that stopped answering for good, as far as the trace shows; in the table they never answer.
    """

    seconds: Array
    absent: BoolArray
    gone: tuple[int, ...]


def completed(trace: Trace, absent: Absent = "censored", scale_with_load: bool = False) -> Completed:
    """Return a trace without missing values: unobserved delays are drawn from a Kaplan-Meier estimate.

    Each delay that is known only to be longer than some time is drawn from the delays that were longer (the worker's
    own if it has 20 of them), weighted so that all censored samples count. A worker without a row in a round is
    censored at the round's latest answer; if it is missing from some round to the end, for longer than chance explains,
    it is gone, and plans do without it. What took longer than anything ever observed never arrives, as nothing is known
    about it.

    Arguments:
        trace: the trace, with its censored samples; at most one sample per worker and step.
        absent: `"dead"` assumes that a missing worker never answered in that round; `"late"` that it did, after all
            others, however often it is missing, and never later than the longest delay of the trace.
        scale_with_load: whether to return seconds per task.

    Raises:
        DataError: if a worker has two samples in one step, or no delay is known exactly.
    """
    seconds = trace.table(per_task=scale_with_load)
    exact = np.zeros(seconds.shape, dtype=bool)
    exact[trace.step, trace.worker] = ~trace.censored
    missing = np.isnan(seconds)
    heard = exact.any(axis=1)
    if not heard.any():
        raise DataError(f"{trace.source} holds no delay that is known exactly: all of its samples are censored.")
    seconds, exact, missing = seconds[heard], exact[heard], missing[heard]
    latest = np.where(exact, seconds, 0.0).max(axis=1)
    seconds = np.where(missing, latest[:, None], seconds)
    gone = () if absent == "late" else _gone(missing)
    if not exact.all():
        _draw_unseen(seconds, exact, never=absent != "late")
    if absent == "dead":
        seconds[missing] = np.inf
    seconds[:, list(gone)] = np.inf
    return Completed(seconds, missing, gone)


def _gone(missing: BoolArray) -> tuple[int, ...]:
    rounds, workers = missing.shape
    gone: list[int] = []
    for worker in range(workers):
        answers = np.flatnonzero(~missing[:, worker])
        last = int(answers[-1]) + 1 if len(answers) else 0
        silent = rounds - last
        if not silent:
            continue
        often = (int(missing[:last, worker].sum()) + 1.0) / (last + 2.0)
        if silent * math.log(often) < math.log(_SURE / workers):
            gone.append(worker)
    return tuple(gone)


def _draw_unseen(seconds: Array, exact: BoolArray, never: bool) -> None:
    """Replace censoring times by draws of the delays, which exceed them."""
    random = np.random.default_rng(0)
    lower = seconds.copy()
    everybody = _Longer(lower.ravel(), exact.ravel())
    for worker in range(seconds.shape[1]):
        open_rounds = np.flatnonzero(~exact[:, worker])
        if not len(open_rounds):
            continue
        own = everybody
        if int(exact[:, worker].sum()) >= _OWN:
            own = _Longer(lower[:, worker], exact[:, worker])
        for row in open_rounds.tolist():
            above, uniform = float(lower[row, worker]), float(random.random())
            drawn = own.draw(above, uniform)
            if math.isinf(drawn) and own is not everybody:
                drawn = everybody.draw(above, uniform)
            if math.isinf(drawn) and not never:
                drawn = max(everybody.longest, above)
            seconds[row, worker] = drawn


class _Longer:
    """The Kaplan-Meier estimate of some delays, for draws beyond a given delay."""

    def __init__(self, seconds: Array, exact: BoolArray) -> None:
        self._survival, self._points = kaplan_meier(seconds, ~exact)
        self.longest = float(self._points[-1])

    def draw(self, above: float, uniform: float) -> float:
        """Return a delay longer than `above`; inf if it is longer than all that were observed."""
        place = int(np.searchsorted(self._points, above, side="right"))
        before = float(self._survival[place - 1]) if place else 1.0
        if before <= 0.0:
            return math.inf
        wanted = uniform * before  # survival at the drawn delay: from `before` down to 0
        index = place + int(np.searchsorted(-self._survival[place:], -wanted, side="left"))
        return float(self._points[index]) if index < len(self._points) else math.inf
