"""How long thirty workers with the Amazon data take to be ready, against a bare start of thirty idle processes.

The floor: a fork server that has imported the same modules starts thirty processes that only say that they are there,
plus one copy of each worker's data. Each side is measured in fresh processes, in turn, as a fork server lives as long
as its parent.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import statistics
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from amazon import WORKERS, problem
from common import report
from erasurehead import codes, schemes
from erasurehead.engines import ProcessEngine
from erasurehead.training._assignment import Assignment
from erasurehead.training._programs import build_programs
from erasurehead.training._workers import WorkerPool
from idle import idle

HERE = Path(__file__).resolve().parent
REPETITIONS = 5
LOAD = 3


def bare() -> dict[str, float]:
    """Return the seconds of a bare start plus one copy of each worker's data."""
    whole = problem()
    programs, _ = build_programs(codes.fractional_repetition(WORKERS, LOAD), whole)
    begin = time.perf_counter()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["erasurehead.engines._processes.preload", *whole.preload])
    pipes: list[Connection] = []
    for _ in range(WORKERS):
        ours, theirs = context.Pipe()
        context.Process(target=idle, args=(theirs,), daemon=True).start()
        pipes.append(ours)
    for pipe in pipes:
        pipe.recv_bytes()
    started = time.perf_counter() - begin
    buffers: list[pickle.PickleBuffer] = []
    for program in programs:
        pickle.dumps(program, protocol=5, buffer_callback=buffers.append)
    begin = time.perf_counter()
    copies = [np.frombuffer(buffer, dtype=np.uint8).copy() for buffer in buffers]
    copied = time.perf_counter() - begin
    for pipe in pipes:
        pipe.send_bytes(b"!")
    return {"seconds": started + copied, "megabytes": sum(copy.nbytes for copy in copies) / WORKERS / 1e6}


def ours() -> dict[str, float]:
    """Return the seconds from a problem in the coordinator's memory to thirty workers that hold their tasks."""
    whole = problem()
    begin = time.perf_counter()
    scheme = schemes.exact(WORKERS, LOAD)
    programs, layout = build_programs(scheme.code, whole)
    built = time.perf_counter() - begin
    with ProcessEngine() as engine:
        WorkerPool(engine, Assignment.first(scheme, programs, layout)).start()
        seconds = time.perf_counter() - begin
        rows = [_memory(engine.pid(worker)) for worker in range(WORKERS)]
    return {
        "seconds": seconds,
        "building": built,
        "own": statistics.median(own for own, _ in rows),
        "shared": statistics.median(shared for _, shared in rows),
    }


def _memory(pid: int) -> tuple[float, float]:
    """Return the megabytes that a process has to itself, and its fair share of all it maps; NaN where not told."""
    path = Path(f"/proc/{pid}/smaps_rollup")
    if not path.exists():
        return float("nan"), float("nan")
    table = dict(line.split(":", 1) for line in path.read_text().splitlines()[1:])
    own = sum(int(table[name].split()[0]) for name in ("Private_Clean", "Private_Dirty"))
    return own / 1e3, int(table["Pss"].split()[0]) / 1e3


def fresh(side: str) -> dict[str, float]:
    """Measure one side in a process of its own."""
    # Started with -c there is no main file, which the floor's processes would each import at great cost.
    script = f"import sys; sys.path.insert(0, {str(HERE)!r}); import json, start; print(json.dumps(start.{side}()))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


def main() -> None:
    """Measure and report."""
    found = [(fresh("bare"), fresh("ours")) for _ in range(REPETITIONS + 1)][1:]
    for floor, mine in found:
        print(
            f"bare {floor['seconds']:.2f} s ({floor['megabytes']:.1f} MB of data a worker); "
            f"ours {mine['seconds']:.2f} s, {mine['building']:.2f} s of them cutting the data; "
            f"a worker has {mine['own']:.1f} MB to itself, {mine['shared']:.1f} MB with its share of what is common"
        )
    report(
        "start",
        {"ready_over_bare": statistics.median(mine["seconds"] / floor["seconds"] for floor, mine in found)},
        {"ready_over_bare": "<= 3"},
    )


if __name__ == "__main__":
    main()
