"""The memoryless simulator against drawing the same exponentials and nothing else, and against a plain event loop.

A repetition code, stopped by the joint rule (40% of the workers, or all groups), under exponential delays. Every side
does the same worker-steps, but for the event loop, which does fewer and is compared per worker-step.
"""

from __future__ import annotations

import heapq
import random
import statistics
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

from common import interleave, report
from erasurehead import delays, waiting
from erasurehead.codes import fractional_repetition
from erasurehead.decoding import for_code
from erasurehead.planning.simulation import stop_times

BLOCK = 1 << 18
CASES = {30: (3, 131_072, 400), 1_000: (5, 4_096, 12), 1_000_000: (5, 24, 1)}  # load, steps, steps of the event loop
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


def event_loop(n: int, load: int, steps: int) -> Callable[[], None]:
    """Do the same in plain Python: a heap of events, one arrival at a time, until the rule says stop."""
    wanted, n_groups, generator = round(0.4 * n), n // load, random.Random(0)

    def work() -> None:
        for _ in range(steps):
            events: list[tuple[float, int]] = []
            for worker in range(n):
                heapq.heappush(events, (generator.expovariate(2.0), worker))
            arrived, groups = 0, set[int]()
            while arrived < wanted and len(groups) < n_groups:
                _, worker = heapq.heappop(events)
                arrived += 1
                groups.add(worker // load)

    return work


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
        decoder = for_code(fractional_repetition(n, load))
        rule = waiting.first(round(0.4 * n)) | waiting.decodable()

        def simulated(count: int = steps, decoder=decoder, rule=rule) -> object:
            return stop_times(decoder, rule, MODEL, count)

        sides = {"draws": draws(n, steps), "simulator": simulated, "loop": event_loop(n, load, few)}
        seconds = interleave(sides, repetitions=5)
        rates = {side: n * (few if side == "loop" else steps) / statistics.median(seconds[side]) for side in sides}
        print(
            f"n = {n}: " + ", ".join(f"{side} {rate / 1e6:.2f}" for side, rate in rates.items()) + " M worker-steps/s"
        )
        ratios[f"simulator over draws, n = {n}"] = statistics.median(
            a / b for a, b in zip(seconds["draws"], seconds["simulator"], strict=True)
        )
        targets[f"simulator over draws, n = {n}"] = ">= 0.45"
        ratios[f"simulator over event loop, n = {n}"] = rates["simulator"] / rates["loop"]
        targets[f"simulator over event loop, n = {n}"] = ">= 100" if n == 1_000_000 else ">= 50"
        if n == 1_000:
            ratios["peak memory over all delays, n = 1000"] = peak(partial(simulated, 16_384)) / (8 * n * 16_384)
            targets["peak memory over all delays, n = 1000"] = "<= 0.15"
    report("simulate", ratios, targets)


if __name__ == "__main__":
    main()
