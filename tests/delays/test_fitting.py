"""Fits find the parameters that the delays were drawn with, also where the slow ones were not waited for."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from erasurehead import delays
from erasurehead.delays import Delays, Trace, _distributions, fit, fit_trace, slow_workers
from erasurehead.delays._base import Scaled
from erasurehead.delays._families import FAMILIES
from erasurehead.delays._kaplan_meier import kaplan_meier
from erasurehead.errors import DataError, InvalidArgument

TRUTHS: dict[str, tuple[Delays, dict[str, float]]] = {
    "exponential": (delays.Exponential(0.5, seed=2), {"mean": 0.5}),
    "shifted_exponential": (delays.ShiftedExponential(0.3, 0.5, seed=2), {"mean": 0.5, "shift": 0.3}),
    "weibull": (_distributions.Weibull(0.5, 0.7, seed=2), {"scale": 0.5, "shape": 0.7}),
    "shifted_weibull": (_distributions.Weibull(0.5, 1.8, 0.4, seed=2), {"scale": 0.5, "shape": 1.8, "shift": 0.4}),
    "lognormal": (_distributions.LogNormal(0.4, 0.6, seed=2), {"median": 0.4, "sigma": 0.6}),
    "shifted_lognormal": (_distributions.LogNormal(0.4, 0.6, 0.5, seed=2), {"median": 0.4, "sigma": 0.6, "shift": 0.5}),
    "pareto": (_distributions.Pareto(0.2, 1.6, seed=2), {"exponent": 1.6, "minimum": 0.2}),
}


def waited_for(rows: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Stop each round at the r-th arrival: whoever is slower is censored at that moment."""
    stop = np.partition(rows, first - 1, axis=1)[:, [first - 1]]
    return np.minimum(rows, stop).ravel(), (rows > stop).ravel()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAMILIES))
@pytest.mark.parametrize("first", [30, 15])
def test_the_true_parameters_are_within_their_intervals(name: str, first: int) -> None:
    model, truth = TRUTHS[name]
    seconds, censored = waited_for(model.rows(0, 128, 30), first)
    found = fit(seconds, censored, name)
    assert found.n_censored == 128 * (30 - first)
    assert set(found.parameters) == set(truth)
    for parameter, value in truth.items():
        low, high = found.intervals[parameter]
        assert low <= found.parameters[parameter] <= high
        slack = 0.3 * (high - low)  # one draw of 95% intervals: a near miss is no error
        assert low - slack <= value <= high + slack, parameter
    assert found.gap < 1.9 / np.sqrt(len(seconds) - censored.sum())
    assert np.abs(found.empirical - found.fitted).max() <= found.gap


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rows = _distributions.Weibull(0.5, 0.8, seed=4).rows(0, 3000, 20).reshape(150, 20, 20)
    inside = []
    for trial in rows:
        found = fit(*waited_for(trial, 12), "weibull")
        inside.append(
            [low <= true <= high for (low, high), true in zip(found.intervals.values(), (0.5, 0.8), strict=True)]
        )
    share = np.mean(inside, axis=0)
    assert (share > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 150)).all()


@pytest.mark.parametrize(
    ("name", "location", "model"),
    [
        ("shifted_exponential", "shift", delays.ShiftedExponential(0.2, 0.5, seed=9)),
        ("pareto", "minimum", _distributions.Pareto(0.2, 2.0, seed=9)),
    ],
)
def test_waits_too_short_to_meet_the_smallest_sample_do_not_narrow_its_interval(
    name: str, location: str, model: Delays
) -> None:
    drawn = model.rows(0, 1, 20)[0]
    alone = fit(drawn, name=name)
    seconds, censored = np.concatenate((drawn, np.full(40, 0.05))), np.repeat([False, True], [20, 40])
    assert fit(seconds, censored, name).intervals[location] == pytest.approx(alone.intervals[location], rel=1e-6)


@pytest.mark.parametrize("name", ["weibull", "lognormal"])
def test_a_shift_that_could_only_be_0_has_no_interval(name: str) -> None:
    """The smallest sample lies nearer to 0 than a shift may come to it."""
    seconds = [0.0001, 0.1, 0.2, 0.4, 0.7, 1.1, 1.9]
    shifted, plain = fit(seconds, name=f"shifted_{name}"), fit(seconds, name=name)
    assert shifted.parameters == pytest.approx({**plain.parameters, "shift": 0.0}, rel=1e-4)
    assert set(shifted.intervals) == set(plain.intervals)  # it was 0 to 0: as if it were known


