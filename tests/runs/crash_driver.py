"""Runs that are killed, in forks of this process: it has trained once, so that they need not load anything.

It has no threads.

    python crash_driver.py moments FOLDER SEED COUNT    kills at random moments, COUNT of each kind of run
    python crash_driver.py operations FOLDER            crashes at each file operation, in two ways

Prints a line of JSON: how many crashes, what became of them, and every difference to the unbroken run.
"""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from erasurehead import delays, engines, optimizers, schemes, training
from erasurehead.errors import DataError
from erasurehead.faults import FaultPolicy
from erasurehead.runs import Checkpointer, Recorder, RunFolder
from erasurehead.runs._checkpoints.store import CheckpointStore
from erasurehead.runs._names import ARRIVALS, EVALUATIONS, MODEL, STEPS
from erasurehead.testing._problems import Quadratic

KINDS = {
    "preempt": ("preempt", FaultPolicy()),
    "carry": ("carry", FaultPolicy(on_death="leave")),
    "spread": ("carry", FaultPolicy(on_death="spread")),
}
"""Kind of run -> what a late worker does, and what is done about the dead."""

STEPPED, OPERATED = 12, 2
"""Steps of the runs that are killed at random moments, and of those that crash at each file operation."""


def run(path: Path, kind: str, steps: int, behind: int = 1) -> None:
    """Train in a folder, going on from its newest checkpoint if it has one."""
    late, fault_policy = KINDS[kind]
    problem = Quadratic.random(48, 5, seed=1, l2=0.01)
    engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3), late)  # pyright: ignore[reportArgumentType]
    for worker, time_of_death in ((2, 0.5), (4, 1.1)):
        engine.kill(worker, at=time_of_death)
    recorder = _recorder(path)
    training.train(
        problem,
        schemes.erasurehead(6, load=2, wait_for=3),
        optimizers.Nesterov(problem.initial(), 0.1),
        engine,
        steps,
        [recorder, Checkpointer(recorder, every_steps=1, behind=behind)],
        fault_policy=fault_policy,
        resume=recorder.resumption,
    )


def _recorder(path: Path) -> Recorder:
    try:
        CheckpointStore(path).newest()
    except DataError:  # killed before the first checkpoint: that is no run to go on with
        return Recorder(RunFolder.create(path, overwrite=True))
    return Recorder.reopen(RunFolder.open(path))


def forked(work: Callable[[], None]) -> int:
    """Do something in a child, and return the child's number."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def ended(child: int) -> bool:
    """Wait for a child, and return whether it came to its end by itself."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"a child failed with {code}"
    return code == 0


def content(path: Path) -> dict[str, bytes]:
    """Return what must not depend on crashes."""
    return {name: (path / name).read_bytes() for name in (STEPS, ARRIVALS, EVALUATIONS, MODEL)}


def differences(path: Path, whole: dict[str, bytes], what: str) -> list[str]:
    """Return what differs from the unbroken run, and what is left over."""
    names = [f"{what}: {name}" for name, data in content(path).items() if data != whole[name]]
    over = {entry.name for entry in path.iterdir()} - {*whole, "summary.json", "checksums.json", "checkpoints"}
    kept = [entry.name for entry in (path / "checkpoints").glob("*.json")]
    if len(kept) > 1:  # a run that is finished leaves the last one
        over |= set(kept)
    return names + [f"{what}: {name} is left over" for name in sorted(over)]


def no_fsync() -> None:
    """Leave the flushing out: what a killed process has written is there without it."""
    os.fsync = lambda descriptor: None  # pyright: ignore[reportAttributeAccessIssue]


def at_moments(place: Path, seed: int, count: int) -> dict[str, Any]:
    """Kill at random moments."""
    no_fsync()
    rng = random.Random(seed)
    wrong: list[str] = []
    steps_at: list[int] = []
    for kind in KINDS:
        whole = place / f"{kind}-whole"
        begin = time.monotonic()
        assert ended(forked(lambda kind=kind, whole=whole: run(whole, kind, STEPPED)))
        duration = time.monotonic() - begin
        expected = content(whole)
        done = 0
        while done < count:
            path = place / f"{kind}-{done}"
            while True:
                child = forked(lambda kind=kind, path=path: run(path, kind, STEPPED))
                if done % 2:
                    time.sleep(rng.uniform(0.0, duration))
                else:  # that all stages are met, however the time of a run is spread over them
                    await_step(path, rng.randrange(1, STEPPED), time.monotonic() + duration)
                os.kill(child, signal.SIGKILL)
                if ended(child):
                    break
                done += 1
                steps_at.append(step_of(path))
            wrong += differences(path, expected, f"{kind} {path.name}")
            shutil.rmtree(path)
    return {"crashes": len(steps_at), "wrong": wrong, "steps": sorted(set(steps_at))}


