"""When does distributing pay, and when redundancy? A crossover, and seven situations with a table and a picture each.

Logistic regression on the virtual clock; late workers finish old work first. The crossover compares one machine with 8
and with 30 workers, as a pass over the data takes longer and longer beside the delays. The situations train Nesterov's
method at the best of five rates, found on another seed; beside it the solver that needs no rate, with and without
redundancy, waiting for everybody, and on one machine alone. Times are medians of three seeds, in seconds.

    python benchmarks/redundancy.py                      the tables, about four minutes
    python benchmarks/redundancy.py --out docs/images    and the pictures
    python benchmarks/redundancy.py --only sorted        situations with this in their names
    python benchmarks/redundancy.py --only crossover     the crossover
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from common import report
from erasurehead import delays, engines, optimizers, problems, train
from erasurehead.delays import Delays
from erasurehead.errors import Diverged
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._descents import Descent, draw_descents
from erasurehead.schemes import parse_scheme
from erasurehead.training import find_optimum

WORKERS, SAMPLES, FEATURES = 30, 3_000, 20
RATES = tuple(2.0**power for power in (-4, -2, 0, 1, 2))
SEEDS = (1, 2, 3)
NESTEROV = ("uncoded()", "ignore_stragglers(wait_for=3)", "exact(load=3)", "erasurehead(load=3, wait_for=3)")
ADAPTIVE = ("uncoded()", "adaptive(load=1)", "adaptive(load=3)")
ALONE, WAITING = "one machine alone", "adaptive, waiting for all"

PASSES = tuple(10.0 ** (power / 4) for power in range(-4, 11))
"""Seconds that one machine takes for one pass over the data, where delays have a mean of one second."""
CROSSOVER_GAP, CROSSOVER_SEEDS = 1e-3, range(1, 10)
TEAMS = {
    "uncoded()": "30 workers, waiting for all of them",
    "adaptive(load=3)": "30 workers, ErasureHead (each task on three of them)",
    "adaptive(load=1)": "30 workers, ErasureHead without redundancy",
}


@dataclass(frozen=True)
class Situation:
    """Where redundancy may pay.

    Arguments:
        name: of the picture.
        title: what is the case, and what comes of it.
        in_order: whether the rows are in the order of what is to be predicted, so that tasks differ.
        delays: by seed.
        seconds_per_task: that computing takes.
        gap: the target.
        seconds: of the virtual clock, after which a run is given up.
        pays: whether redundancy does.
        nesterov: schemes that are trained by Nesterov's method.
        quasi_newton: schemes that are trained by what needs no rate.
    """

    name: str
    title: str
    in_order: bool
    delays: Callable[[int], Delays]
    seconds_per_task: float
    gap: float
    seconds: float
    pays: bool
    nesterov: tuple[str, ...] = NESTEROV
    quasi_newton: tuple[str, ...] = ADAPTIVE


def late(mean: float) -> Callable[[int], Delays]:
    """Return delays that are late at random, by seed."""
    return lambda seed: delays.Exponential(mean=mean, seed=seed)


def one_slow(seed: int) -> Delays:
    """Return such delays with one machine that is slow for good."""
    return delays.parse(f"scaled(exponential(mean=0.5, seed={seed}), {[20.0] + [1.0] * (WORKERS - 1)})")


def nobody_late(_seed: int) -> Delays:
    """Return no delays."""
    return delays.parse("none()")


SITUATIONS = (
    Situation("deep", "Rows in no order, deep target", False, late(0.5), 0.025, 1e-6, 60.0, True),
    Situation("sorted", "Rows in order: tasks differ", True, late(0.5), 0.025, 1e-2, 60.0, True),
    Situation("slow", "Rows in order, one machine slow for good", True, one_slow, 0.025, 1e-3, 120.0, True),
    Situation(
        "exactness",
        "A line search needs whole gradients",
        True,
        late(0.5),
        0.025,
        1e-6,
        60.0,
        True,
        (),
        ("ignore_stragglers(wait_for=20)", *ADAPTIVE),
    ),
    Situation("rough", "Rows in no order, rough target", False, late(0.5), 0.025, 1e-1, 10.0, False),
    Situation("nobody_late", "Nobody is late", False, nobody_late, 0.05, 1e-3, 60.0, False),
    Situation("dear", "Computing takes longer than waiting", False, late(0.1), 0.5, 1e-3, 300.0, False),
)


def rows_in_no_order() -> tuple[np.ndarray, np.ndarray]:
    """Return samples and what is to be predicted of them, as a score."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((SAMPLES, FEATURES)) * np.logspace(0, -1, FEATURES)
    return X, X @ np.linspace(1.0, 4.0, FEATURES) + 0.5 * rng.standard_normal(SAMPLES)


