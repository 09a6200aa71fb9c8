"""Time to a target by training for real on the virtual clock: the answer for the user's own data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork
from erasurehead.engines.virtual import VirtualEngine
from erasurehead.errors import Diverged, Unreachable, check_count, invalid
from erasurehead.optimizers.base import Optimizer
from erasurehead.planning.planner import Plan
from erasurehead.problems.base import Problem
from erasurehead.schemes.text import parse_scheme
from erasurehead.training.loop import train
from erasurehead.training.result import LOWER_IS_BETTER, Run


@dataclass(frozen=True)
class Trial:
    """What training with one setting came to.

    Attributes:
        setting: the scheme, as a run file writes it.
        seconds: of each repetition, until the target was reached, on the virtual clock; inf where it was not.
        final: the metric at the end of each repetition; NaN where training ended before (it diverged, or too many
            workers were lost).
    """

    setting: str
    seconds: tuple[float, ...]
    final: tuple[float, ...]

    @property
    def reached(self) -> float:
        """Share of the repetitions that reached the target."""
        return float(np.isfinite(self.seconds).mean())

    @property
    def median(self) -> float:
        """Median of the seconds; inf if half of the repetitions did not reach the target."""
        return float(np.sort(self.seconds)[(len(self.seconds) - 1) // 2]) if self.reached > 0.5 else math.inf

    @property
    def band(self) -> tuple[float, float]:
        """The quickest and the slowest repetition: all that so few of them tell."""
        return min(self.seconds), max(self.seconds)


def try_settings(
    settings: Iterable[str],
    problem: Problem,
    optimizer: Callable[[], Optimizer],
    delays: Delays,
    n_workers: int,
    goal: tuple[str, float],
    max_steps: int = 100,
    repeats: int = 3,
    seconds_per_task: float = 0.0,
    late: LateWork = "preempt",
) -> tuple[Trial, ...]:
    """Train with each setting on the virtual clock, from the same model and with the same delays, and rank them.

    Arguments:
        settings: schemes, as run files write them.
        problem: the user's data, or a sample of them, with test samples.
        optimizer: makes a new optimizer at its initial model, for each run.
        delays: how slow the workers are. Each repetition takes other steps of them.
        n_workers: how many.
        goal: a metric of the problem and the value to reach, such as `("auc", 0.84)`.
        max_steps: steps after which a run gives up, at least 1.
        repeats: runs of each setting, at least 1; the band is as wide as they differ.
        seconds_per_task: computing time of a task.
        late: what a worker does that is busy when the next order is out.

    Returns:
        The trials, by median time; those that did not reach the goal by the metric at the end.
    """
    check_count("max_steps", max_steps)
    check_count("repeats", repeats)

    def run(setting: str, repeat: int) -> Run:
        engine = VirtualEngine(_From(delays, repeat * max_steps), late, seconds_per_task, seed=repeat)
        return train(problem, parse_scheme(setting, n_workers), optimizer(), engine, max_steps)

    trials = [_trial(setting, run, goal, repeats) for setting in settings]
    sign = 1.0 if goal[0] in LOWER_IS_BETTER else -1.0
    return tuple(sorted(trials, key=lambda trial: (trial.median, _end(trial, sign))))


def try_plan(
    plan: Plan,
    problem: Problem,
    optimizer: Callable[[], Optimizer],
    goal: tuple[str, float],
    shortlist: int = 5,
    max_steps: int = 100,
    repeats: int = 3,
) -> tuple[Trial, ...]:
    """Train with the first settings of a plan, to see which reaches a target soonest.

    So do the first one that loses nothing of the gradient (noise may keep all before it from the target), the setting
    in use now, and uncoded.

    Arguments:
        plan: whose delays, computing times and kind of late work are taken.
        problem, optimizer, goal, max_steps, repeats: as of `try_settings`.
        shortlist: how many of the first settings, at least 1.
    """
    check_count("shortlist", shortlist)
    lossless = [item for item in plan.ranked if item.missing == 0.0 and item.met == 1.0][:1]
    current = [] if plan.current is None else [plan.current]
    chosen = [*plan.distinct[:shortlist], *lossless, *current, plan.uncoded]
    return try_settings(
        dict.fromkeys(item.setting for item in chosen),
        problem,
        optimizer,
        plan.delays,
        plan.n_workers,
        goal,
        max_steps,
        repeats,
        plan.seconds_per_task,
        plan.late,
    )


def _end(trial: Trial, sign: float) -> float:
    known = [value for value in trial.final if math.isfinite(value)]
    return sign * float(np.median(known)) if known else math.inf


def after(plan: Plan, trials: Sequence[Trial]) -> Plan:
    """Return a plan in which the settings that reached the target in trials come first, the soonest first.

    Arguments:
        plan: which the trials were made for.
        trials: ranked, as `try_plan` returns them. If none reached the target, the ranking stays as it is.
    """
    place = {trial.setting: index for index, trial in enumerate(trials) if math.isfinite(trial.median)}
    ranked = sorted(plan.ranked, key=lambda item: place.get(item.setting, len(place)))
    return replace(plan, ranked=tuple(ranked))


def _trial(setting: str, run: Callable[[str, int], Run], goal: tuple[str, float], repeats: int) -> Trial:
    metric, wanted = goal
    seconds: list[float] = []
    final: list[float] = []
    for repeat in range(repeats):
        try:
            done = run(setting, repeat)
        except (Diverged, Unreachable):
            seconds.append(math.inf)
            final.append(math.nan)
            continue
        if not done.evaluations or metric not in done.evaluations[-1].metrics:
            known = ", ".join(done.evaluations[-1].metrics) if done.evaluations else "none: it has no test samples"
            raise invalid("goal", "must name a metric of the problem", metric, f"its metrics are {known}")
        reached = done.time_to(metric, wanted)
        seconds.append(math.inf if reached is None else reached)
        final.append(done.evaluations[-1].metrics[metric])
    return Trial(setting, tuple(seconds), tuple(final))


@final
@dataclass(frozen=True)
class _From(Delays):
    """Another model from a later step on."""

    model: Delays
    begin: int

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        return self.model.rows(self.begin + first, count, n_workers, unit, work, out)

    def __str__(self) -> str:
        return f"{self.model} from step {self.begin}"
