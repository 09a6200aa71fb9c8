"""The Ray engine: the conformance suite on real actors, and what is its own."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from erasurehead import schemes
from erasurehead.delays import Delays
from erasurehead.engines import Arrived, Died, Engine, Failed, Joined, MessageSpec, RayEngine, VirtualEngine
from erasurehead.engines._base import NoRoom
from erasurehead.engines._packed_program import ArrayCache
from erasurehead.engines._ray.cluster import _join, cpus
from erasurehead.engines._ray.shared_program import share
from erasurehead.errors import EngineError, InvalidArgument, MissingExtra
from erasurehead.optimizers import Nesterov
from erasurehead.testing import EngineConformance, FaultInjectionConformance
from erasurehead.testing._driving import arrivals, order, start, take
from erasurehead.testing._pacing import at_some_pace
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Echo, Timetable
from erasurehead.training import Run, train

from ..bounded import PATIENCE, PROMPT
from .mpi_inside import check_asynchronous, check_liars, check_nested

ray = pytest.importorskip("ray", reason="the Ray engine needs ray: pip install 'erasurehead[ray]'")

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.xdist_group("ray")]  # one cluster for all

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests

GRID = 0.1  # seconds between two injected delays


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Generator[RayEngine]:
    """One cluster for all tests of this module: engines of a process share it as long as one of them is open."""
    with RayEngine() as engine:
        yield engine


class TestRayEngine(EngineConformance, FaultInjectionConformance):
    detection_seconds = PROMPT  # within a second: below, where nothing else runs

    def make(self, delays: Delays | None = None, late: str = "preempt") -> RayEngine:
        return RayEngine(delays, late)


class Travelling(EngineConformance):
    """Not collected: what is asked of actors that are reached through Ray, as on another machine."""

    def make(self, delays: Delays | None = None, late: str = "preempt") -> RayEngine:
        return RayEngine(delays, late, share=False)


def test_workers_that_are_reached_through_ray_are_redirected_too() -> None:
    Travelling().test_a_worker_takes_next_where_it_is_redirected_or_pauses_until_it_is_told_more(late="carry")


@pytest.mark.alone
def test_an_idle_workers_death_is_known_within_a_second_and_its_return_too() -> None:
    with RayEngine(max_restarts=1) as engine:
        programs = [Echo(worker, (worker,)) for worker in range(2)]
        start(engine, programs)
        before = engine.pid(0)
        begin = engine.now()
        engine.kill(0)
        (died,) = take(engine, 1)
        assert isinstance(died, Died)
        assert died.worker == 0
        assert "Ray starts it again" in died.reason
        assert died.time - begin < 1.0
        engine.assign(0, programs[0])  # it is on its way already: no second one is started
        engine.submit(order(7), [0])
        joined, answer = take(engine, 2)
        assert isinstance(joined, Joined)
        assert isinstance(answer, Arrived)
        assert (joined.worker, answer.worker, answer.order_round) == (0, 0, 7)
        assert answer.read().tolist() == [7, 0, 0, 7]
        assert engine.pid(0) != before
        begin = engine.now()
        engine.kill(0)
        (died,) = take(engine, 1)
        assert isinstance(died, Died)  # for good, this time
        assert died.time - begin < 1.0
        assert engine.next_event(engine.now() + 3 * GRID) is None
        engine.submit(order(8))
        assert arrivals(engine, 1)[0].worker == 1


@dataclass(eq=False)
class Holder(Echo):
    """Holds an array; answers its sum, whether it can be written, and how many threads a library would use."""

    data: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def compute(self, spec: MessageSpec, taken: Any, out: np.ndarray) -> None:
        from threadpoolctl import threadpool_info

        threads = max(library["num_threads"] for library in threadpool_info())
        out[:] = [self.data.sum(), self.data.flags.writeable, threads, 0.0]


def test_data_are_put_once_and_a_worker_has_one_blas_thread() -> None:
    shared, other = np.ones(20_000), np.full(20_000, 2.0)
    programs = [Holder(0, (0,), data=shared), Holder(1, (1,), data=shared), Holder(2, (2,), data=other)]
    store = ArrayCache[Any]()
    packed = [share(ray, program, None, store) for program in programs]
    assert len(store) == 2
    assert packed[0].arrays == packed[1].arrays
    with RayEngine() as engine:
        start(engine, programs)
        engine.submit(order(0))
        answers = {event.worker: event.read().tolist()[:3] for event in arrivals(engine, 3)}
    assert answers == {0: [20_000.0, 0.0, 1.0], 1: [20_000.0, 0.0, 1.0], 2: [40_000.0, 0.0, 1.0]}


class Unopenable(Echo):
    """Cannot be unpickled."""

    def __setstate__(self, state: object) -> None:
        raise RuntimeError("no room at the inn")


class Stubborn(Echo):
    """Ends its process instead of answering."""

    def compute(self, spec: MessageSpec, taken: Any, out: np.ndarray) -> None:
        os._exit(3)


def test_a_worker_that_cannot_start_and_one_that_ends_itself_say_what_is_known() -> None:
    with RayEngine() as engine:
        engine.assign(0, Unopenable(0, (0,)))
        (event,) = take(engine, 1)
        assert isinstance(event, Died)
        assert event.reason.startswith("RuntimeError: no room at the inn")
        start(engine, [Stubborn(0, (0,))])
        engine.submit(order(0))
        (event,) = take(engine, 1)
        assert isinstance(event, Died)
        assert "process" in event.reason
        assert len(event.reason) < 200  # Ray's advice is left out
        with pytest.raises(EngineError, match="there is no worker 0"):
            engine.kill(0)


@pytest.mark.parametrize("share", [True, False])
def test_messages_are_whole_under_a_burst_of_orders(share: bool) -> None:
    length = 150_000  # 1.2 MB: through the store, if they travel
    with RayEngine(late="carry", share=share) as engine:
        start(engine, [Echo(worker, (worker,), length=length, n_parameters=length) for worker in range(3)])
        seen: list[int] = []
        for number in range(60):
            engine.submit(order(number, n_parameters=length))
            while seen.count(59) < 3 and (event := engine.next_event(engine.now() + 0.002 + PATIENCE * (number == 59))):
                assert isinstance(event, Arrived), event
                step, worker, message, point = event.read().reshape(-1, 4).T
                shared = isinstance(base_of(event.read()), mmap.mmap)  # else it has travelled, or is late and copied
                assert shared == (share and event.order_round == number)
                for column, value in ((step, event.step), (worker, event.worker), (message, event.worker)):
                    assert (column == value).all()
                assert (point == event.order_round).all()
                engine.release(event)
                seen.append(event.order_round)
        assert seen.count(59) == 3


def test_a_message_waits_until_one_of_its_slots_is_given_back() -> None:
    with RayEngine() as engine:
        start(engine, [Echo(0, (5, 5, 5))])
        engine.submit(order(0))
        found = arrivals(engine, 2)
        assert engine.next_event(engine.now() + 3 * GRID) is None  # the third has no room
        assert all(event.read().tolist() == [0, 0, 5, 0] for event in found)
        engine.release(found[0])
        found[0:1] = arrivals(engine, 1)
        assert all(event.read().tolist() == [0, 0, 5, 0] for event in found)
        assert all(isinstance(base_of(event.read()), mmap.mmap) for event in found)
        engine.submit(order(1))
        assert all(isinstance(base_of(event.read()), mmap.mmap) for event in arrivals(engine, 2))


def base_of(vector: Any) -> Any:
    """Return what owns the memory of an array."""
    while isinstance(vector, np.ndarray):
        vector = vector.base
    return vector.obj if isinstance(vector, memoryview) else vector


def test_processors_that_are_asked_for_are_a_bound_and_hosts_are_named() -> None:
    with RayEngine(cpus=1) as engine:
        ((host, room),) = engine.hosts().items()
        assert room == os.cpu_count() == cpus(None)  # of the cluster that runs
        with pytest.raises(InvalidArgument, match="host must be one of"):
            engine.assign(0, Echo(0, (0,)), "nowhere")
        for worker in range(room):
            engine.assign(worker, Echo(worker, (worker,)), host)
        with pytest.raises(NoRoom, match=f"worker {room} cannot be started: the cluster has room for {room} workers"):
            engine.assign(room, Echo(room, (room,)))
        assert {event.host for event in take(engine, room) if isinstance(event, Joined)} == {host}


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"address": "ray://head:10001"}, "address must be HOST:PORT of the cluster's head, or 'auto'"),
        ({"address": ""}, "address must be HOST:PORT"),
        ({"max_restarts": -2}, "max_restarts must be at least -1"),
        ({"cpus": -1}, "cpus must be a number of processors, 0 or more"),
    ],
)
def test_arguments_that_break_a_rule_are_refused(arguments: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidArgument, match=rule):
        RayEngine(**arguments)


def test_a_process_is_in_one_cluster_at_a_time() -> None:
    with pytest.raises(EngineError, match=r"connected to the Ray cluster at .* already"):
        RayEngine(address="192.0.2.1:6379")
    address = ray.get_runtime_context().gcs_address
    with RayEngine(address=address) as engine:  # where it is already
        start(engine, [Echo(0, (0,))])
    assert ray.is_initialized()


def test_a_cluster_that_refuses_us_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ray 2.60 words it where a cluster asks for a token: in a traceback within the text of a cause."""

    def refused(**how: Any) -> None:
        trace = "Traceback (most recent call last):\n  File ...\nray.exceptions.AuthenticationError: "
        said = f"Failed to connect to GCS. Last connection error: {trace}RPC error: InvalidAuthToken: Set a token.\n\n"
        raise ConnectionError("Failed to connect to Ray cluster at 127.0.0.1:1") from RuntimeError(said)

    monkeypatch.setattr(ray, "init", refused)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.1")
        with pytest.raises(EngineError) as caught:
            _join(ray, address)
    said = f"the Ray cluster at {address} cannot be reached: RPC error: InvalidAuthToken: Set a token."
    assert str(caught.value) == said


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'erasurehead\[ray\]'"):
        RayEngine()


