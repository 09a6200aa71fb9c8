"""The MPI engine: the conformance suite and more on real ranks, and what becomes of a job that is left or killed."""

from __future__ import annotations

import contextlib
import inspect
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from erasurehead.errors import InvalidArgument, MissingExtra

from ..bounded import PATIENCE, left_of
from ..run_files import read_config
from . import mpi_inside
from .mpi_jobs import environment, job, mpiexec, running

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.xdist_group("mpi")]  # one job at a time

RANKS = 21  # of the job that runs the tests of `mpi_inside`: at most 7 workers at once, and the 13 that are killed

INSIDE = """
import sys
from erasurehead.engines import MPIEngine
MPIEngine.serve_unless_coordinator()
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


LEFT_OUT = "left out, at least in part: "
ENDED = "the job ended by itself, though ranks of it had been killed"


def names() -> list[str]:
    """Return the tests that are run inside the job."""
    return [
        f"{suite.__name__}.{name}"
        for suite in (
            mpi_inside.TestConformance,
            mpi_inside.TestConformanceOfWhatTravels,
            mpi_inside.TestOwn,
            mpi_inside.TestPeers,
            mpi_inside.TestAllRanks,
        )
        for name, _ in inspect.getmembers(suite, inspect.isfunction)
        if name.startswith("test_")
    ] + [ENDED]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Run all tests of `mpi_inside` in one job; return, by their names, what each says that failed."""
    folder = tmp_path_factory.mktemp("mpi")
    report = folder / "report.xml"
    words = ("-q", "--color=no", "-p", "no:cacheprovider", f"--junitxml={report}", str(Path(mpi_inside.__file__)))
    said = folder / "said.txt"
    found: dict[str, list[str]] = {ENDED: ["it did not"]}
    with said.open("w") as output, contextlib.suppress(subprocess.TimeoutExpired):
        command = job(RANKS, "-c", INSIDE, *words)
        within = environment(folder)
        subprocess.run(command, stdout=output, stderr=output, timeout=2 * PATIENCE, check=False, env=within)
        found[ENDED] = []
    assert report.is_file(), said.read_text()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('[')[0]}"
        bad = [element.text or "" for element in case if element.tag in ("failure", "error")]
        left_out = [f"{LEFT_OUT}{element.get('message', '')}" for element in case if element.tag == "skipped"]
        found.setdefault(name, []).extend([*bad, *left_out])
    return found


@pytest.mark.parametrize("name", names())
def test_inside(outcomes: dict[str, list[str]], name: str) -> None:
    assert name in outcomes, "the job ended before this test"
    failed = [said for said in outcomes[name] if not said.startswith(LEFT_OUT)]
    assert not failed, "\n".join(failed)
    if outcomes[name]:
        pytest.skip(outcomes[name][0])


def test_nothing_needs_mpi4py_before_an_engine_is_made() -> None:
    code = "import sys, erasurehead.engines._mpi; assert 'mpi4py' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from erasurehead.engines import MPIEngine

    with pytest.raises(InvalidArgument, match="late must be 'preempt' or 'carry'"):
        MPIEngine(None, "queue")  # pyright: ignore[reportArgumentType]
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MissingExtra, match=r"pip install 'erasurehead\[mpi\]'"):
        MPIEngine()


def test_an_engine_without_ranks_says_how_to_start_them(tmp_path: Path) -> None:
    mpiexec()
    code = "from erasurehead.engines import MPIEngine\ntry: MPIEngine()\nexcept Exception as e: print(e)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=True, env=environment(tmp_path)
    )
    assert "mpiexec -n 31, or under SLURM srun -n 31, for 30" in done.stdout
    assert not list(tmp_path.glob("sm_segment*"))


