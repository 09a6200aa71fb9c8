"""MPI over TCP between three hosts of a network of the test's own, whose links are slowed, cut and healed."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ..bounded import PATIENCE, PROMPT
from .mpi_jobs import job_over, running
from .namespaces import Network, several_hosts

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.xdist_group("mpi")]

END = "(end)"
RANKS = 7  # two workers a host, and the coordinator on the first

NOTICED = {"oob_tcp_keepalive_time": "2", "oob_tcp_keepalive_intvl": "1", "oob_tcp_keepalive_probes": "3"}
"""Settings under which the launcher knows within seconds that a host is lost; by default it takes eight minutes."""

# Every task is on three workers, one a host; a step waits for all six workers, but after 0.3 s no longer for those for
# whom others have answered. So each step's gradient is exact, even without one of the hosts, and on a slow machine.
# Training ends when the file is there that is named.
TRAINING = """
    import sys
    from pathlib import Path
    import numpy as np
    from erasurehead.engines import MPIEngine
    MPIEngine.serve_unless_coordinator(say=lambda text: print(text, flush=True))
    from erasurehead import codes, schemes
    from erasurehead.engines import VirtualEngine
    from erasurehead.engines import Joined
    from erasurehead.training import Callback
    from erasurehead.optimizers import Nesterov
    from erasurehead.testing._problems import Quadratic
    from erasurehead.testing._programs import Timetable
    from erasurehead.training import train

    class Placed(MPIEngine):
        def next_event(self, until=None):
            event = super().next_event(until)
            if isinstance(event, Joined):
                places[event.worker] = event.host
            return event

    class Teller(Callback):
        def on_step_end(self, row, x):
            print("step", row.step, "misses", *sorted({places[worker] for worker in row.missing}), flush=True)
            if Path(sys.argv[1]).exists():
                raise KeyboardInterrupt

    def trained(scheme, engine, steps, *watch):
        optimizer = Nesterov(np.zeros(5_000), 0.01)
        return train(problem, scheme, optimizer, engine, steps, watch, evaluate_every=0)

    places = {}
    problem = Quadratic.random(600, 5_000, seed=1, density=0.01, l2=0.1)
    scheme = schemes.custom(schemes.exact(6, 3).code, "first(6) | decodable() & deadline(0.3)")
    engine = Placed(Timetable({(worker, step, 0): 0.02 for worker in range(6) for step in range(100_000)}))
    print("hosts", dict(sorted(engine.hosts().items())), flush=True)
    run = trained(scheme, engine, 100_000, Teller())
    print("places", [sorted(places[worker] for worker in group) for group in ([0, 1, 2], [3, 4, 5])])
    alone = trained(schemes.exact(6, 3), VirtualEngine(), len(run.steps))
    print("error", abs(run.x - alone.x).max() / abs(alone.x).max(), flush=True)
"""


class Watched:
    """A job whose output is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._queue.put(line.rstrip("\n"))
        self._queue.put(END)

    def until(self, wanted: Callable[[str], bool], what: str) -> str:
        """Read on to the first line that is wanted."""
        deadline = time.monotonic() + PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                self.lines.append(self._queue.get(timeout=left))
                if wanted(self.lines[-1]):
                    return self.lines[-1]
                if self.lines[-1] == END:
                    break
        raise AssertionError(f"no {what} in {self.lines}")

    def steps(self, count: int, missing: str) -> None:
        """Read on until so many steps in a row missed just these hosts."""
        for _ in range(2_000):
            if all(self.step().partition(" misses")[2].strip() == missing for _ in range(count)):
                return
        raise AssertionError(f"never {count} steps without {missing!r}: {self.lines[-20:]}")

    def step(self) -> str:
        return self.until(lambda line: line.startswith("step "), "step")

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        self.until(lambda line: line == END, "end")
        return self.process.wait(PATIENCE)


def script(folder: Path) -> list[str]:
    path = folder / "training.py"
    path.write_text(textwrap.dedent(TRAINING))
    return [str(path), str(folder / "enough")]


