"""How near the least objective each run came: crossings, the table, and the picture down to the floors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.reports import ComparedRuns
from erasurehead.reports._canvas import drawing, new_figure
from erasurehead.reports._descents import Descent, descent_markdown, draw_descents
from erasurehead.training import Run


def fell(scheme: str, *gaps: float, step: float = 1.0) -> Descent:
    return Descent(scheme, step * np.arange(len(gaps)), np.array(gaps), virtual=True)


def test_a_depth_is_reached_by_the_first_model_that_is_there() -> None:
    one = fell("exact", 1.0, 0.5, 0.05, 0.2, np.nan, 0.009)
    assert (one.seconds_to(0.1), one.seconds_to(0.01), one.seconds_to(1e-3)) == (2.0, 5.0, None)


def test_the_table_says_who_never_came_so_far() -> None:
    told = descent_markdown([fell("exact", 1.0, 0.05, 1e-7, step=0.25), fell("first|few", 1.0, 0.02, 0.03)])
    lines = told.splitlines()
    assert lines[2] == "| Scheme | Gap 0.1 (s) | Gap 0.01 (s) | Gap 0.001 (s) | Gap 1e-06 (s) | Least gap |"
    assert lines[4] == "| exact | 0.25 | 0.50 | 0.50 | 0.50 | 1.0e-07 |"
    assert lines[5] == r"| first\|few | 1.00 | – | – | – | 2.0e-02 |"
    with pytest.raises(InvalidArgument, match="descents must have at least one"):
        descent_markdown([])


def test_until_its_first_step_ends_a_run_is_drawn_at_its_first_model() -> None:
    pytest.importorskip("matplotlib")
    with drawing():
        axes = new_figure(7.5, 5.0).subplots()
        draw_descents(axes, [fell("quick", 1.0, 0.4, 1e-3, step=0.001), fell("slow", 1.0, 0.1, 0.01, step=10.0)])
        assert axes.get_xscale() == "log"
        left = axes.get_xlim()[0]
        for line in axes.get_lines():
            times, gaps = line.get_data()
            assert (times[0], gaps[0]) == (pytest.approx(left), 1.0)  # at 0 s it would be drawn where the second is
            assert (times[1], gaps[1]) == (times[2], 1.0)  # and not between the two, which nobody has measured


@pytest.mark.slow
def test_the_picture_goes_down_to_the_floors_whatever_the_runs_are(runs: list[Run], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    hard = [
        fell("adaptive", 1.0, 1e-3, 1e-16, 0.0),  # to rounding
        fell("ignore_stragglers", 1.0, 0.1, 0.09, 0.11, step=0.001),
        fell("diverged", 1.0, 1e200, np.nan),
        fell("interrupted", 1.0),
    ]
    with drawing():
        axes = new_figure(7.5, 5.0).subplots()
        draw_descents(axes, hard)
        assert axes.get_yscale() == "log"
        assert axes.get_xscale() == "log"
        low, high = axes.get_ylim()
        assert 0.0 < low < 1e-12 < 1.0 < high < 10.0
        assert "virtual time" in axes.get_xlabel()
    drawn = ComparedRuns.of(runs).draw(tmp_path, ["svg"], descents=[fell(run.scheme, 1.0, 0.5) for run in runs])
    assert [path.name for path in drawn][-1] == "gap.svg"
