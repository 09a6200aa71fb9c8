"""The process engine: the conformance suite on real processes, and what is its own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import schemes
from erasurehead.delays import Delays
from erasurehead.engines import Arrived, MessageSpec, ProcessEngine, Program, VirtualEngine
from erasurehead.engines._packed_program import ArrayCache, pack
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import Nesterov
from erasurehead.runs._summaries import figures
from erasurehead.testing import EngineConformance, FaultInjectionConformance
from erasurehead.testing._driving import arrivals, order, start, take
from erasurehead.testing._pacing import at_some_pace
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Echo, Faulty, Timetable
from erasurehead.training import Callback, Notice, Run, StepRow, train

from ..bounded import PATIENCE, left_of
from .mapping import maps_in_advance

pytestmark = pytest.mark.processes

GRID = 0.06  # seconds between two injected delays


class TestProcessEngine(EngineConformance, FaultInjectionConformance):
    def make(self, delays: Delays | None = None, late: str = "preempt") -> ProcessEngine:
        return ProcessEngine(delays, late)

    @pytest.mark.alone
    def test_a_death_is_detected_within_a_second(self) -> None:
        super().test_a_death_is_detected_within_a_second()


@pytest.mark.alone
@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_closing_ends_every_worker_at_once_whatever_it_does(late: str) -> None:
    with ProcessEngine(Timetable({(w, 0, 0): 1e6 for w in range(3)}), late) as engine:
        start(engine, [Echo(worker, (worker,)) for worker in range(4)])
        pids = [engine.pid(worker) for worker in range(4)]
        engine.submit(order(0))
        arrivals(engine, 1)
        os.kill(pids[2], signal.SIGSTOP)
        begin = time.monotonic()
    assert time.monotonic() - begin < 5.0
    assert left_of(pids, 1.0) == []


SCRIPT = """
    import time
    from erasurehead.engines import ProcessEngine
    from erasurehead.testing._programs import Echo, Timetable
    from erasurehead.testing._driving import order, start
    class Mine(Timetable):
        pass
    print("script runs", flush=True)
    engine = ProcessEngine(Mine({(w, 0, 0): 1e6 for w in range(3)}), "carry")
    start(engine, [Echo(worker, (worker,)) for worker in range(3)])
    engine.submit(order(0))
    print(*[engine.pid(worker) for worker in range(3)], flush=True)
    time.sleep(600)
