"""Summaries of delays: what is known is said, and what is not known is not made up."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import Trace, _base, _clock, _fixed
from erasurehead.delays._base import Scaled
from erasurehead.delays._summaries import summarize, summarize_model


def test_quantiles_spread_and_mean_of_a_small_table() -> None:
    said = summarize(Trace.from_table(np.array([[1.0, 2.0, 3.0, 10.0], [4.0, 5.0, 6.0, 7.0]])))
    assert (said.n_workers, said.n_steps, said.n_samples, said.n_censored) == (4, 2, 8, 0)
    assert said.mean == 4.75
    assert (said.quantiles[0.0], said.quantiles[0.5], said.quantiles[1.0]) == (1.0, 4.0, 10.0)
    assert said.spread.tolist() == [5.0, 7.0 / 5.0]


def test_quantiles_beyond_what_was_waited_for_are_not_known() -> None:
    rows = delays.Exponential(0.5, seed=0).rows(0, 400, 10)
    stop = np.sort(rows, axis=1)[:, [5]]  # six of ten are waited for
    trace = Trace.from_table(np.minimum(rows, stop))
    said = summarize(replace(trace, censored=(rows > stop).ravel()))
    assert said.n_censored == 1600
    assert math.isnan(said.mean)
    assert said.quantiles[0.5] == pytest.approx(0.5 * math.log(2.0), rel=0.1)
    assert math.isinf(said.quantiles[1.0])


def test_a_model_is_drawn_from() -> None:
    said = summarize_model(delays.Exponential(0.5, seed=1), 30, 2000)
    assert said.mean == pytest.approx(0.5, rel=0.02)
    assert said.quantiles[0.95] == pytest.approx(0.5 * math.log(20.0), rel=0.03)
    assert not said.slow


def test_a_model_along_the_clock_is_drawn_from_over_a_time_in_which_it_changes() -> None:
    said = summarize_model(_clock.Stalls(every=20.0, lasting=3.0) + _fixed.NoDelay(), 30, 2000)
    assert said.quantiles[0.95] == pytest.approx(3.0 * math.log(3.0 / 23.0 / 0.05), rel=0.1)
    assert not said.slow


def test_workers_that_never_answer_have_no_longest_delay() -> None:
    said = summarize_model(delays.Exponential(0.5, seed=1) + _fixed.Late((2,)), 5, 200)
    assert math.isinf(said.quantiles[1.0])
    assert math.isinf(said.mean)
    assert math.isfinite(said.quantiles[0.75])
    assert np.isinf(said.spread).all()
    assert [item.worker for item in said.slow] == [2]


def test_delays_of_zero_have_no_spread() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(summarize_model(_fixed.NoDelay(), 4, 10).spread).all()


def test_workers_that_never_answer_are_slow_where_nobody_else_is() -> None:
    said = summarize_model(_fixed.Late((3, 7)), 10, 100)
    assert [(item.worker, item.factor) for item in said.slow] == [(3, math.inf), (7, math.inf)]
    said = summarize_model(_base.PerWorker([_fixed.NoDelay(), _fixed.NoDelay(), delays.Exponential(1.0)]), 3, 100)
    assert [(item.worker, item.factor) for item in said.slow] == [(2, math.inf)]


def test_the_spread_of_censored_delays_is_a_lower_bound_however_long_they_are() -> None:
    seconds = np.array([[1.0, 2.0, 3.0, 10.0, 12.0]])
    trace = Trace.from_table(seconds)
    known = replace(trace, censored=np.array([False, False, False, False, True]))
    assert summarize(known).spread.tolist() == [4.0]
    early = replace(trace, censored=np.array([True, False, False, False, False]))  # it may be the longest
    assert summarize(early).spread.tolist() == [1.2]
    hidden = replace(trace, censored=np.ones(5, dtype=bool))  # all may take equally long
    assert summarize(hidden).spread.tolist() == [1.0]


@pytest.mark.parametrize("wrap", ["plain", "sum", "scaled", "along", "in order"])
@pytest.mark.parametrize("keep", ["rounds", "workers"])
def test_rounds_that_a_bootstrap_repeats_are_no_further_evidence(keep: str, wrap: str) -> None:
    trace = Trace.from_table(delays.Exponential(0.5, seed=3).rows(0, 6, 10))
    model: delays.Delays = delays.Bootstrap.from_trace(trace, keep=keep)  # pyright: ignore[reportArgumentType]
    if wrap == "sum":
        model = model + _fixed.NoDelay()
    elif wrap == "scaled":
        model = Scaled(model, (2.0,) * 10)
    elif wrap == "along":
        model = _clock.AlongClock(model, every=1.0)
    elif wrap == "in order":
        model = _clock.InOrder(trace.table())
    assert model.rounds_known == 6
    assert not summarize(trace).slow
    assert not summarize_model(model, 10).slow


def test_a_worker_that_is_slow_in_the_trace_is_slow_in_its_bootstrap() -> None:
    table = delays.Exponential(0.5, seed=3).rows(0, 40, 10)
    table[:, 4] *= 20.0
    model = delays.Bootstrap.from_trace(Trace.from_table(table))
    assert [one.worker for one in summarize_model(model, 10).slow] == [4]
    assert delays.Exponential(0.5).rounds_known is None
