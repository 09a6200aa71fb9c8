"""The planner ranks as a run would, says why, and says when it cannot tell."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, problems, training
from erasurehead.delays import Trace
from erasurehead.errors import InvalidArgument
from erasurehead.planning import Accuracy, Constants, ErrorTarget, explain, forecast, plan, remarks
from erasurehead.planning._explanations import break_even, limits
from erasurehead.planning._pages import plan_page
from erasurehead.planning._planner import Plan, rank
from erasurehead.planning._settings import default_settings
from erasurehead.planning._step_times import additive, all_groups
from erasurehead.planning._trials import Trial
from erasurehead.planning._what_if import by_case, if_worse, rounds_to_settle
from erasurehead.runs import Experiment
from erasurehead.schemes import parse_scheme

from .formulas import formulas

EXPONENTIAL = delays.Exponential(0.5, seed=0)
SHORTLIST = (
    "uncoded()",
    "ignore_stragglers(wait_for=20)",
    "exact(load=3)",
    "exact(load=3, code='cyclic')",
    "erasurehead(load=3, wait_for=11)",
)


@pytest.fixture(scope="module")
def small() -> Plan:
    return plan(EXPONENTIAL, 30, 0.01, SHORTLIST, current="exact(load=3, code='cyclic')")


def test_a_forecast_agrees_with_theory() -> None:
    found = forecast("exact(load=3)", 30, EXPONENTIAL, 0.01)
    assert abs(found.seconds_per_step - all_groups(additive(3, 0.01, 2.0), 30, 3)) < 4 * found.error
    assert found.missing == 0.0
    assert found.steps == 1.0
    assert (found.load, found.share_of_data, found.computing) == (3, 0.1, pytest.approx(0.03))
    assert found.bytes_per_worker(241_915) == 8 * 241_915


def test_the_ranking_is_by_time_to_target_and_the_speed_ups_follow(small: Plan) -> None:
    times = [item.seconds_to_target for item in small.ranked]
    assert times == sorted(times)
    assert {item.setting for item in small.ranked} == set(SHORTLIST)
    assert small.speed_up(small.uncoded) == 1.0
    assert small.speed_up(small.best) > 3.0
    assert small.current is not None
    assert small.speed_up(small.best, small.current) < small.speed_up(small.best)
    low, high = small.best.band
    assert low < small.best.seconds_to_target < high


@pytest.mark.slow
@pytest.mark.parametrize("setting", SHORTLIST)
def test_a_run_of_the_run_file_takes_the_time_that_was_planned(small: Plan, setting: str) -> None:
    item = next(item for item in small.ranked if item.setting == setting)
    tables = small.run_file(item)
    assert tables["scheme"] == setting
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.standard_normal((60, 2)), rng.standard_normal(60))
    engine = engines.VirtualEngine(
        delays.parse(tables["delays"]["model"]), seconds_per_task=tables["run"]["seconds_per_task"]
    )
    scheme = parse_scheme(tables["scheme"], tables["run"]["workers"])
    optimizer = optimizers.GradientDescent(problem.initial(), 0.1)
    run = training.train(problem, scheme, optimizer, engine, steps=150, evaluate_every=0)
    assert run.seconds_per_step == pytest.approx(item.seconds_per_step, rel=0.1)
    assert np.mean([row.residual for row in run.steps]) / 30 == pytest.approx(item.missing, abs=0.02)


def test_a_plan_on_a_table_says_that_a_run_file_needs_a_file_and_one_on_its_file_runs(tmp_path: Path) -> None:
    seconds = np.random.default_rng(0).exponential(0.1, (20, 4))
    trace, file = delays.Trace.from_table(seconds), tmp_path / "seconds.csv"
    for drawn in (
        delays.Bootstrap(seconds),
        delays.Bootstrap.from_trace(trace),
        EXPONENTIAL + delays.Bootstrap(seconds, seed=1),
    ):
        advice = plan(drawn, 4, settings=["uncoded()"], steps=50)
        assert "bootstrap(20 rounds of 4 workers, keep='rounds'" in plan_page(advice).replace("&#x27;", "'")
        with pytest.raises(
            InvalidArgument, match=r"delays must come from a file .*; Trace\.from_table\(seconds\)\.write"
        ):
            advice.run_file()
        assert advice.run_file(delays={"model": "none()"})["delays"]["model"] == "none()"
    trace.write(file)
    advice = plan(delays.Bootstrap.from_file(str(file)), 4, settings=["uncoded()"], steps=50)
    tables = advice.run_file(run={"steps": 3}, data={"source": "amazon", "synthetic": "always", "rows": 500})
    assert Experiment.from_config(tables).run().steps_taken == 3


def test_carried_work_is_planned_with_its_memory() -> None:
    settings = ["ignore_stragglers(wait_for=11)", "erasurehead(load=3, wait_for=11)"]
    dropped = plan(EXPONENTIAL, 30, settings=settings)
    carried = plan(EXPONENTIAL, 30, settings=settings, late="carry")
    assert carried.run_file()["delays"]["late"] == "carry"
    for one, other in zip(
        sorted(dropped.ranked, key=lambda item: item.setting),
        sorted(carried.ranked, key=lambda item: item.setting),
        strict=True,
    ):
        if one.setting == "uncoded()":  # nobody is late where everybody is waited for
            assert abs(one.seconds_per_step - other.seconds_per_step) < 3 * other.error
        else:
            assert other.seconds_per_step > 1.4 * one.seconds_per_step


class TestAdvice:
    def test_redundancy_that_does_not_pay_is_said(self) -> None:
        """Scaled law, little straggling: computing more costs more than waiting less saves."""
        n = 30
        law = delays.ShiftedExponential(1 / n, 0.01 / n, seed=0, scale_with_load=True)
        assert formulas.lemma8(n, 3, 15, 100.0).exact > formulas.lemma8(n, 3, 15, 100.0).uncoded
        found = plan(law, n, settings=[text for text in SHORTLIST if not text.startswith("ignore")])
        assert found.best is found.uncoded
        assert "Redundancy does not pay here: train uncoded" in explain(found)

    def test_redundancy_that_pays_is_said_with_its_price(self, small: Plan) -> None:
        text = explain(small)
        assert f"Use {small.best.setting}: each worker holds 10.0% of the data (3 tasks)." in text
        assert "times as fast as uncoded (" in text
        assert "waits for 30.0 of 30 workers, so the slowest workers set the pace" in limits(small, small.uncoded)

    def test_what_limits_is_said(self) -> None:
        slow = plan(EXPONENTIAL, 12, 1.0, ["exact(load=4)", "erasurehead(load=2, wait_for=3)"])
        by_name = {item.setting: limits(slow, item) for item in slow.ranked}
        assert "computing 4 tasks takes 9" in by_name["exact(load=4)"]
        assert "of the gradient is missing on average, which costs" in by_name["erasurehead(load=2, wait_for=3)"]
        dead = plan(EXPONENTIAL + delays.parse("late((0,))"), 6, settings=["ignore_stragglers(wait_for=5)"])
        assert "the wait rule is never met" in limits(dead, dead.uncoded)
        assert dead.best.setting == "ignore_stragglers(wait_for=5)"
        assert math.isinf(dead.uncoded.seconds_to_target)

    def test_a_target_below_every_floor_says_what_is_reached(self) -> None:
        noisy = ErrorTarget(Constants(mu=0.01, beta=1.0, sigma=5.0, gap=1.0), 1e-6)
        found = plan(EXPONENTIAL, 30, settings=["erasurehead(load=3, wait_for=6)"], target=noisy)
        by_name = {item.setting: item for item in found.ranked}
        assert math.isinf(by_name["erasurehead(load=3, wait_for=6)"].seconds_to_target)
        assert math.isfinite(by_name["uncoded()"].seconds_to_target)
        assert "the noise of its gradients keeps the error above" in limits(
            found, by_name["erasurehead(load=3, wait_for=6)"]
        )
        alone = replace(found, ranked=found.ranked[-1:])
        assert "No setting is expected to reach an error of 1e-06; " in explain(alone)
        dead = plan(
            EXPONENTIAL + delays.parse("late((0, 1, 2))"), 30, settings=["ignore_stragglers(wait_for=20)"], target=noisy
        )
        assert "no setting is recommended" in explain(dead)
        assert "Every setting waits for workers that never answer, or never counts some task." in explain(dead)

    @pytest.mark.parametrize("epsilon", [0.0, 1.0, 5.0, math.nan])
    def test_a_target_must_be_better_than_the_first_model(self, epsilon: float) -> None:
        with pytest.raises(InvalidArgument, match="must be greater than 0 and below the first model's error, 1"):
            ErrorTarget(Constants(mu=0.1, beta=1.0, sigma=0.1, gap=1.0), epsilon)

    def test_a_target_above_the_floor_is_reached_soonest_by_waiting_less(self) -> None:
        quiet = ErrorTarget(Constants(mu=0.1, beta=1.0, sigma=0.1, gap=1.0), 0.05)
        found = plan(EXPONENTIAL, 30, 0.01, SHORTLIST, quiet)
        assert found.best.setting == "erasurehead(load=3, wait_for=11)"
        exact = next(item for item in found.ranked if item.setting == "exact(load=3)")
        assert exact.steps == pytest.approx(math.log(20) / -math.log(0.9))

    def test_an_infinite_mean_is_said(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            heavy = delays.parse("pareto(0.1, 0.9)")
        assert any("infinite mean" in said for said in remarks(plan(heavy, 6, settings=["exact(load=2)"])))


class TestTraces:
    def test_a_short_trace_cannot_tell_neighbours_apart_and_a_long_one_can(self) -> None:
        settings = ["exact(load=3)", "exact(load=4)"]
        short = plan(delays.Bootstrap(EXPONENTIAL.rows(0, 6, 30)), 30, 0.1, settings)
        said = remarks(short)
        assert any("too short to tell the best setting from" in sentence for sentence in said)
        long = plan(delays.Bootstrap(EXPONENTIAL.rows(0, 3000, 30)), 30, 0.1, settings)
        assert not any("too short" in sentence for sentence in remarks(long))
        assert short.best.error > 5 * long.best.error

    @pytest.mark.slow
    def test_half_a_trace_predicts_the_other_half(self, data_folder: Path) -> None:
        path = data_folder / "traces" / "aws_lambda" / "sam-gc-cnn_profile_est_desktop_long.csv.gz"
        trace = Trace.read(path, {"step": "round", "seconds": "latency_s"}, {"region": "Canada", "load": 0.75})
        first, second = trace.steps(0, 15), trace.steps(15, 30)
        for setting in ("erasurehead(load=4, wait_for=60)", "exact(load=4)", "ignore_stragglers(wait_for=200)"):
            planned = forecast(setting, 256, delays.Bootstrap.from_trace(first))
            happened = forecast(setting, 256, delays.Bootstrap.from_trace(second))
            assert planned.seconds_per_step == pytest.approx(happened.seconds_per_step, rel=0.1)

    def test_more_workers_than_the_trace_has_are_refused(self) -> None:
        with pytest.raises(InvalidArgument, match=r"must have 8 workers, got '4 workers'; keep='pooled'"):
            plan(delays.Bootstrap(np.ones((3, 4))), 8)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry", "drop(2)"])
def test_what_train_does_by_default_is_ranked_by_what_it_took_on_other_data(late: str) -> None:
    settings = ("exact(load=3)", "adaptive(load=3)", "adaptive(load=1)")
    found = plan(EXPONENTIAL, 12, 0.02, settings, late=late)
    by_name = {item.setting: item for item in found.ranked}
    assert found.best.setting == "adaptive(load=3)"
    for setting in settings[1:]:
        few, many = by_name[setting].steps_range
        assert few < by_name[setting].steps < many < math.inf
    (said,) = [line for line in remarks(found) if "is assumed to take" in line]
    assert said.startswith("adaptive(load=3) is assumed to take as long as ")
    deeper = found.for_accuracy(replace(found.accuracy, gap=1e-3))
    assert deeper.best.steps * deeper.accuracy.exact_steps > found.best.steps * found.accuracy.exact_steps / 2
    # Where the time is that of whole gradients alone, both loads need as many; else load 1 waits for no more workers.
    assert (by_name[settings[1]].steps == by_name[settings[2]].steps) == (late == "drop(2)")
    constants = Constants(mu=0.1, beta=1.0, sigma=0.1, gap=1.0)
    known = plan(EXPONENTIAL, 12, 0.02, settings, ErrorTarget(constants, 0.05), late=late)
    assert {item.steps for item in known.ranked} == {known.best.steps}  # of gradient descent, which theory is about


def test_a_plan_says_where_its_advice_may_be_far_behind_and_nothing_where_it_cannot() -> None:
    found = plan(EXPONENTIAL, 12, 0.02, ("exact(load=3)", "adaptive(load=3)", "ignore_stragglers(wait_for=1)"))
    by_name = {item.setting.partition("(")[0]: item for item in found.ranked}
    first = replace(by_name["adaptive"], steps_elsewhere=(1.0, 9.0), seconds_per_step=2.0)
    quick = replace(by_name["ignore_stragglers"], steps_elsewhere=(math.inf, 12.0), seconds_per_step=0.5)
    lone = replace(by_name["exact"], steps_elsewhere=(), steps=100.0, seconds_per_step=1.0)
    rival, times = replace(found, ranked=(first, quick, lone)).behind()
    assert (rival.setting, times) == ("ignore_stragglers(wait_for=1)", 3.0)
    (said,) = [line for line in remarks(replace(found, ranked=(first, quick, lone))) if "times as fast" in line]
    assert said.startswith(
        "On some of those data sets ignore_stragglers(wait_for=1) would be up to 3 times as fast as "
    )
    alone = replace(found, ranked=(first, lone))
    assert alone.behind() == (first, 1.0)
    assert not any("times as fast" in line for line in remarks(alone))


@pytest.mark.parametrize("other", ["adaptive", "exact"])  # the latter for an optimizer of your own
def test_what_never_gets_there_on_some_data_is_first_only_where_it_is_worth_the_risk(other: str) -> None:
    found = plan(EXPONENTIAL, 12, 0.02, ("exact(load=3)", "adaptive(load=3)", "ignore_stragglers(wait_for=1)"))
    (item,) = [one for one in found.ranked if one.setting.startswith("ignore")]
    (safe,) = [replace(one, steps_elsewhere=()) for one in found.ranked if one.setting.startswith(other)]
    assert math.isfinite(item.steps)
    second = safe.seconds_to_target / item.seconds_per_step

    def first(*steps: float) -> bool:  # of the times that the safe one takes; an expected one of half that
        risky = replace(
            item,
            steps=0.5 * second,
            steps_range=(0.0, max(steps) * second),
            steps_elsewhere=tuple(count * second for count in steps),
        )
        return rank([safe, risky])[0] is risky

    assert not first(0.5, math.inf)
    assert first(0.5, 0.5, 0.5, 0.5, math.inf)
    assert first(0.1, 0.1, math.inf)
    assert not first(0.9, 0.9, 0.9, 0.9, math.inf)
    assert first(0.9, 1.2)  # as one that is safe is


def test_what_may_never_get_there_is_named_as_that_and_not_as_a_saving_or_a_refuge() -> None:
    found = plan(EXPONENTIAL, 12, 0.02, ("exact(load=3)", "adaptive(load=3)", "ignore_stragglers(wait_for=1)"))
    forecasts = {item.setting: item for item in found.ranked}
    (name,) = [name for name in forecasts if name.startswith("ignore")]
    quick, never = forecasts[name], (math.inf,) * len(found.best.steps_elsewhere)
    steps = 0.5 * found.best.seconds_to_target / quick.seconds_per_step
    found = found.of(
        {**forecasts, name: replace(quick, steps=steps, steps_range=(0.0, math.inf), steps_elsewhere=never)}
    )
    assert found.best.setting == "adaptive(load=3)"
    told = explain(found)
    assert f"{name} would take" in told
    assert "With less memory" not in told
    assert if_worse(found).best.setting != name
    for _, accuracy, item in by_case(found):  # as --task-noise would have it
        known = Accuracy(accuracy.gap, accuracy.noise, noises=None)
        assert found.for_accuracy(known).best.setting == item.setting


def test_a_solver_without_redundancy_is_not_told_to_wait_for_all() -> None:
    found = plan(EXPONENTIAL, 12, 2.0, ("adaptive(load=3)", "adaptive(load=1)"))
    assert explain(found).startswith("Redundancy does not pay here: use adaptive(load=1). Its optimizer chooses ")


def test_the_front_has_no_setting_that_another_beats(small: Plan) -> None:
    front = small.front
    assert all(a.seconds_per_step <= b.seconds_per_step and a.missing > b.missing for a, b in pairwise(front))
    for item in small.ranked:
        assert any(a.seconds_per_step <= item.seconds_per_step and a.missing <= item.missing for a in front)


def test_default_settings_are_valid_schemes_for_any_number_of_workers() -> None:
    assert len(default_settings(30)) > 100
    for n_workers in (2, 3, 7, 30):
        for text in default_settings(n_workers):
            assert parse_scheme(text, n_workers).code.n_workers == n_workers
    assert default_settings(2, max_load=1) == ("uncoded()", "ignore_stragglers(wait_for=1)")


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="n_workers must be at least 2"):
        plan(EXPONENTIAL, 1)
    with pytest.raises(InvalidArgument, match="settings must name at least one"):
        plan(EXPONENTIAL, 4, settings=[])
    with pytest.raises(InvalidArgument, match="exact\\(load=9\\)"):
        plan(EXPONENTIAL, 4, settings=["exact(load=9)"])
    for settings in ("uncoded", [3]):
        with pytest.raises(InvalidArgument, match="settings must be schemes as texts"):
            plan(EXPONENTIAL, 4, settings=settings)
    with pytest.raises(InvalidArgument, match="settings must be schemes as texts"):
        plan(EXPONENTIAL, 4, current=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match="delays must be a delay model, or the text of one, but it is 3"):
        plan(3, 4)  # pyright: ignore[reportArgumentType]


def test_delays_can_be_given_as_their_text() -> None:
    ranked = [plan(model, 4, 0.01, ["exact(load=2)"]).ranked for model in (EXPONENTIAL, str(EXPONENTIAL))]
    assert [item.seconds_per_step for item in ranked[0]] == [item.seconds_per_step for item in ranked[1]]


class TestRedundancyThatCosts:
    """A trace of whole step times does not tell what another task would add: the plan says when that matters."""

    SETTINGS = ("uncoded()", "ignore_stragglers(wait_for=24)", "exact(load=2)", "exact(load=3)")

    def test_redundancy_pays_below_the_break_even_and_not_above(self) -> None:
        limit = break_even(plan(EXPONENTIAL, 30, 0.0, self.SETTINGS))
        assert limit is not None
        assert plan(EXPONENTIAL, 30, 0.98 * limit, self.SETTINGS).best.load > 1
        above = plan(EXPONENTIAL, 30, 1.02 * limit, self.SETTINGS)
        assert above.best.load == 1
        assert break_even(above) == pytest.approx(limit, rel=1e-6)

    def test_it_is_said_where_no_cost_was_given(self) -> None:
        free = plan(EXPONENTIAL, 30, 0.0, self.SETTINGS)
        (said,) = [line for line in remarks(free) if "further task" in line]
        assert f"as long as a task takes less than about {break_even(free):.3g} s" in said
        assert not any("further task" in line for line in remarks(plan(EXPONENTIAL, 30, 0.01, self.SETTINGS)))

    def test_without_redundancy_to_try_there_is_nothing_to_say(self) -> None:
        assert break_even(plan(EXPONENTIAL, 30, 0.0, ["ignore_stragglers(wait_for=24)"])) is None

    def test_a_setting_that_is_nearly_as_quick_with_less_data_is_named(self) -> None:
        found = plan(EXPONENTIAL, 30, 0.045, ["exact(load=3)", "exact(load=5)", "exact(load=6)"])
        times = {item.load: item.seconds_to_target for item in found.ranked}
        near = min(load for load, seconds in times.items() if seconds <= 1.1 * found.best.seconds_to_target)
        assert near < found.best.load
        (said,) = [line for line in remarks(found) if "less memory" in line]
        assert f"exact(load={near}) takes {times[near] / found.best.seconds_to_target - 1:.1%} longer" in said


def test_one_round_tells_nothing_and_that_is_said() -> None:
    found = plan(delays.Bootstrap(EXPONENTIAL.rows(0, 1, 12)), 12, settings=["exact(load=2)", "exact(load=3)"])
    assert found.best.band == (0.0, math.inf)
    assert "The trace of one round is too short to tell the best setting from" in explain(found)


def test_settings_that_do_the_same_are_listed_once() -> None:
    """Whoever holds 6 of 12 tasks has all groups after 7 arrivals at most, so that waiting for 8 changes nothing."""
    settings = ["exact(load=6)", "erasurehead(load=6, wait_for=8)", "erasurehead(load=6, wait_for=9)", "exact(load=3)"]
    found = plan(EXPONENTIAL, 12, settings=settings)
    assert [item.setting for item in found.distinct] == [
        item.setting for item in found.ranked if item.setting in ("exact(load=3)", "uncoded()", "exact(load=6)")
    ]
    assert len(found.as_good()) == 1


def test_counts_of_one_are_said_as_such_and_what_never_ends_as_that() -> None:
    """It said `1 settings wait`, `uncoded: inf s` and `about 0 more rounds`."""
    table = 0.2 + delays.Exponential(0.5, seed=3).rows(0, 40, 12)
    table[3:, 5] = np.nan
    trace = delays.Trace.from_table(table)
    found = plan(delays.Bootstrap.from_trace(trace), 12, settings=("uncoded()", "exact(load=3)"))
    said = explain(found)
    assert "uncoded() waits for workers that did not answer in the trace: nobody knows how long that takes, " in said
    assert "so it is ranked last" in said
    assert "(uncoded: never ends)" in said
    assert "inf s" not in said


def test_no_fewer_rounds_settle_it_than_advice_can_go_by() -> None:
    few = delays.Bootstrap(delays.Exponential(0.5, seed=3).rows(0, 6, 12))
    found = plan(few, 12, 0.1, ("exact(load=3)", "exact(load=4)"))
    wanted = rounds_to_settle(found)
    assert wanted is not None
    assert wanted >= 20
    assert f"; about {math.ceil(wanted - 6):,} more would settle every difference that matters (5%)" in explain(found)


def test_settings_that_take_no_time_are_compared_with_those_that_do() -> None:
    """Uncoded was said not to reach the target, and trials on data ended in a division by zero."""
    seldom = delays.parse("bimodal(0.1, none(), exponential(5.0))")
    settings = [f"erasurehead(load=3, wait_for={count})" for count in (1, 2, 4)] + ["adaptive(load=3)"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = plan(seldom, 8, settings=settings, accuracy=Accuracy(noises=None))
        assert (found.best.setting, found.best.seconds_to_target) == (settings[2], 0.0)  # the least gradient lost
        assert math.isinf(found.speed_up(found.best))
        times = {item.setting: item.seconds_per_step for item in found.ranked}
        tried = [Trial(name, (5.0 * times[name],), (0.01,), (5.0,)) for name in (settings[2], settings[3], "uncoded()")]
        said = explain(found, tried, ("gap", 0.01))
    assert "does not reach the target" not in said
    assert f"uncoded takes {times['uncoded()']:.4g} s" in said
    assert f"soonest, in 0 s (0 to 0); uncoded takes {5.0 * times['uncoded()']:.4g} s" in said
    assert re.search(r"The best of the others, erasurehead\(load=3, wait_for=4\), takes .*, 0 s", said)


def test_uncoded_is_listed_once_however_it_is_written() -> None:
    found = plan(EXPONENTIAL, 6, settings=["uncoded", "exact(load=2)"])
    assert [item.setting for item in found.ranked] == ["exact(load=2)", "uncoded"]
    assert found.uncoded.setting == "uncoded"


def test_of_settings_that_are_as_quick_the_one_that_needs_least_memory_is_advised(small: Plan) -> None:
    """Four tasks a worker were advised before two that took as long, to four digits."""
    first, second = (item for item in small.ranked if item.load == 3 and item.missing == 0.0)
    light = replace(second, load=1, seconds_per_step=first.seconds_per_step * (1.0 + 1e-7), steps=first.steps)
    assert rank([first, light])[0].load == 1
    slower = replace(light, seconds_per_step=first.seconds_per_step * 1.01)
    assert rank([slower, first])[0] is first
    held = if_worse(small)
    assert replace(held, best=held.advised, factor=2.0).holds
    assert not replace(held, best=first, advised=replace(first, seconds_per_step=2 * first.seconds_per_step)).holds


def test_uncoded_in_use_is_the_uncoded_that_all_are_compared_with() -> None:
    """Runs write it without brackets: it was planned for twice, and its speed-up was told twice."""
    found = plan(EXPONENTIAL, 12, 0.01, ("exact(load=3)",), steps=200, current="uncoded")
    assert [item.setting for item in found.ranked] == ["exact(load=3)", "uncoded()"]
    assert found.current is found.uncoded
    assert explain(found).splitlines()[1].count("times as fast as uncoded") == 1


def test_what_limits_a_setting_is_said_in_whole_workers_and_fewer_steps(small: Plan) -> None:
    several = replace(small.best, messages=4, arrived=0.0, computing=0.0)
    assert limits(small, several).startswith("no worker sends all of its 4 messages by then")
    lucky = replace(small.best, missing=0.5, exact_steps=2.0, steps=1.8, steps_range=(1.8, 1.8))
    assert "is missing on average, with which it took 10.0% fewer steps" in limits(small, lucky)
    as_many = replace(lucky, steps=2.0, steps_range=(2.0, 2.0))
    assert "is missing on average, which costs no more steps" in limits(small, as_many)
