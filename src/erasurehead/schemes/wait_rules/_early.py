"""The rule for orders that a few arrivals answer well enough: `early()`."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding import Decoder
from erasurehead.errors import invalid
from erasurehead.schemes.wait_rules._base import Verdict, WrittenRule
from erasurehead.schemes.wait_rules._kth_smallest import kth_smallest
from erasurehead.schemes.wait_rules._residual import Decodable
from erasurehead.schemes.wait_rules._view import View

# A probing order waits so many times as long as its first arrival took, and then estimates the rest. One that may be
# corrected looks sooner.
_LOOK, _LAST_LOOK = 2.0, 4.0
_LEAST_LOOK = 0.03  # seconds that it waits at least: those of workers that are merely woken one after the other
_WORTH = 8.0  # few arrivals pay where a whole gradient takes at least this many times as long as the first arrival
_STILL_WORTH = 4.0  # and, later, this many times as long as the arrivals since then have taken on average
_LEAST = 0.1  # seconds that a whole gradient must take: each step has a cost of its own, of some 0.01 to 0.07 s
_FEW_ROUNDS = 3  # rounds before that average is used
_WHOLE = Decodable()


@final
class Early(WrittenRule):
    """Stop after as many arrivals as the order asks for, or once they give the full gradient.

    The order's note has `arrivals`, the number to wait for, `probing`, `while_it_pays`, and `late_parts`: whether late
    answers to earlier orders count, too, that are the newest of their tasks.

    A probing order finds out whether few arrivals come much sooner than a whole gradient. It waits four times as long
    as the first arrival took (twice, with `while_it_pays`), at least 0.03 s, and then estimates from the arrivals so
    far when the rest are to be expected, as if a worker that is still out were as likely to answer in one moment as in
    the next (which holds for exponential delays, beyond what the first arrival took). It stops if a whole gradient
    takes more than eight times as long as the first arrival, and more than 0.1 s, below which the cost of a step itself
    outweighs what is saved; otherwise it goes on to the full gradient, so that nothing is lost where nobody is slow,
    but no longer than that. With `while_it_pays`, orders go on looking: if the arrivals since the last probe took more
    than a fourth of what it expected of a whole gradient, the next order is a probe, too, and stops if a whole gradient
    takes more than four times as long as they did. (Where late workers finish old work, arrivals say little about how
    long a full gradient takes.) The code's groups must be replicas.
    """

    name = "early"
    checkpointed = ("_expected", "_took")

    def __init__(self) -> None:
        self._expected = math.inf  # seconds that a whole gradient takes, as the last probe has estimated
        self._took: dict[int, float] = {}  # by step since then: mean seconds per arrival

    def begin(self) -> Early:
        return Early()

    def verdict(self, view: View) -> Verdict:
        whole = _WHOLE.verdict(view)
        if whole is not Verdict.WAIT:
            return whole
        came, wanted = len(view.arrived), int(view.note.get("arrivals", 1))
        probing = view.note.get("probing", False)
        if view.note.get("late_parts", False) and not probing:
            came += len(view.late)
        if came < (wanted if view.whole else max(1, min(wanted, came + len(view.pending)))):
            return Verdict.WAIT
        needed = self._needed(view)
        if needed is None:
            self._took[view.step] = view.elapsed / came
            return Verdict.STOP
        first = min(view.came.values())
        if view.elapsed < _looks(view, first):
            return Verdict.WAIT
        self._expected = _expected(view, first)
        if self._expected <= needed:
            return Verdict.WAIT
        self._took.clear()
        return Verdict.STOP

    def _needed(self, view: View) -> float | None:
        """Return the seconds that a whole gradient must take for few arrivals to pay; None if that is not in doubt."""
        if view.note.get("probing", False):
            return max(_WORTH * min(view.came.values()), _LEAST)
        took = [seconds for number, seconds in self._took.items() if number < view.step]
        if len(took) < _FEW_ROUNDS or not view.note.get("while_it_pays", True):
            return None
        needed = _STILL_WORTH * math.fsum(took) / len(took)
        return None if needed <= self._expected else max(needed, _LEAST)

    def wake(self, view: View) -> float | None:
        needed = self._needed(view) if view.came else None
        if needed is None:
            return None
        looks = _looks(view, min(view.came.values()))
        return next((at for at in (looks, needed) if view.elapsed < at), None)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        """Return when the first message has arrived, shape (rounds,): as for an order that asks for one arrival."""
        return np.minimum(kth_smallest(times, 1), _WHOLE.stop_times(times, decoder))

    def check(self, decoder: Decoder) -> None:
        _WHOLE.check(decoder)
        if not decoder.code.replicas:
            raise invalid(
                "early()",
                "must be of a code whose groups of workers send equal messages",
                decoder.code.name,
                "such as codes.fractional_repetition, or codes.uncoded",
            )


def _looks(view: View, first: float) -> float:
    """Return after how many seconds a probing order estimates the rest, by those of its first arrival."""
    return max((_LOOK if view.note.get("while_it_pays", True) else _LAST_LOOK) * first, _LEAST_LOOK)


def _expected(view: View, first: float) -> float:
    """Return after how many seconds since the order a whole gradient is expected.

    Arguments:
        view: a view with at least one arrival.
        first: when the first arrival came, in seconds since the order.
    """
    groups = view.code.groups
    if groups is None:  # tasks are lost, and the shortened code has no groups
        return view.elapsed
    owner, pending = view.code.owner, view.pending
    missing = pending[~np.isin(groups[pending], groups[view.arrived])]
    n_groups, n_workers = len(np.unique(groups[missing])), len(np.unique(owner[missing]))
    # The time at risk: for each worker that is still at work, and until it was done, the time since the first arrival.
    working = np.unique(owner[pending])
    done = {int(owner[message]): came for message, came in view.came.items()}  # the last message of each
    done = {worker: came for worker, came in done.items() if worker not in working}
    at_risk = sum(came - first for came in done.values()) + len(working) * (view.elapsed - first)
    if not n_groups or not at_risk > 0.0:
        return view.elapsed
    hazard = max(len(view.came) - 1, 0.5) / at_risk
    # The last of n alike groups comes after 1 + 1/2 + ... + 1/n times what one of them takes.
    harmonic = float((1.0 / np.arange(1, n_groups + 1)).sum())
    return view.elapsed + harmonic / (hazard * (n_workers / n_groups))
