"""Ranks that are killed, stopped and replaced, the one that gathers included, under the launchers that are here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ..bounded import PATIENCE, PROMPT
from ..engines import mpi_jobs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux"),
    pytest.mark.processes,
    pytest.mark.slow,
]

PROGRAM = Path(__file__).with_name("local_rank.py")
KILLS = int(os.environ.get("ERASUREHEAD_KILLS", "2"))
"""How many times a rank is killed in the longest test, before two at once; forty tell more."""

OURS = [sys.executable, "-m", "erasurehead.torch.run", "-n", "{n}", "--restarts", "{restarts}"]
MPIEXEC = [mpi_jobs.MPIEXEC, "--oversubscribe", "-n", "{n}", sys.executable]
RECOVERY = [mpi_jobs.MPIEXEC, "--enable-recovery", *MPIEXEC[1:]]
_BY_SLURM = ["srun"] if shutil.which("srun") else [sys.executable, str(Path(__file__).with_name("stand_in_srun.py"))]
SRUN = [*_BY_SLURM, "-n", "{n}", "--kill-on-bad-exit=0", sys.executable]
SRUN_ALL = [*_BY_SLURM, "-n", "{n}", "--kill-on-bad-exit=1", sys.executable]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "{n}"]
RAY_TRAIN = [sys.executable, str(Path(__file__).with_name("ray_train.py")), "{n}", "{restarts}"]


class Team:
    """A launcher with its ranks, and what they have said."""

    def __init__(self, command: Sequence[str], stop: Path, n: int, restarts: int) -> None:
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not here")
        self.n, self.stop, self.stopped = n, stop, Counter[int]()
        self.said: list[dict[str, Any]] = []
        self.told: list[str] = []
        words = [word.format(n=n, restarts=restarts) for word in command]
        self.launcher = subprocess.Popen(
            [*words, str(PROGRAM), str(stop), "0.02"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=mpi_jobs.environment(stop.parent) if command[0] == mpi_jobs.MPIEXEC else None,
        )
        self._threads = [
            threading.Thread(target=self._listen, args=(stream,))
            for stream in (self.launcher.stdout, self.launcher.stderr)
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self, stream: Any) -> None:
        with stream:
            for line in stream:
                begin = line.find("{")
                try:
                    self.said.append(json.loads(line[begin:]))
                except ValueError:
                    self.told.append(line)

    @property
    def pids(self) -> dict[int, int]:
        """By rank, the process of each that has begun."""
        return {said["up"]: said["pid"] for said in list(self.said) if "up" in said}

    @property
    def closings(self) -> list[dict[str, Any]]:
        """The versions that were closed, in the order of time."""
        return sorted((said for said in list(self.said) if "closed" in said), key=lambda said: said["at"])

    def until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready() and time.monotonic() < deadline and self.launcher.poll() is None:
            time.sleep(0.02)
        assert ready(), "".join(self.told)

    def goes_on(self, count: int = 30) -> None:
        """Wait until so many more versions were closed."""
        before = len(self.closings)
        self.until(lambda: len(self.closings) >= before + count)

    def strike(self, ranks: Sequence[int], number: signal.Signals = signal.SIGKILL) -> None:
        for rank in ranks:
            self.stopped[rank] += number == signal.SIGSTOP
            os.kill(self.pids[rank], number)

    def end(self) -> int:
        """Have all ranks end, and return the launcher's exit code."""
        self.stop.touch()
        code = self.launcher.wait(PATIENCE)
        for thread in self._threads:
            thread.join()
        return code

    def all_end(self) -> None:
        """Wait until the launcher has ended with an error, and all ranks with it."""
        assert self.launcher.wait(PATIENCE) != 0
        deadline = time.monotonic() + PROMPT  # some send a signal, and do not wait for what comes of it
        while any(os.path.exists(f"/proc/{pid}") for pid in self.pids.values()):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def all_begin_anew(self, victim: int) -> None:
        """Kill a rank, and wait until all others have begun anew, as another team."""
        before = set(self.pids.values())
        self.strike([victim])
        self.until(lambda: len(self.pids) == self.n and not before & set(self.pids.values()))
        self.goes_on()
        assert self.closings[-1]["term"] == 0
        assert self.closings[-1]["closed"] < len(self.closings)  # from the beginning, or from what the script has saved

    def hangs_and_comes_back(self, victim: int) -> None:
        """Stop a rank of three, wait until the others go on, and continue it."""
        others = [rank for rank in range(3) if rank != victim]
        self.strike([victim], signal.SIGSTOP)
        self.until(lambda: self.closings[-1]["members"] == others)
        self.goes_on()
        self.strike([victim], signal.SIGCONT)
        self.until(lambda: self.closings[-1]["members"] == [0, 1, 2])

    def chain(self) -> list[dict[str, Any]]:
        """Return the versions that the last one is made of: those of a later term replace those of the same number."""
        kept: list[dict[str, Any]] = []
        for said in sorted(self.closings, key=lambda said: (said["term"], said["closed"])):
            while kept and kept[-1]["closed"] >= said["closed"]:
                kept.pop()
            kept.append(said)
        return kept

    def lost_steps(self) -> dict[int, int]:
        """Return, by rank that has ended by itself, how many of its steps are in no version."""
        chain = self.chain()
        return {
            said["ended"]: said["steps"] - sum(version["steps"].get(str(said["ended"]), 0) for version in chain)
            for said in self.said
            if "ended" in said
        }

    def check_losses(self, count: int) -> None:
        """So many ranks have ended by themselves, and each has lost a step at most with each that gathered."""
        lost = self.lost_steps()
        terms = sorted({(said["term"], said["by"]) for said in self.closings})
        changes = sum(before[1] != after[1] for before, after in pairwise(terms))
        assert len(lost) == count
        assert all(0 <= steps <= changes for steps in lost.values()), (lost, changes)

    def check_one_team(self) -> None:
        """No two ranks closed versions at the same time.

        Who is stopped in the midst of that, and continued, ends what it was at; but nobody hears of that version.
        """
        newest, late = 0, list[dict[str, Any]]()
        for said in self.closings:
            late += [said] * (said["term"] < newest)
            newest = max(newest, said["term"])
        assert Counter(said["by"] for said in late) <= self.stopped
        assert not any(said in self.chain() for said in late)
        assert len({(said["term"], said["by"]) for said in self.closings}) == len(
            {said["term"] for said in self.closings}
        )
        numbers = [said["closed"] for said in self.chain()]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@contextmanager
