"""How many steps a setting needs: the aggregation that is really used, bias and noise against the wanted accuracy."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import delays, optimizers, problems
from erasurehead.errors import InvalidArgument
from erasurehead.planning import Accuracy, explain, forecast, plan
from erasurehead.planning._constants import task_noise
from erasurehead.planning._forecasts import Forecast
from erasurehead.planning._task_weights import Counted, CountedSum, _of_messages, task_weights  # pyright: ignore[reportPrivateUsage]
from erasurehead.planning._trainer import Trainer
from erasurehead.schemes import parse_scheme

EXPONENTIAL = delays.Exponential(0.5, seed=0)
SCHEMES = (
    "ignore_stragglers(wait_for=5)",
    "ignore_stragglers(wait_for=5, rescale='expectation')",
    "ignore_stragglers(wait_for=5, rescale='none')",
    "erasurehead(load=3, wait_for=4)",
    "erasurehead(load=5, wait_for=4)",  # groups of unequal size
    "erasurehead(load=3, wait_for=4, rescale='expectation')",
    "erasurehead(load=3, wait_for=4, rescale='none')",
    "custom(code='cyclic_repetition(stragglers=2)', wait='first(7)')",
    "custom(code='cyclic_repetition(stragglers=2)', wait='first(7)', rescale='coverage')",
)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), setting=st.sampled_from(SCHEMES))
def test_tasks_count_as_much_as_the_aggregation_makes_them(seed: int, setting: str) -> None:
    """Gradients that are unit vectors, through the decoder and aggregation of a run: their sum is the weights."""
    scheme = parse_scheme(setting, 12)
    times = np.random.default_rng(seed).exponential(size=(4, 12))
    stop = scheme.rule.stop_times(times, scheme.decoder)
    found = task_weights(scheme.decoder, scheme.aggregation, times, stop)
    for row, moment, weights in zip(times, stop, found, strict=True):
        there = np.flatnonzero(row <= moment).tolist()
        np.testing.assert_allclose(weights, _of_messages(scheme.decoder, scheme.aggregation, there), atol=1e-9)


@pytest.mark.parametrize("rescale", ["coverage", "expectation", "none"])
def test_weights_of_many_workers_are_what_decoding_gives(rescale: str) -> None:
    scheme = parse_scheme(f"erasurehead(load=2, wait_for=250, rescale={rescale!r})", 400)
    times = np.random.default_rng(0).exponential(size=(2, 400))
    stop = scheme.rule.stop_times(times, scheme.decoder)
    found = task_weights(scheme.decoder, scheme.aggregation, times, stop)
    for row, moment, weights in zip(times, stop, found, strict=True):
        there = np.flatnonzero(row <= moment).tolist()
        np.testing.assert_allclose(weights, _of_messages(scheme.decoder, scheme.aggregation, there), atol=1e-9)


@pytest.mark.timeout(60)  # it takes less than one, where it took minutes
@pytest.mark.parametrize("setting", ["ignore_stragglers(wait_for=4000)", "erasurehead(load=3, wait_for=4000)"])
def test_ten_thousand_workers_are_forecast_in_seconds(setting: str) -> None:
    found = forecast(setting, 10_000, EXPONENTIAL)
    assert found.counted.mean == pytest.approx(1.0, abs=0.01)  # groups of unequal size: by expectation
    assert found.missing == pytest.approx(0.6 if found.load == 1 else 0.6**3, abs=0.01)


@pytest.mark.parametrize("setting", ["ignore_stragglers(wait_for=8)", "erasurehead(load=3, wait_for=4)"])
def test_a_gradient_that_is_rescaled_needs_no_more_steps_until_noise_matters(setting: str) -> None:
    found = forecast(setting, 12, EXPONENTIAL)
    assert 0.2 < found.missing < 0.4
    assert found.counted.mean == pytest.approx(1.0)
    assert found.steps < 1.02  # 1 / (1 - missing) is 1.25 to 1.67
    deep = found.asked(Accuracy(gap=0.5 * found.floor))
    assert math.isinf(deep.steps)
    near = found.asked(Accuracy(gap=1.02 * found.floor))
    assert 1.3 < near.steps < math.inf


def test_a_gradient_that_is_left_too_short_contracts_as_much_less() -> None:
    found = forecast("ignore_stragglers(wait_for=8, rescale='none')", 12, EXPONENTIAL)
    assert found.counted.mean == pytest.approx(1.0 - found.missing)
    assert found.asked(Accuracy(noise=0.0)).steps == pytest.approx(1.0 / (1.0 - found.missing))


@cache
def waiting_for(count: int) -> Forecast:
    """Return the forecast of the first so many of twelve workers."""
    return forecast(f"ignore_stragglers(wait_for={count})", 12, EXPONENTIAL, steps=200)


@settings(max_examples=50, deadline=None)
@given(
    gap=st.floats(1e-4, 0.5),
    noise=st.floats(0.0, 1.0),
    more=st.floats(1.0, 10.0),
    wait=st.integers(1, 11),
)
def test_steps_rise_with_noise_and_depth_and_fall_with_arrivals(
    gap: float, noise: float, more: float, wait: int
) -> None:
    few, all_but = waiting_for(wait), waiting_for(min(11, wait + 1))
    here = Accuracy(gap, noise)
    assert few.asked(here).steps >= 1.0 - 1e-12
    assert few.asked(Accuracy(gap, noise * more)).steps >= few.asked(here).steps
    assert few.asked(here).steps >= all_but.asked(here).steps * (1.0 - 0.2 * noise) - 1e-12 or wait == 11
    assert here.steps(few.counted) <= Accuracy(gap / more, noise).steps(few.counted)


@pytest.mark.parametrize("n_workers", [6, 12, 60])
def test_tasks_of_fewer_rows_are_assumed_to_differ_as_much_more(n_workers: int) -> None:
    """Other data were split into thirty tasks."""
    here = Accuracy()
    item = forecast(f"ignore_stragglers(wait_for={n_workers // 2})", n_workers, EXPONENTIAL)
    noises = [noise * n_workers / 30 for noise in here.noises or ()]
    wanted = [replace(here, noise=noise).steps(item.counted) / here.exact_steps for noise in noises]
    assert item.steps_elsewhere == pytest.approx(wanted, rel=1e-12)


def logistic(sort: bool) -> problems.LogisticRegression:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(8)
    samples = rng.standard_normal((1200, 8))
    samples[:, 0] = 1.0  # an intercept: without one, both labels say the same
    labels = np.sign(samples @ truth + 0.5 * rng.standard_normal(1200))
    order = np.argsort(labels, kind="stable") if sort else np.arange(1200)
    return problems.LogisticRegression(samples[order], labels[order], l2=1e-3)


def test_how_far_tasks_differ_is_measured() -> None:
    mixed, ordered = (task_noise(logistic(sort), 12) for sort in (False, True))
    assert 0.3 < mixed.ratio < 3.0  # rows in no order: 1
    assert ordered.ratio > 4.0 * mixed.ratio
    assert ordered.noise > 4.0 * mixed.noise


def test_the_steps_that_are_forecast_are_those_of_training() -> None:
    """The old rule of 1 / (1 - missing) is wrong here by up to a factor of 12."""
    problem = logistic(sort=False)
    rate = 1.0

    def descent() -> optimizers.GradientDescent:
        return optimizers.GradientDescent(problem.initial(), rate)

    trainer = Trainer(problem, descent, ("gap", 0.01), 400)
    exact, _ = trainer.exact
    noise = task_noise(problem, 12).noise
    for setting in ("ignore_stragglers(wait_for=8)", "ignore_stragglers(wait_for=3)", "ignore_stragglers(wait_for=1)"):
        scheme = parse_scheme(setting, 12)
        times = EXPONENTIAL.rows(0, 400, 12)
        stop = scheme.rule.stop_times(times, scheme.decoder)
        took, _ = trainer.run(trainer.weighted(task_weights(scheme.decoder, scheme.aggregation, times, stop), 12))
        expected = forecast(setting, 12, EXPONENTIAL, accuracy=Accuracy(0.01, noise))
        assert took / exact == pytest.approx(expected.steps, rel=0.25)


class TestCoverage:
    """A worker that is six times slower for good: what only it holds is never counted."""

    ROWS = delays.ShiftedExponential(1.0, 0.05, seed=1).rows(0, 100, 12) * np.where(np.arange(12) == 5, 6.0, 1.0)

    def test_a_setting_that_never_counts_a_task_is_ruled_out_and_said(self) -> None:
        model = delays.Bootstrap(self.ROWS)
        found = plan(model, 12, settings=["ignore_stragglers(wait_for=7)", "exact(load=2)"])
        by_name = {item.setting: item for item in found.ranked}
        ignoring = by_name["ignore_stragglers(wait_for=7)"]
        assert ignoring.neglected == (5,)
        assert math.isinf(ignoring.seconds_to_target)
        assert found.best.setting == "exact(load=2)"
        assert "ruled out because it never counts task 5" in explain(found)

    def test_what_is_counted_less_than_the_rest_is_a_bias(self) -> None:
        rows = self.ROWS.copy()
        rows[::4, 5] = 0.9
        found = forecast("ignore_stragglers(wait_for=7)", 12, delays.Bootstrap(rows))
        assert 0.01 < found.least_counted < 0.4
        assert found.counted.bias > 0.0
        alike = forecast("ignore_stragglers(wait_for=7)", 12, EXPONENTIAL)
        assert alike.counted.bias < 0.1 * found.counted.bias


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0.0,), "gap must be"),
        ((1.0,), "gap must be"),
        ((math.nan,), "gap must be"),
        ((0.1, -1.0), "noise must be"),
        ((0.1, math.inf), "noise must be"),
        ((0.1, 0.1, 0.0), "pace must be"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(arguments: tuple[float, ...], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Accuracy(*arguments)


def test_errors_that_last_count_as_often_as_descent_remembers_them() -> None:
    lasting = Counted(1.0, 0.1 * 0.8 ** np.arange(33), 0.0, np.ones(12))
    single = Counted(1.0, np.array([0.1, *[0.0] * 32]), 0.0, np.ones(12))
    assert single.noise(0.9) == pytest.approx(0.1)
    assert lasting.noise(0.0) == pytest.approx(0.1)
    assert lasting.noise(0.9) == pytest.approx(0.1 * (1 + 2 * 0.72 / (1 - 0.72)), rel=1e-3)
    accuracy = Accuracy(1e-3, 0.005)
    assert accuracy.floor(lasting) > 3.0 * accuracy.floor(single)
    assert accuracy.steps(lasting) > accuracy.steps(single)


@pytest.mark.parametrize("runs", [1, 4])
def test_covariances_are_those_of_each_run_by_itself(runs: int) -> None:
    """Workers that are missing for three steps in a row: as the definition says, product by product."""
    scheme = parse_scheme("ignore_stragglers(wait_for=3)", 4)
    random = np.random.default_rng(0)
    missing = np.repeat(random.integers(4, size=(40, runs)), 3, axis=0)
    times = np.ones((120, runs, 4))
    np.put_along_axis(times, missing[:, :, None], 9.0, axis=2)
    counting = CountedSum(scheme.decoder, scheme.aggregation, runs=runs)
    counting(times.reshape(-1, 4), np.full(120 * runs, 2.0), np.ones(120 * runs))
    found = counting.result().covariances
    weights = np.where(times < 2.0, 4 / 3, 0.0)
    off = weights - weights.mean(axis=(0, 1))
    for lag in range(4):
        products = (off[lag:] * off[: 120 - lag]).sum(axis=2)
        assert found[lag] == pytest.approx(products.mean() / 16, abs=1e-12)
    assert found[0] > found[1] > found[2] > abs(found[3])


def test_late_work_that_is_carried_on_is_missing_in_the_next_steps_too() -> None:
    model = delays.parse("lognormal(0.3, 1.0, seed=1)")
    carried = forecast("ignore_stragglers(wait_for=4)", 12, model, late="carry").counted
    dropped = forecast("ignore_stragglers(wait_for=4)", 12, model).counted
    assert carried.noise(0.9) > 1.5 * carried.variance
    assert dropped.noise(0.9) == pytest.approx(dropped.variance, rel=0.2)
