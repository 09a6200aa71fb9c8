"""The command line with real workers: interrupted, and killed at every end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from erasurehead.runs import RunFolder

from ..bounded import PATIENCE, PROMPT, left_of
from .shop import write_shop

pytestmark = [
    pytest.mark.processes,
    pytest.mark.usefixtures("nothing_is_left_in_shared_memory"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"),
]

Descendants = dict[int, int]
"""Process -> its parent."""


HELD = """
import os, time
from erasurehead.runs import Recorder
on_step_end = Recorder.on_step_end
def held(recorder, row, x):
    on_step_end(recorder, row, x)
    while row.step == 3 and not os.path.exists("go on"):
        time.sleep(0.01)
Recorder.on_step_end = held
"""
"""Statements that let a run wait in a step, once that is recorded, until there is a file."""


class Typed:
    """A command that runs in a process group of its own, as from a terminal, with statements before it."""

    def __init__(self, folder: Path, *options: str, before: str = "pass") -> None:
        self.folder = folder / "out"
        command = f"exec({before!r}); from erasurehead.cli import main; main()"
        arguments = ["train", "--data", "shop.csv", "--categorical", "--workers", "6", "--out", "out", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds, as long as the command runs."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            try:
                self.process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"the command ended too early: {self.process.communicate()}")

    def steps(self) -> int:
        """Return how many steps are recorded."""
        path = self.folder / "steps.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def finish(self) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def family(self) -> Descendants:
        """Return all processes below the command."""
        parents = dict(_processes())
        found: Descendants = {}
        for pid in parents:
            above = pid
            while above in parents and above != self.process.pid:
                above = parents[above]
            if above == self.process.pid and pid != above:
                found[pid] = parents[pid]
        return found

    def workers(self) -> list[int]:
        """Return the processes that the server has forked, in the order of their start."""
        family = self.family()
        return sorted(pid for pid, parent in family.items() if parent in family)

    def wait_until_gone(self, family: Descendants, within: float) -> None:
        """Wait until none of these processes is there any more."""
        deadline = time.monotonic() + within
        while living := set(family) & {pid for pid, _ in _processes()}:
            if time.monotonic() > deadline:
                pytest.fail(f"processes {sorted(living)} are still there after {within} s")
            time.sleep(0.02)


def _processes() -> Iterator[tuple[int, int]]:
    """Yield every process that is not dead, with its parent."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state not in "ZX":
                yield int(entry.name), int(parent)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Typed]]:
    write_shop(tmp_path / "shop.csv")
    begun: list[Typed] = []

    def typed(*options: str, before: str = "pass") -> Typed:
        begun.append(Typed(tmp_path, *options, before=before))
        return begun[-1]

    yield typed
    for command in begun:
        command.process.kill()
        command.process.communicate()


LONG = ("--preset", "paper", "--steps", "100000", "--delays", "exponential(mean=0.02)")


def test_ctrl_c_ends_everything_and_keeps_the_records(start: Callable[..., Typed]) -> None:
    command = start(*LONG)
    command.wait_until(lambda: command.steps() >= 5)
    family = command.family()
    assert len(command.workers()) == 6
    os.killpg(command.process.pid, signal.SIGINT)  # a terminal sends it to all of them
    code, out, err = command.finish()
    assert code == 130, err
    assert "stopped by Ctrl-C after" in out
    assert "Traceback" not in err
    command.wait_until_gone(family, within=PROMPT)
    folder = RunFolder.open(command.folder)
    run = folder.run
    assert [row.step for row in run.steps] == list(range(len(run.steps)))
    assert len(run.steps) >= 5
    assert {row.step for row in run.arrivals} == set(range(len(run.steps)))
    assert (folder.summary["status"], run.stopped) == ("interrupted", "stopped by Ctrl-C")
    assert folder.x.any()


def test_ctrl_c_before_the_workers_are_there_leaves_nothing(start: Callable[..., Typed]) -> None:
    command = start(*LONG)
    command.wait_until(lambda: bool(command.family()))
    family = command.family()
    os.killpg(command.process.pid, signal.SIGINT)
    code, out, err = command.finish()
    assert code == 130, err
    assert "topped by Ctrl-C" in out + err  # on a busy machine, they may be there by then
    assert "Traceback" not in err  # of the fork server neither, which the signal reaches too
    command.wait_until_gone(family, within=PROMPT)


@pytest.mark.parametrize("policy", ["replace", "leave"])
def test_a_killed_worker_is_named_and_replaced_or_left_out(start: Callable[..., Typed], policy: str) -> None:
    settings = ("--preset", "paper", "--steps", "20", "--delays", "exponential(mean=0.05)")
    command = start(*settings, "--json", "--on-death", policy, before=HELD)
    command.wait_until(lambda: command.steps() >= 3)
    killed = command.workers()[0]
    os.kill(killed, signal.SIGKILL)
    assert left_of([killed]) == []
    (command.folder.parent / "go on").touch()
    code, out, err = command.finish()
    assert code == 0, err
    assert "died: killed by SIGKILL" in err
    assert ("another takes its place" in err) == (policy == "replace")
    steps = RunFolder.open(command.folder).run.steps
    assert len(steps) == 20
    assert len(steps[-1].dead) == len(json.loads(out)["dead"]) == (0 if policy == "replace" else 1)


def test_a_run_that_cannot_go_on_says_which_tasks_are_lost(start: Callable[..., Typed]) -> None:
    command = start("--scheme", "uncoded", "--on-death", "leave", *LONG)
    command.wait_until(lambda: command.steps() >= 3)
    family = command.family()
    os.kill(command.workers()[0], signal.SIGKILL)
    code, _, err = command.finish()
    assert code == 1
    assert "the wait rule decodable() cannot be met any more" in err
    assert "is lost with it" in err
    assert "Traceback" not in err
    command.wait_until_gone(family, within=PROMPT)
    assert RunFolder.open(command.folder).summary["status"] == "unreachable"


def test_when_the_coordinator_is_killed_the_workers_go_too(start: Callable[..., Typed]) -> None:
    command = start(*LONG)
    command.wait_until(lambda: command.steps() >= 3)
    family = command.family()
    command.process.kill()
    command.process.wait()
    command.wait_until_gone(family, within=PROMPT)
    run = RunFolder.open(command.folder).run
    assert len(run.steps) >= 3
    assert run.stopped == "cut off, or still going on"
