"""How much longer the advice of a plan takes than the best of all settings, the default of `train` among them.

Eight situations, each with data, delays, what becomes of late work, a computing time and a target. A plan sees a trace
of 200 rounds, with the data or without them. What it puts first is then trained on the virtual clock with fresh delays
of the same law, and so are `adaptive` with every load, and the first twelve other settings of both plans, by Nesterov's
method with the rate that nobody chose: means of fifteen runs. Those that end before a slow machine has changed take
one of two times, and a median of few is either. The regret is the time of the advice over the best one's.
Beside it stands how many times as long as another setting the advice takes, by the plan itself, on the worst of the
data sets that it knows: where these differ about what is best, no advice without data can be right for all of them.

Then eight situations in which machines are unequal, or slow for a while: with `adaptive` among the settings, and
without it, as for users with an optimizer of their own.

    python benchmarks/plan_regret.py
    python benchmarks/plan_regret.py --only load
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from common import report
from erasurehead import delays, optimizers, problems
from erasurehead._internal.late_work import LateWork
from erasurehead.planning import explain, plan
from erasurehead.planning._accuracy import Accuracy, measured_accuracy
from erasurehead.planning._planner import Plan
from erasurehead.planning._racing import after, race
from erasurehead.planning._settings import adaptive_settings, default_settings, usual_setting
from erasurehead.planning._trace_delays import drawn_from
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import Runs
from erasurehead.problems import Problem
from erasurehead.schemes._text import is_adaptive
from orders_law import Slowness
from truth import problem as logistic, rate

STEPS, ROUNDS, SEEDS, OTHERS = 600, 200, 15, 12
OWN = ", own optimizer"


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


def unequal(*speeds: float) -> Callable[[int], delays.Delays]:
    """Return the times of machines of these speeds, on one of which a share of speed 1 takes a second."""
    return lambda seed: Slowness(0.0, 1.0, 1.0, 0.05, seed, speeds)


def now_and_then(enter: float, leave: float) -> Callable[[int], delays.Delays]:
    """Return the times of machines that turn five times slower, and usual again, with such probabilities in a step."""
    return lambda seed: Slowness(enter, leave, 1.0, 0.1, seed)


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

FIVE_TIMES = [5.0, 5.0] + [1.0] * 10
ONE_TO_FOUR = tuple(np.linspace(1.0, 4.0, 12).tolist())

UNEQUAL = {
    "mixture, speeds 1 to 4": Case("mixture", unequal(*ONE_TO_FOUR), 12, "carry", 0.0, 1e-3, True),
    "squares, one of 4 half as fast": Case("squares", unequal(1.0, 2.0, 2.0, 2.0), 4, "carry", 0.0, 1e-3, True),
    "cancer, one of 8 half as fast": Case("breast_cancer", unequal(0.5, *[1.0] * 7), 8, "preempt", 0.0, 1e-2, True),
    "squares, 30 of speeds 1 to 4": Case(
        "squares", unequal(*np.linspace(1.0, 4.0, 30).tolist()), 30, "preempt", 0.0, 1e-3, True
    ),
    "mixture, slow for 100 steps": Case("mixture", now_and_then(0.002, 0.01), 12, "carry", 0.0, 1e-3, True),
    "sorted, slow for ten steps": Case("sorted", now_and_then(0.02, 0.1), 12, "preempt", 0.0, 1e-2, True),
    "cancer, two wait five times as long": Case(
        "breast_cancer",
        lambda seed: delays.parse(f"scaled(exponential(0.3, seed={seed}), {FIVE_TIMES})"),
        12,
        "carry",
        0.05,
        1e-2,
    ),
    "sorted, speeds 1 to 4, start-up": Case("sorted", unequal(*ONE_TO_FOUR[::-1]), 12, "preempt", 0.0, 1e-3, True),
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


def planned(case: Case) -> Plan:
    """Return what is planned from a trace of a case, without its data."""
    table = delays.Trace.from_table(case.law(0).rows(0, ROUNDS, case.workers))
    trace = drawn_from(table, case.workers, "rounds", "censored", 0.0, case.by_load, lambda said: None).delays
    tried = (*default_settings(case.workers, delays=trace), *adaptive_settings(case.workers, delays=trace))
    return plan(trace, case.workers, case.task, tried, late=case.late, accuracy=Accuracy(case.gap))


def raced(case: Case, found: Plan) -> Plan:
    """Return a plan with what its settings take on the data."""
    one, size = problem(case.data)

    def nesterov() -> optimizers.Optimizer:
        return optimizers.Nesterov(one.initial(), size)

    found = found.for_accuracy(measured_accuracy(one, nesterov, case.workers, case.gap, STEPS))
    goal = "gap", case.gap
    return after(
        found, race(found, one, nesterov, goal, STEPS, 3, solver=lambda: optimizers.QuasiNewton(one.initial()))
    )


def by_own_optimizer(found: Plan) -> Plan:
    """Return a plan without `adaptive`, as where the user has an optimizer of his own."""
    return found.of({item.setting: item for item in found.ranked if not is_adaptive(item.setting)})


def times(case: Case, settings: set[str]) -> dict[str, float]:
    """Return how long each setting takes to the target: the mean of runs with fresh delays."""
    one, size = problem(case.data)
    goal = "gap", case.gap
    trainer = Trainer(one, lambda: optimizers.Nesterov(one.initial(), size), goal, STEPS)
    solver = Trainer(one, lambda: optimizers.QuasiNewton(one.initial()), goal, STEPS)
    found: dict[str, list[float]] = {setting: [] for setting in settings}
    for seed in range(101, 101 + SEEDS):
        runs = Runs(trainer, case.law(seed), case.workers, case.task, case.late, solver)
        for setting in sorted(settings):
            found[setting].append(runs.trial(setting, 1, math.inf, 1.0).seconds[0])
    return {setting: statistics.fmean(seconds) for setting, seconds in found.items()}


def brief(setting: str) -> str:
    """Return a setting without the numbers of its speeds."""
    return re.sub(r"speeds=\[[^]]*\]", "speeds=[...]", setting)


def judged(name: str, case: Case, own: bool) -> dict[str, tuple[str, float, float]]:
    """Print the row of a case; return the best, and what is advised with data and without.

    Each with its regret, and the promised time over the true one; the same without `adaptive`, if that is asked for.
    """
    seen = planned(case)
    plans = {"": {"without": seen, "with data": raced(case, seen)}}
    if own:
        seen = by_own_optimizer(seen)
        plans[OWN] = {"without": seen, "with data": raced(case, seen)}
    settings = set(adaptive_settings(case.workers, delays=seen.delays))
    for found in (found for kinds in plans.values() for found in kinds.values()):
        others = [item.setting for item in found.distinct if not is_adaptive(item.setting)]
        settings |= {found.best.setting, *others[:OTHERS]}
    true = times(case, settings)
    judged: dict[str, tuple[str, float, float]] = {}
    for whose, kinds in plans.items():
        able = [setting for setting in sorted(true) if not (whose and is_adaptive(setting))]
        best = min(able, key=lambda setting: true[setting])
        usual, text = true[usual_setting(case.workers)] / true[best], brief(best)
        print(f"{name}{whose}: the best is {text}, {true[best]:.3g} s; the default takes {usual:.2f} times as long")
        judged[f"best{whose}"] = text, 1.0, 1.0
        judged[f"default{whose}"] = usual_setting(case.workers), usual, 1.0
        for kind, found in kinds.items():
            item = found.best
            text, came = brief(item.setting), true[item.setting]
            promised = found.steps_of(item) * item.seconds_per_step
            judged[f"{kind}{whose}"] = text, came / true[best], promised / came
            print(f"    {kind:<10} {text:<36} {came:6.3g} s ({promised:.3g} promised): {came / true[best]:.2f}")
            if kind == "without" and not whose:
                rival, times_as_long = found.behind()
                judged["foreseen"] = brief(rival.setting), times_as_long, 1.0
                print(f"        it may take {times_as_long:.2f} times as long as {brief(rival.setting)}")
            if "speeds" in best:
                print(f"        {explain(found).partition(':')[0]}", flush=True)
    return judged


def main() -> None:
    """Judge plans in all cases, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases with this in their names")
    only = parser.parse_args().only
    figures: dict[str, float | str] = {}
    targets: dict[str, str] = {}
    groups = (CASES, False, "", 1.2, 1.5, 1.05, 1.3), (UNEQUAL, True, "unequal machines, ", 1.2, 1.5, 1.05, 1.2)
    for cases, own, group, *bounds in groups:
        rows = {name: judged(name, case, own) for name, case in cases.items() if only in name}
        if not rows:
            continue
        for name, row in rows.items():
            for kind, (setting, regret, _) in row.items():
                figures |= {f"{name}: {kind}, setting": setting, f"{name}: {kind}, regret": regret}
        for whose in ("", OWN) if own else ("",):
            for kind, middle, most in (("without", *bounds[:2]), ("with data", *bounds[2:])):
                regrets = [row[f"{kind}{whose}"][1] for row in rows.values()]
                said = f"{group}regret {kind}{whose}"
                figures |= {f"{said}, median": statistics.median(regrets), f"{said}, worst": max(regrets)}
                targets |= {f"{said}, median": f"<= {middle}", f"{said}, worst": f"<= {most}"}
        usual = [row["default"][1] for row in rows.values()]
        figures |= {f"{group}regret of the default, median": statistics.median(usual)}
        figures |= {f"{group}regret of the default, worst": max(usual)}
        sure = [row["without"][1] for row in rows.values() if row["foreseen"][1] <= groups[0][4]]
        if sure:
            said = f"{group}regret without, worst where the plan foresees no more than {groups[0][4]}"
            figures[said], targets[said] = max(sure), f"<= {groups[0][4]}"
        for kind in ("without", "with data"):
            off = [abs(math.log(row[kind][2])) for row in rows.values()]
            figures[f"{group}time promised {kind}, off by a factor of, median"] = math.exp(statistics.median(off))
    report("plan_regret", figures, targets)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
