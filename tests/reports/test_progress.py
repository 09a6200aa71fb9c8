"""Progress on a terminal: what a person sees of a run."""

from __future__ import annotations

import io
import re
import sys
import types
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from erasurehead import delays, engines, optimizers, planning, schemes, training
from erasurehead.reports._progress import Notices, Progress
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Notice


class _Kill(Callback):
    def __init__(self, engine: engines.VirtualEngine) -> None:
        self.engine = engine

    def on_start(self, seconds: float) -> None:
        self.engine.kill(2, at=1.0)


def watch(callbacks: Sequence[Callback], kill: bool = False) -> None:
    problem = Quadratic.random(24, 5, seed=1)
    engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3))
    training.train(
        problem,
        schemes.erasurehead(6, load=2, wait_for=3),
        optimizers.Nesterov(problem.initial(), 0.1),
        engine,
        8,
        [*callbacks, *([_Kill(engine)] if kill else [])],
    )


def terminal(width: int = 120) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=True, width=width, color_system=None), text


@pytest.mark.parametrize("width", [120, 100, 80])
def test_the_bar_shows_step_loss_and_time(width: int) -> None:
    console, text = terminal(width)
    with Progress(console) as bar:
        watch([bar])
        watch([bar])
    lines = [line.rsplit("\x1b[2K", 1)[-1].rstrip("\r") for line in text.getvalue().split("\n")]
    lines = [line for line in lines if "erasurehead" in line]
    assert len(lines) == 2  # the last state of each, one below the other
    for line in lines:
        assert "8/8" in line
        assert "loss " in line
        assert line.rstrip().endswith(" s")
        assert "0:00:00" in line
        assert len(line.rstrip()) <= width


@pytest.mark.parametrize("width", [120, 100, 80, 60])
def test_step_and_time_are_never_cut(width: int) -> None:
    console, text = terminal(width)
    with Progress(console) as bar:
        bar.on_setup(schemes.erasurehead(30, load=3, wait_for=11), 5000)
        bar.on_start(0.5)
        bar._loss = "loss 0.4123 (estimated from 37% of the data), "
        bar._last = 0.0  # as if the last drawing were long ago
        bar.on_wait(0, range(30), 9.0)
    last = text.getvalue().rsplit("\x1b[2K", 1)[-1]
    assert "0/5000" in last
    assert "0:00:00" in last
    assert "loss 0.41" in last
    assert len([line for line in last.splitlines() if line.strip("\x1b[?25hl ")]) == 1


def test_the_bar_says_who_is_late_while_it_waits() -> None:
    console, text = terminal()
    with Progress(console) as bar:
        scheme = schemes.uncoded(4)
        bar.on_setup(scheme, 3)
        bar.on_starting(4)
        assert "starting 4 workers" in text.getvalue()
        bar.on_start(0.5)
        bar._last = 0.0  # as if the last drawing were long ago
        bar.on_wait(0, [1, 3], 0.2)
        assert "waiting" not in text.getvalue()  # so short a time is jitter
        bar._last = 0.0
        bar.on_wait(0, [1, 3], 0.7)
    assert "waiting for 1, 3 (0.7 s)" in text.getvalue()


def test_deaths_are_told_but_not_without_end() -> None:
    console, text = terminal()
    watch([Notices(console)], kill=True)
    assert text.getvalue() == "worker 2 died: killed; another takes its place\nworker 2 has joined, on virtual\n"
    many = Notices(console)
    for number in range(14):
        many.on_notice(Notice("died", text=f"notice {number}"))
    assert "notice 9" in text.getvalue()
    assert "notice 10" not in text.getvalue()


