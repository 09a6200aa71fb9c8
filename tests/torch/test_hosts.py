"""A team whose ranks are on several hosts, each a network namespace: slow, lossy and cut lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ..bounded import PATIENCE
from ..engines.namespaces import Network, several_hosts

pytest.importorskip("zmq")

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("host_rank.py")
LEASE = 3.0


class Ranks:
    """Processes of ranks, one a host, and all that they have said."""

    def __init__(self, network: Network, folder: Path, length: int) -> None:
        self.network = network
        self.said: list[tuple[int, dict[str, Any]]] = []
        self.errors: list[str] = []
        self._secret = folder / "secret"
        self._secret.write_bytes(os.urandom(32).hex().encode())
        self._secret.chmod(0o600)
        self._length = length
        self._listening: list[threading.Thread] = []
        self.processes: list[subprocess.Popen[str]] = []
        for number in range(len(network.hosts)):
            self.start(number, number)

    def start(self, number: int, host: int) -> None:
        hosts = self.network.hosts
        words = (number, len(hosts), hosts[0].address, 29_500, self._secret, self._length)
        command = hosts[host].command(sys.executable, str(PROGRAM), *map(str, words))
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        for stream, take in (
            (process.stdout, lambda line: self.said.append((number, json.loads(line)))),
            (process.stderr, self.errors.append),
        ):
            thread = threading.Thread(target=self._listen, args=(stream, take))
            thread.start()
            self._listening.append(thread)

    def _listen(self, stream: Any, take: Callable[[str], None]) -> None:
        with stream:
            for line in stream:
                take(line)

    def of(self, what: str) -> dict[int, dict[str, Any]]:
        """Return by rank what it has said of one kind, the last time."""
        return {number: said for number, said in list(self.said) if what in said}

    def closings(self) -> list[tuple[float, int, int, int]]:
        """Return time, term, version and rank of each version that was closed, in the order of time."""
        return sorted(
            (said["at"], said["term"], said["closed"], rank) for rank, said in list(self.said) if "closed" in said
        )

    def until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ready(), "".join(self.errors)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        for thread in self._listening:
            thread.join()

    def check_one_team(self) -> None:
        """No two ranks ever closed versions at the same time, nor the same version of a term twice."""
        closings = self.closings()
        assert [term for _, term, _, _ in closings] == sorted(term for _, term, _, _ in closings)
        assert len({(term, version) for _, term, version, _ in closings}) == len(closings)
        assert len({(term, rank) for _, term, _, rank in closings}) == len({term for _, term, _, _ in closings})


@contextmanager
def team(count: int, folder: Path, length: int = 1_000) -> Generator[Ranks]:
    with several_hosts(count) as network:
        ranks = Ranks(network, folder, length)
        try:
            yield ranks
        finally:
            ranks.close()


def all_up(ranks: Ranks) -> Callable[[], bool]:
    return lambda: len(ranks.of("up")) == len(ranks.processes)


def states(ranks: Ranks, but: int = 0) -> dict[int, dict[str, Any]]:
    """Ask all ranks that live where they are; `but` so many do not."""
    ranks.said[:] = [(number, said) for number, said in ranks.said if "state" not in said]
    for process in ranks.processes:
        if process.poll() is None:
            assert process.stdin is not None
            process.stdin.write("?\n")
            process.stdin.flush()
    ranks.until(lambda: len(ranks.of("state")) == len(ranks.processes) - but)
    return ranks.of("state")


@pytest.mark.parametrize("line", ["good", "20 ms", "5 ms, 2 ms more or less, 1% lost", "100 Mbit/s"])
def test_a_team_trains_over_any_line(tmp_path: Path, line: str) -> None:
    length = 250_000 if "Mbit" in line else 1_000  # a megabyte takes 80 ms then, and nobody waits for it
    with team(3, tmp_path, length) as ranks:
        for host in ranks.network.hosts:
            if "Mbit" in line:
                ranks.network.slow(host, 12_500)
            elif line == "20 ms":
                ranks.network.worsen(host, 0.02)
            elif "lost" in line:
                ranks.network.worsen(host, 0.005, 0.002, 0.01)
        ranks.until(all_up(ranks))
        ranks.until(lambda: len(ranks.closings()) > 100 or ("Mbit" in line and len(ranks.closings()) > 10))
        ended = states(ranks)
        ranks.check_one_team()
    assert ranks.errors == []
    assert {one["term"] for one in ended.values()} == {0}
    for one in ended.values():
        low, high = one["model"]
        assert low == high  # nothing was torn
        assert one["took"] < 0.02  # as a rule, steps do not wait for the line, whatever else there is


def test_nobody_is_taken_for_dead_where_a_model_takes_longer_than_that_would(tmp_path: Path) -> None:
    with team(3, tmp_path, 500_000) as ranks:  # two megabytes, which take four seconds, and eight to both others
        for host in ranks.network.hosts:
            ranks.network.slow(host, 500)
        ranks.until(all_up(ranks))
        ranks.until(lambda: all(one["newest"][1] > 1 for one in states(ranks).values()))
        ended = states(ranks)
        ranks.check_one_team()
        closings = ranks.closings()
    assert {term for _, term, _, _ in closings} == {one["term"] for one in ended.values()} == {0}
    assert [one["members"] for one in ended.values()] == [[0, 1, 2]] * 3


def test_the_host_that_gathers_is_lost_and_another_goes_on(tmp_path: Path) -> None:
    with team(4, tmp_path) as ranks:
        ranks.until(all_up(ranks))
        ranks.until(lambda: len(ranks.closings()) > 50)
        ranks.network.kill(ranks.network.hosts[0])
        before = max(version for _, _, version, rank in ranks.closings() if rank == 0)
        ranks.until(lambda: ranks.closings()[-1][2] > before + 50)
        ranks.until(lambda: all(one["members"] == [1, 2, 3] for one in states(ranks, but=1).values()))
        ended = states(ranks, but=1)
        ranks.check_one_team()
        closings = ranks.closings()
    before = max(version for _, _, version, rank in closings if rank == 0)
    after = [(version, rank) for _, _, version, rank in closings if rank != 0]
    assert len(after) > 50
    assert min(version for version, _ in after) <= before + 1
    assert len({(one["term"], one["gathers"]) for one in ended.values()}) == 1


@pytest.mark.parametrize("side", [(0,), (0, 1), (3,)])
def test_a_partition_ends_in_one_team(tmp_path: Path, side: tuple[int, ...]) -> None:
    with team(4, tmp_path, length=1_000) as ranks:
        ranks.until(all_up(ranks))
        ranks.until(lambda: len(ranks.closings()) > 50)
        ranks.network.split([ranks.network.hosts[number] for number in side])
        begin = time.monotonic()
        goes_on = set(side) if len(side) == 2 else set(range(4)) - set(side)  # of halves that with the lowest rank
        ranks.until(lambda: {rank for at, _, _, rank in ranks.closings()[-20:] if at > begin + LEASE} <= goes_on)
        ranks.until(lambda: len([at for at, _, _, _ in ranks.closings() if at > begin + LEASE]) > 50)
        ranks.network.join()
        healed = time.monotonic()
        ranks.until(lambda: all(one["members"] == [0, 1, 2, 3] for one in states(ranks).values()))
        count = len(ranks.closings())
        ranks.until(lambda: len(ranks.closings()) > count + 50)
        last = max(version for _, _, version, _ in ranks.closings())
        ranks.until(lambda: all(one["newest"][1] >= last for one in states(ranks).values()))
        ended = states(ranks)
        ranks.check_one_team()
        closings = ranks.closings()
    assert {rank for at, _, _, rank in closings if begin + LEASE < at < healed} <= goes_on
    assert len({(one["term"], one["gathers"]) for one in ended.values()}) == 1


BY_SRUN = """
import os, sys
import torch
import erasurehead.torch as eht
team = eht.join(trusted_network=True)
model = torch.nn.Linear(2, 1)
optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
for step in range(20):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).square().mean().backward()
    optimizer.step()
team.close()
sys.stdout.write(f"rank {team.rank} of {team.size} is through")
"""


@pytest.mark.usefixtures("quick_start")
def test_ranks_that_srun_has_started_find_the_first_host_by_themselves() -> None:
    pytest.importorskip("torch")
    step = {
        "JOB_ID": 7,
        "STEP_ID": 0,
        "STEP_NUM_TASKS": 2,
        "STEP_TASKS_PER_NODE": "1(x2)",
        "STEP_NODELIST": "host[0-1]",
    }
    with several_hosts(2) as network:
        processes: list[subprocess.Popen[str]] = []
        for number, host in enumerate(network.hosts):
            own = step | {"PROCID": number, "NODEID": number, "LOCALID": 0}
            words = [f"SLURM_{name}={value}" for name, value in own.items()]
            command = host.command("env", *words, sys.executable, "-c", BY_SRUN)
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert said == [f"rank {number} of 2 is through" for number in range(2)]
