"""Time to a target on the user's own data: real training on the virtual clock."""

from __future__ import annotations

import math

import numpy as np
import pytest

from erasurehead import delays, optimizers, problems
from erasurehead.errors import InvalidArgument
from erasurehead.planning import after, explain, plan, remarks, try_plan, try_settings

EXPONENTIAL = delays.Exponential(0.5, seed=1)
SETTINGS = ("uncoded()", "exact(load=3)", "erasurehead(load=3, wait_for=5)")


def logistic() -> problems.LogisticRegression:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(6)
    samples = rng.standard_normal((480, 6))
    labels = np.sign(samples @ truth + 0.5 * rng.standard_normal(480))
    return problems.LogisticRegression(samples[:360], labels[:360], l2=1 / 360, test=(samples[360:], labels[360:]))


PROBLEM = logistic()


def descent(rate: float = 0.5) -> optimizers.GradientDescent:
    return optimizers.GradientDescent(PROBLEM.initial(), rate)


def test_settings_are_ranked_by_the_time_they_really_take() -> None:
    trials = try_settings(SETTINGS, PROBLEM, descent, EXPONENTIAL, 12, ("auc", 0.9), 40, seconds_per_task=0.01)
    assert [trial.setting for trial in trials] == list(reversed(SETTINGS))
    for trial in trials:
        low, high = trial.band
        assert low <= trial.median <= high < math.inf
        assert trial.reached == 1.0
        assert min(trial.final) >= 0.9
    assert trials[0].band[0] < trials[0].band[1]  # repetitions meet other delays


def test_a_plan_is_tried_with_its_own_delays_and_uncoded() -> None:
    found = plan(EXPONENTIAL, 12, 0.01, SETTINGS)
    trials = try_plan(found, PROBLEM, descent, ("auc", 0.9), shortlist=1, max_steps=40, repeats=1)
    assert {trial.setting for trial in trials} == {found.best.setting, "exact(load=3)", "uncoded()"}
    assert trials[-1].setting == "uncoded()"


def test_noise_that_keeps_the_first_of_a_plan_from_the_target_puts_it_behind_those_that_reach_it() -> None:
    settings = ("ignore_stragglers(wait_for=1)", "exact(load=3)")
    found = plan(EXPONENTIAL, 12, settings=settings, current="exact(load=2)")
    trials = try_plan(found, PROBLEM, descent, ("auc", 0.914), shortlist=2, max_steps=60, repeats=1)
    assert {trial.setting for trial in trials} == {*settings, "exact(load=2)", "uncoded()"}
    again = after(found, trials)
    reached = [trial.setting for trial in trials if math.isfinite(trial.median)]
    assert reached
    assert [item.setting for item in again.ranked[: len(reached)]] == reached
    assert {item.setting for item in again.ranked} == {item.setting for item in found.ranked}
    said = explain(again, trials, ("auc", 0.914))
    assert f"Of those tried on the data, {reached[0]} reaches auc 0.914 soonest, in {trials[0].median:.4g} s" in said
    assert "Without a target" not in said


def test_a_target_that_no_trial_reaches_leaves_the_plan_and_is_said() -> None:
    found = plan(EXPONENTIAL, 12, settings=SETTINGS)
    trials = try_plan(found, PROBLEM, descent, ("auc", 0.9999), max_steps=3, repeats=1)
    assert after(found, trials).ranked == found.ranked
    came = max(trial.final[0] for trial in trials)
    assert trials[0].final[0] == came
    (said,) = [line for line in remarks(found, trials, ("auc", 0.9999)) if "reached" in line]
    assert said == (
        f"No setting that was tried on the data reached auc 0.9999: the best, {trials[0].setting}, came to {came:.4g}."
    )


def test_a_target_that_is_not_reached_is_inf_and_says_how_far_it_came() -> None:
    (trial,) = try_settings(["exact(load=2)"], PROBLEM, descent, EXPONENTIAL, 12, ("auc", 0.9999), 5, repeats=2)
    assert trial.reached == 0.0
    assert math.isinf(trial.median)
    assert 0.5 < trial.final[0] < 0.9999


def test_a_run_that_ends_early_has_not_reached_anything() -> None:
    dead = EXPONENTIAL + delays.Late((0,))
    with pytest.raises(InvalidArgument, match=r"goal must name a metric of the problem.*auc"):
        try_settings(["ignore_stragglers(wait_for=5)"], PROBLEM, descent, dead, 12, ("speed", 1.0), 3)
    with np.errstate(all="ignore"):
        wild = try_settings(["uncoded()"], PROBLEM, lambda: descent(1e308), EXPONENTIAL, 12, ("auc", 0.99), 30, 1)
    assert np.isnan(wild[0].final).all()
    assert math.isinf(wild[0].median)


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="repeats must be at least 1"):
        try_settings(SETTINGS, PROBLEM, descent, EXPONENTIAL, 12, ("auc", 0.9), repeats=0)
