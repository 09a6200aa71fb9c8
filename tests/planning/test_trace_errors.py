"""How well a trace tells the mean of a step: its error holds as often as it says, of rounds alike and of rare ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays._stationarity import block_length
from erasurehead.planning import forecast, plan
from erasurehead.planning._settings import default_settings
from erasurehead.planning._simulation import Timing, stop_times
from erasurehead.planning._trace_errors import TraceErrors
from erasurehead.schemes import parse_scheme

from ..arrays import Array

Law = Callable[[np.random.Generator, int], Array]


def stalls(random: np.random.Generator, rounds: int) -> Array:
    """Return rounds of 12 workers, each of which is five times as slow for about fifty rounds, now and then."""
    slow = np.zeros((rounds, 12), dtype=bool)
    slow[0] = random.random(12) < 0.2
    for row in range(1, rounds):
        slow[row] = np.where(slow[row - 1], random.random(12) >= 0.02, random.random(12) < 0.005)
    return (0.2 + random.exponential(0.05, (rounds, 12))) * np.where(slow, 5.0, 1.0)


def seldom(random: np.random.Generator, rounds: int) -> Array:
    """Return rounds in which one worker of ten is ten times as slow: four of twelve are in one round of two hundred."""
    slow = random.random((rounds, 12)) < 0.1
    return (0.2 + random.exponential(0.05, (rounds, 12))) * np.where(slow, 10.0, 1.0)


def test_bands_hold_groups_that_are_late_together_though_they_never_were_in_the_trace() -> None:
    """One answer in twenty takes twenty times as long: all three of a group are late in one step of eight hundred."""

    def rounds(seed: int, count: int) -> Array:
        random = np.random.default_rng(seed)
        return (0.2 + random.exponential(0.05, (count, 30))) * np.where(random.random((count, 30)) < 0.05, 20.0, 1.0)

    scheme = parse_scheme("exact(load=3)", 30)
    whole = delays.Bootstrap(rounds(1000, 40_000), block=40_000)
    true = stop_times(Timing(scheme.decoder, scheme.rule, whole), 40_000).mean()
    found = [forecast("exact(load=3)", 30, delays.Bootstrap(rounds(seed, 200)), steps=1000) for seed in range(20)]
    assert np.mean([abs(item.seconds_per_step - true) < 1.96 * item.error for item in found]) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("law", "waited"), [(stalls, 12), (stalls, 8), (seldom, 8), (seldom, 12)])
def test_bands_hold_the_true_mean_nearly_as_often_as_they_say(law: Law, waited: int) -> None:
    scheme = parse_scheme(f"ignore_stragglers(wait_for={waited})" if waited < 12 else "uncoded()", 12)
    true = np.mean([np.sort(law(np.random.default_rng([1, n]), 4000), axis=1)[:, waited - 1].mean() for n in range(10)])
    held = 0
    for number in range(60):
        table = law(np.random.default_rng([2, number]), 200)
        mean = float(np.sort(table, axis=1)[:, waited - 1].mean())
        error = TraceErrors(delays.Bootstrap(table, block=block_length(table))).of(scheme, 0.0)
        assert error is not None
        held += abs(mean - true) <= 1.96 * error * mean
    assert held >= 48  # four stretches are all that stalls of fifty rounds leave of two hundred


def slow_machines(random: np.random.Generator, rounds: int) -> Array:
    """Return rounds of 12 workers, two of which are four times as slow for good."""
    return (0.2 + random.exponential(0.1, (rounds, 12))) * np.where(np.arange(12) < 2, 4.0, 1.0)


@pytest.mark.parametrize(
    "setting", ["ignore_stragglers(wait_for=8)", "exact(load=3)", "erasurehead(load=3, wait_for=5)"]
)
def test_who_is_slow_for_good_makes_no_band_wide_that_does_not_wait_for_them(setting: str) -> None:
    """Each round might have been one that waits for everybody: bands were twice as wide as means differ."""
    scheme = parse_scheme(setting, 12)
    means: list[float] = []
    errors: list[float] = []
    for number in range(40):
        table = slow_machines(np.random.default_rng([3, number]), 200)
        mean = float(
            stop_times(Timing(scheme.decoder, scheme.rule, delays.Fixed(tuple(map(tuple, table)))), 200).mean()
        )
        error = TraceErrors(delays.Bootstrap(table)).of(scheme, 0.0)
        assert error is not None
        means.append(mean)
        errors.append(error * mean)
    assert 0.8 < float(np.mean(errors)) / float(np.std(means, ddof=1)) < 1.4


def test_rounds_that_are_seldom_count_whether_the_trace_has_one_or_not() -> None:
    """Five of twelve that are slow at once come in one round of 230, and decide how long a step of eight takes."""
    scheme = parse_scheme("ignore_stragglers(wait_for=8)", 12)
    errors: list[float] = []
    for number in range(40):
        table = seldom(np.random.default_rng([4, number]), 200)
        ordered = np.sort(table, axis=1)[:, 7]
        error = TraceErrors(delays.Bootstrap(table)).of(scheme, 0.0)
        assert error is not None
        if ordered.max() < 1.0:  # none was seen
            errors.append(error * float(ordered.mean()))
    long = np.sort(seldom(np.random.default_rng(5), 40_000), axis=1)[:, 7]
    assert len(errors) > 5
    assert float(np.mean(errors)) > 0.5 * float(long.std()) / math.sqrt(200)


def test_a_forecast_from_a_trace_is_no_surer_than_the_trace() -> None:
    table = stalls(np.random.default_rng(0), 200)
    model = delays.Bootstrap(table, block=block_length(table))
    found = forecast("uncoded()", 12, model)
    error = TraceErrors(model).of(parse_scheme("uncoded()", 12), 0.0)
    assert error is not None
    assert found.error >= error * found.seconds_per_step


def test_where_there_is_nothing_to_go_by_nothing_is_said() -> None:
    scheme = parse_scheme("uncoded()", 12)
    exponential = delays.Exponential(0.5, seed=1)
    table = exponential.rows(0, 50, 12)
    assert TraceErrors(exponential).of(scheme, 0.0) is None
    assert TraceErrors(delays.Bootstrap(table, keep="workers")).of(scheme, 0.0) is None
    assert TraceErrors(delays.Bootstrap(table[:7])).of(scheme, 0.0) is None
    table = table.copy()
    table[3, 4] = math.inf
    assert TraceErrors(delays.Bootstrap(table)).of(scheme, 0.0) is None


@pytest.mark.timeout(60)  # it takes two seconds; with rounds recombined for each setting anew, ten
@pytest.mark.slow
def test_rounds_are_recombined_once_for_all_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two hundred settings for ten thousand workers drew eight hundred rounds of its own: a minute and more."""
    model = delays.Bootstrap(delays.Exponential(0.5, seed=0).rows(0, 100, 10_000))
    tables: list[int] = []
    check = delays.Bootstrap.__post_init__

    def counted(self: delays.Bootstrap) -> None:
        check(self)
        tables.append(len(self.table))

    monkeypatch.setattr(delays.Bootstrap, "__post_init__", counted)
    found = plan(model, 10_000, 0.01, default_settings(10_000)[:20])
    assert sorted(tables) == [100, 800]
    alone = forecast(found.best.setting, 10_000, model, 0.01)
    assert (alone.error, alone.seconds_per_step) == (found.best.error, found.best.seconds_per_step)
