"""The server that workers are forked from may be stopped, hang, or find no room: no wait for it is without end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from erasurehead import schemes
from erasurehead.engines import ProcessEngine
from erasurehead.engines._processes import process_limits, server_watch
from erasurehead.optimizers import Nesterov
from erasurehead.runs._summaries import figures
from erasurehead.testing._driving import start
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Echo, Timetable
from erasurehead.training import Callback, Run, StepRow, train

from ..bounded import PATIENCE

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whether a process is stopped"),
]


STEPS, MOST = 20, 1_000


def server() -> int:
    found: Any = forkserver._forkserver  # type: ignore[attr-defined]
    return found._forkserver_pid


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class _Strike(Callback):
    """Does something after the second step, and ends the run some steps later, once so many workers have joined it."""

    def __init__(self, act: Callable[[], object], joins: int) -> None:
        self.act, self.joins = act, joins

    def on_step_end(self, row: StepRow, x: Any) -> None:
        self.joins -= len(row.workers_noticed("joined"))
        if row.step == 1:
            self.act()
        if row.step >= STEPS and self.joins <= 0:
            raise KeyboardInterrupt


def run(engine: ProcessEngine, act: Callable[[], object], joins: int) -> Run:
    problem, strike = Quadratic.random(24, 6, seed=4), _Strike(act, joins)
    done = train(
        problem, schemes.exact(6, 2), Nesterov(problem.initial(), 0.1), engine, MOST, [strike], evaluate_every=0
    )
    assert STEPS < done.steps_taken < MOST
    return done


def slow_engine() -> ProcessEngine:
    return ProcessEngine(Timetable({(worker, step, 0): 0.02 for worker in range(6) for step in range(MOST)}))


def test_one_that_was_stopped_goes_on_when_a_worker_has_died_and_so_does_the_run() -> None:
    engine = slow_engine()

    def strike() -> None:
        os.kill(server(), signal.SIGSTOP)
        engine.kill(0)

    told = figures(run(engine, strike, joins=1))
    assert (told["deaths"], told["joined"], told["dead"]) == (1, 1, [])
    assert state_of(server()) not in "Tt"


def test_one_that_does_not_answer_is_replaced_with_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_watch, "PATIENCE", 0.2)
    monkeypatch.setattr(server_watch, "let_go_on", lambda: False)  # it hangs, and is not only stopped
    monkeypatch.setattr("erasurehead.engines._processes.engine._KILLED", 0.5)
    engine, usual, kill = slow_engine(), server_watch.LONGEST, os.kill

    def strike() -> None:
        hangs = server()

        def killed(pid: int, number: int) -> None:
            if (pid, number) == (hangs, signal.SIGKILL):  # the next one may take its time, on a slow machine
                monkeypatch.setattr(server_watch, "LONGEST", usual)
            kill(pid, number)

        monkeypatch.setattr(os, "kill", killed)
        monkeypatch.setattr(server_watch, "LONGEST", 1.0)
        os.kill(hangs, signal.SIGSTOP)
        engine.kill(0)

    done = run(engine, strike, joins=6)
    told = figures(done)
    assert (told["workers_at_end"], told["dead"], told["deaths"]) == (6, [], 6)
    reason = next(notice.reason for notice in done.notices if notice.kind == "died")
    assert reason == "it ended, and the server that it was forked from does not say how"


def test_workers_are_ended_though_their_server_is_stopped_and_it_is_not_left_so() -> None:
    engine = ProcessEngine()
    start(engine, [Echo(worker, (0,)) for worker in range(3)])
    pids = [engine.pid(worker) for worker in range(3)]
    os.kill(server(), signal.SIGSTOP)
    engine.pause(1)
    before = time.monotonic()
    engine.close()
    assert time.monotonic() - before < PATIENCE / 2
    deadline = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert state_of(server()) not in "Tt"


_TOO_FEW = """
    import os, resource, sys
    import numpy as np
    from erasurehead.engines import ProcessEngine
    from erasurehead.errors import EngineError
    from erasurehead.testing._programs import Echo
    from erasurehead.testing._driving import start
    BEFORE
    try:
        with ProcessEngine() as engine:
            for worker in range(9):
                engine.assign(worker, Echo(worker, (0,)))
                AFTER
        print("no error")
    except EngineError as error:
        print(error)
"""


def said_where(before: str, after: str = "pass") -> str:
    program = textwrap.dedent(_TOO_FEW).replace("BEFORE", before).replace("AFTER", after)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


@contextmanager
def group(most: int) -> Iterator[Path]:
    """A control group that may have few processes."""
    place = Path("/sys/fs/cgroup/pids") / f"erasurehead-test-{os.getpid()}"
    if not place.parent.exists():
        place = Path("/sys/fs/cgroup") / place.name
    try:
        place.mkdir()
        (place / "pids.max").write_text(str(most))
    except OSError as error:
        if place.exists():
            place.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield place
    finally:
        deadline = time.monotonic() + PATIENCE
        while (place / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        place.rmdir()


@pytest.mark.parametrize("most", [2, 3, 4, 9])
def test_a_control_group_with_too_few_processes_is_named_and_no_traceback_is_shown(most: int) -> None:
    with group(most) as place:
        said = said_where(f"open('{place}/cgroup.procs', 'w').write(str(os.getpid()))")
    assert f"may have {most} processes and threads" in said
    assert f"(pids.max in {place})" in said
    assert said.startswith("worker ")
    assert "use fewer workers (--workers)" in said


def test_a_server_that_finds_no_room_for_one_worker_goes_on_with_the_others() -> None:
    count = "counts = [engine.pid(number) for number in range(worker + 1)]"
    with group(9) as place:
        said = said_where(f"open('{place}/cgroup.procs', 'w').write(str(os.getpid()))", count)
    assert said.split()[1] in "4567"  # not the first


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without processes")
def test_the_limit_of_a_user_is_named() -> None:
    said = said_where("os.setuid(54_321); resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))")
    assert "this user may have 1 processes and threads (RLIMIT_NPROC), and they are used up" in said
    assert "(ulimit -u)" in said


def test_memory_is_named_where_it_is_what_is_missing() -> None:
    assert "no memory for another process" in process_limits.why_no_process(errno.ENOMEM, "use fewer")
    assert "pids.max" in process_limits.why_no_process(errno.EAGAIN, "use fewer")
