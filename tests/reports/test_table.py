"""The comparison table: what each figure is, computed here once more from the rows."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import pytest

from erasurehead import schemes
from erasurehead.errors import InvalidArgument
from erasurehead.reports._table import comparison_table
from erasurehead.runs._summaries import figures
from erasurehead.training import Notice, Run
from erasurehead.training._result import Evaluation


def test_each_figure_is_the_mean_over_the_steps(runs: list[Run]) -> None:
    for run, row in zip(runs, comparison_table(runs), strict=True):
        assert row.scheme == run.scheme
        assert row.seconds_per_step == pytest.approx(run.steps[-1].end / 8)
        assert row.residual == fmean(step.residual for step in run.steps)
        assert row.arrivals == fmean(step.arrived for step in run.steps)
        assert row.received == fmean(step.received for step in run.steps)
        assert row.final == run.evaluations[-1].metrics["auc"]
        assert (row.n_workers, row.died, row.incidents, row.stopped) == (12, 0, 0, "")


def test_a_residual_of_rounding_is_none(runs: list[Run]) -> None:
    rounded = replace(runs[0], steps=[replace(row, residual=2.9e-30) for row in runs[0].steps])
    (row,) = comparison_table([rounded])
    assert row.residual == 0.0


def test_the_share_left_out_is_the_residual_over_the_tasks(runs: list[Run]) -> None:
    rows = comparison_table(runs)
    assert rows[0].left_out == rows[1].left_out == 0.0
    assert rows[2].residual > 0
    assert rows[2].left_out == pytest.approx(rows[2].residual / 12)


def test_without_a_target_speed_ups_compare_steps(runs: list[Run]) -> None:
    rows = comparison_table(runs)
    assert rows[0].speed_up == 1.0
    assert rows[2].speed_up == pytest.approx(runs[0].seconds / runs[2].seconds)
    assert rows[0].basis.compared == "time per step"
    assert all(row.seconds_to_target is None for row in rows)


def test_a_target_that_all_reach_is_what_speed_ups_compare(runs: list[Run]) -> None:
    target = ("auc", 0.9 * runs[0].evaluations[-1].metrics["auc"])
    rows = comparison_table(runs, target)
    assert [row.seconds_to_target for row in rows] == [run.time_to(*target) for run in runs]
    assert rows[2].seconds_to_target is not None
    assert rows[0].seconds_to_target is not None
    assert rows[2].speed_up == rows[0].seconds_to_target / rows[2].seconds_to_target
    assert rows[0].basis.by_target


def test_a_target_that_one_misses_is_not_what_speed_ups_compare(runs: list[Run]) -> None:
    short = replace(runs[2], steps=runs[2].steps[:1], evaluations=runs[2].evaluations[:1])
    rows = comparison_table([*runs[:2], short], ("auc", 0.85))
    assert rows[0].seconds_to_target is not None
    assert rows[2].seconds_to_target is None
    assert rows[0].basis.compared == "time per step"
    assert rows[1].speed_up == pytest.approx(runs[0].seconds_per_step / runs[1].seconds_per_step)


def test_speed_ups_are_over_the_uncoded_run_wherever_it_stands_and_else_over_the_first(runs: list[Run]) -> None:
    assert [row.basis.baseline for row in comparison_table(runs[::-1])] == ["uncoded"] * 3
    assert comparison_table(runs[::-1])[2].speed_up == 1.0
    rows = comparison_table(runs[1:])
    assert (rows[0].basis.baseline, rows[0].speed_up) == ("exact", 1.0)


def test_runs_of_one_scheme_are_numbered(make_runs) -> None:
    two = make_runs([schemes.erasurehead(12, 2, 4), schemes.uncoded(12), schemes.erasurehead(12, 3, 4)], steps=2)
    assert [row.scheme for row in comparison_table(two)] == ["erasurehead (1)", "uncoded", "erasurehead (2)"]


def test_deaths_and_other_failures_are_told_apart(runs: list[Run]) -> None:
    notices = [
        Notice("died", 3, text="failed, refused"),  # whatever a text says, the kind counts
        Notice("failed", 5),
        Notice("joined", 3),
        Notice("refused", 4, data={"messages": [4]}),
        Notice("held", data={"messages": [6, 7], "workers": [6, 7]}),
        Notice("refused", data={"messages": [6, 7], "workers": [6, 7]}),
        Notice("suspected", 2),
        Notice("died", 9),
    ]
    run = replace(runs[1], steps=[replace(runs[1].steps[0], dead=[3], notices=notices), *runs[1].steps[1:]])
    row = comparison_table([run])[0]
    assert (row.died, row.incidents) == (2, 4)
    assert (figures(run)["dead"], figures(run)["deaths"], figures(run)["failures"]) == (
        [3],
        2,
        4,
    )  # the summary of a run counts alike


def test_a_run_that_ended_before_its_first_step_has_no_figures(runs: list[Run]) -> None:
    row = comparison_table([Run("uncoded", "virtual", x=runs[0].x, stopped="stopped by Ctrl-C")])[0]
    assert math.isnan(row.seconds_per_step)
    assert math.isnan(row.residual)
    assert math.isnan(row.speed_up)
    assert row.final is None
    assert row.stopped == "stopped by Ctrl-C"


def test_a_metric_that_is_to_fall_is_reached_from_above(runs: list[Run]) -> None:
    falling = [
        replace(run, evaluations=[Evaluation(0, 0.0, {"mse": 2.0}), Evaluation(3, 1.5, {"mse": 0.5})]) for run in runs
    ]
    rows = comparison_table(falling, ("mse", 1.0))
    assert [row.seconds_to_target for row in rows] == [1.5, 1.5, 1.5]
    assert rows[0].final == 0.5


def test_errors_say_what_would_work(runs: list[Run]) -> None:
    with pytest.raises(InvalidArgument, match="runs must have at least one run"):
        comparison_table([])
    with pytest.raises(InvalidArgument, match=r"target .* 'mse'; the metrics are accuracy, auc, log_loss"):
        comparison_table(runs, ("mse", 1.0))
    with pytest.raises(InvalidArgument, match="the run has no evaluations"):
        comparison_table([replace(runs[0], evaluations=[])], ("auc", 0.8))
