"""A process that has imported everything, and forks one life after the other.

A life takes a fraction of a second, and starting Python with all that a run needs takes seconds.
`python -m erasurehead.drills.nursery FOLDER SEED LIMIT` reads lines of JSON, [name, life], and answers each with how
that life ended.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self, final

from erasurehead.drills.coordinator import RUN_FILE
from erasurehead.drills.keeper import MARK
from erasurehead.drills.life import main as live
from erasurehead.drills.supervisor import GRACE, Played, begun, said_by, sweep
from erasurehead.errors import EngineError


@final
class Nursery:
    """The process, seen from where it is asked. It is started at once, and ends with the `with` block.

    Arguments:
        folder: of the drill, with its run file.
        seed: of the strikes.
        limit: seconds that one life may take.
    """

    def __init__(self, folder: Path, seed: int, limit: float) -> None:
        words = ["-P", "-m", "erasurehead.drills.nursery", str(folder), str(seed), str(limit)]
        self._ends = contextlib.ExitStack()
        self._begun = self._ends.enter_context(begun([sys.executable, *words], asked=True))

    def live(self, name: str, life: int) -> Played:
        """Have a life lived to its end; arguments as for `life.main`.

        Raises:
            EngineError: if the process itself has ended.
        """
        asked, answers = self._begun.process.stdin, self._begun.process.stdout
        assert asked is not None
        assert answers is not None
        answer = b""
        with contextlib.suppress(BrokenPipeError):
            asked.write(json.dumps([name, life]).encode() + b"\n")
            asked.flush()
            answer = answers.readline()
        if not answer:
            raise EngineError(f"the process that begins the lives of a drill has ended: {said_by(self._begun.said)}")
        code, said, left, files = json.loads(answer)
        return Played(code, said, tuple(left), tuple(files))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._begun.process
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
        self._ends.close()


def main(folder: Path, seed: int, limit: float) -> None:
    """Fork a life for each line that is read, until there are no more."""
    _import_all(folder)
    answers = os.dup(sys.stdout.fileno())  # no child inherits it by exec, and forked ones close it
    while line := sys.stdin.buffer.readline():
        name, life = json.loads(line)
        own = tempfile.mkdtemp(prefix=f"{name}-")
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if child == 0:
                os.close(answers)
                _become(own, said.fileno())
                live(folder, name, seed, life)
                return
            code = _ended(child, limit)
            left = sweep(os.environ[MARK], 0.0 if code is None else GRACE)
            answer = [code, said_by(said), left, sorted(os.listdir(own))]
        shutil.rmtree(own, ignore_errors=True)
        os.write(answers, json.dumps(answer).encode() + b"\n")


def _import_all(folder: Path) -> None:
    """Import what a life needs, and start nothing."""
    from erasurehead.runs.config.checking import read_config
    from erasurehead.runs.experiment import Experiment

    Experiment.from_config(read_config(folder / RUN_FILE)).engine()
    gc.collect()
    gc.freeze()  # what is here is left alone by the collector of every child, so that its memory stays shared


def _become(own: str, said: int) -> None:
    """Be a process as if it had been started: with streams and a folder for temporary files of its own."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ["TMPDIR"] = tempfile.tempdir = own


def _ended(child: int, limit: float) -> int | None:
    """Wait for a child; return its exit code, negative for a signal, or None if it took too long and was ended."""
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
