"""Steps to a target on the user's own data: the Pareto front, raced with the arrivals of the virtual clock."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, problems, training
from erasurehead.delays import Delays
from erasurehead.errors import InvalidArgument
from erasurehead.planning import Accuracy, explain, plan, remarks
from erasurehead.planning._accuracy import measured_accuracy
from erasurehead.planning._explanations import break_even, limits
from erasurehead.planning._racing import after, race
from erasurehead.planning._settings import adaptive_settings, usual_setting
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import Runs, Trial, simulated_steps, took
from erasurehead.planning._what_if import if_worse
from erasurehead.schemes import parse_scheme

EXPONENTIAL = delays.Exponential(0.5, seed=1)
SETTINGS = ("uncoded()", "exact(load=3)", "erasurehead(load=3, wait_for=5)")
WIDE = (
    *(f"ignore_stragglers(wait_for={wait})" for wait in (1, 2, 4, 6, 9)),
    *(f"erasurehead(load={load}, wait_for={wait})" for load, wait in ((2, 1), (2, 3), (3, 1), (3, 4), (6, 3), (6, 6))),
    *(f"exact(load={load})" for load in (2, 4, 6)),
)


def logistic() -> problems.LogisticRegression:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(6)
    samples = rng.standard_normal((480, 6))
    labels = np.sign(samples @ truth + 0.5 * rng.standard_normal(480))
    return problems.LogisticRegression(samples[:360], labels[:360], l2=1 / 360, test=(samples[360:], labels[360:]))


PROBLEM = logistic()


def descent(rate: float = 0.5) -> optimizers.GradientDescent:
    return optimizers.GradientDescent(PROBLEM.initial(), rate)


def nesterov() -> optimizers.Nesterov:
    return optimizers.Nesterov(PROBLEM.initial(), 0.5)


def tried(
    settings: Sequence[str],
    optimizer: Callable[[], optimizers.Optimizer],
    law: Delays,
    goal: tuple[str, float],
    max_steps: int,
    repeats: int = 3,
    seconds_per_task: float = 0.0,
    late: str = "preempt",
) -> list[Trial]:
    """Return trials of settings on the data, the quickest first."""
    runs = Runs(Trainer(PROBLEM, optimizer, goal, max_steps), law, 12, seconds_per_task, late)
    return sorted((runs.trial(setting, repeats, math.inf, 1.0) for setting in settings), key=lambda trial: trial.median)


@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize("setting", ["erasurehead(load=3, wait_for=3)", "ignore_stragglers(wait_for=7)"])
def test_a_trial_takes_the_steps_and_the_time_of_a_real_run(setting: str, late: str) -> None:
    (trial,) = tried([setting], nesterov, EXPONENTIAL, ("auc", 0.905), 60, 1, 0.01, late)
    engine = engines.VirtualEngine(EXPONENTIAL, late, 0.01)
    run = training.train(PROBLEM, parse_scheme(setting, 12), nesterov(), engine, 60)
    assert math.isfinite(trial.median)
    assert trial.median == pytest.approx(run.time_to("auc", 0.905), rel=1e-9)


def test_settings_are_ranked_by_the_time_they_really_take() -> None:
    trials = tried(SETTINGS, descent, EXPONENTIAL, ("gap", 0.05), 60, seconds_per_task=0.01)
    assert [trial.setting for trial in trials] == list(reversed(SETTINGS))
    for trial in trials:
        low, high = trial.band
        assert low <= trial.median <= high < math.inf
        assert trial.reached == 1.0
        assert max(trial.final) <= 0.05
    assert trials[0].band[0] < trials[0].band[1]  # repetitions meet other delays


def test_the_front_is_raced_with_the_first_settings_and_uncoded() -> None:
    found = plan(EXPONENTIAL, 12, 0.01, WIDE, current="exact(load=2)", steps=500)
    trials = race(found, PROBLEM, descent, ("gap", 0.05), 60, 2)
    names = {trial.setting for trial in trials}
    assert names >= {"uncoded()", "exact(load=2)", *(item.setting for item in found.front[:: len(found.front)])}
    assert len(names) > 7
    again = after(found, trials)
    assert again.best.setting == trials[0].setting
    assert again.best.seconds_to_target == pytest.approx(took(again.best, trials[0]))
    assert len(trials[0].steps) == 5  # twice the repetitions, and one
    assert min(len(trial.steps) for trial in trials) == 1
    assert {item.setting for item in again.ranked} == {item.setting for item in found.ranked}
    lossless = [trial for trial in trials if trial.setting.startswith(("exact", "uncoded")) and not trial.given_up]
    assert len({trial.median_steps for trial in lossless}) == 1  # they share the steps of exact training


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_no_more_of_a_trial_without_loss_is_simulated_than_exact_training_needs(
    late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()

    def counted(*of: Any) -> Any:
        asked.append(of[-1])
        return simulated_steps(*of)

    monkeypatch.setattr("erasurehead.planning._trials.simulated_steps", counted)
    (trial,) = tried(["exact(load=3)"], nesterov, EXPONENTIAL, ("gap", 0.05), 200, 2, 0.01, late)
    assert 1.0 < trial.median_steps < 100.0
    assert set(asked) == set(trial.steps)
    assert len(asked) == 2
    asked.clear()
    tried(["ignore_stragglers(wait_for=9)"], nesterov, EXPONENTIAL, ("gap", 0.05), 200, 1, 0.01, late)
    assert asked == [trial.median_steps, 200]


def solver() -> optimizers.QuasiNewton:
    return optimizers.QuasiNewton(PROBLEM.initial())


@pytest.mark.parametrize("late", ["preempt", "carry", "drop(1)"])
@pytest.mark.slow
def test_what_train_does_with_nothing_said_runs_beside_the_race_with_its_own_optimizer(late: str) -> None:
    settings = (*SETTINGS, *adaptive_settings(12, 2))
    known = Accuracy(noises=None, solver=False)  # as with data, on which it is measured
    found = plan(EXPONENTIAL, 12, 0.01, settings, steps=200, late=late, accuracy=known)
    trials = {trial.setting: trial for trial in race(found, PROBLEM, descent, ("gap", 0.01), 200, 2, None, solver)}
    without = {
        trial.setting: trial
        for trial in race(
            plan(EXPONENTIAL, 12, 0.01, SETTINGS, steps=200, late=late, accuracy=known),
            PROBLEM,
            descent,
            ("gap", 0.01),
            200,
            2,
        )
    }
    assert {name: trial for name, trial in trials.items() if "adaptive" not in name} == without
    own = [trial for name, trial in trials.items() if "adaptive" in name]
    assert {trial.setting for trial in own} == set(adaptive_settings(12, 2))
    # Where late work is dropped after a round, its gradients are whole; else its first steps are short.
    whole = late == "drop(1)"
    assert len({trial.median_steps for trial in own}) == (1 if whole else len(own))
    assert {trial.begins_early for trial in own} == {not whole}
    quick = race(
        plan(EXPONENTIAL, 12, 0.01, ("adaptive(load=2)",), late=late, accuracy=known),
        PROBLEM,
        descent,
        ("auc", 0.905),
        60,
        1,
        None,
        solver,
    )
    engine = engines.VirtualEngine(EXPONENTIAL, late, 0.01)
    run = training.train(PROBLEM, parse_scheme("adaptive(load=2)", 12), solver(), engine, 60)
    (trial,) = (trial for trial in quick if trial.setting == "adaptive(load=2)")
    reached = run.time_to("auc", 0.905)
    assert reached is not None
    # The first order asks for a bound on the curvature, too, which costs another computation of the two tasks: where
    # the run begins with few arrivals, that is counted.
    assert trial.seconds[0] + (2 * 0.01 if whole else 0.0) == pytest.approx(reached, rel=1e-9)
    ranked = after(found, tuple(trials.values()))
    assert ranked.best.setting.startswith("adaptive")
    assert ranked.uncoded.steps == ranked.uncoded.exact_steps == trials["uncoded()"].median_steps
    said = explain(
        ranked,
        tuple(
            sorted(
                trials.values(),
                key=lambda one: took(next(item for item in ranked.ranked if item.setting == one.setting), one),
            )
        ),
        ("gap", 0.01),
    )
    assert f"With the optimizer that train uses by default, {ranked.best.setting} takes" in said
    assert re.search(r"The best of the others, .*, takes [\d,.]+ steps, [\d.e+-]+ s", said)


def test_loads_that_make_the_same_groups_of_workers_are_one_setting() -> None:
    for workers, loads in ((8, (1, 2, 3, 4, 8)), (12, (1, 2, 3, 4, 6)), (30, (1, 2, 3, 4, 5, 6, 8, 10))):
        assert adaptive_settings(workers) == tuple(f"adaptive(load={load})" for load in loads)
        assert tuple(parse_scheme(text, workers).code.load for text in adaptive_settings(workers)) == loads


@pytest.mark.slow
def test_a_message_per_task_is_tried_where_delays_grow_with_the_load() -> None:
    grows = delays.Exponential(0.5, seed=0, scale_with_load=True)
    several = tuple(f"adaptive(load={load}, multi_message=True)" for load in (2, 3, 4))
    assert adaptive_settings(12, 4, EXPONENTIAL) == adaptive_settings(12, 4)
    assert adaptive_settings(12, 4, grows) == (*adaptive_settings(12, 4), *several)
    found = plan(grows, 12, 0.0, ("uncoded()", "adaptive(load=3)", several[1]), steps=2000, late="carry")
    by_setting = {item.setting: item for item in found.ranked}
    assert by_setting[several[1]].seconds_per_step < by_setting["adaptive(load=3)"].seconds_per_step
    assert "workers send all of their 3 messages by then" in limits(found, by_setting[several[1]])


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 12])
def test_the_default_of_train_is_named_as_such_for_any_number_of_workers(workers: int) -> None:
    """It was looked for by a text that only three workers and more have."""
    usual = usual_setting(workers)
    assert usual in adaptive_settings(workers)
    assert parse_scheme(usual, workers).code.load == parse_scheme("adaptive()", workers).code.load
    found = plan(EXPONENTIAL, workers, 0.01, ("adaptive(load=1)", usual), steps=200)
    trials = race(found, PROBLEM, descent, ("gap", 0.05), 60, 1, solver=solver)
    said = explain(after(found, trials), trials, ("gap", 0.05))
    assert (f"({usual}, the default:" in said) == (trials[0].setting != usual)
    assert f"With the optimizer that train uses by default, {trials[0].setting} takes" in said


def test_settings_that_were_not_tried_are_told_in_the_steps_of_those_that_were() -> None:
    """They stayed relative to one step of exact descent, and were taken for fifty times as quick as all others."""
    found = plan(EXPONENTIAL, 12, 0.01, (*SETTINGS, *WIDE), steps=500)
    trials = race(found, PROBLEM, descent, ("gap", 0.05), 60, 1)
    kept = tuple(trial for trial in trials if trial.setting in (*SETTINGS, trials[0].setting))
    again = after(found, kept)
    exact = next(trial for trial in kept if trial.setting == "uncoded()").median_steps
    before = {item.setting: item for item in found.ranked}
    rest = [item for item in again.ranked if item.setting not in {trial.setting for trial in kept}]
    assert len(rest) > 5
    for item in rest:
        assert item.steps == pytest.approx(exact * before[item.setting].steps)
        assert item.steps_lost == pytest.approx(before[item.setting].steps_lost)
    assert if_worse(again).regret < 3.0
    limit = break_even(again)
    assert limit is None or limit < 1.0
    assert "% longer" not in explain(again, kept, ("gap", 0.05)) or "takes -" not in explain(again, kept)


def test_a_setting_whose_trials_were_ended_is_not_said_to_be_kept_from_the_target_by_noise() -> None:
    found = plan(EXPONENTIAL, 12, 0.01, WIDE, steps=500)
    trials = race(found, PROBLEM, descent, ("gap", 0.05), 60, 2)
    ended = {trial.setting for trial in trials if trial.unfinished}
    again = after(found, trials)
    assert ended
    for item in again.ranked:
        if item.setting in ended:
            assert math.isinf(item.steps)
            assert ("its noise keeps" in limits(again, item)) == (item.floor >= again.accuracy.gap)


@pytest.mark.slow
def test_the_race_finds_what_the_ranking_before_it_has_far_behind() -> None:
    """Tasks that differ more than the plan was told: one lucky run of its first settings ends all others too soon."""
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((360, 6))
    samples[:, 0] = 1.0
    labels = np.sign(samples @ rng.standard_normal(6) + 0.5 * rng.standard_normal(360))
    order = np.argsort(labels, kind="stable")
    problem = problems.LogisticRegression(samples[order], labels[order], l2=1 / 360)
    told, tried = Accuracy(noises=None), (WIDE[0], *WIDE[5:8], WIDE[10], "exact(load=6)")
    found = plan(EXPONENTIAL, 12, 0.01, tried, steps=500, accuracy=told)
    trials = race(found, problem, lambda: optimizers.GradientDescent(problem.initial(), 0.5), ("gap", 3e-4), 300, 2)
    again = after(found, trials)
    first = next(trial for trial in trials if trial.setting == found.best.setting)
    assert math.isinf(first.median_steps)
    assert again.best.missing < 0.05
    assert [item.setting for item in found.ranked].index(again.best.setting) >= 3
    assert again.best.seconds_to_target == min(item.seconds_to_target for item in again.ranked if item.steps > 2.0)


def test_noise_that_keeps_the_first_of_a_plan_from_the_target_puts_it_behind_those_that_reach_it() -> None:
    settings = ("ignore_stragglers(wait_for=1)", "exact(load=3)")
    found = plan(EXPONENTIAL, 12, settings=settings, current="exact(load=2)")
    trials = race(found, PROBLEM, lambda: descent(2.0), ("gap", 1e-4), 150, 1)
    assert {trial.setting for trial in trials} == {*settings, "exact(load=2)", "uncoded()"}
    again = after(found, trials)
    assert again.best.setting == "exact(load=3)"
    said = explain(again, trials, ("gap", 1e-4))
    assert (
        "Of the settings tried on the data, exact(load=3) reaches gap 0.0001 soonest, in "
        f"{again.best.seconds_to_target:.4g}" in said
    )
    assert "--task-noise" not in said


def test_a_target_that_no_trial_reaches_leaves_the_plan_and_is_said() -> None:
    found = plan(EXPONENTIAL, 12, settings=SETTINGS)
    trials = race(found, PROBLEM, descent, ("auc", 0.9999), max_steps=3, repeats=1)
    assert after(found, trials).ranked == found.ranked
    came = max(trial.final[0] for trial in trials)
    assert trials[0].final[0] == came
    (said,) = [line for line in remarks(found, trials, ("auc", 0.9999)) if "reached" in line]
    assert said.startswith(
        f"No setting that was tried on the data reached auc 0.9999: the best, {trials[0].setting}, reached {came:.4g}"
    )
    assert "More steps (--steps)" in said


def test_a_target_that_the_first_steps_meet_is_said_to_be_luck() -> None:
    found = plan(EXPONENTIAL, 12, settings=SETTINGS)
    trials = race(found, PROBLEM, lambda: descent(1.0), ("auc", 0.8), 60, 1)
    assert trials[0].median_steps < 5
    said = explain(after(found, trials), trials, ("auc", 0.8))
    assert "so luck decides: choose one that is harder to reach, such as --target gap=0.01." in said
    easy = race(found, PROBLEM, lambda: descent(1.0), ("gap", 0.9), 60, 1)
    for goal, harder in ((0.9, "0.01"), (0.01, "0.001")):
        assert f"such as --target gap={harder}." in explain(after(found, easy), easy, ("gap", goal))


def _at(trials: tuple[Trial, ...], setting: str, seconds: float) -> tuple[Trial, ...]:
    """The trials, as if each step of a setting had taken so many seconds."""
    return tuple(
        replace(trial, seconds=tuple(seconds * steps for steps in trial.steps)) if trial.setting == setting else trial
        for trial in trials
    )


def test_a_trial_does_not_override_a_forecast_of_time_and_contradictions_are_said() -> None:
    """A step of the usual setting takes 1.5 s: no twenty in a row take 0.3 s each."""
    found = plan(EXPONENTIAL, 12, settings=("exact(load=2)",))
    trials = race(found, PROBLEM, descent, ("gap", 0.05), 60, 1)
    assert "contradict" not in explain(after(found, trials), trials, ("gap", 0.05))
    quick = _at(trials, "uncoded()", 0.3)
    again = after(found, quick)
    assert again.best.setting == "exact(load=2)"
    assert "Trials contradict the forecast for uncoded(): they took 0.3 s a step" in explain(
        again, quick, ("gap", 0.05)
    )


def test_the_seconds_per_step_of_a_trial_are_of_the_repetitions_that_reached_the_target() -> None:
    assert Trial("uncoded()", (3.0, math.inf, 5.0), (0.05, 0.2, 0.05), (10.0, math.inf, 10.0)).seconds_per_step == 0.4
    assert math.isnan(Trial("uncoded()", (math.inf,), (0.2,), (math.inf,)).seconds_per_step)


def test_a_few_steps_without_a_rare_stall_do_not_contradict_a_forecast() -> None:
    """Each worker is stuck in a hundredth of the steps, for 100 s: that of ten steps none stalls is no wonder."""
    stuck = delays.parse(f"bimodal(0.01, exponential(0.1, seed=2), fixed([{[100.0] * 12}]), seed=7)")
    found = plan(stuck, 12, settings=("exact(load=2)",))
    assert found.uncoded.seconds_per_step > 5.0 * found.best.seconds_per_step
    quick = Trial("uncoded()", (3.0,), (0.05,), (10.0,))
    assert not quick.contradicts(found.uncoded)
    assert replace(quick, seconds=(300.0,), steps=(1000.0,)).contradicts(found.uncoded)


def test_a_target_that_is_not_reached_is_inf_and_says_how_far_it_came() -> None:
    (trial,) = tried(["exact(load=2)"], descent, EXPONENTIAL, ("auc", 0.9999), 5, repeats=2)
    assert trial.reached == 0.0
    assert math.isinf(trial.median)
    assert 0.5 < trial.final[0] < 0.9999


def test_a_run_that_ends_early_has_not_reached_anything() -> None:
    dead = EXPONENTIAL + delays.parse("late((0,))")
    with pytest.raises(InvalidArgument, match=r"goal must name a metric of the problem.*gap, auc"):
        tried(["ignore_stragglers(wait_for=5)"], descent, dead, ("speed", 1.0), 3)
    (never,) = tried(["uncoded()"], descent, dead, ("auc", 0.9), 10, 1)
    assert math.isinf(never.median)
    with np.errstate(all="ignore"):
        wild = tried(["uncoded()"], lambda: descent(1e308), EXPONENTIAL, ("auc", 0.99), 30, 1)
    assert np.isnan(wild[0].final).all()
    assert math.isinf(wild[0].median)


def test_the_noise_that_momentum_adds_up_is_measured() -> None:
    """Steps of Nesterov's method add up the noise of many: what tasks alone say of it is ten times too little."""
    plain = measured_accuracy(PROBLEM, lambda: descent(2.0), 12, 0.01, 200)
    momentum = measured_accuracy(PROBLEM, lambda: optimizers.Nesterov(PROBLEM.initial(), 2.0), 12, 0.01, 200)
    assert 0.0 < plain.noise < momentum.noise < 0.3
    assert momentum.pace > plain.pace
    wild = measured_accuracy(PROBLEM, lambda: descent(1e4), 12, 0.01, 50)
    assert wild.noise >= 0.0


