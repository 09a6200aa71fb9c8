"""The watch over the start of an MPI job: `python watch.py ...`, beside the ranks, with only the standard library.

MPI's own start waits for every rank, and keeps the interpreter from doing anything else meanwhile; if a rank dies
before MPI is up, and the job was started so that it bears deaths, it waits for ever. So a process beside the ranks
looks whether all of this machine are there. If one is missing for too long it says so, and ends the others.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

EVERY = 0.2
"""Seconds between two looks."""

UP = b"up"
"""What the watch is told when MPI is up."""

_PARTING = 3.0  # seconds that ranks have to end with an exit code

Rank = tuple[int, int]
"""Number of a rank, and of its process."""


def variables(process: str) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it has ended, or is not ours."""
    with contextlib.suppress(OSError):
        text = Path("/proc", process, "environ").read_bytes().decode(errors="replace")
        return dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)
    return {}


def parent(process: str) -> int:
    """Return the parent of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        return int(Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1])
    return 0


def ranks(launcher: int, job: dict[str, str], name: str) -> list[Rank]:
    """Return the ranks of a job that live on this machine.

    Arguments:
        launcher: the process that has started them.
        job: variables that all of them have.
        name: of the variable that says which rank a process is.
    """
    found: list[Rank] = []
    for folder in Path("/proc").glob("[0-9]*"):
        if parent(folder.name) == launcher:
            has = variables(folder.name)
            if has.get(name, "").isdecimal() and job.items() <= has.items():
                found.append((int(has[name]), int(folder.name)))
    return found


def kin(job: dict[str, str], name: str) -> list[int]:
    """Return all processes of a job's ranks on this machine: those that the launcher started through a shell, too."""
    mine = os.getpid()
    every = ((int(folder.name), variables(folder.name)) for folder in Path("/proc").glob("[0-9]*"))
    return [pid for pid, has in every if pid != mine and name in has and job.items() <= has.items()]


class RankWatch:
    """Looks who is there.

    Arguments:
        size: ranks of the job.
        here: ranks of the job on this machine.
        patience: seconds after the last rank came up for which one may be missing.
        limit: seconds that the start may take in all.
    """

    def __init__(self, size: int, here: int, patience: float, limit: float) -> None:
        self.size, self.here, self.patience, self.limit = size, here, patience, limit
        self.begin = self.last = time.monotonic()
        self.seen: set[int] = set()
        self.alive: set[int] = set()

    def look(self, alive: set[int], now: float) -> str:
        """Take note of who is there; return why the start has failed, empty as long as it has not."""
        if alive - self.seen:
            self.last = now
        self.seen |= alive
        self.alive = alive
        missing = self.here - len(alive)
        if missing > 0 and now - self.last >= self.patience:
            return f"{self._missing()}, {now - self.last:.0f} s after the last rank came up (start_patience)"
        if now - self.begin >= self.limit:
            who = f"although all {self.here} ranks of this machine are there" if missing <= 0 else self._missing()
            return f"it was not up within {self.limit:g} s (start_limit): {who}"
        return ""

    def _missing(self) -> str:
        gone = sorted(self.seen - self.alive)
        known = self.seen if self.here < self.size else set(range(self.size))
        absent = sorted(known - self.alive)
        unknown = self.here - len(self.alive) - len(absent)
        said = [f"rank{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}"] if absent else []
        said += [f"{unknown} rank{'s' * (unknown > 1)} that never came up"] if unknown > 0 else []
        is_are = "is" if self.here - len(self.alive) == 1 else "are"
        why = f" ({', '.join(map(str, gone))} came up and ended)" if gone else ""
        return f"{' and '.join(said)} of {self.size} {is_are} missing on {socket.gethostname()}{why}"


def main() -> int:
    """Watch until MPI is up, or has failed to come up."""
    parser = argparse.ArgumentParser()
    for name, kind in (("size", int), ("here", int), ("patience", float), ("limit", float), ("launcher", int)):
        parser.add_argument(name, type=kind)
    parser.add_argument("rank")
    parser.add_argument("job", nargs="*")
    given = parser.parse_args()
    job = dict(pair.split("=", 1) for pair in given.job)
    watch = RankWatch(given.size, given.here, given.patience, given.limit)
    listens = True
    while True:
        if listens and select.select([sys.stdin], [], [], EVERY)[0]:
            said = os.read(sys.stdin.fileno(), len(UP))
            if said:
                return 0
            listens = False  # our own rank is gone; the others are still watched
        elif not listens:
            time.sleep(EVERY)
        there = ranks(given.launcher, job, given.rank)
        if not there:
            return 0  # nobody is left to be waited for, or to be ended
        why = watch.look({number for number, _ in there}, time.monotonic())
        if why:
            break
    sys.stderr.write(f"erasurehead: MPI did not start: {why}. The job's ranks on this machine are ended.\n")
    sys.stderr.flush()
    deadline = time.monotonic() + _PARTING
    for pid in kin(job, given.rank):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGALRM)
    while (left := kin(job, given.rank)) and time.monotonic() < deadline:
        time.sleep(EVERY)
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return 1


if __name__ == "__main__":
    sys.exit(main())
