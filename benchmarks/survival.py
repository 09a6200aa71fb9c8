"""What deaths cost: ten of thirty workers are killed at random moments of a run, and replaced.

Exact repetition with two stragglers to spare in each group, and ErasureHead with the first 11, on real processes with
injected delays; each against the same run without deaths, one after the other, several times. The same loss must be
reached (exact coding: the same model), and the time is compared: all of it, from the first order to the last step.
"""

from __future__ import annotations

import statistics

import numpy as np

from amazon import RATE, WORKERS, erasurehead, problem
from common import report
from erasurehead import optimizers, schemes
from erasurehead.arrays import Array
from erasurehead.delays import Exponential
from erasurehead.engines import ProcessEngine
from erasurehead.instruments import Instrument
from erasurehead.records.rows import StepRow
from erasurehead.run import Run
from erasurehead.training import train

STEPS, DEATHS, REPETITIONS = 40, 10, 3
DELAYS = Exponential(mean=0.2, seed=0)


class Killer(Instrument):
    """Kills workers without warning while a step is waited for: each at a step and a moment of its own."""

    def __init__(self, engine: ProcessEngine, seed: int) -> None:
        rng = np.random.default_rng(seed)
        victims = rng.choice(WORKERS, size=DEATHS, replace=False).tolist()
        self.plan = {int(step): victim for step, victim in zip(rng.choice(STEPS, DEATHS, False), victims, strict=True)}
        self.engine = engine
        self.killed: list[int] = []
        self.notices: list[str] = []

    def waiting(self, step: int, missing: list[int], elapsed: float) -> None:
        self._kill(step)

    def step(self, row: StepRow, x: Array) -> None:
        self._kill(row.step)  # the step was too short to be waited for

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def _kill(self, step: int) -> None:
        victim = self.plan.pop(step, None)
        if victim is not None:
            self.engine.kill(victim)
            self.killed.append(victim)


def run(scheme: schemes.Scheme, killed: bool, seed: int) -> tuple[Run, int]:
    """Train, with or without deaths; return the run and how many workers died."""
    engine = ProcessEngine(DELAYS)
    killer = Killer(engine, seed)
    optimizer = optimizers.Nesterov(problem().initial(), RATE)
    watching = [killer] if killed else []
    done = train(problem(), scheme, optimizer, engine, STEPS, watching, evaluate_every=0)
    deaths = sum("died" in text for text in killer.notices)
    assert len(killer.killed) == (DEATHS if killed else 0)
    return done, deaths


def main() -> None:
    """Measure and report."""
    ratios: dict[str, float] = {}
    for name, scheme in (("exact", schemes.exact(WORKERS, load=3)), ("erasurehead", erasurehead())):
        times, losses, deaths = [], [], []
        for repetition in range(REPETITIONS):
            calm, _ = run(scheme, killed=False, seed=repetition)
            stormy, died = run(scheme, killed=True, seed=repetition)
            times.append(stormy.seconds / calm.seconds)
            losses.append(problem().objective(stormy.x) / problem().objective(calm.x))
            deaths.append(died)
        ratios[f"{name}: time with deaths/without"] = statistics.median(times)
        ratios[f"{name}: loss with deaths/without"] = statistics.median(losses)
        ratios[f"{name}: deaths noticed"] = min(deaths)
    report(
        "survival",
        ratios,
        {
            "exact: time with deaths/without": "<= 1.5",
            "exact: loss with deaths/without": "<= 1.000001",
            "erasurehead: time with deaths/without": "<= 1.2",
            "erasurehead: loss with deaths/without": "<= 1.05",
        },
    )


if __name__ == "__main__":
    main()
