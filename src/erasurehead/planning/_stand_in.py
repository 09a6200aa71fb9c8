"""How long `adaptive` takes where there are no data: trained on a stand-in for them, with the delays of the plan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays
from erasurehead.optimizers import QuasiNewton
from erasurehead.planning._early_rounds import EarlyRounds
from erasurehead.planning._trainer import GAP, Trainer
from erasurehead.problems import LogisticRegression
from erasurehead.schemes import parse_scheme

_RUNS, _MOST = 6, 400
_SAMPLES, _COLUMNS = 720, 30  # with fewer columns, the tasks of one worker alone say more than those of most data do


@dataclass(frozen=True, eq=False)
class SolverPath:
    """How the gap of a run fell, over the time that it took.

    Attributes:
        gaps: after each round, shape (rounds,).
        steps: the time until then, in times of a whole gradient, shape (rounds,).
    """

    gaps: Array
    steps: Array

    def to(self, gap: float) -> float:
        """Return the time to a gap; inf if it was not reached."""
        reached = np.flatnonzero(self.gaps <= gap)
        return float(self.steps[reached[0]]) if len(reached) else math.inf


@cache
def _trainer(n_workers: int, gap: float) -> Trainer:
    random = np.random.default_rng(0)
    samples = random.standard_normal((max(_SAMPLES, 2 * n_workers), _COLUMNS)) * np.logspace(0.0, -1.0, _COLUMNS)
    labels = np.sign(samples @ np.linspace(1.0, 4.0, _COLUMNS) + 0.5 * random.standard_normal(len(samples)))
    problem = LogisticRegression(samples, labels, l2=1.0 / len(samples))
    return Trainer(problem, lambda: QuasiNewton(problem.initial()), (GAP, gap), _MOST)


def solver_paths(
    setting: str,
    n_workers: int,
    delays: Delays,
    seconds_per_task: float,
    late: LateWork,
    gap: float,
    seconds_per_step: float,
) -> tuple[SolverPath, ...]:
    """Return how the gap falls in a few runs of `adaptive` on the stand-in, down to a given one.

    Arguments:
        setting: `adaptive` with its arguments, as in a run file.
        n_workers, delays, seconds_per_task, late: as for `plan`.
        gap: the gap to reach, in (0, 1).
        seconds_per_step: expected time of a whole gradient of this setting.
    """
    trainer, scheme = _trainer(n_workers, gap), parse_scheme(setting, n_workers)
    if not (scheme.early(late) and math.isfinite(seconds_per_step)):
        exact = np.array(list(trainer.measures(trainer.weighted(None, 1))), dtype=np.float64)
        return (SolverPath(exact, np.arange(1.0, len(exact) + 1.0)),)
    paths: list[SolverPath] = []
    for run in range(_RUNS):
        of = trainer.problem, *trainer.laid_out(scheme, early=True)
        rounds = EarlyRounds(*of, _MOST, delays, seconds_per_task, run * _MOST, late)
        gaps: list[float] = []
        for measured in trainer.measures(rounds, rounds.early):
            gaps.append(measured)
            if measured <= gap:
                break
        worths = [rounds.worth(count, seconds_per_step) for count in range(1, len(gaps) + 1)]
        paths.append(SolverPath(np.array(gaps), np.array(worths)))
    return tuple(paths)