def problem(in_order: bool) -> problems.LogisticRegression:
    """Return logistic regression whose rows are in the order of the score, or in none."""
    X, score = rows_in_no_order()
    rows = np.argsort(score) if in_order else np.arange(SAMPLES)
    return problems.LogisticRegression(X[rows], np.sign(score[rows]), l2=1e-3)


def descent(where: Situation, text: str, rate: float | None, seed: int, workers: int = WORKERS) -> Descent:
    """Train once, with the solver that needs no rate or by Nesterov's method, and return how the gap fell."""
    one = problem(where.in_order)
    first = one.initial()
    optimizer = optimizers.QuasiNewton(first) if rate is None else optimizers.Nesterov(first, rate)
    engine = engines.VirtualEngine(where.delays(seed), late="carry", seconds_per_task=where.seconds_per_task)
    name = WAITING if rate is None and text == "uncoded()" else text
    try:
        run = train(
            one,
            parse_scheme(text, workers),
            optimizer,
            engine,
            4_000,
            evaluate_every=0,
            max_seconds=where.seconds,
            until=f"gap < {0.1 * where.gap}",
        )
    except Diverged:
        return Descent(name, np.zeros(1), np.ones(1), virtual=True)
    times = np.array([0.0, *(item.time for item in run.measured)])
    return Descent(name, times, np.array([1.0, *(item.value for item in run.measured)]), virtual=True)


def alone(where: Situation) -> Descent:
    """Return how the gap falls on one machine, which computes all tasks and waits for nobody."""
    seconds = WORKERS * where.seconds_per_task
    whole = Situation("", "", where.in_order, nobody_late, seconds, where.gap, 1e3 * seconds, False)
    found = descent(whole, "uncoded()", None, 0, workers=1)
    return Descent(ALONE, found.times, found.gaps, virtual=True)


def best_rate(where: Situation, text: str) -> float:
    """Return the rate that is first at the target, or else comes nearest to it, on a seed of its own."""
    bound = 4.0 * SAMPLES / np.linalg.norm(rows_in_no_order()[0], 2) ** 2

    def score(rate: float) -> tuple[float, float]:
        fell = descent(where, text, rate * bound, 100)
        reached = fell.seconds_to(where.gap)
        return (math.inf if reached is None else reached), float(np.nanmin(fell.gaps))

    return bound * min(RATES, key=score)


def seconds_to(fell: Descent, gap: float) -> float:
    """Return when a gap was reached; infinite if it never was."""
    reached = fell.seconds_to(gap)
    return math.inf if reached is None else reached


def judge(where: Situation, out: Path | None) -> dict[str, float]:
    """Print the table of one situation, draw it, and return its seconds."""
    print(f"\n{where.title}: seconds to a gap of {where.gap:g} (least and most of {len(SEEDS)} seeds)")
    entries = [(text, best_rate(where, text)) for text in where.nesterov]
    entries += [(text, None) for text in where.quasi_newton]
    drawn: list[Descent] = []
    best = {True: math.inf, False: math.inf}
    waiting = math.inf
    for text, rate in entries:
        fell = [descent(where, text, rate, seed) for seed in SEEDS]
        times = sorted(seconds_to(one, where.gap) for one in fell)
        middle = statistics.median(times)
        redundant = parse_scheme(text, WORKERS).code.load > 1
        best[redundant] = min(best[redundant], middle)
        if fell[0].scheme == WAITING:
            waiting = middle
        last = f"{times[-1]:.2f}" if math.isfinite(times[-1]) else "never"
        said = f"{middle:8.2f}  ({times[0]:.2f} to {last})" if math.isfinite(middle) else "   never"
        print(f"  {fell[0].scheme:<44} {said}", flush=True)
        drawn.append(fell[0])
    drawn.append(alone(where))
    print(f"  {ALONE:<44} {seconds_to(drawn[-1], where.gap):8.2f}", flush=True)
    if out is not None:
        with canvas.drawing():
            figure = canvas.new_figure(7.5, 5.9, where.title)
            axes = figure.subplots()
            draw_descents(axes, drawn)
            axes.axhline(where.gap, color=canvas.INK, linewidth=1.0, linestyle=(0, (1, 2)), label="target")
            canvas.legend_above(axes, 2, "Scheme")
            canvas.save(figure, canvas.prepare_folder(out), f"redundancy_{where.name}", ["png"])
    return {
        "best without redundancy": best[False],
        "best with it": best[True],
        WAITING: waiting,
        ALONE: seconds_to(drawn[-1], where.gap),
    }