class _Clock:
    """Each look at it takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_lines_for_a_log_tell_step_loss_pace_and_the_time_left() -> None:
    text = io.StringIO()
    watch([Progress(Console(file=text, width=40), every=5.0, clock=_Clock())])
    lines = text.getvalue().splitlines()
    assert 1 <= len(lines) < 8
    told = r"step \d of at most 8: (loss .+, .+ s a step, at most \d+ s left|waiting for .+)"
    over = r"training is done; \d of 9 models are evaluated"
    assert all(re.fullmatch(f"{told}|{over}", line) for line in lines)
    assert any("models are evaluated" in line for line in lines)


def test_lines_for_a_log_say_who_is_waited_for() -> None:
    text = io.StringIO()
    lines = Progress(Console(file=text, width=40), every=5.0, clock=_Clock())
    lines.on_setup(schemes.uncoded(4), 3)
    lines.on_starting(4)
    lines.on_start(0.5)
    for _ in range(5):
        lines.on_wait(0, [1, 3], 6.2)
    assert text.getvalue().splitlines()[1:] == ["step 1 of at most 3: waiting for 1, 3 (6.2 s)"]


def test_the_bar_says_that_models_are_evaluated() -> None:
    console, text = terminal()
    with Progress(console) as bar:
        bar.on_setup(schemes.uncoded(4), 3)
        bar.on_start(0.5)
        bar._last = 0.0  # as if the last drawing were long ago
        bar.on_evaluated(2, 60)
    assert "2 of 60 models are evaluated" in text.getvalue()


def test_a_short_run_has_no_such_lines_and_on_a_virtual_clock_nothing_is_started() -> None:
    text = io.StringIO()
    with Progress(Console(file=text)) as lines:
        watch([lines])
    assert text.getvalue() == ""


class _Display:
    """What a notebook shows: the lines that are there, and how often one was changed."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.changes = 0

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> _Handle:
        assert raw
        assert display_id
        self.shown.append(data)
        return _Handle(self, len(self.shown) - 1)


class _Handle:
    def __init__(self, display: _Display, place: int) -> None:
        self.display, self.place = display, place

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.display.shown[self.place] = data
        self.display.changes += 1


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> _Display:
    shell, display = types.ModuleType("IPython"), _Display()
    vars(shell)["get_ipython"] = lambda: types.SimpleNamespace(kernel=True)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return display


def test_in_a_notebook_there_is_a_line_for_each_run_and_the_last_one_stays(
    notebook: _Display, capfd: pytest.CaptureFixture[str]
) -> None:
    progress = Progress(clock=_Clock())
    watch([progress])
    watch([progress])
    assert capfd.readouterr() == ("", "")
    assert len(notebook.shown) == 2
    assert notebook.changes >= 2
    for line in notebook.shown:
        assert re.fullmatch(r"erasurehead: 8 steps: loss .*, [\d.]+ m?s", line["text/plain"])
        assert line["text/html"] == f"<div>{line['text/plain']}</div>"


def test_a_notebook_is_not_flooded(notebook: _Display) -> None:
    now = [0.0]
    progress = Progress(clock=lambda: now[0])
    progress.on_setup(schemes.uncoded(4), 100_000)
    progress.on_start(0.1)
    for step in range(100_000):
        now[0] += 1e-4  # ten seconds in all
        progress.on_wait(step, [1], 2.0)
    assert len(notebook.shown) == 1
    assert 40 <= notebook.changes <= 50
    assert notebook.shown[0]["text/plain"].startswith("uncoded: step ")
    assert notebook.shown[0]["text/html"].startswith('<div><progress value="0" max="100000"></progress> uncoded: step ')


def test_names_are_text_in_a_notebook(notebook: _Display) -> None:
    progress = Progress()
    progress.on_setup(replace(schemes.uncoded(4), name="<b>\x1b[31m"), 10)
    progress.on_starting(4)
    assert notebook.shown[0]["text/html"].endswith("&lt;b&gt;\\x1b[31m: starting 4 workers ...</div>")


def test_settings_of_a_plan_are_counted(notebook: _Display) -> None:
    settings = ["uncoded()", "exact(load=2)", "exact(load=3)"]
    planning.plan(delays.Exponential(0.5, seed=0), 6, settings=settings, steps=32, progress=Progress())
    assert [line["text/plain"] for line in notebook.shown] == ["3 of 3 done"]


def test_a_script_without_a_terminal_gets_a_last_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    watch([Progress()])
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"erasurehead: 8 steps: loss .*, [\d.]+ m?s\n", err)


def test_a_bar_that_nobody_ended_leaves_the_cursor_and_stdout() -> None:
    (console, text), stdout = terminal(), sys.stdout
    bar = Progress(console)
    bar.on_setup(schemes.uncoded(4), 3)  # and the engine fails to start
    assert text.getvalue().rfind("\x1b[?25h") > text.getvalue().rfind("\x1b[?25l")
    assert sys.stdout is stdout
