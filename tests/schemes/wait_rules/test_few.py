"""The rule of orders that a few arrivals answer, or none, if they do not come soon."""

from __future__ import annotations

import math

import pytest

from erasurehead import codes, decoding
from erasurehead.schemes.wait_rules import Verdict, View, _few

DECODER = decoding.make_decoder(codes.fractional_repetition(6, 3))


def view(elapsed: float, arrived: int, able: range = range(6), **note: float) -> View:
    made = View(DECODER, able=able, note=note)
    for message in list(able)[:arrived]:
        made.add(message)
    made.elapsed = elapsed
    return made


@pytest.mark.parametrize(
    ("elapsed", "arrived", "verdict"),
    [(0.0, 0, "wait"), (0.1, 1, "wait"), (0.1, 2, "stop"), (0.3, 0, "stop"), (0.5, 1, "stop")],
)
def test_it_stops_after_so_many_arrivals_or_when_its_time_is_over(elapsed: float, arrived: int, verdict: str) -> None:
    seen = view(elapsed, arrived, arrivals=2, at_most=0.3)
    assert _few.Few().verdict(seen) is Verdict(verdict)
    assert _few.Few().wake(seen) == 0.3


def test_without_a_time_it_waits_for_the_arrivals() -> None:
    assert _few.Few().verdict(view(1e9, 1, arrivals=2)) is Verdict.WAIT
    assert _few.Few().wake(view(1e9, 1, arrivals=2)) is None


@pytest.mark.parametrize("left", [0, 1])
def test_where_fewer_are_left_it_waits_for_those(left: int) -> None:
    assert _few.Few().verdict(view(0.0, left, range(left), arrivals=2, at_most=math.inf)) is Verdict.STOP