def test_ignoring_the_stragglers_would_be_wrong_and_is_not_done() -> None:
    """True mean 0.5 s; a fit of the arrivals alone says 0.34 or less."""
    seconds, censored = waited_for(delays.Exponential(0.5, seed=0).rows(0, 200, 30), 20)
    assert fit(seconds, censored).parameters["mean"] == pytest.approx(0.5, rel=0.05)
    assert fit(seconds[~censored]).parameters["mean"] < 0.34


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TRUTHS))
def test_aic_prefers_the_family_that_the_delays_came_from(name: str) -> None:
    model, _ = TRUTHS[name]
    trace = Trace.from_table(model.rows(0, 60, 30))
    ranked = fit_trace(trace)
    assert len(ranked) >= 5
    assert [item.aic for item in ranked] == sorted(item.aic for item in ranked)
    best, mine = ranked[0].aic, next(item.aic for item in ranked if item.family == name)
    assert mine - best < 4.0  # a family with one more parameter may do as well


def test_the_fit_agrees_with_scipy() -> None:
    seconds, censored = waited_for(_distributions.Weibull(0.5, 1.4, seed=9).rows(0, 50, 20), 14)
    data = stats.CensoredData.right_censored(seconds, censored)
    shape, _, scale = stats.weibull_min.fit(data, floc=0)
    found = fit(seconds, censored, "weibull")
    assert found.parameters["shape"] == pytest.approx(shape, rel=1e-3)
    assert found.parameters["scale"] == pytest.approx(scale, rel=1e-3)


def test_kaplan_meier_by_hand() -> None:
    """Samples 1, 2+, 3, 3, 4+, 5: longer with 5/6, then * (1 - 2/4), then * 0."""
    longer, points = kaplan_meier(
        np.array([1.0, 2.0, 3.0, 3.0, 4.0, 5.0]), np.array([False, True, False, False, True, False])
    )
    assert points.tolist() == [1.0, 3.0, 5.0]
    assert longer == pytest.approx([5 / 6, 5 / 12, 0.0])


def test_a_fit_on_the_scaled_law_is_of_one_task() -> None:
    model = delays.ShiftedExponential(0.1, 0.2, seed=1, scale_with_load=True)
    trace = Trace.from_table(model.rows(0, 200, 20, work=3.0), load=3.0)
    best = fit_trace(trace, ["shifted_exponential"], scale_with_load=True)[0]
    assert best.parameters["shift"] == pytest.approx(0.1, rel=0.01)
    assert best.parameters["mean"] == pytest.approx(0.2, rel=0.05)
    assert best.model.row(0, 1, work=2.0)[0] == 2.0 * best.model.row(0, 1)[0]


class TestSlowWorkers:
    def test_they_are_named_with_their_factor(self) -> None:
        factors = [1.0] * 20
        factors[3], factors[17] = 2.0, 1.5
        model = Scaled(_distributions.LogNormal(0.5, 0.4, seed=1), tuple(factors))
        trace = Trace.from_table(model.rows(0, 150, 20))
        named = slow_workers(replace(trace, names=tuple(f"node{index}" for index in range(20))))
        assert [(item.worker, item.name) for item in named] == [(3, "node3"), (17, "node17")]
        assert named[0].factor == pytest.approx(2.0, rel=0.15)

    def test_nobody_is_named_where_all_are_alike(self) -> None:
        for seed in range(20):
            assert not slow_workers(Trace.from_table(delays.Exponential(0.5, seed=seed).rows(0, 100, 20)), 1.0)

    @pytest.mark.slow
    @pytest.mark.parametrize("n_workers", [2, 3])
    def test_few_workers_are_not_named_by_chance_either(self, n_workers: int) -> None:
        """Ranks of two are 0 or 1, and vary three times as much as those of many."""
        traces = [
            Trace.from_table(_distributions.LogNormal(0.5, 1.5, seed=seed).rows(0, 60, n_workers))
            for seed in range(200)
        ]
        named = sum(bool(slow_workers(trace)) for trace in traces)
        assert named <= 8  # 0.01 of 200, with what chance allows; it was 20 of 200

    def test_one_of_two_is_named_where_it_is_slow(self) -> None:
        model = Scaled(_distributions.LogNormal(0.5, 0.4, seed=1), (1.0, 1.5))
        assert [item.worker for item in slow_workers(Trace.from_table(model.rows(0, 60, 2)))] == [1]

    def test_steps_in_which_all_are_slow_accuse_nobody(self) -> None:
        rows = delays.Exponential(0.5, seed=1).rows(0, 60, 20)
        rows[30:] *= 50.0
        assert not slow_workers(Trace.from_table(rows))

    def test_those_who_were_never_waited_for_are_found(self) -> None:
        rows = delays.Exponential(0.5, seed=1).rows(0, 100, 20)
        rows[:, 5] += 3.0
        seconds, censored = waited_for(rows, 14)
        trace = replace(Trace.from_table(seconds.reshape(100, 20)), censored=censored)
        assert [item.worker for item in slow_workers(trace)] == [5]


