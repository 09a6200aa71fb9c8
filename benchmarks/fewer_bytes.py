"""Messages in fewer bytes: what `adaptive` receives until each gap on Amazon, by wire, over what it does in float64.

Messages hold the supports of their tasks only, whatever the wire. Seconds are those of the virtual clock, on which
bytes take no time: they show whether a wire costs steps. It needs the real data: set ERASUREHEAD_DATA to their folder.

    python benchmarks/fewer_bytes.py
"""

from __future__ import annotations

import argparse
import statistics

from common import report
from erasurehead import engines, optimizers, training
from erasurehead._internal.arrays import Array
from erasurehead.schemes import parse_scheme
from target_cells import LEVELS, WORKERS, law, optimum, problem_of, task_seconds

WIRES = ("cast('float32')", "cast('bfloat16')", "cast('float16')", "dithered(32767)", "dithered(127)")
GAPS = {**LEVELS, "1e-8": 1e-8}
STEPS = 600


class _Received(training.Callback):
    """The seconds and the bytes until each gap."""

    def __init__(self, data: str) -> None:
        self.problem, self.optimum = problem_of(data), optimum(data)
        self.total = 0
        self.found: dict[str, tuple[float, int]] = {}

    def on_step_end(self, row: training.StepRow, x: Array) -> None:
        self.total += row.received
        gap = self.optimum.gap(self.problem.objective(x))
        for level, depth in GAPS.items():
            if gap <= depth and level not in self.found:
                self.found[level] = row.end, self.total


def received(data: str, late: str, seed: int, wire: str | None) -> dict[str, tuple[float, int]]:
    """Train, and return the seconds and the bytes until each gap that is reached."""
    watch, problem = _Received(data), problem_of(data)
    engine = engines.VirtualEngine(law("exponential", seed), late=late, seconds_per_task=task_seconds(data))
    training.train(
        problem,
        parse_scheme("adaptive()", WORKERS),
        optimizers.QuasiNewton(problem.initial()),
        engine,
        STEPS,
        [watch],
        evaluate_every=0,
        tolerance=None,
        wire=wire,
    )
    return watch.found


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="amazon", choices=("amazon", "kc_housing", "covertype"))
    parser.add_argument("--late", default="carry", choices=("carry", "preempt"))
    parser.add_argument("--seeds", type=int, default=2)
    chosen = parser.parse_args()
    ratios: dict[str, float] = {}
    whole = [received(chosen.data, chosen.late, seed, None) for seed in range(chosen.seeds)]
    for wire in WIRES:
        runs = [received(chosen.data, chosen.late, seed, wire) for seed in range(chosen.seeds)]
        for level in GAPS:
            pairs = [(a[level], b[level]) for a, b in zip(runs, whole, strict=True) if level in a and level in b]
            if len(pairs) < chosen.seeds:
                print(f"{wire}: {level} is not reached on every seed")
                continue
            ratios[f"{wire}: bytes to {level}"] = statistics.median(a[1] / b[1] for a, b in pairs)
            ratios[f"{wire}: seconds to {level}"] = statistics.median(a[0] / b[0] for a, b in pairs)
    fine = "cast('float16')"
    targets = {f"{fine}: bytes to {level}": "<= 0.3333" for level in LEVELS}
    targets |= {f"{fine}: seconds to {level}": "<= 1" for level in LEVELS}
    report("fewer_bytes", ratios, targets)


if __name__ == "__main__":
    main()
