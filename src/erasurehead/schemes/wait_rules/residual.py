"""Rules that ask what the arrivals are worth: `decodable()` and `residual_below(e)`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import EXACT, Decoder
from erasurehead.errors import invalid, real
from erasurehead.schemes.wait_rules.base import RuleUnreachable, Verdict, WaitRule
from erasurehead.schemes.wait_rules.replica_groups import replica_groups
from erasurehead.schemes.wait_rules.view import View


def _full_residual(decoder: Decoder) -> float:
    return decoder.residual(range(decoder.code.n_messages))


def _verdict(view: View, met: bool, bound: float) -> Verdict:
    if met:
        return Verdict.STOP
    if not view.whole and view.reachable_residual() > bound:
        return Verdict.UNREACHABLE
    # What can be reached was judged with everybody in: if the session then says otherwise, nothing is left to wait for.
    return Verdict.WAIT if len(view.pending) else Verdict.UNREACHABLE


@final
@dataclass(frozen=True)
class Decodable(WaitRule):
    """Stop as soon as the arrivals give the full gradient."""

    def verdict(self, view: View) -> Verdict:
        met = bool(view.arrived) and view.session.exact()  # cheaper than the residual for some codes
        return _verdict(view, met, EXACT * view.code.n_tasks)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return _stop_times(times, decoder, EXACT * decoder.code.n_tasks)

    def check(self, decoder: Decoder) -> None:
        code = decoder.code
        if code.tolerance is None and _full_residual(decoder) > EXACT * code.n_tasks:
            raise RuleUnreachable(
                "wait", "must ask for what the code can give", str(self),
                sentence=f"decodable() asks for the full gradient, but all messages of {code!r} together do not give "
                "it; wait for first(r) workers, or for residual_below(e).",
            )  # fmt: skip

    def __str__(self) -> str:
        return "decodable()"


@final
@dataclass(frozen=True)
class ResidualBelow(WaitRule):
    """Stop as soon as the decoding's residual is at most a bound.

    Arguments:
        tasks: the bound, in tasks: 0 is exact, and a repetition code with k tasks missing has a residual of k.
            At least 0, and smaller than the code's number of tasks (which is the residual before any arrival).
    """

    tasks: float

    def __post_init__(self) -> None:
        if not (math.isfinite(real(self.tasks)) and self.tasks >= 0.0):
            raise invalid("residual_below(tasks)", "must be at least 0 and finite", self.tasks)

    def bound(self, code: GradientCode) -> float:
        """Return the bound with room for the rounding of least squares."""
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
                "residual_below(tasks)", f"must be smaller than the number of tasks, {code.n_tasks}", self.tasks,
                "a residual of all tasks means that nothing is known",
            )  # fmt: skip
        full = _full_residual(decoder)
        if full > self.bound(code):
            raise RuleUnreachable(
                "wait", f"must allow a residual of at least {full:.6g}", str(self),
                sentence=f"residual_below({self.tasks!r}) asks for less than {full:.6g}, "
                f"the residual that all messages of {code!r} together leave; allow at least that.",
            )  # fmt: skip

    def __str__(self) -> str:
        return f"residual_below({self.tasks!r})"


def _stop_times(times: Array, decoder: Decoder, bound: float) -> Array:
    if decoder.code.replicas:
        return _replica_stop_times(times, decoder.code, bound)
    return np.array([_walked_stop_time(row, decoder, bound) for row in times])


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