@pytest.mark.slow
def test_a_real_trace_is_fitted(data_folder: Path) -> None:
    path = data_folder / "traces" / "aws_lambda" / "sam-gc-cnn_profile_est_desktop_long.csv.gz"
    columns = {"step": "round", "seconds": "latency_s"}
    trace = Trace.read(path, columns, where={"region": "Canada", "load": 0})
    ranked = fit_trace(trace)
    assert ranked[0].family == "shifted_lognormal"
    assert ranked[0].gap < 0.2  # two humps: no single family does, and the gap says so
    assert ranked[0].gap < min(item.gap for item in ranked if not item.family.startswith("shifted"))


@pytest.mark.parametrize("zeros", [1, 30])
def test_families_without_delays_of_0_are_ruled_out_with_a_reason_and_0_has_no_interval_of_a_shift(zeros: int) -> None:
    seconds = np.random.default_rng(0).lognormal(-1.0, 0.5, 300)
    seconds[:zeros] = 0.0
    ranked = fit_trace(Trace.from_table(seconds.reshape(30, 10)))
    assert {item.family for item in ranked} | set(ranked.ruled_out) == set(FAMILIES)
    assert {"lognormal", "weibull", "pareto"} <= set(ranked.ruled_out)
    assert all(f"{zeros} of the 300 delays" in reason for reason in ranked.ruled_out.values())
    shifted = next(item for item in ranked if item.family == "shifted_exponential")
    assert shifted.parameters["shift"] == 0.0
    assert "shift" not in shifted.intervals
    without = fit_trace(Trace.from_table(np.sort(seconds)[zeros:].reshape(1, -1)))
    assert not without.ruled_out
    assert without[0].family in ("lognormal", "shifted_lognormal")


@pytest.mark.parametrize(
    ("seconds", "censored", "said"),
    [
        ([1.0, 1.0, 1.0], None, "all that are known exactly are 1 s"),
        ([1.0, 2.0], [True, True], "none is known exactly"),
        ([2.0], None, "all that are known exactly are 2 s"),
        ([1e300, 1e-300], None, "an exponential distribution cannot be fitted"),
    ],
)
def test_too_little_to_fit_is_said(seconds: list[float], censored: list[bool] | None, said: str) -> None:
    with pytest.raises(DataError, match=said):
        fit(seconds, censored)


@pytest.mark.slow
@pytest.mark.parametrize("slow", [1.0 + 2.3e-16, 1.0 + 1e-12, 1000.0])
def test_two_delays_and_nothing_between_are_fitted_or_ruled_out_in_words(slow: float) -> None:
    table = np.ones((25, 4))
    table[::2, ::2] = slow
    fits = fit_trace(Trace.from_table(table))
    assert all(np.isfinite(item.aic) for item in fits)
    assert all("delays" in reason or "likelihood" in reason for reason in fits.ruled_out.values())


def test_a_family_that_is_named_twice_is_fitted_once() -> None:
    trace = Trace.from_table(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert [item.family for item in delays.fit_trace(trace, ["pareto", "pareto"])] == ["pareto"]


def test_wrong_arguments() -> None:
    with pytest.raises(InvalidArgument, match="family must be one of exponential"):
        fit([1.0, 2.0], name="gaussian")
    trace = Trace.from_table(np.array([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises(InvalidArgument, match=r"names must name at least one family, got \[\]; there are exponential"):
        fit_trace(trace, [])
    with pytest.raises(InvalidArgument, match="rounds must be at least 1, but it is -1"):
        slow_workers(trace, rounds=-1)
    with pytest.raises(InvalidArgument, match="at_least must be a number of at least 1, but it is nan"):
        slow_workers(trace, math.nan)
    with pytest.raises(InvalidArgument, match="seconds must be finite and at least 0"):
        fit([1.0, -2.0])
    with pytest.raises(InvalidArgument, match="must have the shape of seconds"):
        fit([1.0, 2.0], [True])
    with pytest.raises(InvalidArgument, match=r"seconds must have shape \(n,\)"):
        fit(3.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match="seconds must be numbers"):
        fit(["a", "b"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="1 of the 3 delays is 0 s, which it excludes"):
        fit([0.0, 1.0, 2.0], name="lognormal")
    zeros = Trace.from_table(np.array([[0.0, 1.0], [2.0, 3.0]]))
    assert {item.family for item in fit_trace(zeros)} == {"exponential", "shifted_exponential"}