def test_a_gap_is_a_part_of_the_first_one() -> None:
    trainer = Trainer(PROBLEM, descent, ("gap", 0.05), 100)
    steps, gap = trainer.exact
    assert 5 < steps < 100
    assert 0.0 < gap <= 0.05
    assert Trainer(PROBLEM, descent, ("gap", 0.01), 200).exact[0] > steps


def test_a_setting_that_sometimes_misses_the_target_takes_longer_than_its_median() -> None:
    """One of seven runs hovered above the target: the median told it from a setting that always gets there by luck."""
    sure = Trial("sure", (1.0,) * 7, (0.01,) * 7, (11.0,) * 7, given=(300.0,) * 7)
    steps = (11.0, 11.0, 11.0, math.inf, 11.0, 10.0, 14.0)
    lucky = Trial("lucky", (1.0,) * 7, (0.01,) * 7, steps, 17, (300.0, 300.0, 300.0, 17.0, 17.0, 17.0, 17.0))
    assert sure.median_steps == lucky.median_steps == 11.0
    assert sure.expected_steps == 11.0
    early = replace(lucky, begins_early=True)
    assert early.expected_steps == pytest.approx((11**4 * 10 * 14 * 17) ** (1 / 7))
    assert lucky.expected_steps == pytest.approx((4 * 11 + 10 + 14 + 17) / 7)
    never = Trial("never", (math.inf,) * 3, (0.2,) * 3, (math.inf, math.inf, 12.0), 17, (17.0,) * 3)
    assert math.isinf(never.expected_steps)
    assert Trial("bare", (1.0, 1.0, math.inf), (0.01,) * 3, (5.0, 7.0, math.inf)).expected_steps == pytest.approx(
        19 / 3
    )