"""


@pytest.mark.alone
@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a signal at the parent's death: Linux only")
def test_workers_end_with_a_coordinator_that_is_killed_even_if_they_are_stopped(tmp_path: Path) -> None:
    # The script has no `if __name__ == "__main__"`: workers must not import it, or it would run four times.
    # Its delays are of a class of its own all the same: that travels by value.
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "script runs\n"
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 3
        os.kill(pids[0], signal.SIGSTOP)
        process.kill()
        left = left_of(pids, 5.0)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert left == []


@dataclass(eq=False)
class Threads(Echo):
    """Answers how many threads the busiest numerical library of its process would use."""

    messages: tuple[int, ...] = (0,)
    worker: int = 0

    def compute(self, spec: MessageSpec, taken: Any, out: np.ndarray) -> None:
        from threadpoolctl import threadpool_info

        out[:] = max(library["num_threads"] for library in threadpool_info())


def test_a_worker_has_one_blas_thread() -> None:
    with ProcessEngine() as engine:
        start(engine, [Threads()])
        engine.submit(order(0))
        assert arrivals(engine, 1)[0].read()[0] == 1


@dataclass(eq=False)
class Holder(Echo):
    """Holds an array; answers its sum, and whether it can be written."""

    data: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def compute(self, spec: MessageSpec, taken: Any, out: np.ndarray) -> None:
        out[:] = [self.data.sum(), self.data.flags.writeable, 0.0, 0.0]


def test_data_cross_once_and_equal_data_share_their_memory() -> None:
    shared, other = np.ones(10_000), np.full(10_000, 2.0)
    programs = [Holder(0, (0,), data=shared), Holder(1, (1,), data=shared), Holder(2, (2,), data=other)]
    packed, store = [pack(program, None) for program in programs], ArrayCache[str]()
    assert [store.get(one.arrays, f"made for {number}".format) for number, one in enumerate(packed)] == [
        "made for 0",
        "made for 0",
        "made for 2",
    ]
    assert all(len(one.head) < 2_000 for one in packed)
    with ProcessEngine() as engine:
        start(engine, programs)
        engine.submit(order(0))
        answers = {event.worker: event.read().tolist()[:2] for event in arrivals(engine, 3)}
    assert answers == {0: [10_000.0, 0.0], 1: [10_000.0, 0.0], 2: [20_000.0, 0.0]}


def test_what_cannot_be_sent_to_workers_is_refused_and_the_part_named() -> None:
    with pytest.raises(InvalidArgument, match=r"must not hold what pickle cannot copy, .*'generator' object"):
        pack(Holder(0, (0,), data=(number for number in range(3))), None)


class Unopenable(Echo):
    """Cannot be unpickled."""

    def __setstate__(self, state: object) -> None:
        raise RuntimeError("no room at the inn")


def test_a_worker_that_cannot_start_says_why() -> None:
    with ProcessEngine() as engine:
        engine.assign(0, Unopenable(0, (0,)))
        (event,) = take(engine, 1)
        assert "no room at the inn" in event.reason


PROBLEM = Quadratic.random(48, 40, seed=4, density=0.2, l2=0.01, sparse=True)


def grid_delays(n_workers: int, steps: int, seed: int, grid: float) -> Timetable:
    """Delays of all workers in a step: multiples of the grid in random order."""
    rng = np.random.default_rng(seed)
    return Timetable({(w, s, 0): grid * k for s in range(steps) for w, k in enumerate(rng.permutation(n_workers))})


def short_train(scheme: schemes.Scheme, engine: ProcessEngine | VirtualEngine, steps: int, *watch: Callback) -> Run:
    return train(PROBLEM, scheme, Nesterov(np.ones(40), 0.05), engine, steps, watch)


def events_of(run: Run) -> np.ndarray:
    """When each arrival of a run came, late ones included, in seconds since training began; ascending."""
    begins = [row.begin for row in run.steps]
    return np.sort([begins[a.step] + a.seconds for a in run.arrivals if not a.censored])


def spread_delays(scheme: schemes.Scheme, steps: int, pace: float) -> Timetable:
    """Random delays under which all arrivals of a `carry` run, late ones included, lie a grid apart."""
    for seed in range(20_000):
        rng = np.random.default_rng(seed)
        n = scheme.code.n_workers
        drawn = {(w, s, 0): float(rng.uniform(0.1, 1.2)) for s in range(steps) for w in range(n)}
        delays = Timetable(drawn)
        run = short_train(scheme, VirtualEngine(delays, "carry"), steps)
        if np.diff(events_of(run)).min() >= 0.05 and any(a.late for a in run.arrivals):
            return Timetable({key: pace * seconds for key, seconds in drawn.items()})
    raise AssertionError("no seed spreads the arrivals far enough")


@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize("scheme", [schemes.erasurehead(6, 2, 2), schemes.exact(6, 4, "cyclic")], ids=lambda s: s.name)
@at_some_pace
def test_both_engines_stop_on_the_same_arrivals_and_reach_the_same_bits(
    scheme: schemes.Scheme, late: str, pace: float
) -> None:
    steps, grid = 3, pace * GRID
    delays = grid_delays(6, steps, 11, grid) if late == "preempt" else spread_delays(scheme, steps, pace)
    virtual = short_train(scheme, VirtualEngine(delays, late), steps)
    real = short_train(scheme, ProcessEngine(delays, late), steps)
    for ours, theirs in zip(real.steps, virtual.steps, strict=True):
        in_time = [
            {a.message for a in run.arrivals if a.step == ours.step and not a.censored and not a.late}
            for run in (real, virtual)
        ]
        assert in_time[0] == in_time[1]
        assert (ours.used, ours.missing, ours.residual) == (theirs.used, theirs.missing, theirs.residual)
        assert ours.waited == pytest.approx(theirs.waited, abs=grid)
    assert real.x.tobytes() == virtual.x.tobytes()
    assert real.losses.tobytes() == virtual.losses.tobytes()


def test_the_virtual_engine_replays_a_real_run_to_the_same_bits() -> None:
    rng = np.random.default_rng(3)
    delays = Timetable({(w, s, 0): float(rng.exponential(0.02)) for w in range(8) for s in range(20)})
    scheme = schemes.erasurehead(8, 2, 3)
    real = short_train(scheme, ProcessEngine(delays), 20)
    recorded = {(a.worker, a.step, a.unit): float("inf") if a.censored else a.seconds for a in real.arrivals}
    replayed = short_train(scheme, VirtualEngine(Timetable(recorded)), 20)
    assert [row.used for row in replayed.steps] == [row.used for row in real.steps]
    assert replayed.x.tobytes() == real.x.tobytes()


class _Killer(Callback):
    """Kills workers after a step."""

    def __init__(self, engine: ProcessEngine, after: int, workers: Sequence[int]) -> None:
        self.engine, self.after, self.workers = engine, after, workers
        self.notices: list[str] = []

    def on_step_end(self, row: StepRow, x: np.ndarray) -> None:
        if row.step == self.after:
            pids = [self.engine.pid(worker) for worker in self.workers]
            for worker in self.workers:
                self.engine.kill(worker)
            assert left_of(pids, PATIENCE) == []

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice.text)


@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
def test_killed_workers_are_replaced_and_the_run_goes_on() -> None:
    engine = ProcessEngine(Timetable({(w, s, 0): 0.02 for w in range(8) for s in range(6)}))
    killer = _Killer(engine, after=1, workers=(0, 5, 7))
    run = short_train(schemes.exact(8, 2), engine, 6, killer)
    virtual = short_train(schemes.exact(8, 2), VirtualEngine(), 6)
    np.testing.assert_allclose(run.x, virtual.x, rtol=1e-12)
    died = sorted(text for text in killer.notices if "died" in text)
    assert died == [f"worker {w} died: killed by SIGKILL; another takes its place" for w in (0, 5, 7)]
    assert not any(row.dead or row.residual for row in run.steps)


@dataclass(eq=False)
class Big(Faulty):
    """Large messages, so that a torn one would be seen."""

    length: int = 50_000


_FEW_FILES = """
    import os, resource, sys, time
    import numpy as np
    from erasurehead import schemes
    from erasurehead.engines import ProcessEngine
    from erasurehead.errors import EngineError
    from erasurehead.training import Callback
    from erasurehead.optimizers import GradientDescent
    from erasurehead.testing._problems import Quadratic
    from erasurehead.training import train

    class Greedy(Callback):
        taken = []

        def on_step_end(self, row, x):
            if row.step == 1:  # no file is left for anybody else, and a worker dies
                limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                while len(os.listdir("/proc/self/fd")) <= limit - 1:
                    self.taken.append(os.open(os.devnull, os.O_RDONLY))
                pid = engine.pid(0)
                engine.kill(0)
                deadline = time.monotonic() + 30.0
                while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:  # steps are quicker than death
                    time.sleep(0.001)

    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    problem, engine = Quadratic.random(24, 6, seed=4), ProcessEngine()
    try:
        run = train(problem, schemes.exact(6, 2), GradientDescent(np.zeros(6), 0.1), engine, 6, [Greedy()])
        print(len(run.steps), max(row.residual for row in run.steps), run.steps[-1].workers)
        print([notice.text for notice in run.notices][0])
    except EngineError as error:
        print(error)
