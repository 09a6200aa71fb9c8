"""The Ray engine on several hosts: placing, a slow link, a cut one, and a host that comes."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ..bounded import PATIENCE, PROMPT
from .namespaces import Host, several_hosts

pytest.importorskip("ray", reason="the Ray engine needs ray: pip install 'erasurehead[ray]'")

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.xdist_group("clusters")]

LENGTH = 20_000  # elements of a message: 160 kB
CUT_KNOWN = 3 * (1.0 + 3.0) + PROMPT
"""Seconds within which a cut link must be known. The health checks below notice it after 3 times 1 + 3 s at most."""

HEALTH = {"initial_delay_ms": "1000", "period_ms": "1000", "timeout_ms": "3000", "failure_threshold": "3"}
RAY = str(Path(sys.executable).parent / "ray")


class Cluster:
    """A Ray cluster, host by host, and a coordinator on the first of them."""

    def __init__(self, head: Host, folder: Path) -> None:
        self.head = head
        self.folder = folder
        self.environment = os.environ | {f"RAY_health_check_{name}": value for name, value in HEALTH.items()}
        self.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "HOME": str(folder)}
        self.environment |= {"RAY_USAGE_STATS_ENABLED": "0"}
        self.address = f"{head.address}:6379"
        self.processes = contextlib.ExitStack()

    def join(self, host: Host) -> None:
        """Start Ray on a host."""
        folder = self.folder / host.name
        folder.mkdir()
        head = ["--head", "--port=6379", "--include-dashboard=false"]
        role = head if host is self.head else ["--address", self.address]
        words = [RAY, "start", "--block", *role, "--node-ip-address", host.address, "--node-name", host.name]
        words += ["--temp-dir", str(folder), "--num-cpus=1", f"--object-store-memory={10**8}"]
        log = self.processes.enter_context((folder / "log").open("w"))
        self._start(host.command(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def coordinate(self) -> subprocess.Popen[str]:
        """Start a coordinator on the first host."""
        words = [sys.executable, Path(__file__).with_name("ray_driver.py"), self.address]
        return self._start(self.head.command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _start(self, command: list[str], **pipes: Any) -> subprocess.Popen[Any]:
        process = self.processes.enter_context(subprocess.Popen(command, env=self.environment, **pipes))
        self.processes.callback(process.kill)
        return process


class Coordinator:
    """Calls to `ray_driver.py`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._calls, self._answers = process.stdin, process.stdout
        self.process = process
        assert self.answer() == "ready"

    def answer(self) -> Any:
        line = self._answers.readline()
        assert line, "the coordinator has ended"
        return json.loads(line)

    def call(self, *words: Any) -> Any:
        print(json.dumps(words), file=self._calls, flush=True)
        return self.answer()

    def events(self, count: int, seconds: float = PATIENCE) -> list[dict[str, Any]]:
        """Return the next events, each of which must come within so many seconds."""
        found = [self.call("event", seconds) for _ in range(count)]
        assert all(found), found
        return found

    def round(self, number: int, workers: set[int]) -> list[dict[str, Any]]:
        """Submit an order and return the workers' answers, whole and right."""
        self.call("submit", number)
        events = self.events(len(workers))
        assert {event["worker"] for event in events} == workers, events
        for event in events:
            assert event["kind"] == "Arrived", event
            assert event["order_round"] == number
            assert event["vector"] == [number, event["worker"], event["worker"], number]
            assert event["whole"]
            assert event["started"] <= event["time"]
        return events


@contextlib.contextmanager
def cluster(folder: Path, head: Host) -> Generator[tuple[Cluster, Coordinator]]:
    """Start Ray and a coordinator on the first host."""
    made = Cluster(head, folder)
    with made.processes:
        made.join(head)
        yield made, Coordinator(made.coordinate())


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder with a short name: Ray's sockets are in it, and pytest's own are too long for that."""
    with tempfile.TemporaryDirectory(prefix="eh-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def test_replicas_on_several_hosts_a_slow_link_a_cut_one_and_a_new_host(folder: Path) -> None:
    with several_hosts(3) as network, cluster(folder, network.hosts[0]) as (made, coordinator):
        _, far, new = network.hosts
        assert coordinator.call("hosts") == {"host0": None}
        made.join(far)
        assert [event["host"] for event in events_of("Offered", coordinator, 1)] == ["host1"]
        assert coordinator.call("hosts") == {"host0": None, "host1": None}
        for worker in range(4):
            coordinator.call("assign", worker, LENGTH, f"host{worker % 2}")
        homes = {event["worker"]: event["host"] for event in events_of("Joined", coordinator, 4)}
        assert homes == {0: "host0", 1: "host1", 2: "host0", 3: "host1"}
        coordinator.round(0, {0, 1, 2, 3})

        made.join(new)
        (offered,) = events_of("Offered", coordinator, 1)
        assert (offered["host"], offered["workers"]) == ("host2", 1)
        coordinator.call("assign", 4, LENGTH, "host2")
        assert [event["host"] for event in events_of("Joined", coordinator, 1)] == ["host2"]
        coordinator.round(1, {0, 1, 2, 3, 4})

        network.slow(far, kilobytes=80)  # two messages of 160 kB take four seconds
        begin = time.monotonic()
        coordinator.call("submit", 2)
        fast = coordinator.events(3)
        assert {event["worker"] for event in fast} == {0, 2, 4}  # a slow link holds up nobody else
        late = coordinator.events(2)
        assert {event["worker"] for event in late} == {1, 3}
        assert time.monotonic() - begin > 2.0
        network.heal(far)
        coordinator.round(3, {0, 1, 2, 3, 4})

        network.cut(far)
        begin = time.monotonic()
        coordinator.round(4, {0, 2, 4})
        died = events_of("Died", coordinator, 2)
        assert {event["worker"] for event in died} == {1, 3}
        assert {event["reason"] for event in died} == {"its node has died"}
        assert time.monotonic() - begin < CUT_KNOWN
        assert set(coordinator.call("hosts")) == {"host0", "host2"}
        coordinator.call("assign", 1, LENGTH, "host1")  # which has gone: it runs on another
        assert {event["host"] for event in events_of("Joined", coordinator, 1)} <= {"host0", "host2"}
        coordinator.round(5, {0, 1, 2, 4})
        coordinator.process.stdin.close()
        assert coordinator.process.wait(PATIENCE) == 0


def events_of(kind: str, coordinator: Coordinator, count: int) -> list[dict[str, Any]]:
    """Return the next events, all of which must be of a kind."""
    found = coordinator.events(count)
    assert {event["kind"] for event in found} == {kind}, found
    return found
