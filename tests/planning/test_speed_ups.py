"""The range of a speed-up: it holds what runs come to, and knows of long tails and short traces."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import Delays
from erasurehead.planning import Accuracy, plan
from erasurehead.planning._explanations import limits
from erasurehead.planning._forecasts import Forecast
from erasurehead.planning._planner import Plan
from erasurehead.planning._speed_ups import speed_up_range
from erasurehead.planning._trials import Trial

SETTINGS = ("uncoded()", "ignore_stragglers(wait_for=6)", "exact(load=3)")


def of(model: Delays, rounds: int = 200, first: int = 0) -> tuple[Plan, Forecast]:
    known = Accuracy(noises=None)  # so that the range is that of the delays alone
    found = plan(delays.Bootstrap(model.rows(first, rounds, 12)), 12, 0.0, SETTINGS, accuracy=known)
    return found, next(item for item in found.ranked if item.setting == "ignore_stragglers(wait_for=6)")


@pytest.mark.parametrize(
    "model",
    [
        delays.Exponential(0.5, seed=1),
        delays.parse("pareto(0.1, 1.5, seed=1)"),
        delays.parse("weibull(0.3, 0.5, seed=1)"),
    ],
    ids=str,
)
def test_it_holds_the_speed_up_of_fresh_runs(model: Delays) -> None:
    held = 0
    for number in range(8):
        found, item = of(model, first=200 * number)
        low, high = speed_up_range(found, item)
        assert low <= found.speed_up(item) <= high
        slow, quick = round(found.steps_of(found.uncoded)), round(found.steps_of(item))
        for run in range(5):
            rows = np.sort(model.rows(100_000 + 1000 * (5 * number + run), slow, 12), axis=1)
            held += low <= rows[:, -1].sum() / rows[:quick, 5].sum() <= high
    assert held >= 34


def test_long_tails_and_short_traces_make_it_wider() -> None:
    def width(model: Delays, rounds: int = 200) -> float:
        low, high = speed_up_range(*of(model, rounds))
        return high / low

    exponential = delays.Exponential(0.5, seed=1)
    assert 1.0 < width(exponential) < 1.5
    assert width(delays.parse("pareto(0.1, 1.5, seed=1)")) > width(exponential)
    assert width(exponential, 6) > width(exponential)


def test_steps_that_differ_between_trials_make_it_wider() -> None:
    found, item = of(delays.Exponential(0.5, seed=1))
    item = item.with_steps(60.0, 50.0)
    found = found.of(
        {one.setting: item if one.setting == item.setting else one.with_steps(50.0, 50.0) for one in found.ranked}
    )
    assert found.steps_of(item) == 60.0
    widths = []
    for steps in ((60.0, 60.0, 60.0), (30.0, 60.0, 90.0)):
        trial = Trial(item.setting, tuple(0.2 * count for count in steps), (0.01,) * 3, steps)
        low, high = speed_up_range(found, item, None, (trial,))
        widths.append(high / low)
    assert widths[1] > 1.5 * widths[0]


def test_steps_that_were_not_measured_make_it_wider() -> None:
    """What other data took stands for them: `costs 2% more steps` was 56% on the run file that the plan had written."""
    model = delays.Exponential(0.5, seed=1)
    known, item = of(model)
    assert item.steps_range == (item.steps, item.steps)
    found = plan(known.delays, 12, 0.0, SETTINGS)
    assumed = next(one for one in found.ranked if one.setting == item.setting)
    assert assumed.steps == item.steps
    assert assumed.steps_range[0] < item.steps < assumed.steps_range[1] == math.inf
    assert assumed.band[1] == math.inf
    low, high = speed_up_range(found, assumed)
    assert low < speed_up_range(known, item)[0] < high
    assert "more steps (0% to never getting there, depending on the data)" in limits(found, assumed)
    assert "depending on the data" not in limits(known, item)
    exact = next(one for one in found.ranked if one.setting == "exact(load=3)")
    assert exact.steps_range == (1.0, 1.0)


def test_of_what_never_gets_there_and_of_itself() -> None:
    found, item = of(delays.Exponential(0.5, seed=1))
    never = item.with_steps(math.inf, 1.0)
    assert speed_up_range(found, never) == (0.0, 0.0)
    assert speed_up_range(found, item, never) == (math.inf, math.inf)
    assert speed_up_range(found, found.uncoded) == (1.0, 1.0)


def test_runs_without_any_delay_make_it_unbounded() -> None:
    rows = np.where(np.arange(200)[:, None] % 100 > 0, 0.0, delays.Exponential(0.5).rows(0, 200, 12))
    rows[:, 7:] += 1.0
    found = plan(delays.Bootstrap(rows), 12, 0.0, SETTINGS)
    item = next(item for item in found.ranked if item.setting == SETTINGS[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = speed_up_range(found, item.with_steps(2.0, 2.0))
    assert 1.0 < low < math.inf == high
