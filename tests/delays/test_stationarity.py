"""How far a trace speaks for the next rounds: memory in time, drift, tails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import Bootstrap, _distributions, _sometimes_slow
from erasurehead.delays._stationarity import block_length, drift, effective_rounds, tail_index

STALLS = _sometimes_slow.MarkovModulated(
    0.02, 0.1, delays.Exponential(0.1, seed=2), delays.Exponential(2.0, seed=3), seed=4
)


def autoregressive(rounds: int, memory: float, seed: int) -> np.ndarray:
    shocks = np.random.default_rng(seed).standard_normal(rounds + 200)
    series = np.zeros(len(shocks))
    for at in range(1, len(shocks)):
        series[at] = memory * series[at - 1] + shocks[at]
    return np.exp(0.3 * series[200:])[:, None] * np.ones(4)


def test_rounds_that_do_not_remember_each_other_are_drawn_one_by_one() -> None:
    found = [block_length(delays.Exponential(0.5, seed=seed).rows(0, 200, 12)) for seed in range(10)]
    assert np.median(found) == 1
    whole = [effective_rounds(delays.Exponential(0.5, seed=seed).rows(0, 200, 12)) for seed in range(10)]
    assert np.median(whole) > 150


@pytest.mark.parametrize(("memory", "least", "most"), [(0.0, 1, 2), (0.5, 4, 14), (0.8, 10, 30)])
def test_the_block_is_as_long_as_that_of_the_best_for_the_process(memory: float, least: int, most: int) -> None:
    """Politis and White for AR(1): (6 rho^2 / (1 - rho^2)^2 * n)^(1/3), 500 rounds: 11 for 0.5, 25 for 0.8."""
    found = [block_length(autoregressive(500, memory, seed)) for seed in range(9)]
    assert least <= np.median(found) <= most


def test_stalls_that_last_are_seen_and_are_no_drift() -> None:
    found = [replace(STALLS, seed=seed).rows(0, 200, 12) for seed in range(10)]
    assert np.median([block_length(table) for table in found]) > 5
    assert np.median([effective_rounds(table) for table in found]) < 100
    assert sum(drift(table) is not None for table in found) <= 1


def test_independent_rounds_drift_by_chance_in_one_trace_of_a_hundred() -> None:
    found = [drift(delays.Exponential(0.5, seed=seed).rows(0, 100, 8)) for seed in range(60)]
    assert sum(item is not None for item in found) <= 2


@pytest.mark.parametrize("seed", range(4))
def test_a_mean_that_doubles_is_found_with_its_place_and_size(seed: int) -> None:
    table = delays.Exponential(0.5, seed=seed).rows(0, 200, 12)
    table[120:] *= 2.0
    found = drift(table)
    assert found is not None
    assert found.since == pytest.approx(120, abs=8)
    assert found.factor == pytest.approx(2.0, rel=0.25)
    slowly = delays.Exponential(0.5, seed=seed).rows(0, 200, 12) * np.linspace(1.0, 2.0, 200)[:, None]
    assert drift(slowly) is not None


def test_the_tail_is_measured() -> None:
    rows = [_distributions.Pareto(0.1, 1.5, seed=seed).rows(0, 200, 12) for seed in range(5)]
    assert np.median([tail_index(table) for table in rows]) == pytest.approx(1.5, rel=0.15)
    assert tail_index(delays.Exponential(0.5, seed=0).rows(0, 200, 12)) > 2.5
    assert tail_index(np.ones((5, 4))) == np.inf


def test_machines_that_are_slow_for_good_make_no_tail() -> None:
    """One of twelve that was six times as slow was taken for delays whose means do not settle."""
    table = 0.2 + delays.Exponential(0.5, seed=0).rows(0, 200, 12)
    usual = tail_index(table)
    table[:, 5] *= 6.0
    assert tail_index(table) == pytest.approx(usual)
    table[:, 4] = np.inf  # who never answers has no tail, either
    assert tail_index(table) > 2.0


def test_degenerate_tables_say_nothing() -> None:
    for table in (np.ones((50, 3)), np.zeros((50, 3)), np.ones((1, 1)), np.full((30, 2), 0.5)):
        model = Bootstrap(table)
        assert block_length(table) == 1
        assert model.effective_rounds == len(table)
        assert drift(table) is None
    dead = np.ones((50, 3))
    dead[:, 1] = np.inf
    assert block_length(dead) == 1