KILLED = """
    import os, sys, time
    from erasurehead.engines import MPIEngine
    MPIEngine.serve_unless_coordinator()
    from erasurehead.testing._programs import Echo, Timetable
    from erasurehead.testing._driving import order, start
    class Mine(Timetable):
        pass
    engine = MPIEngine(Mine({(0, 0, 0): 1e6, (1, 0, 0): 1e6}), "carry")
    start(engine, [Echo(worker, (worker,)) for worker in range(3)])
    engine.submit(order(0))
    if sys.argv[1] == "pause":
        engine.pause(2)
    print("pids", os.getpid(), *[engine.pid(worker) for worker in range(3)], flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(("ft", "pause"), [(True, "pause"), (False, "")])
def test_no_rank_is_left_when_the_coordinator_is_killed(tmp_path: Path, ft: bool, pause: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(KILLED))
    with running(job(5, script, pause, ft=ft), tmp_path) as process:
        assert process.stdout is not None
        words = next(line for line in process.stdout if line.startswith("pids")).split()
        pids = [int(word) for word in words[1:]]
        os.kill(pids[0], signal.SIGKILL)
        left = left_of(pids)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert left == []
        process.stdout.read()
        process.wait(PATIENCE)


@pytest.mark.parametrize("shell", [False, True])
def test_no_rank_is_left_when_the_launcher_is_killed(tmp_path: Path, shell: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(KILLED))
    command = job(4, script, "")
    if shell:  # which outlives the launcher, and has ranks of other parents
        at = command.index(sys.executable)
        command[at:] = ["sh", "-c", f"{shlex.join(command[at:])}; true"]
    with running(command, tmp_path) as process:
        assert process.stdout is not None
        words = next(line for line in process.stdout if line.startswith("pids")).split()
        pids = [int(word) for word in words[1:]]
        process.kill()
        left = left_of(pids)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert left == []


UNUSED = """
    import sys
    from erasurehead.engines import MPIEngine
    MPIEngine.serve_unless_coordinator()
    sys.exit(3)
"""


@pytest.mark.parametrize("ft", [True, False])
def test_the_ranks_end_with_a_coordinator_that_makes_no_engine(tmp_path: Path, ft: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(UNUSED))
    done = subprocess.run(job(3, script, ft=ft), timeout=PATIENCE, check=False, env=environment(tmp_path))
    assert done.returncode == 3


def test_a_run_with_nothing_set_has_a_worker_on_each_rank_but_the_first(tmp_path: Path) -> None:
    rows = "".join(f"{number % 7},{number % 5},{(number * number) % 3 % 2}\n" for number in range(60))
    (tmp_path / "table.csv").write_text(f"a,b,y\n{rows}")
    out = tmp_path / "run"
    words = ("-m", "erasurehead", "train", "--data", tmp_path / "table.csv", "--engine", "mpi", "--out", out)
    done = subprocess.run(
        job(4, *words), capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(tmp_path)
    )
    assert "\nconverged; model and records in" in done.stdout, done.stderr
    assert read_config(out / "config.toml").run.workers == 3


EARLY = """
    import os, signal
    from erasurehead.engines import MPIEngine
    from erasurehead.engines._mpi.transport import world
    from erasurehead.errors import EngineError
    if world(None).Get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        MPIEngine.serve_unless_coordinator()
        MPIEngine().hosts()
    except EngineError as error:
        print(error)
"""


def test_a_rank_that_is_killed_before_it_serves_is_an_error_that_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(EARLY))
    done = subprocess.run(
        job(3, script), capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(tmp_path)
    )
    assert done.stdout.count("a rank of the job failed before it began") == 2, done.stderr
    assert "Traceback" not in done.stderr


LATE = """
    import time
    from erasurehead.engines import MPIEngine
    from erasurehead.engines._mpi import rendezvous
    from erasurehead.engines._mpi.transport import world
    rank = world(None).Get_rank()
    waited, turns = rendezvous._wait, []
    def wait(done, comm, deadline, seconds):
        turns.append(done)
        if rank == 2 and len(turns) == 3:
            time.sleep(2.0)  # all others have heard of it, but it has not looked what they have said
            print("looks at", time.monotonic(), flush=True)
        waited(done, comm, deadline, seconds)
    rendezvous._wait = wait
    MPIEngine.serve_unless_coordinator()
    from erasurehead.testing._programs import Echo
    from erasurehead.testing._driving import order, take
    with MPIEngine() as engine:
        engine.assign(0, Echo(0, (0,)))
        print("met at", time.monotonic(), flush=True)
        engine.kill(0)
        engine.assign(1, Echo(1, (1,)))
        engine.submit(order(0), [1])
        print("events", *sorted(f"{type(event).__name__}:{event.worker}" for event in take(engine, 3)), flush=True)
