"""Rules that stop once all groups, or enough of the gradient, can be decoded: `decodable()`, `residual_below(e)`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead.codes import GradientCode
from erasurehead.codes._exactness import EXACT
from erasurehead.decoding import Decoder
from erasurehead.decoding._alternatives import Alternatives
from erasurehead.errors import check_not_negative, invalid
from erasurehead.schemes.wait_rules._base import RuleUnreachable, Verdict, WrittenRule
from erasurehead.schemes.wait_rules._group_arrival_times import replica_groups
from erasurehead.schemes.wait_rules._view import View
from erasurehead.schemes.wait_rules._worker_counts import finish_times

_FACTORED = 1 << 21  # elements of the rows that are factored at once
_CLOSE = 1e-6  # of the tasks: sets whose residual is this near to a bound are left to the decoder


def _full_residual(decoder: Decoder) -> float:
    return decoder.residual(range(decoder.code.n_messages))


def _verdict(view: View, met: bool, bound: float) -> Verdict:
    if met:
        return Verdict.STOP
    if not view.whole and view.reachable_residual() > bound:
        return Verdict.UNREACHABLE
    # Reachability was judged as if everybody answered: where the session says otherwise, there is nothing to wait for.
    return Verdict.WAIT if view.hopeful else Verdict.UNREACHABLE


@final
@dataclass(frozen=True, repr=False)
class Decodable(WrittenRule):
    """Stop as soon as the arrivals give the full gradient."""

    name = "decodable"

    def verdict(self, view: View) -> Verdict:
        met = bool(view.arrived) and view.session.exact()  # cheaper than the residual for some codes
        return _verdict(view, met, EXACT * view.code.n_tasks)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        if isinstance(decoder, Alternatives) and decoder.inner is None:
            pairs = zip(decoder.members, decoder.decoders, strict=True)
            return np.min([self.stop_times(times[:, members], alone) for members, alone in pairs], axis=0)
        return _stop_times(times, decoder, EXACT * decoder.code.n_tasks)

    def check(self, decoder: Decoder) -> None:
        code = decoder.code
        if code.tolerance is None and _full_residual(decoder) > EXACT * code.n_tasks:
            raise RuleUnreachable(
                "wait",
                "must ask for what the code can give",
                str(self),
                sentence=f"decodable() asks for the full gradient, but all messages of {code!r} together do not give "
                "it; wait for first(r) workers, or for residual_below(e).",
            )


@final
@dataclass(frozen=True, repr=False)
class ResidualBelow(WrittenRule):
    """Stop as soon as the decoding's residual is at most a bound.

    Arguments:
        tasks: the bound, in tasks: 0 is exact, and a repetition code with k tasks missing has a residual of k.
            At least 0, and smaller than the code's number of tasks (which is the residual before any arrival).
    """

    name = "residual_below"
    tasks: float

    def __post_init__(self) -> None:
        check_not_negative("residual_below(tasks)", self.tasks)

    def bound(self, code: GradientCode) -> float:
        """Return the bound, with a margin for the rounding of least squares."""
        return self.tasks * (1.0 + 1e-9) + EXACT * code.n_tasks

    def verdict(self, view: View) -> Verdict:
        bound = self.bound(view.code)
        return _verdict(view, bool(view.arrived) and view.session.residual() <= bound, bound)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return _stop_times(times, decoder, self.bound(decoder.code))

    def check(self, decoder: Decoder) -> None:
        code = decoder.code
        if self.tasks >= code.n_tasks:
            raise invalid(
                "residual_below(tasks)",
                f"must be smaller than the number of tasks, {code.n_tasks}",
                self.tasks,
                "a residual of all tasks means that nothing is known",
            )
        full = _full_residual(decoder)
        if full > self.bound(code):
            raise RuleUnreachable(
                "wait",
                f"must allow a residual of at least {full:.6g}",
                str(self),
                sentence=f"residual_below({self.tasks!r}) asks for less than {full:.6g}, "
                f"the residual that all messages of {code!r} together leave; allow at least that.",
            )


def _stop_times(times: Array, decoder: Decoder, bound: float) -> Array:
    if decoder.code.replicas:
        return _replica_stop_times(times, decoder.code, bound)
    latest = _latest(times, decoder.code)
    finite = np.isfinite(latest)
    stop = np.empty(len(times))
    stop[finite] = _earliest_below(times[finite], latest[finite], decoder, bound)
    stop[~finite] = [_walked_stop_time(row, decoder, bound) for row in times[~finite]]
    return stop


def _latest(times: Array, code: GradientCode) -> Array:
    """Return when no more workers are missing than the code tolerates, shape (rounds,); inf where unknown."""
    if code.tolerance is None:
        return np.full(len(times), np.inf)
    finished = finish_times(times, code)
    last = finished.shape[1] - 1 - code.tolerance
    return np.partition(finished, last, axis=1)[:, last]


def _earliest_below(times: Array, latest: Array, decoder: Decoder, bound: float) -> Array:
    """Return when each round stops, given the latest moment at which it does, shape (rounds,).

    Few sets decode that lack more workers than the code tolerates: rounds go back from the latest moment, arrival by
    arrival, for as long as the remaining arrivals still decode.
    """
    order = np.argsort(times, axis=1, kind="stable")
    needed = np.count_nonzero(times <= latest[:, None], axis=1)
    open_rounds = np.arange(len(times))
    while len(open_rounds):
        undecided = open_rounds[~_undecodable(order[open_rounds], needed[open_rounds] - 1, decoder.code, bound)]
        below = [decoder.residual(order[row, : needed[row] - 1]) <= bound for row in undecided]
        open_rounds = undecided[below]
        needed[open_rounds] -= 1
    return np.take_along_axis(np.take_along_axis(times, order, axis=1), needed[:, None] - 1, axis=1)[:, 0]


def _undecodable(order: IntArray, counts: IntArray, code: GradientCode, bound: float) -> BoolArray:
    """Return which rounds certainly leave more than a bound after `counts` arrivals, shape (rounds,).

    Orthonormal bases of the arrivals' rows span at least what the rows do, whatever their condition, and what the bases
    miss of the target nobody can decode. Rounds are factored together, whereas a walk would add one arrival after the
    other. For huge codes the answer is always False.
    """
    sure = counts == 0
    if math.prod(code.encoding.shape) > _FACTORED:
        return sure
    target = np.asarray(code.target, dtype=np.float64)
    dense = np.asarray(code.encoding.todense(), dtype=np.float64)
    chunk = max(1, _FACTORED // dense.size)
    for count in np.unique(counts[counts > 0]).tolist():
        alike = np.flatnonzero(counts == count)
        for low in range(0, len(alike), chunk):
            some = alike[low : low + chunk]
            basis, _ = np.linalg.qr(dense[order[some, :count]].transpose(0, 2, 1))
            missed = target - (target @ basis) @ basis.transpose(0, 2, 1)
            sure[some] = np.einsum("rpt,rpt->r", missed, missed) / code.n_pieces > 10.0 * bound + _CLOSE * code.n_tasks
    return sure


def _replica_stop_times(times: Array, code: GradientCode, bound: float) -> Array:
    groups = replica_groups(code)
    earliest, gains = groups.earliest(times), groups.gains
    allowed = bound - groups.rest
    if allowed < 0.0:
        return np.full(len(times), np.inf)
    if allowed < groups.least:
        return groups.complete(earliest)
    order = np.argsort(earliest, axis=1)
    # What is still missing after each group's arrival, the groups taken in the order of their arrival.
    missing_after = gains.sum() - np.cumsum(gains[order], axis=1)
    stop = (missing_after <= allowed).argmax(axis=1)
    return np.take_along_axis(earliest, np.take_along_axis(order, stop[:, None], axis=1), axis=1)[:, 0]


def _walked_stop_time(times: Array, decoder: Decoder, bound: float) -> float:
    session = decoder.begin()
    for message in np.argsort(times, kind="stable"):
        if not np.isfinite(times[message]):
            break
        session.add(int(message))
        if session.residual() <= bound:
            return float(times[message])
    return float("inf")
