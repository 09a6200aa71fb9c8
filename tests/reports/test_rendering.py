"""The table lines up, fits, and says what it compares."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from erasurehead.errors import InvalidArgument
from erasurehead.reports._rendering import notes, render_table, to_markdown
from erasurehead.reports._table import ComparisonRow, comparison_table
from erasurehead.training import Run


def printed(rows: list[ComparisonRow], width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(render_table(rows, "Title"))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_terminal_table_lines_up_and_fits_into_80_characters(runs: list[Run]) -> None:
    lines = printed(comparison_table(runs, ("auc", 0.8)))
    assert lines[0] == "Title"
    body = [line for line in lines if line.startswith(("uncoded", "exact", "erasurehead"))]
    assert len(body) == 3
    assert len({len(line) for line in body}) == 1  # the last column ends at the same place
    assert len(body[0]) <= 80
    ends = [[i for i, c in enumerate(line) if c != " " and line[i + 1 : i + 2] in ("", " ")] for line in body]
    assert ends[0][1:] == ends[1][1:] == ends[2][1:]  # and so does every other column of numbers
    assert "Speed-ups compare the time to AUC 0.8; uncoded is 1. 12 workers." in lines


def test_markdown_has_the_same_cells(runs: list[Run]) -> None:
    rows = comparison_table(runs, ("auc", 0.8))
    lines = to_markdown(rows).splitlines()
    assert lines[0].replace("(ms)", "(s)") == (  # which unit the drawn delays ask for does not matter here
        "| Scheme | Time per step (s) | Time to AUC 0.8 (s) | Speed-up (×) | Residual (tasks) | "
        "Gradient left out (%) | Waited for | Received in time, per step (B) | Final AUC |"
    )
    assert lines[1] == "| :-- |" + " --: |" * 8
    assert lines[4].split(" | ")[0] == "| erasurehead"
    assert f"{rows[2].final:.4f} |" in lines[4]
    assert len({line.count("|") for line in lines[:5]}) == 1
    terminal = "\n".join(printed(rows))
    for cell in lines[4].strip("| ").split(" | "):
        assert cell in terminal


def test_a_bar_in_a_name_does_not_break_the_markdown_table(runs: list[Run]) -> None:
    rows = comparison_table([replace(runs[0], scheme="first(3) | decodable()")])
    assert r"first(3) \| decodable()" in to_markdown(rows)


def test_columns_of_failures_appear_only_where_there_are_some(runs: list[Run]) -> None:
    rows = comparison_table(runs)
    assert "died" not in to_markdown(rows)
    assert "| Workers died | Other failures |" in to_markdown([replace(rows[0], died=2, incidents=1)])


def test_notes_tell_who_missed_the_target_and_who_ended_early(runs: list[Run]) -> None:
    unlucky = replace(runs[2], evaluations=runs[2].evaluations[:1], stopped="stopped by Ctrl-C")
    text = to_markdown(comparison_table([*runs[:2], unlucky], ("auc", 0.85)))
    assert "Speed-ups compare the time per step; uncoded is 1." in text
    assert "erasurehead did not reach AUC 0.85." in text
    assert "erasurehead ended early: stopped by Ctrl-C." in text


def test_without_evaluations_there_is_no_final_column(runs: list[Run]) -> None:
    assert "Final" not in to_markdown(comparison_table([replace(run, evaluations=[]) for run in runs]))


def test_no_rows() -> None:
    with pytest.raises(InvalidArgument, match="rows must have at least one row"):
        to_markdown([])
    with pytest.raises(InvalidArgument, match="rows must have at least one row"):
        render_table([])


def test_a_target_that_is_reached_at_once_is_said_to_tell_little(runs: list[Run]) -> None:
    rows = comparison_table(runs, ("auc", 0.8))
    said = "AUC 0.8 was reached within two steps; a harder target would tell more."
    late = [replace(row, steps_to_target=3) for row in rows]
    assert said not in notes(late)
    assert said in notes([*late[:2], replace(late[2], steps_to_target=2)])
    assert said not in notes([replace(row, seconds_to_target=None, steps_to_target=None) for row in rows])
    quick = [
        replace(row, seconds_to_target=0.1 * row.seconds_per_step) for row in late
    ]  # first steps from few arrivals
    assert said not in notes(quick)


def test_the_steps_to_a_target_are_those_of_the_evaluation_that_reached_it(runs: list[Run]) -> None:
    for run, row in zip(runs, comparison_table(runs, ("auc", 0.8)), strict=True):
        found = run.first_at("auc", 0.8)
        assert found is not None
        assert (row.steps_to_target, row.seconds_to_target) == (found.step, found.time)
        assert all(one.metrics["auc"] < 0.8 for one in run.evaluations[: run.evaluations.index(found)])


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ((0.12345678, 0.5), ("0.1235", "0.5000")),
        ((310892429.2367, 4.0), ("3.1089e+08", "4")),
        ((0.00012345678, None), ("0.00012346", "–")),
        ((0.0, 0.0), ("0.0000", "0.0000")),
    ],
)
def test_final_values_have_as_many_digits_as_they_need(
    runs: list[Run], values: tuple[float, float | None], cells: tuple[str, str]
) -> None:
    rows = [replace(row, final=value) for row, value in zip(comparison_table(runs), values, strict=False)]
    lines = to_markdown(rows).splitlines()
    assert tuple(line.strip("| ").split(" | ")[-1] for line in lines[2:4]) == cells