def passes_alone() -> float:
    """Return how many passes one machine takes to the gap of the crossover: the fewest of two solvers."""
    one = problem(in_order=False)
    optimum = find_optimum(one, one.initial())
    gaps: list[float] = []

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        objective = one.objective(x)
        gaps.append(optimum.gap(objective))
        return objective, one.gradient(x) + one.penalty_gradient(x)

    minimize(value, one.initial(), jac=True, method="L-BFGS-B")
    by_scipy = 1 + next(index for index, gap in enumerate(gaps) if gap <= CROSSOVER_GAP)
    own = seconds_to(descent(_even(1.0, 1, 0.0), "uncoded()", None, 0, workers=1), CROSSOVER_GAP)
    print(f"Passes over the data that one machine takes: {own:.0f}, and scipy's L-BFGS-B {by_scipy}")
    return min(own, by_scipy)


def _even(seconds: float, workers: int, mean: float) -> Situation:
    """Return training on rows in no order, of which a pass takes one machine so many seconds."""
    law = late(mean) if mean else nobody_late
    return Situation("", "", False, law, seconds / workers, CROSSOVER_GAP, 1e3 * max(seconds, 1.0), True)


def crossover(out: Path | None) -> dict[str, float]:
    """Print and draw when a team is faster than one machine; return the shortest pass from which on it is."""
    needed = passes_alone()
    found: dict[str, float] = {}
    for workers in (8, WORKERS):
        gains: dict[str, list[float]] = {}
        for text in TEAMS:
            gains[text] = []
            for seconds in PASSES:
                times = [
                    seconds_to(descent(_even(seconds, workers, 1.0), text, None, seed, workers), CROSSOVER_GAP)
                    for seed in CROSSOVER_SEEDS
                ]
                gains[text].append(needed * seconds / statistics.median(times))
        print(
            f"\n{workers} workers: times as fast as one machine alone to a gap of {CROSSOVER_GAP:g}, by the time of a"
        )
        print("pass over the data on one machine, in mean delays of a worker")
        print(f"  {'':<52}" + "".join(f"{seconds:>7.2g}" for seconds in PASSES))
        for text, gain in gains.items():
            print(f"  {text:<52}" + "".join(f"{one:>7.2g}" for one in gain))
            found[f"{text}, {workers} workers"] = crossing(gain)
            print(f"  {'':<4}is faster from {crossing(gain):.2g} mean delays on")
        pays = [many / few for few, many in zip(gains["adaptive(load=1)"], gains["adaptive(load=3)"], strict=True)]
        begin = next(index for index, gain in enumerate(gains["adaptive(load=3)"]) if gain > 1.0)
        found[f"redundancy, {workers} workers"] = crossing(pays, falls=True, begin=begin)
        print(f"  redundancy pays up to {found[f'redundancy, {workers} workers']:.2g} mean delays")
        if out is not None and workers == WORKERS:
            draw_crossover(out, gains, found)
    return found


def crossing(gain: list[float], falls: bool = False, begin: int = 0) -> float:
    """Return the pass at which a gain first rises above 1, or falls below it, between two that were tried.

    Arguments:
        gain: for each pass that was tried.
        falls: whether to look for where it falls.
        begin: the pass to begin with: where one machine is faster, it does not matter which team is.
    """
    sign = -1.0 if falls else 1.0
    heights = [sign * math.log(one) for one in gain]
    after = next((index for index, one in enumerate(heights) if index >= begin and one > 0.0), len(heights))
    if after in (begin, len(heights)):
        return PASSES[begin] * (begin > 0) if after == begin else math.inf
    low, high = heights[after - 1 : after + 1]
    share = -low / (high - low)
    return math.exp(math.log(PASSES[after - 1]) * (1.0 - share) + math.log(PASSES[after]) * share)