def test_what_is_ended_early_for_missing_the_target_is_not_first_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five of seven runs were quick, and two missed the target: these counted as having taken what they were given."""
    found = plan(EXPONENTIAL, 12, 0.01, ("exact(load=3)", "ignore_stragglers(wait_for=9)", "uncoded()"), steps=200)
    pace = {item.setting: item.seconds_per_step for item in found.ranked}
    risky, sure = "ignore_stragglers(wait_for=9)", "exact(load=3)"

    def trial(_: Runs, setting: str, often: int, *more: float) -> Trial:
        count = 10.0 if setting == sure else 8.0 * pace[sure] / pace[risky] if setting == risky else 100.0
        steps = tuple(math.inf if setting == risky and number > 4 else count for number in range(often))
        seconds = tuple(one * pace[setting] for one in steps)
        return Trial(setting, seconds, (0.01,) * often, steps, 3 if math.inf in steps else 0, (count,) * often)

    monkeypatch.setattr(Runs, "trial", trial)
    first, second, _ = race(found, PROBLEM, descent, ("gap", 0.05), 60, 3)
    assert (first.setting, second.setting) == (sure, risky)
    assert second.expected_steps * pace[risky] == pytest.approx((8.0 + 2 / 7 * 10.0) * pace[sure])
    assert after(found, (first, second)).best.setting == sure


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="repeats must be at least 1"):
        race(plan(EXPONENTIAL, 12, 0.01, SETTINGS, steps=100), PROBLEM, descent, ("auc", 0.9), repeats=0)
    with pytest.raises(InvalidArgument, match="goal must be a fraction of the initial gap, between 0 and 1"):
        Trainer(PROBLEM, descent, ("gap", 1.5), 10)
    assert Trial("uncoded()", (math.inf,), (0.5,), (math.inf,)).median == math.inf
