"""Signals that end a command, in a process of its own: the first one ends it cleanly, whichever command it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from erasurehead.runs import RunFolder

from ..bounded import PATIENCE
from ..forks import Forked
from ..typed import other
from .shop import SMALL, Typed

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
HELD = """
import os, signal
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)
def hold(times):
    for number in range(times if not os.path.exists("held-0") else 0):
        open(f"held-{number}", "x").close()
        os.read(reader, 1)
"""
"""Statements that define `hold`, which waits for signals once, whenever they come."""


def at_a_word(word: str) -> str:
    """Return statements that let a command wait for a signal when it has said something."""
    return f"""
from erasurehead.cli._output import Screen
say = Screen.say
def held(screen, text):
    say(screen, text)
    if text.strip().startswith({word!r}):
        hold(1)
Screen.say = held
"""


AT_A_STEP = """
from erasurehead.runs import Recorder
on_step_end = Recorder.on_step_end
def held(recorder, row, x):
    on_step_end(recorder, row, x)
    if row.step == 3:
        hold(1)
Recorder.on_step_end = held
"""
"""Statements that let a run with a coordinator wait for a signal in a step."""


def at_a_mean(step: float, times: int = 1) -> str:
    """Return statements that let a run without a coordinator wait for signals at an evaluation."""
    return f"""
from erasurehead.consensus._recorder import PeerRecorder
on_mean = PeerRecorder.on_mean
def held(recorder, row):
    on_mean(recorder, row)
    if row.step >= {step}:
        hold({times})
PeerRecorder.on_mean = held
"""


pytestmark = pytest.mark.usefixtures("shop", "typed")  # a file of data, in a folder that commands run in


def started(*words: object, before: str) -> Forked:
    """Start a command, with statements before it."""
    return Forked(
        f"import sys; exec({HELD + before!r}); from erasurehead.cli import main; sys.argv[0] = 'erasurehead'; main()",
        *words,
    )


def send(process: Forked, *numbers: signal.Signals) -> tuple[str, str]:
    """Send signals to a command as soon as it waits for them, and return what it prints and says until its end."""
    end = time.monotonic() + PATIENCE
    for number, one in enumerate(numbers):
        while not Path(f"held-{number}").exists():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.01)
        os.kill(process.pid, one)
    return process.communicate(timeout=PATIENCE)


def peers(*more: object) -> tuple[object, ...]:
    return (
        "consensus",
        "--data",
        "shop.csv",
        "--categorical",
        "--peers",
        4,
        "--graph",
        "ring()",
        "--no-against-full",
        *more,
    )


RECORDS = ("peers.jsonl", "means.jsonl", "view_changes.jsonl", "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_peers_end_at_the_next_evaluation_and_go_on_to_the_same_bits(typed: Typed, number: signal.Signals) -> None:
    words = peers("--steps", 20, "--no-pictures")
    assert typed(*words, "--out", "whole", "--quiet").code == 0
    process = started(*words, "--out", "run", before=at_a_mean(8))
    out, said = send(process, number)
    name = "Ctrl-C" if number == signal.SIGINT else number.name
    assert process.returncode == 130, said
    assert f"ended early: stopped by {name}" in out
    assert "To resume it from its last checkpoint: erasurehead consensus --resume run" in said
    summary = RunFolder.open("run").summary
    assert (summary["status"], summary["reason"], summary["steps"]) == ("interrupted", f"stopped by {name}", 32)
    assert typed("consensus", "--resume", "run", "--quiet", "--no-pictures").code == 0
    assert all((Path("run") / one).read_bytes() == (Path("whole") / one).read_bytes() for one in RECORDS)


@pytest.mark.slow
def test_a_second_signal_ends_peers_at_once_and_they_go_on_from_an_earlier_checkpoint(typed: Typed) -> None:
    words = peers("--steps", 20, "--no-pictures")
    typed(*words, "--out", "whole", "--quiet")
    process = started(*words, "--out", "run", "--checkpoint-every", 4, before=at_a_mean(8, times=2))
    _, said = send(process, signal.SIGUSR1, signal.SIGTERM)
    assert process.returncode == 130, said
    assert said.endswith("erasurehead: Stopped by SIGTERM.\n")
    assert "The run's folder is run. To resume it from its last checkpoint: erasurehead consensus --resume run" in said
    assert not (Path("run") / "model.safetensors").exists()
    assert typed("consensus", "--resume", "run", "--quiet", "--no-pictures").code == 0
    assert all((Path("run") / one).read_bytes() == (Path("whole") / one).read_bytes() for one in RECORDS)


@pytest.mark.slow
def test_a_comparison_that_is_ended_names_what_was_not_raced_and_draws_nothing() -> None:
    """Figures took seconds that a batch system may not leave, and nothing was said of the other schemes."""
    words = (
        "compare",
        "--data",
        "shop.csv",
        "--categorical",
        "--engine",
        "virtual",
        "-w",
        4,
        "-n",
        20,
        "--out",
        "race",
    )
    process = started(*words, "-s", "uncoded", "-s", "exact(load=2)", "-s", "adaptive", before=AT_A_STEP)
    out, said = send(process, signal.SIGTERM)
    assert process.returncode == 130, said
    assert "uncoded ended early: stopped by SIGTERM" in out
    assert "Stopped before these were raced: exact; adaptive; adaptive, waiting for all." in said
    assert not list(Path("race").rglob("*.png"))


@pytest.mark.slow
@pytest.mark.processes
def test_real_peers_end_before_their_next_evaluation() -> None:
    words = peers("--engine", "processes", "--delays", "exponential(mean=0.02)", "--steps", 100_000)
    process = started(*words, "--evaluate-every", 50_000, "--out", "run", before=at_a_mean(0))
    out, said = send(process, signal.SIGTERM)
    assert process.returncode == 130, said
    assert "ended early: stopped by SIGTERM" in out
    assert RunFolder.open("run").summary["status"] == "interrupted"
    assert (Path("run") / "model.safetensors").exists()
    assert not (Path("run") / "figures").exists()  # a batch system is in a hurry


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_to_the_whole_group_ends_the_run_and_nobody_is_said_to_have_died(number: signal.Signals) -> None:
    before = f"""
