"""A process that imports everything once, and forks a process for each life of a drill.

A life takes a fraction of a second, but starting Python and importing what a run needs takes seconds.
`python -m erasurehead.drills._fork_server FOLDER SEED LIMIT` reads lines of JSON, [name, life], and answers each with
the result of that life.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

from erasurehead._internal.cleanup_process import MARK
from erasurehead.drills._coordinator import RUN_FILE, main as coordinate
from erasurehead.drills._supervisor import GRACE, CommandResult, kill_leftovers, running, tail_of
from erasurehead.errors import EngineError

_BEYOND = 120.0
"""Seconds beyond its limit after which a life is not waited for any more."""


@contextlib.contextmanager
def fork_server(folder: Path, seed: int, limit: float) -> Generator[Callable[[str, int], CommandResult]]:
    """Start the process, which ends with the block; yield what runs a life to its end (see `coordinator.main`).

    Arguments:
        folder: the folder of the drill, with its run file.
        seed: seed of the strikes.
        limit: seconds that one life may take.

    Raises:
        EngineError: from what is yielded, if the process itself has ended, or hangs.
    """
    words = ["-P", "-m", "erasurehead.drills._fork_server", str(folder), str(seed), str(limit)]
    with running([sys.executable, *words], interactive=True) as server:
        requests, answers = server.process.stdin, server.process.stdout
        assert requests is not None
        assert answers is not None

        def live(name: str, life: int) -> CommandResult:
            answer, longest = b"", limit + _BEYOND
            with contextlib.suppress(BrokenPipeError):
                requests.write(json.dumps([name, life]).encode() + b"\n")
                requests.flush()
                if not select.select([answers], [], [], longest)[0]:
                    raise EngineError(
                        f"the process that begins the lives of a drill has hung for {longest:.0f} seconds."
                    )
                answer = answers.readline()
            if not answer:
                raise EngineError(f"the process that begins the lives of a drill has ended: {tail_of(server.output)}")
            code, output, leftovers, files = json.loads(answer)
            return CommandResult(code, output, tuple(leftovers), tuple(files))

        try:
            yield live
        finally:
            with contextlib.suppress(BrokenPipeError):
                requests.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(5.0)


def main(folder: Path, seed: int, limit: float) -> None:
    """Fork a process for each line of the input."""
    _import_all(folder)
    answers = os.dup(sys.stdout.fileno())  # not inherited by exec; forked children close it
    while line := sys.stdin.buffer.readline():
        name, life = json.loads(line)
        temporary = tempfile.mkdtemp(prefix=f"{name}-")
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                os.close(answers)
                _set_up_child(temporary, output.fileno())
                coordinate(folder, name, seed, life)
                return
            code = _wait_for(child, limit)
            leftovers = kill_leftovers(os.environ[MARK], 0.0 if code is None else GRACE)
            answer = [code, tail_of(output), leftovers, sorted(os.listdir(temporary))]
        shutil.rmtree(temporary, ignore_errors=True)
        os.write(answers, json.dumps(answer).encode() + b"\n")


def _import_all(folder: Path) -> None:
    """Import what a life needs, without starting anything."""
    from erasurehead.runs import Experiment
    from erasurehead.runs._config.checking import read_config

    Experiment.from_config(read_config(folder / RUN_FILE)).engine()
    gc.collect()
    gc.freeze()  # so that the collectors of children do not touch these objects, and their memory stays shared


def _set_up_child(temporary: str, output: int) -> None:
    """Give a forked process streams and a folder for temporary files of its own."""
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["TMPDIR"] = tempfile.tempdir = temporary


def _wait_for(child: int, limit: float) -> int | None:
    """Wait for a child, and return its exit code, negative for a signal; None if it took too long and was killed."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
