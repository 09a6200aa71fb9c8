"""The memoryless simulator against drawing the same exponentials and nothing else, and against a plain event loop.

A repetition code, stopped by the joint rule (40% of the workers, or all groups), under exponential delays. Every side
takes about as long as the others, so that drifts of the machine meet them alike; they are compared per worker-step.

The event loop is Python without numpy: it draws each delay itself, as the simulator's time holds its draws too,
pushes one event a worker, and pops them until the rule says stop. Whoever has numpy would draw a step's delays at once
and make the heap at once; that is measured beside it, without a target.
"""

from __future__ import annotations

import heapq
import random
import statistics
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

from common import interleave, ratio, report
from erasurehead import delays
from erasurehead.codes import fractional_repetition
from erasurehead.decoding import make_decoder
from erasurehead.planning._simulation import Timing, stop_times
from erasurehead.schemes import wait_rules

BLOCK = 1 << 18
CASES = {30: (3, 131_072, 3_000), 1_000: (5, 4_096, 80), 1_000_000: (5, 24, 1)}  # load, steps, steps of event loops
REPETITIONS = 7
MODEL = delays.Exponential(0.5, seed=0)


def draws(n: int, steps: int) -> Callable[[], None]:
    """Draw as many exponentials into a reused block."""
    generator = np.random.default_rng(0)
    block = np.empty(max(1, BLOCK // n) * n)
    whole, rest = divmod(n * steps, len(block))

    def work() -> None:
        for _ in range(whole):
            generator.standard_exponential(out=block)
        generator.standard_exponential(out=block[:rest])

    return work


def event_loop(n: int, load: int, steps: int) -> Callable[[], list[float]]:
    """Return when each step stops, in plain Python: a heap of events, one arrival at a time."""
    generator = random.Random(0)

    def work() -> list[float]:
        stops: list[float] = []
        for _ in range(steps):
            events: list[tuple[float, int]] = []
            for worker in range(n):
                heapq.heappush(events, (generator.expovariate(2.0), worker))
            stops.append(stop_of(events, n, load))
        return stops

    return work


def event_loop_over_arrays(n: int, load: int, steps: int) -> Callable[[], list[float]]:
    """Return the same, with a step's delays drawn and made a heap at once."""
    generator = np.random.default_rng(0)

    def work() -> list[float]:
        stops: list[float] = []
        for _ in range(steps):
            events = list(zip(generator.exponential(0.5, n).tolist(), range(n), strict=True))
            heapq.heapify(events)
            stops.append(stop_of(events, n, load))
        return stops

    return work


def stop_of(events: list[tuple[float, int]], n: int, load: int) -> float:
    """Pop events, times and workers, until the rule says stop; return when that is."""
    wanted, n_groups = round(0.4 * n), n // load
    arrived, groups, seconds = 0, set[int](), 0.0
    while arrived < wanted and len(groups) < n_groups:
        seconds, worker = heapq.heappop(events)
        arrived += 1
        groups.add(worker // load)
    return seconds


def peak(run: Callable[[], object]) -> int:
    """Return the most bytes that a run held beyond what was there before."""
    tracemalloc.start()
    run()
    bytes_held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return bytes_held


def main() -> None:
    """Measure all sides and report."""
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    for n, (load, steps, few) in CASES.items():
        decoder = make_decoder(fractional_repetition(n, load))
        rule = wait_rules.first(round(0.4 * n)) | wait_rules.decodable()

        def simulated(count: int = steps, decoder=decoder, rule=rule) -> object:
            return stop_times(Timing(decoder, rule, MODEL), count)

        work = {
            "draws": (draws(n, steps), steps),
            "simulator": (simulated, steps),
            "event loop": (event_loop(n, load, few), few),
            "event loop over arrays": (event_loop_over_arrays(n, load, few), few),
        }
        spent = interleave({side: run for side, (run, _) in work.items()}, repetitions=REPETITIONS)
        # Nanoseconds of a worker-step, repetition by repetition.
        each = {side: [1e9 * value / (n * work[side][1]) for value in values] for side, values in spent.items()}
        shown = ", ".join(f"{side} {statistics.median(values):.1f}" for side, values in each.items())
        print(f"n = {n}, nanoseconds a worker-step: {shown}")
        for side, target in (
            ("draws", 0.45),
            ("event loop", 100 if n == 1_000_000 else 50),
            ("event loop over arrays", None),
        ):
            key = f"simulator over {side}, n = {n}"
            ratios[key] = ratio(each, side, "simulator")
            if target:
                targets[key] = f">= {target}"
        if n == 1_000:
            ratios["peak memory over all delays, n = 1000"] = peak(partial(simulated, 16_384)) / (8 * n * 16_384)
            targets["peak memory over all delays, n = 1000"] = "<= 0.15"
    report("simulate", ratios, targets)


if __name__ == "__main__":
    main()