"""


def _with_files(limit: int) -> str:
    program = textwrap.dedent(_FEW_FILES).replace("LIMIT, LIMIT", f"{limit}, {limit}")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which files are open")
def test_too_few_files_for_the_workers_is_a_sentence_that_says_what_would_work() -> None:
    said = _with_files(30)
    assert "workers use up the 30 files that a process may have open; raise the limit (ulimit -n)" in said


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which files are open")
def test_no_file_for_a_replacement_means_that_the_others_take_its_tasks() -> None:
    counts, notice = _with_files(100).splitlines()
    assert counts == "6 0.0 5"
    assert notice.startswith("worker 0 died: killed by SIGKILL; there is no room for another")


def test_messages_are_whole_under_a_burst_of_orders() -> None:
    with ProcessEngine(late="carry") as engine:
        start(engine, [Big(worker, (worker,), n_parameters=20_000) for worker in range(4)])
        seen: list[int] = []
        for number in range(150):
            engine.submit(order(number, n_parameters=20_000))
            while (event := engine.next_event(engine.now() + 0.002)) is not None:
                assert isinstance(event, Arrived), event
                step, worker, message, point = event.read().reshape(-1, 4).T
                for column, value in ((step, event.step), (worker, event.worker), (message, event.worker)):
                    assert (column == value).all()
                assert (point == event.order_round).all()
                engine.release(event)
                seen.append(event.order_round)
        deadline = engine.now() + PATIENCE
        while seen.count(149) < 4:
            event = engine.next_event(deadline)
            assert isinstance(event, Arrived)
            engine.release(event)
            seen.append(event.order_round)


class _Struck(ProcessEngine):
    """Some workers are killed as soon as their process is there, each once."""

    def __init__(self, victims: set[int]) -> None:
        super().__init__()
        self.victims = victims

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        super().assign(worker, program, host)
        if program is not None and worker in self.victims:
            self.victims.discard(worker)
            self.kill(worker)


@pytest.mark.parametrize("victims", [{0}, {2, 5}, set(range(6))], ids=["first", "two", "all"])
def test_workers_that_are_killed_before_they_have_joined_are_replaced_recorded_and_counted(victims: set[int]) -> None:
    problem = Quadratic.random(24, 6, seed=4)
    run = train(problem, schemes.exact(6, 2), Nesterov(problem.initial(), 0.1), _Struck({*victims}), 3)
    assert [row.workers for row in run.steps] == [6] * 3
    assert {*run.steps[0].workers_noticed("died")} == {*run.steps[0].workers_noticed("joined")} == victims
    died = run.steps[0].noticed("died")
    assert all(notice.data == {"reason": "killed by SIGKILL", "replaced": True} for notice in died)
    # Where the machine is busy, a worker may have joined by the time that the signal reaches it.
    begun = {notice.worker: "died" if "died" in notice.text else "did not start" for notice in died}
    assert {notice.text for notice in died} == {
        f"worker {victim} {begun[victim]}: killed by SIGKILL; another takes its place" for victim in victims
    }
    assert len(victims) < 6 or "did not start" in begun.values()
    told = figures(run)
    assert (told["deaths"], told["joined"], told["dead"], told["workers_at_end"]) == (len(victims), len(victims), [], 6)


def test_a_server_of_workers_that_is_killed_is_replaced_with_all_its_workers() -> None:
    problem = Quadratic.random(24, 6, seed=4)
    with ProcessEngine() as engine:
        start(engine, [Echo(0, (0,))])
        server: Any = forkserver._forkserver  # type: ignore[attr-defined]
        os.kill(server._forkserver_pid, signal.SIGKILL)
        run = train(problem, schemes.exact(6, 2), Nesterov(problem.initial(), 0.1), ProcessEngine(), 3)
    assert figures(run)["workers_at_end"] == 6


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a socket is not found without its name")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_a_coordinator_that_is_ended_by_a_signal_leaves_nothing_in_the_temporary_folder(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = """
        import sys, time
        from erasurehead.engines import ProcessEngine
        from erasurehead.testing._programs import Echo
        from erasurehead.testing._driving import start
        with ProcessEngine() as engine:
            start(engine, [Echo(worker, (0,)) for worker in range(2)])
            print("ready", flush=True)
            time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert not list(tmp_path.iterdir())
        process.send_signal(number)
        process.wait(PATIENCE)
    assert not list(tmp_path.iterdir())


class Faults(Echo):
    """Answers how many pages it took to compute from its data, in an array as long as the message, and to answer."""

    def __init__(self, number: int) -> None:
        super().__init__(number, (number,), length=1_000_000, n_parameters=1_000_000)
        self.data = np.ones(1_000_000)

    def compute(self, spec: MessageSpec, taken: Any, out: np.ndarray) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        out[:] = 2.0 * self.data
        out[:] = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not maps_in_advance(), reason="this system cannot map pages in advance")
def test_a_worker_has_its_memory_mapped_before_the_first_order() -> None:
    with ProcessEngine() as engine:
        start(engine, [Faults(0)])
        engine.submit(order(0, n_parameters=1_000_000))
        (first,) = arrivals(engine, 1)
        assert first.read()[0] < 0.1 * 8 * 1_000_000 / resource.getpagesize()
