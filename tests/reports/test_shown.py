"""What notebooks show: HTML that is whole, small and harmless, whatever the results are; and `plot` of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from erasurehead import codes, consensus, decoding, delays, planning, problems, schemes
from erasurehead.errors import InvalidArgument, MissingExtra
from erasurehead.reports import ComparedRuns
from erasurehead.runs import Comparison, Recorder, RunFolder
from erasurehead.training import Notice, Run, StepRow

from .conftest import MakeRuns

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\u202e\x1b[31m\"'`$\\frac{"
MOST = 50_000
"""Bytes that anything shown has at most."""

_SVG = "{http://www.w3.org/2000/svg}"
_TAGS = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "small", "svg", "path", "polyline"}
_ATTRIBUTES = {"style", "role", "aria-label", "width", "height", "viewBox", "d", "points", "fill"}
_STROKES = {"stroke", "stroke-width", "stroke-opacity"}


def texts(shown: Any) -> str:
    """Return the texts of what a notebook shows of an object, after checking that it is harmless."""
    page: str = shown._repr_html_()
    assert len(page.encode()) < MOST
    tree = ElementTree.fromstring(page)
    for element in tree.iter():
        assert element.tag.removeprefix(_SVG) in _TAGS
        assert set(element.attrib) <= _ATTRIBUTES | _STROKES
    assert "url(" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    return "\n".join(tree.itertext())


def row(step: int, loss: float | None = 0.5, **changes: Any) -> StepRow:
    begin, end = 0.1 * step, 0.1 * (step + 1)
    whole = StepRow(step, step, "gradient", begin, 0.1, end, 2, [0, 1], [2], [], 0.0, 1.0, True, loss, 1.0, 80, 3)
    return replace(whole, **changes)


def small_run(steps: Sequence[StepRow], **changes: Any) -> Run:
    return replace(Run("exact", "virtual", np.zeros(2), steps), **changes)


class _Counted(Sequence[StepRow]):
    """A hundred thousand rows, which are made when they are asked for, and counted."""

    def __init__(self) -> None:
        self.asked = 0

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, place: Any) -> Any:
        self.asked += 1
        return row(range(len(self))[place], 1.0 / (1 + range(len(self))[place]))

    def __iter__(self) -> Iterator[StepRow]:
        raise AssertionError("nobody reads all of them just to show a run")


def test_a_run_shows_how_it_ended_how_long_it_took_and_how_good_it_is(runs: list[Run]) -> None:
    found = texts(runs[2])
    for said in (
        "Run of erasurehead",
        "finished",
        "virtual",
        "Workers\n12",
        "Steps\n8",
        "Test AUC",
        "loss over the steps",
    ):
        assert said in found
    assert repr(runs[2]).startswith("Run(erasurehead, finished: 8 steps in ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([], id="none"),
        pytest.param([row(0)], id="one"),
        pytest.param([row(0, None), row(1, None)], id="no losses"),
        pytest.param([row(0, float("nan")), row(1, float("inf")), row(2, 1e300), row(3, 0.5)], id="no numbers"),
        pytest.param([row(0, -1.0), row(1, -1.0)], id="negative and equal"),
        pytest.param([row(0, 0.0, end=0.0), row(1, 1e-300, end=0.0)], id="no time"),
    ],
)
def test_any_run_can_be_shown_and_drawn(steps: list[StepRow]) -> None:
    run = small_run(steps)
    assert f"Steps\n{len(steps)}" in texts(run)
    assert repr(run)
    pytest.importorskip("matplotlib")
    for kind in ("progress", "step_times", "timeline"):
        _drawn(run, kind=kind)


def test_long_runs_are_sampled() -> None:
    rows = _Counted()
    found = texts(small_run(rows))
    assert "Steps\n100,000" in found
    assert rows.asked <= 220
    many = [row(step, notices=[Notice("died", text=f"worker {step} died")]) for step in range(3_000)]
    found = texts(small_run(many))
    assert "worker 2999 died" in found
    assert "Notices before\n2,995" in found


@pytest.mark.slow
def test_hostile_texts_are_text(runs: list[Run], tmp_path: Path) -> None:
    evaluation = replace(runs[0].evaluations[-1], metrics={HOSTILE: 0.5})
    told = [row(0, notices=[Notice("died", text=HOSTILE)])]
    run = small_run(told, scheme=HOSTILE, engine=HOSTILE, stopped=HOSTILE, evaluations=[evaluation])
    assert texts(run).count("<script>alert(1)") == 5
    assert "<script>" in texts(ComparedRuns.of([run, runs[0]]))
    code = replace(codes.uncoded(3), name=HOSTILE, source=HOSTILE)
    assert texts(code).count("<script>") == 2
    summary = {"status": HOSTILE, "scheme": HOSTILE, "metrics": {HOSTILE: 1.0, "auc": [1]}, "data": {"name": HOSTILE}}
    folder = RunFolder.create(tmp_path / "a<b>&'x")
    folder.write("summary.json", json.dumps(summary))
    assert texts(folder).count("<script>") == 4
    pytest.importorskip("matplotlib")
    for shown in (run, code, ComparedRuns.of([run, runs[0]])):
        _drawn(shown)


def test_texts_are_cut() -> None:
    found = texts(small_run([row(0)], stopped="x" * 10_000))
    assert "x" * 399 + "…" in found
    assert "x" * 400 not in found


def test_runs_beside_each_other_show_their_table(runs: list[Run]) -> None:
    compared = ComparedRuns.of(runs, ("auc", 0.8))
    found = texts(compared)
    assert found.index("uncoded") < found.index("exact") < found.index("erasurehead")
    assert "Speed-ups compare the time to AUC 0.8; uncoded is 1. 12 workers." in found
    assert repr(compared) == "ComparedRuns(uncoded, exact, erasurehead)"


CODES: dict[str, Callable[[], codes.GradientCode]] = {  # made where they are shown: some take a second
    "uncoded": lambda: codes.uncoded(1),
    "cyclic_repetition": lambda: codes.cyclic_repetition(12, stragglers=2),
    "fractional_repetition": lambda: codes.fractional_repetition(1_000, load=10),
    "expander": lambda: codes.build("expander", n_workers=1_000, load=4),
    "pieces": lambda: codes.build("communication_efficient_cyclic", n_workers=6, load=3, n_pieces=2),
    "custom": lambda: codes.custom(np.random.default_rng(0).standard_normal((300, 200))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CODES)
def test_a_code_shows_its_matrix(name: str) -> None:
    code = CODES[name]()
    found = texts(code)
    assert f"Workers\n{code.n_workers:,}" in found
    assert ("the largest of" in found) == (max(code.n_workers, code.n_tasks) > 60)
    pytest.importorskip("matplotlib")
    axes = _drawn(code)
    cells = axes.get_images()[0].get_array()
    assert max(cells.shape) <= 250
    assert np.abs(cells).max() == np.abs(code.encoding.data).max()


def test_a_picture_of_a_code_has_each_coefficient_in_its_place() -> None:
    pytest.importorskip("matplotlib")
    code = codes.cyclic_repetition(12, stragglers=2)
    cells = _drawn(code).get_images()[0].get_array()
    assert np.array_equal(cells.filled(0.0), code.encoding.toarray())
    blocks = codes.fractional_repetition(1_000, load=10)
    drawn = _drawn(blocks).get_images()[0].get_array().filled(0.0)
    whole = blocks.encoding.toarray().reshape(250, 4, 250, 4).max(axis=(1, 3))
    assert np.array_equal(drawn, whole)


SETTINGS = ("exact(load=2)", "exact(load=3)", "ignore_stragglers(wait_for=5)", "uncoded()")


@pytest.fixture(scope="module")
def plan() -> planning._planner.Plan:
    return planning.plan(delays.Exponential(0.5, seed=0), 6, seconds_per_task=0.01, settings=SETTINGS, steps=64)


def test_a_plan_shows_its_best_settings(plan: Any) -> None:
    found = texts(plan)
    assert all(setting in found for setting in SETTINGS)
    assert "Plan for 6 workers, exponential(mean=0.5, seed=0)" in found
    assert repr(plan).startswith("Plan(4 settings for 6 workers: Forecast(")
    pytest.importorskip("matplotlib")
    for kind in ("ranking", "tradeoff"):
        assert _drawn(plan, kind=kind).get_title(loc="left")


@pytest.mark.slow
def test_a_run_without_a_coordinator_shows_its_figures() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    problem = problems.LeastSquares(X, X @ [1.0, 2.0, 3.0])
    model = "shifted_exponential(shift=1.0, mean=1.0)"
    run = consensus.train(problem, "ring()", "full()", peers=4, steps=6, rate=0.1, delays=model)
    found = texts(run)
    assert "full() on ring()" in found
    assert "Steps of all peers\n24" in found
    assert "Seconds per step of a peer\n" in found
    assert "<script>" in texts(replace(run, policy=HOSTILE))
    assert "Status\nfinished" in texts(replace(run, means=[]))
    pytest.importorskip("matplotlib")
    for kind in ("progress", "distance", "graph", "links", "timeline"):
        _drawn(run, kind=kind)
    with pytest.raises(InvalidArgument, match=r"^kind must be progress or distance, but it is 'links'\."):
        replace(run, rows=[]).plot(kind="links")


def test_an_analysis_is_drawn() -> None:
    pytest.importorskip("matplotlib")
    analysis = decoding.analyse(codes.cyclic_repetition(6, stragglers=2))
    assert repr(analysis).endswith("up to 6 stragglers)")
    for kind in ("adversary", "one_step"):
        assert _drawn(analysis, kind=kind).get_legend() is not None


def test_folders_show_their_summary_and_draw_their_rows(make_runs: MakeRuns, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    assert "under way, or cut off: there is no summary yet" in texts(folder)
    with pytest.raises(InvalidArgument, match=r"run must have made a step to be drawn; ask again when it has\."):
        folder.plot()
    make_runs([schemes.exact(12, 3)], callbacks=[Recorder(folder)])
    found = texts(folder)
    assert str(tmp_path / "run") in found
    assert "Steps\n8" in found
    pytest.importorskip("matplotlib")
    _drawn(folder, kind="timeline")
    (tmp_path / "run" / "summary.json").write_text("{")
    assert "damaged" in texts(folder)


@pytest.mark.slow
def test_a_comparison_shows_the_table_before_and_after_its_report(tmp_path: Path) -> None:
    tables = {
        "data": {"source": "amazon", "synthetic": "always", "rows": 600},
        "run": {"workers": 6, "engine": "virtual", "steps": 6, "out": str(tmp_path / "x")},
    }
    comparison = Comparison.from_config(tables, ["uncoded()", "exact(load=2)"])
    assert repr(comparison).startswith("Comparison(amazon-synthetic, ")
    trained = comparison.run()
    outcome = trained.report(formats=())
    assert texts(trained) == texts(outcome)
    assert repr(outcome).endswith(": uncoded, exact)")
    pytest.importorskip("matplotlib")
    for kind in ("progress", "step_times", "speed_up"):
        for one in (trained, outcome):
            _drawn(one, kind=kind)


# --- drawing ----------------------------------------------------------------------------------------------------------


def _drawn(shown: Any, **options: Any) -> Any:
    """Return the axes into which something was drawn, rendered, after checking that nothing else has changed."""
    import matplotlib
    from matplotlib import pyplot

    before = dict(matplotlib.rcParams)
    axes = shown.plot(**options)
    assert dict(matplotlib.rcParams) == before
    axes.figure.canvas.draw()
    for number in pyplot.get_fignums():
        pyplot.close(number)
    return axes


@pytest.fixture(autouse=True)
def never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever draws does not show: that is up to the user."""
    try:
        from matplotlib import pyplot
    except ImportError:
        return

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pyplot.show was called")

    pyplot.switch_backend("agg")
    monkeypatch.setattr(pyplot, "show", refuse)


