"""Pictures: files that are there, the same each time, and say what they show."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument, MissingExtra
from erasurehead.reports._canvas import FORMATS, drawing, fit, named_bars, new_figure, run_style
from erasurehead.reports._panels import ComparedRuns, draw_progress, draw_speed_ups, draw_step_times
from erasurehead.reports._table import comparison_table
from erasurehead.training import Run

pytest.importorskip("matplotlib")

pytestmark = pytest.mark.xdist_group("figures")  # drawn once

TARGET = ("auc", 0.8)
NAMES = ["comparison", "progress", "step_times", "speed_up", "timeline"]


@pytest.fixture(scope="module")
def drawn(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("pictures") / "made" / "here"
    paths = ComparedRuns.of(runs, TARGET).draw(folder, FORMATS, title="Costs $5, and $6 later")
    assert [path.parent for path in paths] == [folder] * 15
    return {path.name: path for path in paths}


@pytest.mark.slow
def test_each_picture_comes_in_each_format(drawn: Mapping[str, Path]) -> None:
    assert list(drawn) == [f"{name}.{form}" for name in NAMES for form in FORMATS]
    heads = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    for path in drawn.values():
        assert path.read_bytes().startswith(heads[path.suffix]), path.name


@pytest.mark.slow
def test_equal_runs_give_equal_files_and_the_users_settings_are_neither_used_nor_changed(
    runs: list[Run], drawn: Mapping[str, Path], tmp_path: Path
) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 30.0, "svg.hashsalt": "other"}):
        again = ComparedRuns.of(runs, TARGET).draw(tmp_path, title="Costs $5, and $6 later")
        assert matplotlib.rcParams["font.size"] == 30.0
    assert [path.name for path in again] == [name for name in drawn if not name.endswith(".pdf")]
    for path in again:
        assert path.read_bytes() == drawn[path.name].read_bytes(), path.name


@pytest.mark.slow
def test_files_have_no_date(drawn: Mapping[str, Path]) -> None:
    for name in NAMES:
        assert "<dc:date>" not in drawn[f"{name}.svg"].read_text()
        assert b"CreationDate" not in drawn[f"{name}.pdf"].read_bytes()


@pytest.mark.slow
def test_progress_shows_each_run_and_when_it_reached_the_target(runs: list[Run]) -> None:
    with drawing():
        axes = new_figure(8, 4).subplots()
        draw_progress(axes, ComparedRuns.of(runs, TARGET))
        legend = [text.get_text() for text in axes.get_legend().get_texts()]
        assert legend == ["uncoded", "exact", "erasurehead", "target: AUC 0.8"]
        for run, line in zip(runs, axes.get_lines(), strict=False):
            assert line.get_xdata().tolist() == [item.time for item in run.evaluations]
            assert line.get_ydata().tolist() == [item.metrics["auc"] for item in run.evaluations]
        feet = [collection.get_segments()[0][0, 0] for collection in axes.collections]
        assert feet == [run.time_to(*TARGET) for run in runs]
        assert axes.get_xlim()[1] >= max(feet)
        assert axes.get_xlabel() == "virtual time (s), all waiting included"
        assert axes.get_ylabel() == "test AUC"


@pytest.mark.slow
@pytest.mark.parametrize("last", [1e200, 1e308, float("inf"), float("nan")])
def test_a_run_that_has_diverged_can_be_drawn(runs: list[Run], last: float) -> None:
    steps = [*runs[0].steps[:-2], *(replace(row, loss=last) for row in runs[0].steps[-2:])]
    diverged = replace(runs[0], steps=steps, evaluations=[])
    with drawing():
        figure = new_figure(4, 3)
        axes = figure.subplots()
        draw_progress(axes, ComparedRuns.of([diverged, replace(runs[1], evaluations=[])], None))
        fit(figure)
        assert np.isfinite(axes.get_ylim()).all()


def test_without_evaluations_progress_is_the_loss(runs: list[Run]) -> None:
    bare = [replace(run, evaluations=[]) for run in runs]
    with drawing():
        axes = new_figure(8, 4).subplots()
        draw_progress(axes, ComparedRuns.of(bare, None))
        line = axes.get_lines()[0]
        assert line.get_xdata().tolist() == [row.begin for row in runs[0].steps]
        assert line.get_ydata().tolist() == runs[0].losses.tolist()
        assert axes.get_ylabel() == "training loss (estimate)"


def test_bars_are_as_long_as_the_table_says(runs: list[Run]) -> None:
    rows = comparison_table(runs, TARGET)
    with drawing():
        axes = new_figure(8, 4).subplots()
        draw_speed_ups(axes, ComparedRuns.of(runs, TARGET))
        assert [bar.get_width() for bar in axes.patches] == [row.speed_up for row in rows]
        assert [text.get_text() for text in axes.texts] == [f"{row.speed_up:.1f}×" for row in rows]
        assert axes.get_title(loc="left") == "Speed-up, by time to AUC 0.8"
        assert [label.get_text() for label in axes.get_yticklabels()] == ["uncoded", "exact", "erasurehead"]


def test_boxes_span_the_quartiles_of_the_steps(runs: list[Run]) -> None:
    with drawing():
        axes = new_figure(8, 4).subplots()
        draw_step_times(axes, ComparedRuns.of(runs, None))
        seconds = np.diff([0.0, *(row.end for row in runs[0].steps)])
        box = axes.patches[0]
        assert box.get_x() == pytest.approx(np.quantile(seconds, 0.25))
        assert box.get_x() + box.get_width() == pytest.approx(np.quantile(seconds, 0.75))


@pytest.mark.slow
def test_runs_without_a_step_can_be_drawn(runs: list[Run], tmp_path: Path) -> None:
    nothing = Run("exact", "virtual", x=runs[0].x, stopped="stopped by Ctrl-C")
    assert len(ComparedRuns.of([nothing]).draw(tmp_path / "one", formats=["svg"])) == 5
    assert len(ComparedRuns.of([runs[0], nothing]).draw(tmp_path / "two", formats=["svg"])) == 5


def test_bars_of_what_takes_no_time_are_drawn_without_a_warning() -> None:
    with drawing():
        axes = new_figure(8, 4).subplots()
        named_bars(axes, ["exact", "uncoded"], [0.0, 0.0], ["black", "black"], "s")
        assert axes.get_xlim() == (0.0, 1.0)


@pytest.mark.slow
def test_long_names_are_cut_to_fit(runs: list[Run], tmp_path: Path) -> None:
    name = "custom(code='cyclic_repetition(stragglers=2)', wait='first(20) | decodable()')"
    many = [replace(run, scheme=f"{name} number {number}") for number in range(2) for run in runs]
    ComparedRuns.of(many).draw(tmp_path, formats=["svg"], title="A title that is far too long for one line. " * 5)
    with drawing():
        axes = new_figure(8, 4).subplots()
        draw_speed_ups(axes, ComparedRuns.of(many, None))
        assert max(len(line) for label in axes.get_yticklabels() for line in label.get_text().split("\n")) <= 20


def test_looks_differ_in_more_than_colour() -> None:
    looks = [run_style(index) for index in range(8)]
    assert len({each.colour for each in looks}) == 8
    assert len({(each.line, each.marker) for each in looks}) == 8
    assert run_style(8) == run_style(0)


def test_errors_say_what_would_work(runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="formats must be among png, svg, pdf, but it is 'gif'"):
        ComparedRuns.of(runs).draw(tmp_path, formats=["gif"])
    with pytest.raises(InvalidArgument, match="runs must have at least one run"):
        ComparedRuns.of([])
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="folder must be a folder that can be written to"):
        ComparedRuns.of(runs).draw(tmp_path / "file" / "below")


def test_without_matplotlib_the_error_says_what_to_install(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'erasurehead\[report\]'"):
        ComparedRuns.of(runs).draw(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_tables_do_not_load_matplotlib_and_pictures_do_not_load_pyplot(tmp_path: Path) -> None:
    program = (
        "import sys, numpy\n"
        "from erasurehead import reports\n"
        "from erasurehead.training import Run\n"
        "runs = [Run('uncoded', 'virtual', x=numpy.zeros(1))]\n"
        "compared = reports.ComparedRuns.of(runs)\n"
        "compared.table()\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"compared.draw({str(tmp_path)!r}, formats=['svg'])\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
