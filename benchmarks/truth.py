"""The truth that plans are judged by: situations, replays of them, and what every choice takes in each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from erasurehead import delays, optimizers, problems
from erasurehead._internal.late_work import LateWork
from erasurehead.planning._settings import default_settings
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import simulated_steps
from erasurehead.schemes import parse_scheme

GAPS = (1e-1, 1e-2, 1e-3)
ROUNDS, REPLAYS, STEPS = 200, 10, 300
Law = Callable[[np.random.Generator, int, int, "np.random.Generator"], np.ndarray]


@dataclass(frozen=True)
class Situation:
    """Delays of a kind: how they come about, and how many workers have them.

    Arguments:
        name: of the row.
        family: of `FAMILIES`.
        parameters: of the family.
        workers: how many.
        seed: of which machines are slow, and of the first trace.
        drawn: whether the script drew it, so that nobody has looked at it while tuning.
    """

    name: str
    family: str
    parameters: tuple[float, ...]
    workers: int
    seed: int
    drawn: bool = False

    def rounds(self, replay: int, count: int) -> np.ndarray:
        """Return rounds, shape (count, workers): number 0 is what a plan sees, all others are fresh."""
        machines = np.random.default_rng([self.seed, 1])
        random = np.random.default_rng([self.seed, 2, replay])
        return FAMILIES[self.family](random, count, self.workers, machines, *self.parameters)


def _exponential(random, count, workers, machines, mean):
    return random.exponential(mean, (count, workers))


def _pareto(random, count, workers, machines, least, exponent):
    return least * (1.0 + random.pareto(exponent, (count, workers)))


def _lognormal(random, count, workers, machines, median, sigma):
    return median * np.exp(sigma * random.standard_normal((count, workers)))


def _weibull(random, count, workers, machines, scale, shape):
    return scale * random.weibull(shape, (count, workers))


def _slow(random, count, workers, machines, slow, factor):
    factors = np.ones(workers)
    factors[machines.permutation(workers)[: int(slow)]] = factor
    return (0.2 + random.exponential(0.1, (count, workers))) * factors


def _bimodal(random, count, workers, machines, share, factor):
    return (0.2 + random.exponential(0.05, (count, workers))) * np.where(
        random.random((count, workers)) < share, factor, 1.0
    )


def _stalls(random, count, workers, machines, enter, leave, factor):
    slow = np.zeros((count, workers), dtype=bool)
    slow[0] = random.random(workers) < enter / (enter + leave)
    for row in range(1, count):
        stays, turns = random.random(workers) >= leave, random.random(workers) < enter
        slow[row] = np.where(slow[row - 1], stays, turns)
    return (0.2 + random.exponential(0.05, (count, workers))) * np.where(slow, factor, 1.0)


def _drift(random, count, workers, machines, factor):
    level = factor ** (np.arange(count) / max(1, count - 1))
    return (0.1 + random.exponential(0.2, (count, workers))) * level[:, None]


def _racks(random, count, workers, machines, racks, share, factor):
    rack = np.arange(workers) % int(racks)
    slow = random.random((count, int(racks))) < share
    return (0.2 + random.exponential(0.1, (count, workers))) * np.where(slow[:, rack], factor, 1.0)


def _failures(random, count, workers, machines, share):
    rows = 0.2 + random.exponential(0.1, (count, workers))
    rows[random.random((count, workers)) < share] = np.inf
    return rows


FAMILIES = {
    "exponential": _exponential,
    "pareto": _pareto,
    "lognormal": _lognormal,
    "weibull": _weibull,
    "slow machines": _slow,
    "bimodal": _bimodal,
    "stalls": _stalls,
    "drift": _drift,
    "racks": _racks,
    "failures": _failures,
}

_RANGES = {
    "exponential": ((0.1, 1.0),),
    "pareto": ((0.05, 0.3), (1.3, 3.0)),
    "lognormal": ((0.1, 0.5), (0.3, 1.5)),
    "weibull": ((0.1, 0.5), (0.5, 1.5)),
    "slow machines": ((1, 3), (1.5, 8.0)),
    "bimodal": ((0.02, 0.2), (3.0, 20.0)),
    "stalls": ((0.01, 0.05), (0.05, 0.3), (3.0, 20.0)),
    "drift": ((1.2, 2.0),),
    "racks": ((2, 4), (0.05, 0.3), (2.0, 8.0)),
    "failures": ((0.002, 0.03),),
}


def situations() -> list[Situation]:
    """Return all situations: those of our own, then as many as half of them, drawn at random."""
    own = [
        ("exponential", (0.5,)),
        ("pareto", (0.1, 1.5)),
        ("lognormal", (0.3, 1.0)),
        ("weibull", (0.3, 0.5)),
        ("slow machines", (2, 4.0)),
        ("bimodal", (0.1, 10.0)),
        ("stalls", (0.02, 0.1, 10.0)),
        ("drift", (1.5,)),
        ("racks", (3, 0.1, 5.0)),
        ("failures", (0.01,)),
        ("lognormal", (0.3, 0.3)),
        ("stalls", (0.005, 0.02, 5.0)),
    ]
    found = [Situation(f"{family}{parameters}", family, parameters, 12, 7) for family, parameters in own]
    found += [Situation(f"{family}{parameters}", family, parameters, 30, 8) for family, parameters in own[:8:2]]
    random = np.random.default_rng(20261122)
    for number in range(6):
        family = sorted(FAMILIES)[int(random.integers(len(FAMILIES)))]
        drawn = [
            float(random.integers(low, high + 1)) if isinstance(low, int) else float(f"{random.uniform(low, high):.3g}")
            for low, high in _RANGES[family]
        ]
        name = f"drawn {number}: {family}{tuple(drawn)}"
        found.append(Situation(name, family, tuple(drawn), 12, int(random.integers(1 << 30)), True))
    return found


def problem(name: str) -> problems.LogisticRegression:
    """Return a data set: `breast_cancer`, the same `sorted` by label, or `mixture`, 40 columns of random numbers."""
    if name == "mixture":
        random = np.random.default_rng(3)
        X = random.standard_normal((1200, 40))
        y = np.sign(X @ random.standard_normal(40) + 2.0 * random.standard_normal(1200))
        return problems.LogisticRegression(X, y, l2=1e-3)
    from sklearn.datasets import load_breast_cancer  # in the development environment only

    X, labels = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(labels > 0, 1.0, -1.0)
    if name == "sorted":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    return problems.LogisticRegression(X, y, l2=1.0 / len(y))


DATA = ("breast_cancer", "sorted", "mixture")


def rate(one: problems.LogisticRegression) -> float:
    """Return a step size that Nesterov's method bears: 1 / beta."""
    from erasurehead.planning._constants import estimate_constants

    return 1.0 / estimate_constants(one, 12, steps=5, power_steps=30).beta


