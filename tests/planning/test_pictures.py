"""Pictures of plans and of fitted delays: what is in them, and what they cannot be made of."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.errors import InvalidArgument
from erasurehead.planning import plan
from erasurehead.planning._pictures import draw_plan, draw_ranking, draw_tradeoff, draw_trials
from erasurehead.planning._planner import Plan
from erasurehead.planning._trials import Trial
from erasurehead.reports import _canvas as canvas

SETTINGS = ("ignore_stragglers(wait_for=6)", "exact(load=3)", "erasurehead(load=3, wait_for=4)")


@pytest.fixture(scope="module")
def small() -> Plan:
    return plan(delays.Exponential(0.5, seed=0), 12, 0.01, SETTINGS, current="exact(load=2)")


def axes() -> canvas.Axes:
    return canvas.new_figure(6.0, 4.0).subplots()


def test_the_tradeoff_has_every_setting_and_the_front(small: Plan) -> None:
    with canvas.drawing():
        shown = axes()
        draw_tradeoff(shown, small)
        dots = np.concatenate([group.get_offsets() for group in shown.collections])
        assert len(dots) == len(small.ranked) == 5
        front = next(line for line in shown.get_lines() if line.get_label() == "Pareto front")
        assert front.get_ydata() == pytest.approx([100 * item.missing for item in small.front])
        assert {text.get_text() for text in shown.texts} == {"best", "uncoded", "current"}


def test_the_ranking_begins_with_the_best_and_ends_with_what_may_never_arrive(small: Plan) -> None:
    with canvas.drawing():
        shown = axes()
        draw_ranking(shown, small)
        names = [label.get_text() for label in shown.get_yticklabels()]
        assert names[0].startswith(small.best.setting.partition("(")[0])
        assert names[-2] == "uncoded"
        assert names[-1].startswith("ignore_stragglers")
        assert math.isinf(small.ranked[-1].steps_range[1])
        assert len(shown.patches) == len(names)  # a bar each


def test_times_that_differ_a_lot_are_on_a_logarithmic_axis_without_formulas(small: Plan) -> None:
    trials = [
        Trial("exact(load=3)", (0.2, 0.3, 0.4), (0.9,) * 3),
        Trial("uncoded()", (40.0, 50.0, 60.0), (0.9,) * 3),
        Trial("ignore_stragglers(wait_for=6)", (math.inf,) * 3, (0.7,) * 3),
    ]
    with canvas.drawing():
        shown = axes()
        draw_trials(shown, small, trials, ("auc", 0.9))
        assert shown.get_xscale() == "log"
        assert any("not reached" in text.get_text() for text in shown.texts)
        shown.figure.canvas.draw()
        labels = [label.get_text() for label in shown.get_xticklabels()]
        assert all(float(label) > 0 for label in labels)


@pytest.mark.slow
def test_a_plan_where_nothing_is_ever_met_can_still_be_drawn(tmp_path: Path) -> None:
    dead = delays.Exponential(0.5, seed=0) + delays.parse("late([0, 1, 2, 3, 4, 5])")
    found = plan(dead, 6, settings=["exact(load=2)"])
    assert all(path.stat().st_size > 1000 for path in draw_plan(found, tmp_path))


def test_what_cannot_be_drawn_is_refused(tmp_path: Path, small: Plan) -> None:
    with pytest.raises(InvalidArgument, match="formats must be among png"):
        draw_plan(small, tmp_path, ("gif",))
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="folder must be a folder that can be written to"):
        draw_plan(small, tmp_path / "file")
