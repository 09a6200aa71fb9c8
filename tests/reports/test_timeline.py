"""Who was late: every worker's time is accounted for."""

from __future__ import annotations

import pytest

from erasurehead import schemes
from erasurehead.reports._timeline import visible_seconds, work_intervals
from erasurehead.training import Run


def test_uncoded_work_is_all_used_and_the_slowest_ends_the_step(runs: list[Run]) -> None:
    run = runs[0]
    found = work_intervals(run, run.seconds)
    assert {item.use for item in found} == {"used"}
    for step in run.steps:
        of_step = [item for item in found if item.begin == step.begin]
        assert sorted(item.worker for item in of_step) == list(range(12))
        assert max(item.end for item in of_step) == pytest.approx(step.end)


def test_every_worker_of_a_step_is_used_spare_or_late(runs: list[Run]) -> None:
    run = runs[2]
    found = work_intervals(run, run.seconds)
    for step in run.steps:
        of_step = [item for item in found if item.begin == step.begin]
        outcomes = ("used", "spare", "late")
        workers = {outcome: {item.worker for item in of_step if item.use == outcome} for outcome in outcomes}
        assert workers["used"] == set(step.used)
        assert workers["late"] == set(step.missing)
        assert set.union(*workers.values()) == set(range(12))
        assert all(item.end == pytest.approx(step.end) for item in of_step if item.use == "late")


def test_late_work_that_is_carried_on_goes_beyond_its_step(make_runs) -> None:
    run = make_runs([schemes.erasurehead(12, 3, 4)], late="carry")[0]
    submitted = {step.round: step for step in run.steps}
    came = [row for row in run.arrivals if row.late]
    assert came
    found = {(item.worker, item.end) for item in work_intervals(run, run.seconds) if item.use == "late"}
    for row in came:
        assert (row.worker, submitted[row.round].begin + row.seconds) in found
        assert submitted[row.round].begin + row.seconds > submitted[row.round].end - 1e-12


def test_only_steps_that_began_in_time_are_shown(runs: list[Run]) -> None:
    until = runs[0].steps[1].end
    assert max(item.begin for item in work_intervals(runs[0], until)) == runs[0].steps[1].begin


def test_the_window_shows_some_steps_of_the_slowest_run(runs: list[Run]) -> None:
    assert visible_seconds(runs) == runs[0].steps[2].end
    assert visible_seconds(runs[2:], steps=100) == runs[2].seconds
    assert visible_seconds(runs, steps=8, max_steps=5) == runs[2].steps[4].end
    assert visible_seconds([Run("uncoded", "virtual", x=runs[0].x)]) > 0
