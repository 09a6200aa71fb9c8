"""What holds of every figure: no text leaves the canvas, no two texts overlap, and a scheme has its colour."""

from __future__ import annotations

from collections.abc import Iterator
from colorsys import rgb_to_hls
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import codes, schemes
from erasurehead.decoding import analyse
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._canvas import scheme_style, scheme_styles
from erasurehead.reports._code_curves import draw_codes
from erasurehead.reports._descents import Descent
from erasurehead.reports._panels import ComparedRuns, draw_progress, draw_step_times
from erasurehead.training import Run

from .conftest import MakeRuns

pytest.importorskip("matplotlib")

pytestmark = pytest.mark.slow

LONG = "bimodal(share=0.1, usual=none(), slow=exponential(mean=5.0, seed=0), seed=0), preempt, and late work is dropped"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every figure that would be saved while a test runs: laid out as `save` does, and not written."""
    figures: list[Any] = []

    def keeping(figure: Any, folder: Path, name: str, formats: Any, access: Any = None) -> list[Path]:
        canvas.fit(figure)
        figure.set_layout_engine("none")
        figures.append(figure)
        return [folder / f"{name}.{form}" for form in formats]

    monkeypatch.setattr(canvas, "save", keeping)
    return figures


def boxes(figure: Any) -> Iterator[tuple[str, Any]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    off = {
        id(text)
        for axes in figure.findobj(lambda item: hasattr(item, "axison"))
        if not axes.axison
        for text in axes.findobj(Text)
    }
    for axes in figure.findobj(lambda item: hasattr(item, "axison")):
        for axis in (axes.xaxis, axes.yaxis):  # numbers beyond the ends of an axis are kept, and not drawn
            drawn = {id(tick) for tick in axis._update_ticks()}
            for tick in (*axis.majorTicks, *axis.minorTicks):
                off |= {id(tick.label1), id(tick.label2)} if id(tick) not in drawn else set()
    for text in figure.findobj(Text):
        box = text.get_window_extent(renderer)
        if text.get_visible() and text.get_text().strip() and id(text) not in off and box.width > 0:
            yield text.get_text(), box


def check(figure: Any) -> None:
    found = list(boxes(figure))
    assert found
    for text, box in found:
        assert box.x0 >= -1.5, text
        assert box.y0 >= -1.5, text
        assert box.x1 <= figure.bbox.width + 1.5, text
        assert box.y1 <= figure.bbox.height + 1.5, text
    for (one, first), (other, second) in combinations(found, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(wide, high) < 1.5, f"{one!r} and {other!r} overlap"


def slower(run: Run, times: float) -> Run:
    """Return a run that took so many times as long."""
    steps = [replace(row, begin=times * row.begin, end=times * row.end) for row in run.steps]
    return replace(run, steps=steps, evaluations=[replace(e, time=times * e.time) for e in run.evaluations])


@pytest.mark.parametrize("case", ["usual", "far apart", "no time", "long names", "small losses"])
def test_of_comparisons(case: str, runs: list[Run], kept: list[Any], tmp_path: Path) -> None:
    target: tuple[str, float] | None = ("auc", 0.8)
    if case == "far apart":
        runs = [runs[0], *(slower(run, 1e-4) for run in runs[1:])]
    elif case == "no time":
        runs, target = [runs[0], *(slower(run, 0.0) for run in runs[1:])], None
    elif case == "long names":
        name = "custom(code='cyclic_repetition(stragglers=2)', wait='first(20) | decodable()')"
        runs = [replace(run, scheme=f"{name}, {place}") for place, run in enumerate([*runs, *runs])]
    elif case == "small losses":
        runs, target = (
            [
                replace(
                    run, evaluations=[], steps=[replace(row, loss=1.23456e7 + 1e-3 * row.step) for row in run.steps]
                )
                for run in runs
            ],
            None,
        )
    ComparedRuns.of(runs, target).draw(tmp_path, formats=["png"], title=LONG)
    assert len(kept) == 5
    for figure in kept:
        check(figure)


def test_of_codes(kept: list[Any], tmp_path: Path) -> None:
    found = {
        str(code): analyse(code, range(7), samples=30, effort=30, enumerate_up_to=200)
        for code in (codes.cyclic_repetition(12, 2), codes.build("binary_repetition", n_workers=12, stragglers=2))
    }
    draw_codes(found, tmp_path, formats=["png"])
    for figure in kept:
        check(figure)


def test_a_scheme_has_its_colour_whatever_else_is_in_the_picture(make_runs: MakeRuns) -> None:
    made = make_runs([schemes.uncoded(12), schemes.exact(12, 3), schemes.erasurehead(12, 3, 4)], steps=3)
    colours: dict[str, set[str]] = {}
    for chosen in (made, made[1:], made[::-1], made[2:], [made[2], made[0]]):
        comparison = ComparedRuns.of(chosen, None)
        for name, style in zip(comparison.names, comparison.styles, strict=True):
            colours.setdefault(name, set()).add(style.colour)
    assert [len(own) for own in colours.values()] == [1, 1, 1]
    assert len(set.union(*colours.values())) == 3


def test_schemes_of_one_family_share_a_hue_and_differ_in_lightness_line_and_marker() -> None:
    names = ["erasurehead", *(f"erasurehead(load={load}, wait_for=11)" for load in range(2, 9)), "exact", "mine(3)"]
    looks = scheme_styles(names)
    hues = [rgb_to_hls(*(int(look.colour[place : place + 2], 16) / 255 for place in (1, 3, 5)))[0] for look in looks]
    assert max(hues[:8]) - min(hues[:8]) < 0.02
    assert abs(hues[8] - hues[0]) > 0.1
    assert len({look.colour for look in looks[:5]}) == 5
    assert len({(look.line, look.marker) for look in looks[:8]}) == 8
    assert len(set(looks)) == len(names)
    assert scheme_styles(names[::-1])[::-1] == looks
    assert looks[0] == scheme_style("erasurehead")


def test_runs_that_went_the_same_way_share_a_curve_and_a_panel(
    runs: list[Run], kept: list[Any], tmp_path: Path
) -> None:
    twins = [runs[0], replace(runs[1], scheme="cyclic"), runs[1]]
    ComparedRuns.of(twins).draw(tmp_path, formats=["png"])
    for figure in kept:
        check(figure)
    progress, timeline = kept[1], kept[4]
    assert [text.get_text() for text in progress.axes[0].get_legend().get_texts()] == ["uncoded", "cyclic = exact"]
    assert len(progress.axes[0].get_lines()) == 2
    assert [axes.get_title(loc="left").partition(":")[0] for axes in timeline.axes] == ["uncoded", "cyclic = exact"]


def test_every_legend_has_a_title(runs: list[Run], kept: list[Any], tmp_path: Path) -> None:
    from matplotlib.legend import Legend

    descents = [Descent(run.scheme, np.arange(2.0), np.array([1.0, 0.1]), virtual=True) for run in runs]
    ComparedRuns.of(runs).draw(tmp_path, formats=["png"], descents=descents)
    legends = [legend for figure in kept for legend in figure.findobj(Legend)]
    assert legends
    assert all(legend.get_title().get_text() for legend in legends)


def test_far_apart_times_have_a_logarithmic_axis_and_a_virtual_clock_no_wall(runs: list[Run]) -> None:
    with canvas.drawing():
        for chosen, scale in ((runs, "linear"), ([runs[0], slower(runs[1], 1e-3)], "log")):
            left, right = canvas.new_figure(10, 5).subplots(1, 2)
            draw_progress(left, ComparedRuns.of(chosen, None))
            draw_step_times(right, ComparedRuns.of(chosen, None))
            assert left.get_xscale() == scale
            assert scale == "linear" or right.get_xscale() == "log"
            assert left.get_xlabel().startswith("virtual time (")
            if scale == "log":
                for line, run in zip(left.get_lines(), chosen, strict=False):
                    times, values = line.get_data()
                    first, second = run.evaluations[0].metrics["auc"], run.evaluations[1].metrics["auc"]
                    assert times[0] == pytest.approx(left.get_xlim()[0])
                    assert list(values[:3]) == [first, first, second]  # the first model until the next was measured
                    assert times[1] == times[2]
            end = max(run.evaluations[-1].time for run in chosen)
            assert scale == "linear" or left.get_xlim()[1] >= end
        real = [replace(run, engine="processes") for run in runs]
        axes = canvas.new_figure(10, 5).subplots()
        draw_progress(axes, ComparedRuns.of(real, ("auc", 0.8)))
        assert axes.get_xlabel().startswith("wall-clock time (")
        assert "target: AUC 0.8" in [text.get_text() for text in axes.get_legend().get_texts()]
        assert not axes.texts  # beside the line there would be curves
