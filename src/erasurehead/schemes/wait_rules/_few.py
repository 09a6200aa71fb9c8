"""The rule for orders that a few arrivals answer, or none, if they do not come soon: `few()`."""

from __future__ import annotations

import math
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.decoding import Decoder
from erasurehead.schemes.wait_rules._base import Verdict, WrittenRule
from erasurehead.schemes.wait_rules._kth_smallest import kth_smallest
from erasurehead.schemes.wait_rules._view import View


@final
class Few(WrittenRule):
    """Stop after as many arrivals as the order asks for, or when its time is over, whatever has arrived.

    The order's note has `arrivals`, the number to wait for, and `at_most`, the seconds after which it stops
    (without it, it waits for them).
    """

    name = "few"

    def verdict(self, view: View) -> Verdict:
        most = len(view.arrived) + len(view.pending)
        enough = len(view.arrived) >= min(int(view.note.get("arrivals", 1)), most)
        return Verdict.STOP if enough or view.elapsed >= _at_most(view) else Verdict.WAIT

    def wake(self, view: View) -> float | None:
        at_most = _at_most(view)
        return at_most if at_most < math.inf else None

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        """Return when the first message has arrived, shape (rounds,): as for an order that asks for one arrival."""
        return kth_smallest(times, 1)


def _at_most(view: View) -> float:
    return float(view.note.get("at_most", math.inf))