def team(command: Sequence[str], folder: Path, n: int = 3, restarts: int = 0) -> Generator[Team]:
    found = Team(command, folder / "stop", n, restarts)
    try:
        found.until(lambda: len(found.pids) == n)
        found.goes_on()
        yield found
    finally:
        found.stop.touch()
        for pid in found.pids.values():
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        found.launcher.terminate()
        try:
            found.end()
        finally:
            found.launcher.kill()


@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
@pytest.mark.parametrize(
    ("command", "code"),
    [(OURS, 0), (RECOVERY, 0), (SRUN, 128 + signal.SIGKILL)],
    ids=["ours", "mpiexec --enable-recovery", "srun --kill-on-bad-exit=0"],
)
def test_the_others_go_on_when_a_rank_dies(tmp_path: Path, command: list[str], code: int) -> None:
    """One that does not gather dies, and then the one that does."""
    with team(command, tmp_path, n=4) as ranks:
        others = [0, 1, 2, 3]
        for victim in (2, 0):
            ranks.strike([victim])
            others.remove(victim)
            ranks.until(lambda: ranks.closings[-1]["members"] == others)
            ranks.goes_on()
            assert ranks.closings[-1]["members"] == others
        assert ranks.end() == code
        ranks.check_one_team()
        ranks.check_losses(2)


@pytest.mark.parametrize("command", [MPIEXEC, SRUN_ALL], ids=["mpiexec", "srun"])
def test_some_launchers_end_all_when_a_rank_dies(tmp_path: Path, command: list[str]) -> None:
    with team(command, tmp_path) as ranks:
        ranks.strike([0])
        ranks.all_end()


@pytest.mark.parametrize(
    "command", [OURS, MPIEXEC, RECOVERY, SRUN], ids=["ours", "mpiexec", "mpiexec --enable-recovery", "srun"]
)
def test_the_others_go_on_when_a_rank_hangs_and_it_comes_back(tmp_path: Path, command: list[str]) -> None:
    """One that does not gather hangs, and then the one that does."""
    with team(command, tmp_path) as ranks:
        for victim in (2, 0):
            ranks.hangs_and_comes_back(victim)
        assert ranks.end() == 0
        ranks.check_one_team()


def test_torchrun_lets_ranks_hang_starts_all_again_when_one_dies_and_ends_all_when_the_next_does(
    tmp_path: Path,
) -> None:
    """One start of torchrun, as it takes long: first who does not gather hangs or dies, then who does."""
    pytest.importorskip("torch")
    with team([*TORCHRUN, "--max-restarts", "1"], tmp_path) as ranks:
        for victim in (2, 0):
            ranks.hangs_and_comes_back(victim)
        ranks.check_one_team()
        ranks.all_begin_anew(1)
        ranks.strike([ranks.closings[-1]["by"]])
        ranks.all_end()


def test_ray_train_lets_a_rank_hang_and_starts_all_again_when_one_dies(tmp_path: Path) -> None:
    """One start of Ray, as it takes long: a rank hangs; one dies, and all begin anew; who gathers dies, and all end."""
    pytest.importorskip("ray.train.torch")
    with team(RAY_TRAIN, tmp_path, restarts=1) as ranks:
        ranks.hangs_and_comes_back(0)
        ranks.goes_on()
        ranks.check_one_team()
        ranks.all_begin_anew(1)
        ranks.strike([0])
        ranks.all_end()


def test_any_rank_may_be_killed_again_and_again_and_another_joins_in_its_place(tmp_path: Path) -> None:
    """At most one step of each is lost each time, and only if it was the one that gathers."""
    with team(OURS, tmp_path, n=8, restarts=KILLS + 2) as ranks:
        alive = list(range(8))
        for kill in range(KILLS + 1):
            gathers = ranks.closings[-1]["by"]
            victims = alive[kill % 8 : kill % 8 + 1] if kill % 3 else [gathers]
            if kill == KILLS:
                victims = [gathers, next(rank for rank in alive if rank != gathers)]
            ranks.strike(victims)
            alive = [rank for rank in alive if rank not in victims]
            ranks.until(lambda: len(ranks.pids) == 8 + kill + len(victims))  # noqa: B023
            alive += sorted(ranks.pids)[-len(victims) :]
            ranks.until(lambda: ranks.closings[-1]["members"] == sorted(alive))  # noqa: B023
            ranks.goes_on(16)
        assert ranks.end() == 0
        ranks.check_one_team()
        ranks.check_losses(8)
