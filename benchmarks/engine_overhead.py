"""What the process engine costs beyond moving the bytes: one step against two floors, in one run.

Floors: one process that writes and sums the 30 vectors; and a bare loop of 30 processes (shared memory, pipes, a sum,
nothing else). Workers write their vectors and compute nothing, so that only the engine is seen. With the supports of
the Amazon data instead of dense vectors, messages are shorter; both sides wait for all 30 and decode the same code.
With injected delays and the first 11 of 30 the excess over the ideal order statistic is compared with the first floor.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from common import report
from erasurehead import codes, schemes
from erasurehead.decoding._layout import Layout
from erasurehead.delays import Exponential
from erasurehead.engines import ProcessEngine
from erasurehead.engines._shared_memory import SharedBlock
from rounds import D, N, Rounds, Single, all_of, supports

REPETITIONS, STEPS = 9, 10


class Bare:
    """Thirty processes, shared memory, pipes, a sum."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        self.model, self.slots = SharedBlock(8 * D), SharedBlock(8 * D * N)
        self.pipes: list[Connection] = []
        self.processes = []
        for worker in range(N):
            ours, theirs = context.Pipe()
            process = context.Process(target=_bare_worker, args=(worker, self.slots, theirs), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self.x, self.matrix = np.zeros(D), self.slots.array(0, D * N).reshape(N, D)

    def step(self) -> float:
        begin = time.perf_counter()
        self.model.array(0, D)[:] = self.x
        for pipe in self.pipes:
            pipe.send_bytes(b"!")
        waiting: list[Any] = list(self.pipes)
        while waiting:
            for pipe in multiprocessing.connection.wait(waiting):
                assert isinstance(pipe, Connection)
                pipe.recv_bytes()
                waiting.remove(pipe)
        total = np.ones(N) @ self.matrix
        assert total[0] == N
        return time.perf_counter() - begin

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join()


def _bare_worker(worker: int, slots: SharedBlock, pipe: Connection) -> None:
    vector = slots.array(8 * D * worker, D)
    try:
        while True:
            pipe.recv_bytes()
            vector[:] = 1.0
            pipe.send_bytes(b"!")
    except EOFError:
        return


def main() -> None:
    """Measure and report."""
    dense = Layout(D, [None] * N)
    sides = {
        "dense": Rounds(ProcessEngine(), schemes.uncoded(N), dense),
        "dense_load_3": Rounds(ProcessEngine(), all_of(3), dense),
        "support_load_1": Rounds(ProcessEngine(), all_of(1), supports(1)),
        "support_load_3": Rounds(ProcessEngine(), all_of(3), supports(3)),
    }
    delays = Exponential(mean=0.2, seed=0)
    delayed = Rounds(ProcessEngine(delays), schemes.custom(codes.uncoded(N), "first(11)"), dense)
    bare, single = Bare(), Single()
    medians: dict[str, list[float]] = {name: [] for name in (*sides, "bare", "single", "excess")}
    for repetition in range(REPETITIONS + 1):
        seconds = {name: statistics.median(side.step()[0] for _ in range(STEPS)) for name, side in sides.items()}
        seconds["bare"] = statistics.median(bare.step() for _ in range(STEPS))
        seconds["single"] = statistics.median(single.step() for _ in range(STEPS))
        excess = []
        for _ in range(STEPS):
            ideal = np.sort(delays.row(delayed.round, N))[10]
            excess.append(delayed.step()[1] - ideal)
        seconds["excess"] = statistics.median(excess)
        for name, value in seconds.items():
            if repetition:
                medians[name].append(value)
    bare.close()
    for side in (*sides.values(), delayed):
        side.engine.close()
    for name, values in medians.items():
        print(f"{name:<44} {1e3 * statistics.median(values):10.2f} ms")

    def ratio(above: str, below: str) -> float:
        return statistics.median(a / b for a, b in zip(medians[above], medians[below], strict=True))

    report(
        "engine_overhead",
        {
            "dense_over_bare": ratio("dense", "bare"),
            "dense_over_single": ratio("dense", "single"),
            "dense_over_support_load_1": ratio("dense", "support_load_1"),
            "dense_over_support_load_3": ratio("dense_load_3", "support_load_3"),
            "excess_over_single": ratio("excess", "single"),
        },
        {
            "dense_over_bare": "<= 1.3",
            "dense_over_single": "<= 2.0",
            "dense_over_support_load_1": ">= 2.5",
            "dense_over_support_load_3": ">= 2",
            "excess_over_single": "<= 1",
        },
    )


if __name__ == "__main__":
    main()
