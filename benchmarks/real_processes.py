"""Whether the virtual clock tells the truth: thirty real processes beside it, and what a step of theirs takes besides.

`adaptive` against the best tuned published method and against the paper's setting: how many times sooner it comes to
each level on real processes, and on the virtual clock with the measured excess added to each step. With `--first`: what
a step takes beyond its delay where the first arrival is enough, with its parts: the order's way to a worker, computing
and the message's way back, decoding and moving, and what is between steps. It needs the real data: set
ERASUREHEAD_DATA to their folder. Nothing else may compute on the machine meanwhile.

    python benchmarks/real_processes.py                            twenty minutes
    python benchmarks/real_processes.py --only amazon --seeds 1
    python benchmarks/real_processes.py --first
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

from common import report
from erasurehead import engines, optimizers, training
from erasurehead._internal.arrays import Array
from erasurehead.schemes import parse_scheme
from erasurehead.schemes._text import parse_rate
from target_cells import MEAN, PAPER, WORKERS, experiment, law, optimum, problem_of, task_seconds
from target_methods import optimizer_of
from target_search import Cell, best_of

LEVELS = {"1e-1": 1e-1, "1e-2": 1e-2}
DATA = ("kc_housing", "amazon")
_FIRST_STEPS = 100
_WARM = 5  # steps that are not counted: caches are cold


class _Kept(training.Callback):
    """Keeps rows and models, to be evaluated when no clock runs any more."""

    def __init__(self) -> None:
        self.arrivals: dict[int, list[training.ArrivalRow]] = {}
        self.steps: list[training.StepRow] = []
        self.models: list[Array] = []

    def on_arrival(self, row: training.ArrivalRow) -> None:
        self.arrivals.setdefault(row.round, []).append(row)

    def on_step_end(self, row: training.StepRow, x: Array) -> None:
        self.steps.append(row)
        self.models.append(x)

    def times(self, data: str) -> dict[str, tuple[float, int]]:
        """Return when each level was reached, in seconds and in steps."""
        problem, least = problem_of(data), optimum(data)
        found: dict[str, tuple[float, int]] = {}
        for row, x in zip(self.steps, self.models, strict=True):
            gap = least.gap(problem.objective(x))
            for level, depth in LEVELS.items():
                if gap <= depth and level not in found:
                    found[level] = row.end, row.step + 1
        return found


def _run(data: str, scheme: str, optimizer: optimizers.Optimizer, engine: engines.Engine, steps: int) -> _Kept:
    kept = _Kept()
    training.train(
        problem_of(data),
        parse_scheme(scheme, WORKERS),
        optimizer,
        engine,
        steps,
        [kept],
        evaluate_every=0,
        tolerance=None,
    )
    return kept


def first_arrival(data: str, seed: int) -> dict[str, float]:
    """Return what a step of the first arrival takes beyond the least of the thirty delays, with its parts, in ms."""
    model = law("exponential", seed)
    x = problem_of(data).initial()
    engine = engines.ProcessEngine(model, late="preempt")
    kept = _run(data, "ignore_stragglers(wait_for=1)", optimizers.GradientDescent(x, 1e-3), engine, _FIRST_STEPS)
    parts: dict[str, list[float]] = {}
    for row, after in list(zip(kept.steps, kept.steps[1:], strict=False))[_WARM:]:
        drawn = model.rows(row.round, 1, WORKERS)[0]
        least = float(drawn.min())
        first = next(one for one in kept.arrivals[row.round] if one.used)
        assert first.started is not None
        own = float(drawn[first.worker])
        told = {
            "excess": after.begin - row.begin - least,
            "order to worker": first.started,
            "computing and back": first.seconds - first.started - own,
            "another worker first": own - least,
            "noticing": row.waited - first.seconds,
            "decoding and moving": row.end - row.begin - row.waited,
            "between steps": after.begin - row.end,
        }
        for name, seconds in told.items():
            parts.setdefault(name, []).append(1e3 * seconds)
    return {f"{data}, first arrival: {name}, ms": statistics.median(values) for name, values in parts.items()}


def ratios(data: str, seeds: range) -> dict[str, float]:
    """Return how many times sooner `adaptive` is: on processes, on the clock, and there with the excess of a step."""
    rate = experiment(data).config.optimizer.rate
    assert rate is not None
    x = problem_of(data).initial()
    sides: dict[str, tuple[str, Callable[[], optimizers.Optimizer], int]] = {
        "adaptive": ("adaptive()", lambda: optimizers.QuasiNewton(x), 400),
        "paper": (PAPER, lambda: optimizers.Nesterov(x, parse_rate(rate)), 150),
    }
    best = best_of(Cell(data, "exponential", "carry"), "published").get("1e-2")
    if best is not None:
        setting = best.setting
        sides["tuned"] = (setting.scheme, lambda: optimizer_of(data, setting), 300)
    real: dict[tuple[str, str], list[float]] = {}
    bare: dict[tuple[str, str], list[float]] = {}
    mended: dict[tuple[str, str], list[float]] = {}
    excess: dict[str, list[float]] = {}
    for seed in seeds:
        model = law("exponential", seed)
        for name, (scheme, made, steps) in sides.items():
            clock = engines.VirtualEngine(model, late="carry", seconds_per_task=task_seconds(data))
            virtual = _run(data, scheme, made(), clock, steps)
            most = 5 + max((steps for _, steps in virtual.times(data).values()), default=steps)
            tries = 2 * most if name == "adaptive" else min(2 * most, steps)
            there = _run(data, scheme, made(), engines.ProcessEngine(model, late="carry"), tries)
            count = min(most, len(there.steps), len(virtual.steps))
            beyond = (there.steps[count - 1].end - virtual.steps[count - 1].end) / count
            excess.setdefault(name, []).append(beyond)
            for level, (seconds, steps_taken) in virtual.times(data).items():
                bare.setdefault((name, level), []).append(seconds)
                mended.setdefault((name, level), []).append(seconds + steps_taken * beyond)
            for level, (seconds, _) in there.times(data).items():
                real.setdefault((name, level), []).append(seconds)
    found = {f"{data}: {name}, excess of a step, ms": 1e3 * statistics.median(one) for name, one in excess.items()}
    for side in sides:
        for level in LEVELS:
            both = [(side, level), ("adaptive", level)]
            if side != "adaptive" and all(len(one.get(key, ())) == len(seeds) for one in (real, bare) for key in both):
                over = [
                    statistics.median(times[both[0]]) / statistics.median(times[both[1]])
                    for times in (real, bare, mended)
                ]
                found[f"{data}: {side} {level}, on processes"] = over[0]
                found[f"{data}: {side} {level}, on the clock"] = over[1]
                found[f"{data}: {side} {level}, they differ by"] = max(over[0] / over[2], over[2] / over[0])
    for (side, level), times in real.items():
        clock = _said(bare[side, level]) if (side, level) in bare else "not there"
        print(f"{data}, {side}, {level}: processes {_said(times)}, clock {clock}")
    return found


def _said(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="data sets with this in their names")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="what a step takes where the first arrival is enough")
    chosen = parser.parse_args()
    print(f"delays of {MEAN} s on average; thirty workers")
    found: dict[str, float] = {}
    for data in DATA:
        if chosen.only in data:
            found |= first_arrival(data, seed=1) if chosen.first else ratios(data, range(chosen.seeds))
    if chosen.first:
        report("real_processes first", found, {key: "<= 3" for key in found if "excess" in key})
    else:
        report("real_processes", found, {key: "<= 1.15" for key in found if key.endswith("differ by")})


if __name__ == "__main__":
    main()
