"""Data of one's own and no settings: does training end at the optimum, and in how many passes over the data?

Ten data sets of many kinds (dense, sparse, one-hot, unscaled columns of very different ranges, three and ten classes,
regression with large targets; scikit-learn's own, and generated ones) are written to files and trained on with nothing
said, by six workers on a virtual clock without delays. Beside that stand the passes over the data that L-BFGS-B
(SciPy) needs from the same model to the same gap, and what scikit-learn's estimator leaves above the minimum when all
but the strength of the penalty is left at its defaults. A pass is one gradient of all data with its objective, for
both; the sum of curvatures that ours begins with counts as one.

    python benchmarks/own_data.py            ten data sets, about a minute
    python benchmarks/own_data.py --only iris
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from common import report
from erasurehead.problems import Problem
from erasurehead.runs import Experiment
from erasurehead.runs._alone import alone
from erasurehead.training import find_optimum
from own_data_sets import KINDS, Data

GAPS = (1e-1, 1e-2, 1e-4, 1e-6, 1e-8)
WORKERS = 6


def passes_of_lbfgs(problem: Problem, first: np.ndarray, most: int) -> list[float]:
    """Return the objective of each pass over the data that SciPy's L-BFGS-B makes, from the first model."""
    seen: list[float] = []

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        (found,) = problem.exact([x])
        seen.append(found.loss + problem.penalty(x))
        return seen[-1], found.gradient + problem.penalty_gradient(x)

    minimize: Any = optimize.minimize
    with np.errstate(over="ignore", invalid="ignore"):
        minimize(both, first, jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 0.0, "maxfun": most})
    return seen


def passes_to(objectives: list[float], level: float) -> float:
    """Return how many passes it takes to an objective; infinite where it is never reached."""
    return next((float(number) for number, value in enumerate(objectives, 1) if value <= level), math.inf)


def row(kind: Callable[[], Data]) -> tuple[float, list[float], bool]:
    """Train on one data set, print its row, and return its loss above the minimum, ratios of passes, and if it ended.

    Arguments:
        kind: writes the data into the working folder.
    """
    asked = {"data": kind(), "run": {"engine": "virtual", "workers": WORKERS}}
    experiment = Experiment.from_config(asked)
    done, problem = experiment.run(), experiment.problem
    ours = [math.inf if step.loss is None else step.loss for step in done.steps]
    first = experiment.first_model()
    others = passes_of_lbfgs(problem, first, max(2000, 20 * len(ours)))
    found = find_optimum(problem, first)
    least = min(found.objective, *ours, *others)
    ratios, said = [], []
    for gap in GAPS:
        level = least + gap * (found.first_objective - least)
        a, b = passes_to(ours, level), passes_to(others, level)
        ratios.append(a / b if math.isfinite(b) else 0.0 if math.isfinite(a) else 1.0)
        said.append(f"{a:.0f}/{b:.0f}")
    ended = done.ended == "converged"
    left = (problem.objective(done.x) - least) / abs(least)
    by_others = [one for one in alone(experiment, None, 60.0) if "scikit-learn" in one.method]
    other = by_others[0].objective if by_others else None
    above = "" if other is None else f"{(other - least) / abs(least):.1e}"
    print(
        f"{kind.__name__:<16} {problem.n_samples:>7} x {problem.n_parameters:<10} {left:>9.1e} {above:>9} "
        f"{len(ours):>6} {done.ended:<10} " + " ".join(f"{one:>9}" for one in said),
        flush=True,
    )
    return left, ratios, ended


def main() -> None:
    """Train on all kinds, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="data sets with this in their names")
    only = parser.parse_args().only
    print("loss above the minimum, relative: ours, scikit-learn's; passes in all, and to each gap: ours/L-BFGS-B")
    print(
        f"{'data':<16} {'samples x parameters':<20} {'ours':>9} {'sklearn':>9} {'passes':>6} {'ended':<10} "
        + " ".join(f"{gap:>9g}" for gap in GAPS)
    )
    found: list[tuple[float, list[float], bool]] = []
    for kind in KINDS:
        if only in kind.__name__:
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                found.append(row(kind))
                os.chdir("/")
    worst = [max(ratios[place] for _, ratios, _ in found) for place in range(len(GAPS))]
    report(
        "own_data",
        {
            "loss above the minimum, relative, worst": max(left for left, _, _ in found),
            **{f"passes over L-BFGS-B's to gap {gap:g}, worst": most for gap, most in zip(GAPS, worst, strict=True)},
            "ended by itself, share": sum(ended for _, _, ended in found) / len(found),
        },
        {
            "loss above the minimum, relative, worst": "<= 1e-4",
            **{f"passes over L-BFGS-B's to gap {gap:g}, worst": "<= 3" for gap in GAPS},
            "ended by itself, share": ">= 1",
        },
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