def await_step(path: Path, step: int, until: float) -> None:
    """Wait for a run's checkpoint of a step; they are read when there is another, as the run may need the core."""
    seen: set[str] = set()
    while time.monotonic() < until:
        there = {entry.name for entry in (path / "checkpoints").glob("*.json")}
        if there != seen and step_of(path) >= step:
            return
        seen = there
        time.sleep(0.0005)


def step_of(path: Path) -> int:
    """Return the step of a run's newest checkpoint, or 0."""
    try:
        return CheckpointStore(path).newest()[0]
    except DataError:
        return 0


class Operations:
    """Counts file operations, and crashes before one of them; of a write, half is done.

    Arguments:
        at: which; none if negative.
        power_cut: whether all is lost that was not flushed to the disk.
    """

    def __init__(self, at: int, power_cut: bool) -> None:
        self.at, self.power_cut, self.count = at, power_cut, 0
        self.paths: dict[int, str] = {}
        self.flushed: dict[str, int] = {}
        self.real = {name: getattr(os, name) for name in ("open", "write", "fsync", "replace", "unlink", "ftruncate")}
        for name in self.real:
            setattr(os, name, getattr(self, name))

    def crash(self) -> None:
        if self.power_cut:
            for path, size in self.flushed.items():
                if os.path.exists(path) and os.path.getsize(path) > size:
                    os.truncate(path, size)
        os.kill(os.getpid(), signal.SIGKILL)

    def counted(self, before: Callable[[], object] = lambda: None) -> None:
        self.count += 1
        if self.count - 1 == self.at:
            before()
            self.crash()

    def place_of(self, path: Any, within: int | None) -> str:
        """Return the path of what is named within an open folder."""
        return str(path) if within is None else os.path.join(self.paths[within], path)

    def open(self, path: Any, flags: int, *more: Any, dir_fd: int | None = None) -> int:
        changes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        if changes:  # a crash before something is looked at is one before what is changed next
            self.counted()
        descriptor = self.real["open"](path, flags, *more, dir_fd=dir_fd)
        place = self.paths[descriptor] = self.place_of(path, dir_fd)
        if changes:
            self.flushed.setdefault(place, os.path.getsize(place))
        return descriptor

    def write(self, descriptor: int, data: Any) -> int:
        self.counted(lambda: self.real["write"](descriptor, bytes(data)[: len(data) // 2]))
        return self.real["write"](descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self.counted()
        path = self.paths[descriptor]
        if not os.path.isdir(path):
            self.flushed[path] = os.path.getsize(path)

    def replace(self, source: Any, target: Any, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self.counted()
        self.real["replace"](source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self.flushed[self.place_of(target, dst_dir_fd)] = self.flushed.pop(self.place_of(source, src_dir_fd))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self.counted()
        self.real["unlink"](path, dir_fd=dir_fd)
        self.flushed.pop(self.place_of(path, dir_fd), None)

    def ftruncate(self, descriptor: int, size: int) -> None:
        self.counted()
        self.real["ftruncate"](descriptor, size)
        path = self.paths[descriptor]
        self.flushed[path] = min(self.flushed.get(path, size), size)


def at_operations(place: Path) -> dict[str, Any]:
    """Crash at each file operation: as a killed process does at every other one, as a power cut does at the rest."""
    no_fsync()  # but for the one that is counted in the crashing runs
    whole, crashes = place / "whole", 0
    wrong: list[str] = []
    assert ended(forked(lambda: run(whole, "carry", OPERATED, behind=0)))
    expected = content(whole)
    for power_cut in (False, True):
        at = int(power_cut)
        while True:
            path = place / f"{power_cut}-{at}"

            def crashing(at: int = at, path: Path = path, power_cut: bool = power_cut) -> None:
                Operations(at, power_cut)
                run(path, "carry", OPERATED, behind=0)

            if ended(forked(crashing)):
                break
            crashes += 1
            assert ended(forked(lambda path=path: run(path, "carry", OPERATED, behind=0)))
            wrong += differences(path, expected, path.name)
            shutil.rmtree(path)
            at += 2
    return {"crashes": crashes, "wrong": wrong}


def warm_up() -> None:
    """Train here, so that what is imported or compiled at its first use is there in every fork."""
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as scratch:
            run(Path(scratch) / "run", kind, 2, behind=0)
            run(Path(scratch) / "run", kind, STEPPED, behind=0)
    gc.collect()
    gc.freeze()  # so that the memory stays shared


if __name__ == "__main__":
    mode, where, *numbers = sys.argv[1:]
    warm_up()
    result = at_operations(Path(where)) if mode == "operations" else at_moments(Path(where), *map(int, numbers))
    print(json.dumps(result))
