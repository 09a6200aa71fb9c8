"""The rule of orders that a few arrivals answer well enough: `early()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding.base import Decoder
from erasurehead.errors import invalid
from erasurehead.schemes.wait_rules.base import Verdict, WaitRule
from erasurehead.schemes.wait_rules.counts import finish_times
from erasurehead.schemes.wait_rules.residual import Decodable
from erasurehead.schemes.wait_rules.selection import kth_smallest
from erasurehead.schemes.wait_rules.view import View

_LOOK = 4.0  # times of the first arrival, after which a probing order asks what waiting for all would cost
_WORTH = 16.0  # times of the first arrival that a whole gradient must take for few arrivals to pay


@final
@dataclass(frozen=True)
class Early(WaitRule):
    """Stop after as many arrivals as the order asks for, or once they give the full gradient.

    The order's note says `arrivals`, and whether it is `probing`: one that is finds out whether few arrivals come much
    sooner than a whole gradient. It takes four times as long as the first arrival, and then tells from who has come by
    when the rest are to be expected, as if a worker that is still out were as likely to answer in one moment as in the
    next (which exponential delays are, beyond what the first arrival took). It stops if a whole gradient takes more
    than 16 times as long as the first arrival; else it goes on to the full gradient, so that nothing is lost where
    nobody is slow, but no longer than those 16 times. The code's groups must be replicas.
    """

    def verdict(self, view: View) -> Verdict:
        whole = _WHOLE.verdict(view)
        if whole is not Verdict.WAIT:
            return whole
        wanted = int(view.note.get("arrivals", 1))
        if view.finished < (wanted if view.whole else max(1, min(wanted, view.can_finish()))):
            return Verdict.WAIT
        if not view.note.get("probing", False):
            return Verdict.STOP
        looks = view.elapsed >= _LOOK * min(view.came.values())
        return Verdict.STOP if looks and _pays(view) else Verdict.WAIT

    def wake(self, view: View) -> float | None:
        if not view.came or not view.note.get("probing", False):
            return None
        first = min(view.came.values())
        return next((times * first for times in (_LOOK, _WORTH) if view.elapsed < times * first), None)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        """Return when the first worker has answered, shape (rounds,): of an order that asks for no more."""
        return np.minimum(kth_smallest(finish_times(times, decoder.code), 1), _WHOLE.stop_times(times, decoder))

    def check(self, decoder: Decoder) -> None:
        _WHOLE.check(decoder)
        if not decoder.code.replicas:
            raise invalid(
                "early()", "must be of a code whose groups of workers send equal messages", decoder.code.name,
                "such as codes.fractional_repetition, or codes.uncoded",
            )  # fmt: skip

    def __str__(self) -> str:
        return "early()"


_WHOLE = Decodable()


def _pays(view: View) -> bool:
    """Return whether a whole gradient is expected to take many times as long as the first arrival did."""
    groups = view.code.groups
    if groups is None:  # tasks are lost, and what is left is no code of groups
        return False
    first = min(view.came.values())
    open_ = view.pending
    # Workers that are out, each for as long as it has been so since the first came: the time at risk.
    at_risk = sum(came - first for came in view.came.values()) + len(open_) * (view.elapsed - first)
    hazard = max(len(view.came) - 1, 0.5) / at_risk if at_risk > 0.0 else np.inf
    heard = np.unique(groups[view.arrived])
    left = np.bincount(groups[open_], minlength=int(groups.max()) + 1)
    left[heard] = 0
    sizes = left[left > 0]
    if not len(sizes):
        return False
    # The last of n alike groups comes after 1 + 1/2 + ... + 1/n times what one of them takes.
    harmonic = float((1.0 / np.arange(1, len(sizes) + 1)).sum())
    return view.elapsed + harmonic / (hazard * float(sizes.mean())) > _WORTH * first
