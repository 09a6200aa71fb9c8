"""Nested gradient codes beside the plain code of each tolerance: mean time of an exact step, in shares of full work.

Twenty workers. A nested worker reports each task, and is asked for one message, of the tolerance that suffices; a plain
code computes all of its tasks in every step. Where workers die, or do not answer, with probability p in a step, a plain
code is made for all but one in a thousand steps. On the virtual clock the second message takes no time; what it takes
is measured below, as the seconds of a step of real processes over those of the virtual clock, for nested codes and for
the plain code that each step names.

    python benchmarks/nested.py                      2,000 steps of each, about three minutes
    python benchmarks/nested.py --steps 200 --real 0
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass

import numpy as np

from common import report
from erasurehead import delays, engines, optimizers, schemes, training
from erasurehead._internal.arrays import Array
from erasurehead.codes import build
from erasurehead.delays import Delays
from erasurehead.planning._simulation import Timing, stop_times
from erasurehead.problems import LeastSquares
from erasurehead.schemes import Scheme

WORKERS, MOST = 20, 7  # the greatest tolerance beside which nested codes are put
LAWS = {
    "delays that do not grow with the load": "exponential(mean=0.1)",
    "delays that grow with the load": "exponential(mean=0.1, scale_with_load=True)",
    "one in ten begins late": "bimodal(0.1, none(), shifted_exponential(shift=0.2, mean=0.01))",
}
DEATHS = {0.05: (0.10, 5), 0.1: (0.15, 7), 0.2: (0.25, 10)}
"""For each probability that a worker does not answer in a step: what nested codes should take, in shares of all work,
and the tolerance that a plain code needs for 99.9% of the steps."""


@dataclass(frozen=True)
class Dying(Delays):
    """Workers of which each does not answer with some probability, in each step anew."""

    chance: float
    seed: int = 0

    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        drawn = np.empty((count, n_workers)) if out is None else out
        for row in range(count):
            rng = np.random.default_rng([self.seed, first + row])
            drawn[row] = np.where(rng.random(n_workers) < self.chance, np.inf, 0.0)
        return drawn

    def __str__(self) -> str:
        return f"dying({self.chance}, {self.seed})"


def plain(tolerance: int) -> Scheme:
    """Return the plain code of a tolerance."""
    code = build("nested", n_workers=WORKERS, stragglers=tolerance).inner[tolerance]
    return schemes.custom(code, "decodable()")


def seconds(scheme: Scheme, law: Delays, steps: int) -> Array:
    """Return the times of steps, in shares of the time that one worker takes for all tasks."""
    return stop_times(Timing(scheme.decoder, scheme.rule, law, 1.0 / WORKERS), steps)


def round_trip(steps: int) -> float:
    """Return by how many milliseconds the second message makes a step of real processes longer, in the median."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 1000))
    problem, law = LeastSquares(X, X @ rng.standard_normal(1000), l2=1.0), delays.parse("exponential(mean=0.02)")
    excess: list[float] = []
    for scheme in (schemes.nested(12), schemes.exact(12, 3, "cyclic")):
        waits: list[list[float]] = []
        for engine in (engines.VirtualEngine(law), engines.ProcessEngine(law)):
            optimizer = optimizers.GradientDescent(problem.initial(), 1e-3)
            run = training.train(problem, scheme, optimizer, engine, steps, evaluate_every=0, tolerance=None)
            waits.append([row.waited for row in run.steps])
        excess.append(1e3 * statistics.median(real - virtual for virtual, real in zip(*waits, strict=True)))
    return excess[0] - excess[1]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--real", type=int, default=60, help="steps on real processes; 0 for none")
    given = parser.parse_args()
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    for name, text in LAWS.items():
        law = delays.parse(text)
        each = [float(seconds(plain(tolerance), law, given.steps).mean()) for tolerance in range(MOST + 1)]
        best = min(range(MOST + 1), key=each.__getitem__)
        ratios |= {f"{name}: plain": each[best], f"{name}: stragglers": best}
        ratios[f"{name}: nested"] = float(seconds(schemes.nested(WORKERS, MOST + 1), law, given.steps).mean())
        targets[f"{name}: nested"] = f"<= {each[best]:.3f}"
    for chance, (wanted, tolerance) in DEATHS.items():
        law = Dying(chance)
        for made, scheme in (
            ("plain", plain(tolerance)),
            ("nested", schemes.nested(WORKERS, 15)),
        ):
            taken = seconds(scheme, law, given.steps)
            ended = np.isfinite(taken)
            ratios[f"p = {chance}: {made}"] = float(taken[ended].mean())
            ratios[f"p = {chance}: {made}: steps that end"] = float(ended.mean())
        ratios[f"p = {chance}: stragglers"] = tolerance
        targets[f"p = {chance}: nested"] = f"<= {wanted + 0.005:g}"
    if given.real:
        ratios["12 processes, the second message of a step, in ms"] = round_trip(given.real)
    report("nested", ratios, targets)


if __name__ == "__main__":
    main()