PROBLEM = Quadratic.random(48, 40, seed=4, density=0.2, l2=0.01, sparse=True)


def short_train(scheme: schemes.Scheme, engine: Engine, steps: int) -> Run:
    return train(PROBLEM, scheme, Nesterov(np.ones(40), 0.05), engine, steps)


def test_asynchronous_training_is_replayed_to_the_same_bits() -> None:
    check_asynchronous(RayEngine)


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_workers_of_nested_codes_report_and_a_run_is_replayed_to_the_same_bits(late: str) -> None:
    check_nested(RayEngine, late)


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_liars_are_questioned_and_a_run_is_replayed_to_the_same_bits(late: str) -> None:
    check_liars(RayEngine, late)


@at_some_pace
def test_training_stops_on_the_same_arrivals_and_reaches_the_same_bits_as_on_the_virtual_clock(pace: float) -> None:
    scheme, steps, grid = schemes.exact(6, 2, "cyclic"), 4, pace * GRID
    rng = np.random.default_rng(11)
    delays = Timetable({(w, s, 0): grid * k for s in range(steps) for w, k in enumerate(rng.permutation(6))})
    virtual = short_train(scheme, VirtualEngine(delays), steps)
    real = short_train(scheme, RayEngine(delays), steps)
    for ours, theirs in zip(real.steps, virtual.steps, strict=True):
        assert (ours.used, ours.missing, ours.residual) == (theirs.used, theirs.missing, theirs.residual)
        assert ours.waited == pytest.approx(theirs.waited, abs=grid)
    assert real.x.tobytes() == virtual.x.tobytes()
    assert real.losses.tobytes() == virtual.losses.tobytes()


