"""Is the planner right? It plans from one half of a trace; 30 processes then replay the other half.

Two real traces where they are there (set ERASUREHEAD_DATA to the folder that holds `traces/aws_lambda`), and two
synthetic ones; late work dropped and carried on; five settings each. `--virtual` replays on the virtual clock, in
seconds. Times are divided by ten, so that a stall of half a minute does not take that long.
"""

from __future__ import annotations

import os
import statistics
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from common import report
from erasurehead import delays, engines, optimizers, problems, training
from erasurehead.engines import LateWork
from erasurehead.planning import plan
from erasurehead.schemes.text import parse_scheme

WORKERS, STEPS, SCALE = 30, 40, 0.1
SETTINGS = (
    "uncoded()",
    "ignore_stragglers(wait_for=24)",
    "exact(load=3)",
    "erasurehead(load=2, wait_for=11)",
    "erasurehead(load=3, wait_for=11)",
)
SECONDS_PER_TASK = 0.0


def recorded() -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each trace with its rounds of 30 workers, shape (rounds, 30)."""
    data = Path(os.environ.get("ERASUREHEAD_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
    columns = {"step": "round", "seconds": "latency_s"}
    files = {"desktop_long": ("Canada", 0.0), "mbp": ("London", 0.0)}
    for path in sorted((data / "traces" / "aws_lambda").glob("*.csv.gz")):
        region, load = next(block for name, block in files.items() if name in path.name)
        table = delays.read_trace(path, columns, {"region": region, "load": load}).table()
        # 256 workers are eight sets of 30; each set's rounds are rounds of their own.
        sets = [table[:, low : low + WORKERS] for low in range(0, table.shape[1] - WORKERS + 1, WORKERS)]
        yield path.name.removesuffix(".csv.gz"), SCALE * np.stack(sets, axis=1).reshape(-1, WORKERS)
    yield "exponential", delays.Exponential(SCALE, seed=5).rows(0, 240, WORKERS)
    usual, slow = delays.ShiftedExponential(0.5 * SCALE, 0.1 * SCALE, seed=6), delays.Exponential(3 * SCALE, seed=6)
    yield "markov", delays.MarkovModulated(0.02, 0.2, usual, slow, seed=7).rows(0, 240, WORKERS)


def measured(setting: str, rows: np.ndarray, late: LateWork, virtual: bool) -> tuple[float, float]:
    """Replay rounds, and return seconds per step and the mean share of the gradient that was missing."""
    replay = delays.Fixed(tuple(map(tuple, rows.tolist())))
    engine = engines.VirtualEngine(replay, late) if virtual else engines.ProcessEngine(replay, late)
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.standard_normal((300, 4)), rng.standard_normal(300))
    optimizer = optimizers.GradientDescent(problem.initial(), 0.1)
    run = training.train(problem, parse_scheme(setting, WORKERS), optimizer, engine, STEPS, evaluate_every=0)
    return run.seconds_per_step, float(np.mean([row.residual for row in run.steps])) / WORKERS


def main() -> None:
    """Plan, replay, compare, report."""
    virtual = "--virtual" in sys.argv
    errors: list[float] = []
    right: list[bool] = []
    for name, table in recorded():
        half = len(table) // 2
        for late in ("preempt", "carry"):
            found = plan(delays.Bootstrap(table[:half]), WORKERS, SECONDS_PER_TASK, SETTINGS, late=late, steps=400)
            true: dict[str, float] = {}
            for item in found.ranked:
                seconds, missing = measured(item.setting, table[half : half + STEPS], late, virtual)
                true[item.setting] = seconds / (1.0 - missing)
                errors.append(abs(item.seconds_per_step / seconds - 1.0))
                print(
                    f"{name:<38} {late:<8} {item.setting:<34} predicted {item.seconds_per_step:.4f} s "
                    f"(+- {1.96 * item.error:.4f}), measured {seconds:.4f} s"
                )
            best = min(true, key=lambda setting: true[setting])
            right.append(best in [item.setting for item in found.ranked[:2]])
    ratios = {
        "median error of time per step": statistics.median(errors),
        "true best within the planner's top two": sum(right) / len(right),
    }
    targets = {"median error of time per step": "<= 0.10", "true best within the planner's top two": ">= 1.00"}
    report("plan_truth", ratios, targets)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    main()
