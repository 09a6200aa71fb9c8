"""What deaths cost: ten of thirty workers are killed at random moments of a run, and replaced.

Exact repetition with two stragglers to spare in each group, and ErasureHead with the first 11, on real processes with
injected delays; each against the same run without deaths, one after the other, several times. Both the step of each
death and the moment within that step are drawn. The same loss must be reached (exact coding: the same model), and the
time is compared: all of it, from the first order to the last step.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence

import numpy as np

from amazon import RATE, WORKERS, erasurehead, problem
from common import report
from erasurehead import optimizers, schemes
from erasurehead._internal.arrays import Array
from erasurehead.delays import Exponential
from erasurehead.engines import ProcessEngine
from erasurehead.training import Callback, Notice, Run, StepRow, train

STEPS, DEATHS, REPETITIONS = 40, 10, 3
DELAYS = Exponential(mean=0.2, seed=0)


class Killer(Callback):
    """Kills workers without warning: each in a step of its own, at a moment of its own within it.

    Arguments:
        engine: whose workers.
        lengths: how long each step took without deaths, under the same delays, in seconds: what moments are drawn from.
        seed: of the draw. The last step is left out, as training may be over before a death in it is seen.
    """

    def __init__(self, engine: ProcessEngine, lengths: Sequence[float], seed: int) -> None:
        rng = np.random.default_rng(seed)
        victims = map(int, rng.choice(WORKERS, size=DEATHS, replace=False))
        steps = map(int, rng.choice(STEPS - 1, size=DEATHS, replace=False))
        self.plan = {
            step: (victim, float(rng.random()) * lengths[step]) for step, victim in zip(steps, victims, strict=True)
        }
        self.engine = engine
        self.timer: threading.Timer | None = None
        self.killed: list[int] = []
        self.deaths = 0

    def on_start(self, seconds: float) -> None:
        self._begin(0)

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()
            self._kill(row.step)  # the step was shorter than in the baseline run
        self._begin(row.step + 1)

    def on_notice(self, notice: Notice) -> None:
        self.deaths += notice.kind == "died"

    def _begin(self, step: int) -> None:
        self.timer = None
        if step in self.plan:
            self.timer = threading.Timer(self.plan[step][1], self._kill, (step,))
            self.timer.start()

    def _kill(self, step: int) -> None:
        victim, _ = self.plan.pop(step, (None, 0.0))
        if victim is not None:
            self.engine.kill(victim)
            self.killed.append(victim)


def run(scheme: schemes.Scheme, killed: Sequence[float] = (), seed: int = 0) -> tuple[Run, int]:
    """Train, with deaths if the lengths of the baseline's steps are given; return the run and how many were noticed."""
    engine = ProcessEngine(DELAYS)
    optimizer = optimizers.Nesterov(problem().initial(), RATE)
    if not killed:
        return train(problem(), scheme, optimizer, engine, STEPS, evaluate_every=0), 0
    killer = Killer(engine, killed, seed)
    done = train(problem(), scheme, optimizer, engine, STEPS, [killer], evaluate_every=0)
    assert len(killer.killed) == DEATHS
    return done, killer.deaths


def main() -> None:
    """Measure and report."""
    ratios: dict[str, float] = {}
    for name, scheme in (("exact", schemes.exact(WORKERS, load=3)), ("erasurehead", erasurehead())):
        times: list[float] = []
        losses: list[float] = []
        deaths: list[int] = []
        for repetition in range(REPETITIONS):
            baseline, _ = run(scheme)
            faulty, died = run(scheme, [row.end - row.begin for row in baseline.steps], repetition)
            times.append(faulty.seconds / baseline.seconds)
            losses.append(problem().objective(faulty.x) / problem().objective(baseline.x))
            deaths.append(died)
        ratios[f"{name}: time with deaths/without"] = statistics.median(times)
        ratios[f"{name}: loss with deaths/without"] = statistics.median(losses)
        ratios[f"{name}: deaths noticed"] = min(deaths)
    report(
        "faults",
        ratios,
        {
            "exact: time with deaths/without": "<= 1.5",
            "exact: loss with deaths/without": "<= 1.000001",
            "exact: deaths noticed": ">= 10",
            "erasurehead: time with deaths/without": "<= 1.2",
            "erasurehead: loss with deaths/without": "<= 1.05",
            "erasurehead: deaths noticed": ">= 10",
        },
    )


if __name__ == "__main__":
    main()