"""


def test_a_rank_that_is_killed_at_once_is_missed_by_none_that_is_slow_to_meet_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(LATE))
    done = subprocess.run(
        job(3, script), capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(tmp_path)
    )
    said = {words[0]: words[1:] for words in map(str.split, done.stdout.splitlines())}
    assert float(said["looks"][1]) < float(said["met"][1]), done.stderr
    assert said["events"] == ["Arrived:1", "Died:0", "Joined:1"], done.stderr


STUCK = """
    import os, signal
    from erasurehead.engines import MPIEngine
    from erasurehead.engines._mpi import job
    def leave(whole):
        print("all live" if whole else "one is dead", flush=True)
        left(whole)
    left, job.leave = job.leave, leave
    MPIEngine.serve_unless_coordinator()
    from erasurehead.testing._programs import Echo
    from erasurehead.testing._driving import start
    engine = MPIEngine()
    start(engine, [Echo(worker, (worker,)) for worker in range(3)])
    os.kill(engine.pid(1), signal.SIGSTOP)
    engine.close()
"""


def test_when_one_rank_has_to_be_ended_the_others_do_not_wait_for_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(STUCK))
    command = job(4, script)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(tmp_path)
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, ["one is dead"] * 2), done.stderr


TOLD = """
    import os, signal
    from erasurehead.engines import MPIEngine
    MPIEngine.serve_unless_coordinator()
    from erasurehead.testing._programs import Echo
    from erasurehead.testing._driving import order, start, take
    with MPIEngine() as engine:
        start(engine, [Echo(worker, (worker,)) for worker in range(2)])
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            os.kill(engine.pid(0), number)
        engine.submit(order(0))
        print("events", *sorted(f"{type(event).__name__}:{event.worker}" for event in take(engine, 2)), flush=True)
"""


def test_signals_that_end_a_run_are_left_to_the_coordinator(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(TOLD))
    command = job(3, script)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(tmp_path)
    )
    assert done.stdout.split() == ["events", "Arrived:0", "Arrived:1"], done.stderr


PART = """
    from mpi4py import MPI
    from erasurehead.engines import MPIEngine
    from erasurehead.engines._mpi.job import serve
    rank = MPI.COMM_WORLD.Get_rank()
    part = MPI.COMM_WORLD.Split(rank < 3)
    if rank == 0:
        for _ in range(2):
            with MPIEngine(comm=part) as engine:
                print("room", sum(engine.hosts().values()), flush=True)
    elif rank < 3:
        serve(part)
        print("served", flush=True)
"""


def test_a_part_of_a_job_serves_and_then_goes_its_way(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PART))
    command = job(4, script)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=True, env=environment(tmp_path)
    )
    assert sorted(done.stdout.splitlines()) == ["room 2", "room 2", "served", "served"]


IDLE = """
    import os, time
    from erasurehead.engines import MPIEngine
    MPIEngine.serve_unless_coordinator()
    from erasurehead.testing._programs import Echo, Timetable
    from erasurehead.testing._driving import arrivals, order, start, take
    def used():
        ticks = 0
        for pid in pids:
            with open(f"/proc/{pid}/stat") as stat:
                ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")
    engine = MPIEngine(Timetable({(worker, 0, 0): 1e6 for worker in range(1, 30)}))
    start(engine, [Echo(worker, (worker,)) for worker in range(30)])
    pids = [os.getpid(), *(engine.pid(worker) for worker in range(30))]
    engine.submit(order(0))
    arrivals(engine, 1)
    begin, before = time.monotonic(), used()
    assert engine.next_event(engine.now() + 4.0) is None
    print("cores", (used() - before) / (time.monotonic() - begin), flush=True)
    engine.submit(order(1))
    arrivals(engine, 30)
    begin = engine.now()
    engine.kill(7)
    (died,) = take(engine, 1)
    print("died", died.worker, died.time - begin, flush=True)
    engine.close()
"""


@pytest.mark.alone
def test_31_ranks_that_wait_use_a_third_of_a_core_and_a_death_is_known_within_a_second(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(IDLE))
    command = job(31, script)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("cores"))
    assert float(line.split()[1]) <= 0.3
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("died 7"))
    assert float(line.split()[2]) < 1.0
