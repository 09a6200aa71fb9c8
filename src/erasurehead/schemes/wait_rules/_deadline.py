"""The rule that depends on the clock alone: `deadline(seconds)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding import Decoder
from erasurehead.errors import check_positive
from erasurehead.schemes.wait_rules._base import Verdict, WrittenRule
from erasurehead.schemes.wait_rules._view import View

_SLACK = 1e-6  # a clock may read slightly less than start + seconds, by rounding; it must not be asked for ever


@final
@dataclass(frozen=True, repr=False)
class Deadline(WrittenRule):
    """Stop at a fixed time after the order, whatever has arrived by then; if nothing has, no step is taken.

    It waits even when everybody has answered: write `first(30) | deadline(2)` to stop at whichever is first.

    Arguments:
        seconds: seconds since the order was submitted, greater than 0 and finite.
    """

    name = "deadline"
    seconds: float

    def __post_init__(self) -> None:
        check_positive("deadline(seconds)", self.seconds)

    def verdict(self, view: View) -> Verdict:
        return Verdict.STOP if view.elapsed >= self.seconds - min(_SLACK, 1e-3 * self.seconds) else Verdict.WAIT

    def wake(self, view: View) -> float | None:
        return self.seconds if self.verdict(view) is Verdict.WAIT else None

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return np.full(len(times), self.seconds)