def wait_until_empty(network: Network, seconds: float) -> list[int]:
    """Return the processes that are still on the hosts after so many seconds."""
    deadline = time.monotonic() + seconds
    while left := [pid for host in network.hosts for pid in host.pids()]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return left


def test_training_over_three_hosts_goes_on_exactly_while_a_link_is_slow_or_cut(tmp_path: Path) -> None:
    with several_hosts(3) as network:
        last = network.hosts[2]
        with running(job_over(network, tmp_path, RANKS, script(tmp_path), {}), tmp_path) as process:
            job = Watched(process)
            hosts = job.until(lambda line: line.startswith("hosts"), "hosts")
            assert hosts == "hosts {'host0': 2, 'host1': 2, 'host2': 2}"
            job.steps(5, missing="")
            for spoil in (lambda: network.slow(last, kilobytes=20), lambda: network.cut(last)):
                spoil()
                job.steps(5, missing="host2")
                network.heal(last)
                job.steps(5, missing="")
            (tmp_path / "enough").touch()
            assert job.end() == 0, job.lines
        lines = {line.split(" ")[0]: line.partition(" ")[2] for line in job.lines}
        assert lines["places"] == str([["host0", "host1", "host2"]] * 2)
        assert float(lines["error"]) < 1e-9
        assert wait_until_empty(network, PROMPT) == []


LOST = ("lost communication with a remote daemon", "A daemon failed to report back")
"""What the launcher says of a host that it has lost."""


def test_a_host_that_stays_lost_ends_the_job_with_a_sentence_once_the_launcher_knows(tmp_path: Path) -> None:
    with several_hosts(3) as network:
        with running(job_over(network, tmp_path, RANKS, script(tmp_path), NOTICED), tmp_path) as process:
            job = Watched(process)
            job.steps(5, missing="")
            network.cut(network.hosts[2])
            job.steps(3, missing="host2")  # until then it goes on
            job.until(lambda line: any(said in line for said in LOST), "sentence")  # the launcher's own words
            job.until(lambda line: "host2" in line, "name of the host")
            job.end()
        assert wait_until_empty(network, PROMPT) == []


ELSEWHERE = """
    from erasurehead.engines import MPIEngine
    MPIEngine.serve_unless_coordinator()
    from erasurehead.errors import EngineError
    from erasurehead.testing._programs import Echo, Timetable
    from erasurehead.testing._driving import arrivals, order, take
    engine = MPIEngine(Timetable({(1, 1, 0): 1e6}))
    for worker, host in enumerate(["host1", "host2", "host2", "host0"]):
        engine.assign(worker, Echo(worker, (worker,)), host)
    print("joined", *(event.host for event in sorted(take(engine, 4), key=lambda event: event.worker)))
    begin = engine.now()
    engine.submit(order(0))
    events = arrivals(engine, 4)
    print("clocks agree", all(begin <= event.started <= event.time for event in events))
    print("clock error", max(event.time - event.started for event in events) < 30.0)
    try:
        engine.pause(1)
    except EngineError as error:
        print("refused", error)
    engine.submit(order(1))
    arrivals(engine, 3)
    begin = engine.now()
    engine.kill(1)
    (died,) = take(engine, 1)
    print("died", died.worker, died.time - begin < 30.0)
    engine.assign(1, Echo(1, (1,)), "host2")
    (joined,) = take(engine, 1)
    engine.submit(order(1, step=2), [1])
    print("replaced", joined.host in ("host0", "host1"), arrivals(engine, 1)[0].worker, flush=True)
    engine.close()
"""


def test_workers_elsewhere_are_killed_by_order_and_cannot_be_paused(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text(textwrap.dedent(ELSEWHERE))
    with several_hosts(3) as network, running(job_over(network, tmp_path, RANKS, [path], {}), tmp_path) as process:
        job = Watched(process)
        assert job.end() == 0, job.lines
    for line in (
        "joined host1 host2 host2 host0",
        "clocks agree True",
        "clock error True",
        "died 1 True",
        "replaced True 1",
    ):
        assert line in job.lines, job.lines
    (refused,) = (line for line in job.lines if line.startswith("refused"))
    assert "is on host2, and MPI can stop no process there" in refused
