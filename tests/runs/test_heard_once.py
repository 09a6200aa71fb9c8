"""The physical limit of a comparison: how soon enough of the data can have been heard once."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from erasurehead import delays, schemes
from erasurehead.problems import LeastSquares, Regression
from erasurehead.runs import Comparison
from erasurehead.runs._heard_once import HeardOnce, shares, soonest
from erasurehead.runs._outcome import say_heard_once


def test_the_share_is_the_least_whose_own_minimum_is_near_enough() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((240, 8))
    y = X @ rng.standard_normal(8) + 1.5 * rng.standard_normal(240)
    problem, l2 = LeastSquares(X, y, l2=1e-3), 1e-3
    order = random.Random(0).sample(range(12), 12)

    def objective(count: int) -> float:
        rows = np.concatenate([np.arange(20 * task, 20 * task + 20) for task in order[:count]])
        own, seen = X[rows], y[rows]
        bent: NDArray[np.float64] = own.T @ own / len(rows) + l2 * np.eye(8)
        best: NDArray[np.float64] = np.linalg.inv(bent) @ (own.T @ seen / len(rows))
        return problem.objective(best)

    least = objective(12)
    gaps = [(objective(count) - least) / (problem.objective(problem.initial()) - least) for count in range(1, 13)]
    found = dict(shares(problem, problem.initial(), least, 12, 60.0))
    assert list(found) == [0.1, 0.01, 0.001, 1e-6]
    for gap, share in found.items():
        count = round(12 * share)
        assert gaps[count - 1] <= gap + 1e-9 < (gaps[count - 2] if count > 1 else np.inf)
    assert len(set(found.values())) > 1


def test_what_the_search_cannot_tell_is_left_out() -> None:
    """Newton's steps come to no minimum of losses that hardly curve: all of the data were said to be needed."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.standard_normal((400, 3)), np.ones(400)])
    y = 1e4 + X @ np.array([100.0, -50.0, 20.0, 0.0]) + rng.standard_normal(400)
    problem = Regression(X, y, loss="huber(0.01)")
    found = np.linalg.lstsq(X, y, rcond=None)[0].astype(float)
    assert dict(shares(problem, problem.initial(), problem.objective(found), 8, 60.0)) == {}


def test_the_time_is_the_mean_until_so_many_tasks_have_come_from_anybody() -> None:
    late = delays.Exponential(0.5, seed=3)

    def until(workers: int, place: int, mean: float) -> float:
        return mean * sum(1.0 / left for left in range(workers, workers - place, -1))

    alone, three = schemes.uncoded(30).code, schemes.exact(30, load=3).code
    for share, place in ((1 / 30, 1), (0.5, 15), (1.0, 30)):
        assert soonest(alone, late, share, 0.0) == pytest.approx(until(30, place, 0.5), rel=0.1)
    assert soonest(three, late, 25 / 30, 0.0) == pytest.approx(until(10, 9, 0.5 / 3), rel=0.1)
    assert soonest(three, delays.parse("none()"), 1.0, 7.5) == pytest.approx(0.75)


def test_a_comparison_tells_its_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "data.npy", np.column_stack([rng.standard_normal((120, 3)), rng.integers(0, 2, 120)]))
    tables = {
        "data": {"source": str(tmp_path / "data.npy")},
        "run": {"engine": "virtual", "workers": 6, "steps": 6, "out": str(tmp_path / "out")},
    }
    trained = Comparison.from_config(tables, ("uncoded()", "exact(load=3)")).run()
    outcome = trained.report((), trained.alone(60.0))
    assert list(outcome.heard) == [0.1, 0.01, 0.001, 1e-6]
    assert {one.scheme for one in outcome.heard.values()} == {"exact"}
    assert outcome.heard[1e-6].share == 1.0
    assert outcome.as_dict()["heard_once"]["1e-06"] == {
        "share": 1.0,
        "seconds": outcome.heard[1e-6].seconds,
        "scheme": "exact",
    }
    assert say_heard_once(outcome.heard) in (tmp_path / "out" / "comparison.md").read_text()
    assert trained.report(()).heard == {}


def test_gaps_that_take_as_much_are_told_together() -> None:
    rough, deep = HeardOnce(0.1, 0.0161, "adaptive"), HeardOnce(1.0, 0.486, "adaptive")
    assert say_heard_once({0.1: rough, 0.001: deep, 1e-6: deep}) == (
        "The physical limit is how long it takes on average until enough of the data can have been heard once: a gap "
        "of 0.1 takes 10% of them, 0.016 s with adaptive; a gap of 0.001 or 1e-06 takes 100% of them, 0.49 s with "
        "adaptive. Short delays at the start can bring a run below it."
    )
    assert say_heard_once({}) == ""