from erasurehead.runs import Recorder
on_step_end = Recorder.on_step_end
def struck(recorder, row, x):
    on_step_end(recorder, row, x)
    if row.step == 3:  # workers may hear of it before the coordinator does
        ours = signal.signal({int(number)}, signal.SIG_IGN)
        os.killpg(0, {int(number)})
        signal.signal({int(number)}, ours)
    if row.step == 6:
        os.kill(os.getpid(), {int(number)})
Recorder.on_step_end = struck
"""
    words = (
        "train",
        "--data",
        "shop.csv",
        *other(SMALL, "--engine", "processes", "--delays", "none()", "--steps", 100_000),
    )
    process = started(*words, "--out", "run", before=before)
    out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said
    assert "after 7 of 100,000 steps" in out
    assert "worker" not in said.partition("starting 6 workers ...")[2]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP])
@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("train", "--data", "shop.csv", *SMALL), ""),
        (("compare", "--data", "shop.csv", *SMALL, "-s", "uncoded", "-s", "exact(load=2)", "--no-figures"), ""),
        (("consensus", "--data", "shop.csv", "--categorical", "--peers", 4, "--steps", 3), "full waiting"),
        (("drill", "--workers", 6, "--seconds", 12), "the baseline run"),
        (("drill", "peers", "--peers", 6, "--seconds", 12, "--policy", "local()"), "the baseline run"),
        (("plan", "--delays", "exponential(mean=0.5)", "--workers", 6), "trying"),
        (("reproduce", "erasurehead", "--figure", "2a", "--synthetic", "always", "--rows", 300), "making"),
        (("reproduce", "dybw", "--figure", "mnist-lrm-6", "--synthetic", "always", "--rows", 300), "making"),
        (("shard", "shop.csv", "--label", "bought", "--categorical", "--tasks", 4), "reading"),
    ],
    ids=["train", "compare", "consensus", "drill", "drill-peers", "plan", "reproduce", "reproduce-dybw", "shard"],
)
def test_every_command_that_takes_long_is_ended_in_a_sentence(
    words: tuple[object, ...], word: str, number: signal.Signals
) -> None:
    process = started(*words, "--out", "out", before=at_a_word(word) if word else AT_A_STEP)
    out, said = send(process, number)
    assert process.returncode == 130, said
    assert f"topped by {number.name}" in out + said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_signals_that_come_while_an_ended_command_says_so_and_exits_change_nothing(number: signal.Signals) -> None:
    again = f"""
import atexit, typer
atexit.register(signal.raise_signal, {int(number)})
echo = typer.echo
def echoed(*words, **more):
    for _ in range(2):
        signal.raise_signal({int(number)})
        echo(*words, **more)
typer.echo = echoed
"""
    words = ("plan", "--delays", "exponential(mean=0.5)", "--workers", 6)
    code = f"import sys; exec({HELD + at_a_word('trying') + again!r}); from erasurehead.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words), "--out", "out"], stderr=subprocess.PIPE, text=True
    )
    while not Path("held-0").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130, said
    assert said.count("erasurehead: Stopped by SIGTERM.") == 2
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.slow
def test_a_signal_after_a_finished_command_changes_nothing_and_one_long_after_it_ends_the_process() -> None:
    def ended(before: str) -> subprocess.CompletedProcess[str]:
        code = f"import atexit, signal; {before}; from erasurehead.cli import main; main()"
        words = [sys.executable, "-c", code, "data", "shop.csv", "--label", "bought", "--categorical"]
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)

    done = ended("atexit.register(signal.raise_signal, signal.SIGINT)")
    assert (done.returncode, "Exception ignored" in done.stderr, "Traceback" in done.stderr) == (0, False, False)
    stuck = ended(
        "import time; monotonic = time.monotonic; "
        "late = lambda: (setattr(time, 'monotonic', lambda: monotonic() + 60), signal.raise_signal(signal.SIGTERM)); "
        "import threading; threading._register_atexit(late)"
    )
    assert stuck.returncode == 130
