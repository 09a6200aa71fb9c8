"""How much longer the advice of a plan takes than the best of all settings, the default of `train` among them.

Eight situations, each with data, delays, what becomes of late work, a computing time and a target. A plan sees a trace
of 200 rounds, with the data or without them. What it puts first is then trained on the virtual clock with fresh delays
of the same law, and so are `adaptive` with every load, and the first twelve other settings of both plans, by Nesterov's
method with the rate that nobody chose: medians of five runs. The regret is the time of the advice over the best one's.

    python benchmarks/plan_regret.py
    python benchmarks/plan_regret.py --only load
"""

from __future__ import annotations

import argparse
import math
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from common import report
from erasurehead import delays, optimizers, problems
from erasurehead._internal.late_work import LateWork
from erasurehead.planning import plan
from erasurehead.planning._accuracy import Accuracy, measured_accuracy
from erasurehead.planning._planner import Plan
from erasurehead.planning._racing import after, race
from erasurehead.planning._settings import adaptive_settings, default_settings, usual_setting
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import Runs
from erasurehead.problems import Problem
from erasurehead.schemes._text import is_adaptive
from truth import problem as logistic, rate

STEPS, ROUNDS, SEEDS, OTHERS = 600, 200, 5, 12


@dataclass(frozen=True)
class Case:
    """What is to be trained, on which workers, to which gap.

    Arguments:
        data: name of the data.
        law: the delays, by seed.
        workers: how many.
        late: what they do with late work.
        task: seconds that a task takes.
        gap: the target.
        by_load: whether the delays grow with the load.
    """

    data: str
    law: Callable[[int], delays.Delays]
    workers: int
    late: LateWork
    task: float
    gap: float
    by_load: bool = False


def exponential(mean: float, by_load: bool = False) -> Callable[[int], delays.Delays]:
    return lambda seed: delays.Exponential(mean, seed=seed, scale_with_load=by_load)


def bimodal(share: float, factor: float) -> Callable[[int], delays.Delays]:
    """Return delays of about 0.2 s, of which a share takes so many times as long."""
    slow = 0.2 * factor
    return lambda seed: delays.parse(
        f"bimodal({share}, exponential(0.2, seed={seed}), exponential({slow}, seed={seed + 7}), seed={seed + 13})"
    )


def one_slow(seed: int) -> delays.Delays:
    return delays.parse(f"scaled(exponential(0.3, seed={seed}), {[15.0] + [1.0] * 11})")


CASES = {
    "cancer, exponential, carry": Case("breast_cancer", exponential(0.5), 30, "carry", 0.02, 1e-2),
    "mixture, exponential, preempt": Case("mixture", exponential(0.5), 30, "preempt", 0.005, 1e-3),
    "sorted, exponential, few workers": Case("sorted", exponential(0.4), 12, "carry", 0.05, 1e-2),
    "mixture, by load, carry": Case("mixture", exponential(0.5, True), 30, "carry", 0.0, 1e-3, True),
    "cancer, by load, preempt": Case("breast_cancer", exponential(0.3, True), 12, "preempt", 0.01, 1e-2, True),
    "squares, 5% at 20 times": Case("squares", bimodal(0.05, 20.0), 30, "preempt", 0.02, 1e-3),
    "sorted, 20% at 5 times, near": Case("sorted", bimodal(0.2, 5.0), 12, "preempt", 0.02, 1e-1),
    "squares, one slow machine": Case("squares", one_slow, 12, "carry", 0.05, 1e-3),
}


@cache
def problem(name: str) -> tuple[Problem, float]:
    """Return what is minimised, and a rate that Nesterov's method bears."""
    if name != "squares":
        one = logistic(name)
        return one, rate(one)
    random = np.random.default_rng(5)
    X = random.standard_normal((1500, 30)) @ (np.eye(30) + 0.2 * random.standard_normal((30, 30)))
    squares = problems.LeastSquares(X, X @ random.standard_normal(30) + random.standard_normal(1500), l2=1e-4)
    return squares, 0.5 / float(np.linalg.eigvalsh(X.T @ X / 1500)[-1] + 1e-4)


