"""Which way ranks of a network meet: times against closed forms and the virtual clock, and what each way cannot do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from erasurehead.delays import Bootstrap, Delays, Exponential, Fixed, parse
from erasurehead.errors import InvalidArgument
from erasurehead.planning import plan_network
from erasurehead.planning._networks import NetworkPlan, WayToMeet
from erasurehead.planning._step_times import harmonic

RANKS, BATCH = 8, 256
NO_DELAY = Fixed(((0.0,) * RANKS,))


def planned(delays: Delays = NO_DELAY, seconds: float | list[float] = 0.1, **others: Any) -> NetworkPlan:
    """Plan for ranks that compute so many seconds on their share of a batch."""
    each = seconds / 32 if isinstance(seconds, float) else [one / 32 for one in seconds]
    return plan_network(delays, RANKS, each, BATCH, **others)


def way(plan: NetworkPlan, begin: str) -> WayToMeet:
    (found,) = (each for each in plan.ways if each.name.startswith(begin))
    return found


def test_times_of_samples_are_those_of_the_law() -> None:
    found = planned(Exponential(mean=0.2, seed=1))
    assert way(found, "wait for all").seconds == pytest.approx(0.1 + 0.2 * harmonic(RANKS), rel=0.05)
    assert way(found, "busy").samples == pytest.approx(0.1 + 0.2, rel=0.05)
    assert found.best.name == "busy"


def test_where_nobody_is_slow_nothing_is_worth_a_change() -> None:
    found = planned()
    assert found.best.name == "wait for all"
    assert found.best.seconds == pytest.approx(0.1)
    assert found.best.band == (found.best.seconds, found.best.seconds)
    assert repr(found) == f"NetworkPlan({len(found.ways)} ways to meet, the quickest wait for all)"


def test_shares_by_speed_end_together() -> None:
    found = planned(seconds=[0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1], optimizer="adamw")
    assert way(found, "shares by speed").seconds == pytest.approx(8 / (4 / 0.2 + 4 / 0.1))
    assert "Shares from 0.67 to 1.3 times" in way(found, "shares by speed").reason
    assert found.best.name == "shares by speed"
    assert not [each for each in planned().ways if each.name == "shares by speed"]


def test_a_rank_that_never_answers_is_what_codes_are_for() -> None:
    found = planned(Fixed(((math.inf, *(0.05,) * (RANKS - 1)),)))
    assert way(found, "wait for all").seconds == math.inf
    assert way(found, "exact(load=2)").seconds == pytest.approx(0.25)
    assert way(found, "busy").samples == pytest.approx(0.15 * RANKS / (RANKS - 1))
    assert found.ways[-1].seconds == math.inf
    assert "The mean delay is 0.5 times" in found.remarks[0]


def test_samples_of_one_kind_count_against_ways_that_favour_the_fast() -> None:
    unequal = [0.4, 0.4, *(0.1,) * 6]
    apart, mixed = planned(seconds=unequal, mixed=False), planned(seconds=unequal)
    assert way(mixed, "busy").seconds < way(apart, "busy").seconds < way(apart, "wait for all").seconds
    assert way(mixed, "busy").band[1] < way(apart, "busy").band[1] == math.inf
    assert "count more than others" in way(apart, "busy").reason
    assert way(apart, "first gradients").seconds == math.inf
    assert not [each for each in apart.ways if each.name == "shares by speed"]
    alike = planned(Exponential(mean=0.2), mixed=False)
    assert way(alike, "busy").band[1] < math.inf


def test_slow_lines_make_it_dear_to_meet_often() -> None:
    found = planned(model_bytes=4e7, mbit=20.0, optimizer="adamw")
    assert way(found, "wait for all").seconds == pytest.approx(0.1 + 2 * 7 / 8 * 16.0)
    assert [each.name for each in found.ways[:3]] == ["busy", "every=50", "wait for all"]
    assert "bfloat16=True" in way(found, "every=50").call
    assert "every 1280 steps" in way(found, "busy").reason
    assert way(found, "busy").band[1] == math.inf
    quicker = planned(model_bytes=4e7, mbit=20_000.0, optimizer="adamw")
    assert way(quicker, "every=20").seconds < way(found, "every=50").seconds


def test_a_short_trace_widens_the_bands() -> None:
    rows = Exponential(mean=0.2, seed=3).rows(0, 1000, RANKS)
    short, long = (planned(Bootstrap(rows[:count])).ways for count in (10, 1000))
    wide, narrow = (
        next(each.band[1] / each.seconds for each in ways if each.name == "wait for all") for ways in (short, long)
    )
    assert wide > narrow > 1.0


def test_one_process_alone_is_named_where_it_is_faster() -> None:
    assert any(
        sentence.startswith("One process alone") for sentence in planned(Exponential(mean=0.2), seconds=0.01).remarks
    )
    assert not any(sentence.startswith("One process alone") for sentence in planned(Exponential(mean=0.2)).remarks)


@pytest.mark.parametrize(
    ("changed", "named", "rule"),
    [
        ({"mbit": 0.0, "model_bytes": 4e7}, "mbit", "above 0"),
        ({"mbit": math.nan}, "mbit", "above 0"),
        ({"mbit": 20.0}, "model_bytes", "must be given where lines are slow"),
        ({"model_bytes": -1.0}, "model_bytes", "at least 0"),
        ({"optimizer": "sgd"}, "optimizer", "'momentum' or 'adamw'"),
        ({"batch": 7}, "batch", "at least 8"),
        ({"ranks": 1}, "ranks", "at least 2"),
        ({"ranks": 10**9, "batch": 10**9}, "ranks", "at most 10000"),
        ({"seconds_per_sample": [0.1, 0.1]}, "seconds_per_sample", "one for each of 8 ranks"),
        ({"seconds_per_sample": -0.1}, "seconds_per_sample", "at least 0"),
        ({"seconds_per_sample": [math.nan] * 8}, "seconds_per_sample", "at least 0"),
        ({"delays": parse("stalls(every=10, lasting=1)")}, "delays", "must be drawn by the step"),
        ({"delays": Bootstrap(np.ones((3, 4)))}, "the trace", "must have 8 workers"),
    ],
)
def test_bad_input_is_named(changed: dict[str, Any], named: str, rule: str) -> None:
    given = {"delays": NO_DELAY, "ranks": RANKS, "seconds_per_sample": 0.1, "batch": BATCH} | changed
    with pytest.raises(InvalidArgument, match=rule) as error:
        plan_network(**given)
    assert error.value.subject == named
