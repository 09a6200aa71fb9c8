"""Whole drills, with coordinators that are killed and disks that are full: on the virtual clock and on real engines."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from erasurehead.drills import Fault, _drill as drilling
from erasurehead.drills._drill import Drill, drilled
from erasurehead.drills._schedule import FaultSchedule, read_schedule
from erasurehead.drills._verdicts import Findings
from erasurehead.errors import InvalidArgument
from erasurehead.runs import RunFolder
from erasurehead.testing._pacing import at_some_pace

from .small import forked, small_table, tables

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


def survived(folder: Path, engine: str, coordinators: int, pace: float, *but: str) -> None:
    """Drill six workers that are real, with all kinds of faults but some, in six seconds at the pace 1."""
    delays = f"exponential(mean={0.05 * pace}, seed=0)"
    given = tables(6, engine, delays=delays, source=small_table(folder))
    schedule = all_kinds(0.5 * pace, *but)
    check(Drill(given, 6.0 * pace, schedule=schedule, out=folder / f"drill-{pace}").run(), coordinators)


def all_kinds(scale: float, *but: str) -> FaultSchedule:
    """Return a fault schedule of all kinds but some for six workers, which takes twelve times so many seconds."""
    faults = (
        Fault("slow", 1 * scale, 5, 2 * scale, by=0.2 * scale),
        Fault("kill", 2 * scale, 1),
        Fault("stop", 3 * scale, 3, 3 * scale),
        Fault("disconnect", 3.5 * scale, 0, 1 * scale),
        Fault("coordinator", 6 * scale),
        Fault("disk_full", 7.5 * scale, lasting=0.5 * scale),
        Fault("corrupt", 8.5 * scale, 4, lie="flip"),
    )
    return FaultSchedule(tuple(fault for fault in faults if fault.kind not in but))


def check(found: Findings, coordinators: int) -> None:
    """Check that every promise was kept, and that nothing is left where others would find it."""
    assert found.passed, "\n".join(verdict.text for verdict in found.verdicts if verdict.kept is False)
    assert all(one.injected is not None for one in found.faults), [one.noticed for one in found.faults]
    assert found.faulty.lives == coordinators
    assert not list(Path("/dev/shm").glob(f"erasurehead-{os.getpid()}-*"))


@pytest.mark.slow
@pytest.mark.processes
def test_on_the_virtual_clock_a_killed_coordinator_costs_not_one_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drilling, "run_command", forked)
    said: list[str] = []
    drill = Drill(tables(6), 48.0, schedule=all_kinds(4.0), out=tmp_path / "drill")
    found = drill.run(said.append)
    check(found, coordinators=3)
    assert found.same_bits
    assert found.faulty.redone > 0
    assert sum("another one continues" in text for text in said) == 2
    assert RunFolder.open(tmp_path / "drill" / "faulty").summary["status"] == "finished"
    assert read_schedule(tmp_path / "drill" / "faults.toml") == drill.schedule
    texts = " ".join(verdict.text for verdict in found.verdicts)
    for promise in ("kills were noticed", "named and put aside", "full disk", "coordinator was killed", "same bits"):
        assert promise in texts


@pytest.mark.slow
@pytest.mark.processes
def test_a_fault_outlasts_the_coordinator_on_the_virtual_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drilling, "run_command", forked)
    # Worker 3 is suspected at 17.1 s: by the second coordinator, which goes on from a checkpoint of just before.
    schedule = FaultSchedule((Fault("stop", 12.0, 3, 12.0), Fault("coordinator", 17.2)))
    drill = Drill(tables(6), 30.0, schedule=schedule, out=tmp_path / "drill")
    every_step = drill.config.checkpoints.model_copy(update={"every_steps": 1})
    drill.config = drill.config.model_copy(update={"checkpoints": every_step})
    check(drill.run(), coordinators=2)


@pytest.mark.slow
@pytest.mark.processes
def test_records_may_be_given_up_where_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drilling, "run_command", forked)
    schedule = FaultSchedule((Fault("disk_full", 5.0, lasting=2.0),))
    found = Drill(tables(6, records="optional"), 12.0, schedule=schedule, out=tmp_path / "drill").run()
    assert found.passed
    assert found.faulty.lives == 1
    assert found.faults[0].effect == "continued without records"


@pytest.mark.slow
@pytest.mark.processes
@at_some_pace
def test_real_processes_survive_the_schedule(tmp_path: Path, pace: float) -> None:
    survived(tmp_path, "processes", 3, pace)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.xdist_group("mpi")
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
@pytest.mark.skipif(
    not (shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")),
    reason="there is no mpiexec",
)
@at_some_pace
def test_ranks_of_an_mpi_job_survive_the_schedule(tmp_path: Path, pace: float) -> None:
    survived(tmp_path, "mpi", 2, pace, "disk_full")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.xdist_group("clusters")
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
@at_some_pace
def test_actors_of_a_ray_cluster_survive_the_schedule(tmp_path: Path, pace: float) -> None:
    survived(tmp_path, "ray", 2, pace, "disk_full")


def test_a_drill_fills_its_time_with_steps(tmp_path: Path) -> None:
    short, long = (Drill({}, seconds, out=tmp_path / str(seconds)) for seconds in (60.0, 600.0))
    assert 9 < long.steps / short.steps < 11
    assert long.schedule == Drill({}, out=tmp_path / "again").schedule
    assert not list(tmp_path.iterdir())  # nothing is made before it is run


@pytest.mark.parametrize(
    ("given", "settings", "sentence"),
    [
        (tables(engine="cloud"), {}, r"run\.engine must be 'processes', 'in_process', 'virtual', 'mpi' or"),
        (tables(engine="in_process"), {}, r"run\.engine must be an engine whose workers can be struck"),
        (tables(workers=0), {}, r"run\.workers must be at least 1"),
        ({}, {"seconds": 0.0}, "seconds must be a positive number of seconds"),
        ({}, {"seconds": float("nan")}, "seconds must be a positive number of seconds"),
        ({}, {"seed": -1}, "seed must be at least 0"),
        (tables(delays="none()"), {}, "delays must make each step take a positive, finite time"),
        (
            tables(scheme="exact(load=2)"),
            {"kinds": ("corrupt",)},
            "kinds must not be corrupt alone for exact, where no three workers send the same message",
        ),
    ],
)
def test_settings_that_make_no_drill_are_refused(
    tmp_path: Path, given: dict[str, Any], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        Drill(given, out=tmp_path / "drill", **settings)


def test_workers_that_are_not_there_and_folders_that_are_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="a fault's worker must be less than the 6 workers, but it is 9"):
        Drill(tables(6), schedule=FaultSchedule((Fault("kill", 1.0, 9),)), out=tmp_path / "drill")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "note").touch()
    with pytest.raises(InvalidArgument, match="out must be an empty folder, or one that does not exist yet"):
        Drill(tables(6), out=tmp_path / "used")


def test_lies_are_drawn_only_where_they_can_be_told(tmp_path: Path) -> None:
    drill = Drill(tables(6, scheme="exact(load=2)"), out=tmp_path / "drill")
    assert not drill.schedule.of("corrupt")
    assert drill.schedule.of("kill")


@pytest.mark.slow
@pytest.mark.processes
def test_a_run_that_takes_too_long_is_ended_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    drill = Drill(
        tables(6, "processes", delays="exponential(mean=0.05, seed=0)", source=small_table(tmp_path)),
        60.0,
        schedule=FaultSchedule(),
        out=tmp_path / "drill",
    )
    drill.prepare()
    done = drill.perform("baseline", limit=4.0)
    assert done.failure == "it had not ended within 4 s of real time"
    assert done.outcome is None
    mine = str(drill.out).encode()
    running = [path for path in Path("/proc").glob("[0-9]*") if path.name != str(os.getpid())]
    assert not [path for path in running if mine in _command(path)]


def test_messages_are_compared_unless_nobody_sends_the_same() -> None:
    assert drilled(tables(6)).faults.verify
    assert not drilled(tables(6, scheme="compute_once(load=3, sums=True)")).faults.verify
    assert not drilled(tables(6, scheme="uncoded")).faults.verify
    assert not drilled(tables(6, scheme="nested(load=3)")).faults.verify
    assert drilled(tables(6, scheme="exact(load=3)")).faults.verify


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
