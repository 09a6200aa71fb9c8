"""When does redundancy pay? Seven situations, a picture and a table of each: the same optimizer, with and without.

Logistic regression by 30 workers on the virtual clock; late workers carry on with old work first. Nesterov's method at
the best of five rates, found on another seed; beside it what needs no rate, with and without redundancy. Times are
medians of three seeds, in seconds.

    python benchmarks/redundancy.py                      the tables, about four minutes
    python benchmarks/redundancy.py --out docs/images    and the pictures
    python benchmarks/redundancy.py --only sorted        situations with this in their names
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common import report
from erasurehead import delays, engines, optimizers, problems, train
from erasurehead.delays import Delays
from erasurehead.errors import Diverged
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._descents import Descent, draw_descents
from erasurehead.schemes import parse_scheme

WORKERS, SAMPLES, FEATURES = 30, 3_000, 20
RATES = tuple(2.0**power for power in (-4, -2, 0, 1, 2))
SEEDS = (1, 2, 3)
NESTEROV = ("uncoded()", "ignore_stragglers(wait_for=3)", "exact(load=3)", "erasurehead(load=3, wait_for=3)")
ADAPTIVE = ("adaptive(load=1)", "adaptive(load=3)")


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
    return delays.Scaled(delays.Exponential(mean=0.5, seed=seed), (20.0, *[1.0] * (WORKERS - 1)))


SITUATIONS = (
    Situation("deep", "Rows in no order, deep target", False, late(0.5), 0.01, 1e-6, 60.0, True),
    Situation("sorted", "Rows in order: tasks differ", True, late(0.5), 0.01, 1e-2, 60.0, True),
    Situation("slow", "Rows in order, one machine slow for good", True, one_slow, 0.01, 1e-3, 120.0, True),
    Situation(
        "exactness",
        "A line search needs whole gradients",
        True,
        late(0.5),
        0.01,
        1e-6,
        60.0,
        True,
        (),
        ("ignore_stragglers(wait_for=20)", *ADAPTIVE),
    ),
    Situation("rough", "Rows in no order, rough target", False, late(0.5), 0.01, 1e-1, 10.0, False),
    Situation("nobody_late", "Nobody is late", False, lambda seed: delays.parse("none()"), 0.05, 1e-3, 60.0, False),
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


def descent(where: Situation, text: str, rate: float | None, seed: int) -> Descent:
    """Train once, with the solver that needs no rate or by Nesterov's method, and return how the gap fell."""
    one = problem(where.in_order)
    first = one.initial()
    optimizer = optimizers.QuasiNewton(first) if rate is None else optimizers.Nesterov(first, rate)
    engine = engines.VirtualEngine(where.delays(seed), late="carry", seconds_per_task=where.seconds_per_task)
    name = f"{text}, quasi_newton" if rate is None and text not in ADAPTIVE else text
    try:
        run = train(
            one,
            parse_scheme(text, WORKERS),
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


def best_rate(where: Situation, text: str) -> float:
    """Return the rate that is first at the target, or else comes nearest to it, on a seed of its own."""
    bound = 4.0 * SAMPLES / np.linalg.norm(rows_in_no_order()[0], 2) ** 2

    def score(rate: float) -> tuple[float, float]:
        fell = descent(where, text, rate * bound, 100)
        reached = fell.seconds_to(where.gap)
        return (math.inf if reached is None else reached), float(np.nanmin(fell.gaps))

    return bound * min(RATES, key=score)


def judge(where: Situation, out: Path | None) -> float:
    """Print the table of one situation, draw it, and return the fastest without redundancy over the fastest with it."""
    print(f"\n{where.title}: seconds to a gap of {where.gap:g} (least and most of {len(SEEDS)} seeds)")
    entries = [(text, best_rate(where, text)) for text in where.nesterov]
    entries += [(text, None) for text in where.quasi_newton]
    drawn: list[Descent] = []
    best = {True: math.inf, False: math.inf}
    for text, rate in entries:
        fell = [descent(where, text, rate, seed) for seed in SEEDS]
        times = sorted(
            math.inf if one.seconds_to(where.gap) is None else one.seconds_to(where.gap) or 0.0 for one in fell
        )
        middle = statistics.median(times)
        redundant = parse_scheme(text, WORKERS).code.load > 1
        best[redundant] = min(best[redundant], middle)
        last = f"{times[-1]:.2f}" if math.isfinite(times[-1]) else "never"
        said = f"{middle:8.2f}  ({times[0]:.2f} to {last})" if math.isfinite(middle) else "   never"
        print(f"  {fell[0].scheme:<44} {said}", flush=True)
        drawn.append(fell[0])
    if out is not None:
        with canvas.drawing():
            figure = canvas.new_figure(7.5, 5.4, where.title)
            axes = figure.subplots()
            draw_descents(axes, drawn)
            axes.axhline(where.gap, color=canvas.INK, linewidth=1.0, linestyle=(0, (1, 2)))
            canvas.legend_above(axes, 2)
            canvas.save(figure, canvas.prepare_folder(out), f"redundancy_{where.name}", ["png"])
    return best[False] / best[True] if math.isfinite(best[True]) else 0.0


def main() -> None:
    """Judge all situations, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="situations with this in their names")
    parser.add_argument("--out", type=Path, default=None, help="folder for the pictures")
    given = parser.parse_args()
    gains = {where: judge(where, given.out) for where in SITUATIONS if given.only in where.name}
    report(
        "redundancy",
        {f"without redundancy over with it, {where.name}": gain for where, gain in gains.items()},
        {f"without redundancy over with it, {where.name}": ">= 1" if where.pays else "<= 1.05" for where in gains},
    )


if __name__ == "__main__":
    main()