SCRIPT = """
    import sys
    from erasurehead.engines import RayEngine
    from erasurehead.testing._programs import Echo, Timetable
    from erasurehead.testing._driving import order, start
    class Mine(Timetable):
        pass
    if __name__ == "__main__":
        with RayEngine(Mine({(w, 0, 0): 1e6 for w in range(2)}), "carry") as engine:
            start(engine, [Echo(worker, (worker,)) for worker in range(2)])
            engine.submit(order(0))
            print(*[engine.pid(worker) for worker in range(2)], flush=True)
            sys.stdin.readline()
"""


def family(root: int) -> set[int]:
    """Return a process and all that descend from it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            parents[int(stat.parent.name)] = int(parent)
    found = {root} & set(parents)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(pids: set[int]) -> list[str]:
    """Return the addresses at which processes listen for connections, in the system's hexadecimal."""
    sockets: set[str] = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(file)
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    found: list[str] = []
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = row.split()
            if words[3] == "0A" and words[9] in sockets:
                found.append(words[1].rpartition(":")[0])
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.fixture
def short() -> Generator[str]:
    """A folder with a short name, as Ray's sockets need it."""
    with tempfile.TemporaryDirectory(prefix="eh-") as name:
        yield name


@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_cluster_of_our_own_listens_on_loopback_only_and_nothing_of_it_is_left(
    how: str, tmp_path: Path, short: str
) -> None:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    folders = Path(short)
    environment = os.environ | {"TMPDIR": str(folders), "HOME": str(tmp_path)}
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, path], env=environment, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2
        everybody = family(process.pid)
        assert everybody > set(workers)
        addresses = listening(everybody)
        assert addresses
        assert set(addresses) <= LOOPBACK
        assert len(list(folders.iterdir())) == 1
        os.kill(workers[0], signal.SIGSTOP)
        if how == "killed":
            process.kill()
        out, error = process.communicate("\n", timeout=PATIENCE)
        assert (out, error) == ("", "")
    deadline = time.monotonic() + PROMPT
    while (left := set().union(*map(family, everybody))) or any(folders.iterdir()):
        assert time.monotonic() < deadline, (left, list(folders.iterdir()))
        time.sleep(0.05)
    assert not (tmp_path / ".ray").exists()