def test_axes_of_the_users_own_are_drawn_into(runs: list[Run]) -> None:
    style = pytest.importorskip("matplotlib.style")
    from matplotlib.figure import Figure

    for shown, kind in ((runs[0], "timeline"), (ComparedRuns.of(runs), "speed_up")):
        figure = Figure()
        axes = figure.subplots()
        assert shown.plot(axes, kind) is axes
        assert axes.has_data()
    assert codes.uncoded(3).plot(ax=axes) is axes
    with style.context("dark_background"):
        axes = Figure().subplots()
        legend = runs[0].plot(axes, "timeline").get_legend()
    assert {text.get_color() for text in legend.get_texts()} == {"white"}  # as the user's style has it


@pytest.mark.parametrize("target", [5, (), ("auc",), ("auc", "high"), ("auc", 0.8, 1)])
def test_a_target_that_is_no_metric_with_a_value_is_refused(runs: list[Run], target: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^target must be \(metric, value\), .*; such as \('auc', 0\.84\)\.$"):
        ComparedRuns.of(runs, target=target)


def test_what_cannot_be_drawn_is_refused(runs: list[Run]) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(InvalidArgument, match=r"^kind must be progress or step_times or timeline, but it is 'loss'\."):
        runs[0].plot(kind="loss")
    with pytest.raises(InvalidArgument, match=r"^ax must be axes of matplotlib, but it is 3"):
        runs[0].plot(3)


def test_without_matplotlib_a_sentence_says_what_to_install(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plots: list[Callable[[], Any]] = [runs[0].plot, codes.uncoded(3).plot, ComparedRuns.of(runs).plot]
    for plot in plots:
        with pytest.raises(MissingExtra, match=r"^pictures need matplotlib: pip install 'erasurehead\[report\]'\.$"):
            plot()


@pytest.mark.slow
def test_nothing_of_matplotlib_is_loaded_to_show_a_table() -> None:
    script = (
        "import sys, erasurehead as eh\n"
        "problem = eh.problems.LeastSquares([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])\n"
        "engine = eh.engines.VirtualEngine(eh.delays.Exponential(mean=0.5))\n"
        "optimizer = eh.optimizers.GradientDescent(problem.initial(), rate=0.1)\n"
        "scheme = eh.schemes.uncoded(3)\n"
        "run = eh.train(problem, scheme, optimizer, engine, 3)\n"
        "for shown in run, scheme.code, eh.reports.ComparedRuns.of([run]):\n"
        "    assert shown._repr_html_().startswith('<div>')\n"
        "assert 'matplotlib' not in sys.modules and 'IPython' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
