"""What a plan without data assumes of yours: how much tasks differ, and how many steps the default solver saves.

For each data set, thirty workers with exponential delays: the noise of its tasks under Nesterov's method with the rate
that nobody chose, the steps of that method with exact gradients to each gap, and how long `adaptive` takes to it, over
what it takes on the stand-in of `erasurehead.planning._stand_in`, and over these steps. The figures at the end are what
`erasurehead.planning._accuracy` holds. Data sets are those of `own_data_sets.py`, and the published ones in the folder
ERASUREHEAD_DATA.

    python benchmarks/plan_steps.py              all of them
    python benchmarks/plan_steps.py --only iris
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from common import report
from erasurehead import delays
from erasurehead.datasets._published.public import where
from erasurehead.optimizers import QuasiNewton
from erasurehead.planning import forecast
from erasurehead.planning._accuracy import measured_accuracy
from erasurehead.planning._early_rounds import EarlyRounds
from erasurehead.planning._stand_in import solver_paths
from erasurehead.planning._trainer import Trainer
from erasurehead.runs import Experiment
from erasurehead.schemes import parse_scheme
from own_data_sets import KINDS

GAPS = (1e-1, 1e-2, 1e-3)
WORKERS, MOST = 30, 2000
LAWS = {
    "exponential": lambda seed: delays.Exponential(0.5, seed=seed),
    "by load": lambda seed: delays.Exponential(0.5, seed=seed, scale_with_load=True),
    "1 in 10 slow": lambda seed: delays.parse(
        f"bimodal(0.1, exponential(0.2, seed={seed}), exponential(4, seed={seed + 50}), seed={seed + 99})"
    ),
}
PUBLISHED = ("kc_housing", "covertype", "amazon")


def published(name: str) -> Callable[[], dict[str, Any]]:
    """Return what names a published data set, as those of `own_data_sets` are named."""

    def kind() -> dict[str, Any]:
        return {"source": name}

    kind.__name__ = name
    return kind


def seconds_to(trainer: Trainer, load: int, law: Callable[[int], delays.Delays], late: Any) -> list[float]:
    """Return how long `adaptive` takes to each gap, over what it takes on the stand-in; means of two seeds and six."""
    text = f"adaptive(load={load})"
    scheme = parse_scheme(text, WORKERS)
    whole = forecast(text, WORKERS, law(0), late=late).seconds_per_step
    found: list[list[float]] = []
    there = solver_paths(text, WORKERS, law(0), 0.0, late, GAPS[-1], whole)
    for seed in (1, 2):
        rounds = EarlyRounds(trainer.problem, *trainer.laid_out(scheme, early=True), MOST, law(seed), 0.0, 0, late)
        times = [math.inf] * len(GAPS)
        for gap in trainer.measures(rounds, rounds.early):
            clock = sum(rounds.seconds) / whole
            times = [clock if math.isinf(was) and gap <= to else was for was, to in zip(times, GAPS, strict=True)]
            if math.isfinite(times[-1]):
                break
        found.append(times)
    means = [statistics.fmean(path.to(gap) for path in there) for gap in GAPS]
    return [statistics.fmean(column) / mean for column, mean in zip(zip(*found, strict=True), means, strict=True)]


def row(kind: Callable[[], dict[str, Any]], loads: tuple[int, ...]) -> tuple[float, dict[float, list[float]]] | None:
    """Print the row of a data set; return the noise, and by gap how long `adaptive` takes, over both.

    None where Nesterov's method does not get anywhere, as on columns of very different scales.
    """
    asked = {"data": kind(), "scheme": "uncoded()", "run": {"engine": "virtual", "workers": WORKERS}}
    experiment = Experiment.from_config(asked)
    problem = experiment.problem
    exact = Trainer(problem, experiment.optimizer, ("gap", GAPS[-1]), MOST)
    path = list(exact.measures(exact.weighted(None, 1)))
    steps = [next((count for count, gap in enumerate(path, 1) if gap <= wanted), MOST) for wanted in GAPS]
    if steps[0] == MOST:
        print(f"{kind.__name__}: exact descent does not get anywhere")
        return None
    noise = measured_accuracy(problem, experiment.optimizer, WORKERS, 0.01, 400).noise
    solver = Trainer(problem, lambda: QuasiNewton(experiment.first_model()), ("gap", GAPS[-1]), MOST)
    ratios: dict[float, list[float]] = {gap: [] for gap in GAPS}
    name = f"{kind.__name__} ({problem.n_samples:,} x {problem.n_parameters:,})"
    print(f"{name:<40} noise {noise:.2g}, exact steps {' '.join(map(str, steps))}", flush=True)
    for law, late in ((law, late) for law in LAWS for late in ("carry", "preempt")):
        for load in loads:
            times = seconds_to(solver, load, LAWS[law], late)
            for gap, count, spent in zip(GAPS, steps, times, strict=True):
                ratios[gap].append(spent / count)
            said = "  ".join(f"{spent:6.1f} ({spent / count:.3f})" for spent, count in zip(times, steps, strict=True))
            print(f"    {law:<13} {late:<8} load {load:<3} {said}", flush=True)
    return noise, ratios


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="data sets with this in their names")
    parser.add_argument("--loads", default="3", help="loads of adaptive, separated by commas")
    given = parser.parse_args()
    kinds = [*KINDS, *(published(name) for name in PUBLISHED if where(name).file is not None)]
    figures: dict[str, float] = {}
    for kind in kinds:
        if given.only in kind.__name__:
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                found = row(kind, tuple(map(int, given.loads.split(","))))
                os.chdir("/")
            if found is not None:
                figures[f"{kind.__name__}: noise"] = found[0]
                for gap, ratios in found[1].items():
                    figures[f"{kind.__name__}: adaptive over the stand-in, per exact step, to gap {gap:g}"] = (
                        statistics.median(ratios)
                    )
    report("plan_steps", figures, {})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    main()