def draw_crossover(out: Path, gains: dict[str, list[float]], found: dict[str, float]) -> None:
    """Draw how many times as fast as one machine a team is, and who is to be preferred where."""
    begins, ends = (found[f"{name}, {WORKERS} workers"] for name in ("adaptive(load=3)", "redundancy"))
    nobody = zip(PASSES, gains["uncoded()"], gains["adaptive(load=1)"], strict=True)
    equal = next(seconds for seconds, waiting, few in nobody if waiting > 0.99 * few)
    kinds = zip(PASSES, gains["adaptive(load=1)"], gains["adaptive(load=3)"], strict=True)
    clear = all(once > 0.99 * thrice for seconds, once, thrice in kinds if ends <= seconds <= equal)
    between = "distribute,\nwithout redundancy" if clear else "distribute: redundancy\nhardly matters"
    with canvas.drawing():
        figure = canvas.new_figure(9.0, 5.6, "When it pays to distribute, and when to wait for nobody")
        axes = figure.subplots()
        bands = (
            (PASSES[0], begins, "#eeeeee", "one machine\nis faster"),
            (begins, ends, "#f7e3ef", "distribute,\nwith redundancy"),
            (ends, equal, "#e3eef5", between),
            (equal, PASSES[-1], "#f6f6f6", "distribute, and wait:\ndelays hardly matter"),
        )
        for left, right, colour, said in bands:
            if right < 2.0 * left:  # too narrow for its words
                continue
            axes.axvspan(left, right, color=colour, linewidth=0, zorder=0)
            box = {"facecolor": colour, "edgecolor": "none", "pad": 2.0}
            axes.annotate(said, (math.sqrt(left * right), 45.0), ha="center", va="top", fontsize=10.5, bbox=box)
        looks = {"uncoded()": ("#555555", "-", "o"), "adaptive(load=3)": ("#A8417F", "-", "D")}
        for text, gain in gains.items():
            colour, line, marker = looks.get(text, ("#0072B2", "--", "s"))
            axes.plot(PASSES, gain, line, color=colour, marker=marker, linewidth=2.0, label=TEAMS[text])
        axes.axhline(1.0, color=canvas.INK, linewidth=1.4, label=ALONE)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(PASSES[0], PASSES[-1])
        axes.set_ylim(0.03, 50.0)
        canvas.plain_ticks(axes.xaxis)
        canvas.plain_ticks(axes.yaxis)
        axes.grid(color=canvas.FAINT, linewidth=0.5)
        axes.set_xlabel("time of one pass over the data on one machine / mean delay of a worker")
        axes.set_ylabel("times as fast as one machine alone")
        axes.legend(
            loc="lower right",
            title="Who trains, with the same solver",
            alignment="left",
            frameon=True,
            edgecolor="none",
        )
        canvas.save(figure, canvas.prepare_folder(out), "crossover", ["png"])


def main() -> None:
    """Judge all situations, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="situations with this in their names")
    parser.add_argument("--out", type=Path, default=None, help="folder for the pictures")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    targets: dict[str, str] = {}
    if given.only in "crossover":
        found = crossover(given.out)
        name = "shortest pass from which on thirty workers are faster than one machine"
        figures |= {f"crossover in mean delays, {team}": passes for team, passes in found.items()}
        figures[f"{name}, in mean delays"] = found[f"adaptive(load=3), {WORKERS} workers"]
        targets[f"{name}, in mean delays"] = "<= 1"
    for where in SITUATIONS:
        if given.only in where.name:
            seconds = judge(where, given.out)
            figures |= {f"{where.name}, seconds: {name}": value for name, value in seconds.items()}
            gain, with_it = f"without redundancy over with it, {where.name}", seconds["best with it"]
            figures[gain] = seconds["best without redundancy"] / with_it if math.isfinite(with_it) else 0.0
            targets[gain] = ">= 1" if where.pays else "<= 1.05"
    report("redundancy", figures, targets)


if __name__ == "__main__":
    main()