def test_a_message_that_is_lost_with_its_node_costs_the_round_only() -> None:
    # What `lose` makes of errors that no test can provoke at will.
    with RayEngine() as engine:
        start(engine, [Echo(0, (0,))])
        handle = engine._workers[0]
        event = handle.lose(ray.exceptions.ObjectLostError("0" * 56, None, ""), 1.0)
        assert isinstance(event, Failed)
        assert event.reason.startswith("ObjectLostError")


MANAGER_KILLED = """
import os, signal, sys, time
from erasurehead import schemes
from erasurehead.delays import Exponential
from erasurehead.engines import RayEngine
from erasurehead.errors import EngineError
from erasurehead.training import Callback
from erasurehead.optimizers import Nesterov
from erasurehead.runs import Checkpointer, Recorder, RunFolder
from erasurehead.testing._problems import Quadratic
from erasurehead.training import train

class Kill(Callback):
    def on_state(self, step, state):
        if step == 5:
            (told,) = sys.modules["ray._private.worker"]._global_node.all_processes["raylet"]
            os.kill(told.process.pid, signal.SIGKILL)
            self.begin = time.monotonic()

def run(recorder, *watching):
    problem = Quadratic.random(24, 6, seed=4)
    engine = RayEngine(Exponential(mean=0.05, seed=0))
    optimizer = Nesterov(problem.initial(), 0.1)
    callbacks = [recorder, checkpointer := Checkpointer(recorder, every_steps=1, behind=0), *watching]
    try:
        return train(problem, schemes.exact(4, load=2), optimizer, engine, 12, callbacks, resume=recorder.resumption)
    finally:
        recorder.end("failed", "")
        checkpointer.close()

kill = Kill()
try:
    run(Recorder(RunFolder.create("run")), kill)
except EngineError as error:
    print(f"{time.monotonic() - kill.begin:.0f}", error, flush=True)
print(len(run(Recorder.reopen(RunFolder.open("run"))).steps), flush=True)
"""


def test_a_run_whose_node_manager_is_killed_ends_with_a_sentence_and_can_be_gone_on_with(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANAGER_KILLED],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.strip().splitlines()
    seconds, _, said = first.partition(" ")
    assert int(seconds) < 30 + PROMPT
    assert "the node manager of Ray (raylet) at" in said
    assert "has ended, and all workers are lost with it" in said
    assert last == "12"