def trainer(one: problems.LogisticRegression, gap: float = GAPS[-1], steps: int = STEPS) -> Trainer:
    """Return what trains a choice to a gap by Nesterov's method."""
    size = rate(one)
    return Trainer(one, lambda: optimizers.Nesterov(one.initial(), size), ("gap", gap), steps)


def replayed(rows: np.ndarray) -> delays.Delays:
    """Return delays that are these rounds, one after the other."""
    return delays.Fixed(tuple(map(tuple, rows.tolist())))


def choices(workers: int) -> tuple[str, ...]:
    """Return what there is to choose from: at least 60 settings."""
    return default_settings(workers, 10)


def times_of(
    setting: str, situation: Situation, late: LateWork, of: Trainer, replay: int, most: Sequence[float]
) -> list[float]:
    """Train once with a choice, and return the seconds to each gap; inf where it was not reached, or took too long.

    Arguments:
        setting: the choice.
        situation, late, replay: which rounds it meets.
        of: trains.
        most: for each gap, seconds beyond which this choice cannot be the best.
    """
    rows = situation.rounds(replay, ROUNDS + STEPS)[ROUNDS:]
    scheme = parse_scheme(setting, situation.workers)
    steps = simulated_steps(scheme, replayed(rows), 0.02, late, 0, STEPS)
    clock = np.cumsum(steps.seconds)
    allowed = int(np.searchsorted(clock, max(most), side="right")) + 1 if math.isfinite(max(most)) else STEPS
    found = [math.inf] * len(GAPS)
    path = (
        _exact_path(of)
        if steps.lossless.all()
        else of.measures(
            replace(
                steps, seconds=clock[:allowed], arrived=steps.arrived[:allowed], lossless=steps.lossless[:allowed]
            ).oracle(of)
        )
    )
    for step, (gap, now) in enumerate(zip(path, clock, strict=False)):
        del step
        for place, wanted in enumerate(GAPS):
            if math.isinf(found[place]) and gap <= wanted:
                found[place] = float(now)
        if math.isfinite(found[-1]) or now > max(most):
            break
    return found


@cache  # which keeps the trainer: another one must not come to have its identity
def _exact_path(of: Trainer) -> list[float]:
    return list(of.measures(of.weighted(None, 1)))


def key(situation: Situation, data: str, late: str) -> str:
    """Return what a row of the table is called."""
    return f"{situation.name} | {situation.workers} workers | {data} | {late}"


def sampled(names: Sequence[str], seed: int, share: float) -> list[str]:
    """Return a random share of rows, at least one."""
    random = np.random.default_rng(int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:4], "little"))
    count = max(1, round(share * len(names)))
    return sorted(random.permutation(sorted(names))[:count].tolist())