def planned(case: Case, with_data: bool) -> Plan:
    """Return what is planned from a trace, with the data or without."""
    one, size = problem(case.data)
    table = case.law(0).rows(0, ROUNDS, case.workers)
    trace = delays.Bootstrap(table, scale_with_load=case.by_load)
    tried = (*default_settings(case.workers), *adaptive_settings(case.workers, delays=trace))
    if not with_data:
        return plan(trace, case.workers, case.task, tried, late=case.late, accuracy=Accuracy(case.gap))

    def nesterov() -> optimizers.Optimizer:
        return optimizers.Nesterov(one.initial(), size)

    accuracy = measured_accuracy(one, nesterov, case.workers, case.gap, STEPS)
    found = plan(trace, case.workers, case.task, tried, late=case.late, accuracy=accuracy)
    trials = race(
        found,
        one,
        nesterov,
        ("gap", case.gap),
        STEPS,
        3,
        solver=lambda: optimizers.QuasiNewton(one.initial()),
    )
    return after(found, trials)


def times(case: Case, settings: set[str]) -> dict[str, float]:
    """Return how long each setting takes to the target: the median of runs with fresh delays."""
    one, size = problem(case.data)
    goal = "gap", case.gap
    trainer = Trainer(one, lambda: optimizers.Nesterov(one.initial(), size), goal, STEPS)
    solver = Trainer(one, lambda: optimizers.QuasiNewton(one.initial()), goal, STEPS)
    found: dict[str, list[float]] = {setting: [] for setting in settings}
    for seed in range(101, 101 + SEEDS):
        runs = Runs(trainer, case.law(seed), case.workers, case.task, case.late, solver)
        for setting in settings:
            found[setting].append(runs.trial(setting, 1, math.inf, 1.0).seconds[0])
    return {setting: statistics.median(seconds) for setting, seconds in found.items()}


def judged(name: str, case: Case) -> dict[str, tuple[float, float]]:
    """Print the row of a case; return, with data and without, the regret and the promised time over the true one."""
    plans = {with_data: planned(case, with_data) for with_data in (False, True)}
    settings = set(adaptive_settings(case.workers, delays=plans[False].delays))
    for found in plans.values():
        others = [item.setting for item in found.distinct if not is_adaptive(item.setting)]
        settings |= {found.best.setting, *others[:OTHERS]}
    true = times(case, settings)
    best = min(true, key=lambda setting: true[setting])
    usual = true[usual_setting(case.workers)] / true[best]
    print(f"{name}: the best is {best}, {true[best]:.3g} s; the default takes {usual:.2f} times as long", flush=True)
    judged: dict[str, tuple[float, float]] = {}
    for with_data, found in plans.items():
        item, kind = found.best, "with data" if with_data else "without"
        came = true[item.setting]
        promised = found.steps_of(item) * item.seconds_per_step
        judged[kind] = came / true[best], promised / came
        print(f"    {kind:<10} {item.setting:<36} {came:6.3g} s ({promised:.3g} promised): {came / true[best]:.2f}")
    return judged


def main() -> None:
    """Judge plans in all cases, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases with this in their names")
    only = parser.parse_args().only
    rows = [judged(name, case) for name, case in CASES.items() if only in name]
    figures: dict[str, float] = {}
    targets: dict[str, str] = {}
    for kind, middle, most in (("without", 1.2, 1.5), ("with data", 1.05, 1.3)):
        regrets = [row[kind][0] for row in rows]
        figures |= {f"regret {kind}, median": statistics.median(regrets), f"regret {kind}, worst": max(regrets)}
        targets |= {f"regret {kind}, median": f"<= {middle}", f"regret {kind}, worst": f"<= {most}"}
        off = [abs(math.log(row[kind][1])) for row in rows]
        figures[f"time promised {kind}, off by a factor of, median"] = math.exp(statistics.median(off))
    report("plan_regret", figures, targets)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
