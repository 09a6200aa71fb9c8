"""What a plan advises in a row of the table of truth, what it promises of it, and what came."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from erasurehead import delays, optimizers, problems
from erasurehead._internal.late_work import LateWork
from erasurehead.delays._stationarity import block_length, drift
from erasurehead.planning import Accuracy, plan
from erasurehead.planning._accuracy import measured_accuracy
from erasurehead.planning._early_rounds import EarlyRounds
from erasurehead.planning._forecasts import Forecast
from erasurehead.planning._planner import Plan
from erasurehead.planning._racing import after, race
from erasurehead.planning._settings import adaptive_settings
from erasurehead.planning._speed_ups import speed_up_range
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import Trial, simulated_steps
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.schemes._text import is_adaptive
from truth import GAPS, REPLAYS, ROUNDS, STEPS, Situation, choices, problem, rate, replayed, trainer

TASK = 0.02
Runs = dict[str, list[list[float | None]]]


@dataclass(frozen=True)
class Promise:
    """What was promised of a speed-up over uncoded, and what came."""

    low: float
    high: float
    came: float

    @property
    def held(self) -> bool:
        """Whether it came to lie in the range."""
        return self.low <= self.came <= self.high


@dataclass
class Judgement:
    """What plans came to in one or more rows.

    Attributes:
        regrets: by kind of advice and whether a row was drawn: times of the first choice over those of the oracle's.
        best: the same over the best choice, by kind.
        errors: of the time to the target, by kind, as a part of what came.
        promises: of speed-ups, by kind.
        ahead: by gap, how many times as fast `adaptive` is as the best of the other choices.
    """

    regrets: dict[tuple[str, bool], list[float]] = field(default_factory=dict)
    best: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)
    promises: dict[str, list[Promise]] = field(default_factory=dict)
    ahead: dict[float, list[float]] = field(default_factory=dict)

    def add(self, other: Judgement) -> None:
        """Count rows that were judged elsewhere."""
        for mine, others in (
            (self.regrets, other.regrets),
            (self.best, other.best),
            (self.errors, other.errors),
            (self.promises, other.promises),
            (self.ahead, other.ahead),
        ):
            for key, values in others.items():
                mine.setdefault(key, []).extend(values)


def medians(runs: list[list[float | None]], gap: int, half: int | None) -> float:
    """Return the median seconds to a gap over one half of the replays, or over all."""
    some = runs if half is None else runs[half::2]
    times = sorted(math.inf if run[gap] is None else float(run[gap] or 0.0) for run in some)
    return times[(len(times) - 1) // 2]


def planned(situation: Situation, late: LateWork, known: bool) -> Plan:
    """Return the plan that sees the first half of a trace, or knows the law: it draws from 4,000 fresh rounds of it."""
    table = situation.rounds(0, 4000 if known else ROUNDS)
    if not known:
        moved = drift(table)
        table = table if moved is None else table[moved.since :]
    model = delays.Bootstrap(table, block=min(block_length(table), len(table)))
    tried = (*choices(situation.workers), *adaptive_settings(situation.workers))
    return plan(model, situation.workers, TASK, tried, late=late)


def solved(data: str) -> Trainer:
    """Return what trains `adaptive`."""
    one, _ = _problem(data)
    return Trainer(one, lambda: optimizers.QuasiNewton(one.initial()), ("gap", GAPS[-1]), STEPS)


@cache
def _steps(data: str, own: bool) -> tuple[float, ...]:
    """Return the steps of whole gradients to each gap, with the optimizer of `adaptive` or with Nesterov's."""
    of = solved(data) if own else trainer(problem(data))
    path = list(of.measures(of.weighted(None, 1)))
    return tuple(next((step for step, gap in enumerate(path, 1) if gap <= wanted), math.inf) for wanted in GAPS)


def whole(setting: str, situation: Situation, data: str, late: LateWork) -> list[list[float | None]]:
    """Return what a setting that waits for the whole gradient takes, as the table has it of all others."""
    scheme = parse_scheme(setting, situation.workers)
    own = is_adaptive(setting)
    if own and scheme.early(late):
        return [_early(scheme, situation, data, late, replay + 1) for replay in range(REPLAYS)]
    steps = _steps(data, own)
    most = int(max((count for count in steps if math.isfinite(count)), default=1))
    # The first order of `adaptive` asks for a bound on the curvature, too.
    more = TASK * scheme.code.load if own else 0.0
    found: list[list[float | None]] = []
    for replay in range(REPLAYS):
        rows = situation.rounds(replay + 1, ROUNDS + STEPS)[ROUNDS:]
        steps_taken = simulated_steps(scheme, replayed(rows), TASK, late, 0, most)
        clock = more + np.cumsum(steps_taken.seconds)
        found.append([float(clock[int(count) - 1]) if count <= len(clock) else None for count in steps])
    return found


def _early(scheme: Scheme, situation: Situation, data: str, late: LateWork, replay: int) -> list[float | None]:
    """Return the seconds to each gap of a run that begins with few arrivals."""
    rows = situation.rounds(replay, ROUNDS + STEPS)[ROUNDS:]
    of = _solved(data)
    rounds = EarlyRounds(of.problem, *of.laid_out(scheme, early=True), STEPS, replayed(rows), TASK, 0, late)
    found: list[float | None] = [None] * len(GAPS)
    for gap in of.measures(rounds, rounds.early):
        clock = sum(rounds.seconds)
        found = [clock if was is None and gap <= wanted else was for was, wanted in zip(found, GAPS, strict=True)]
        if found[-1] is not None:
            break
    return found


@cache
def _solved(data: str) -> Trainer:
    return solved(data)


def advised(found: Plan, data: str, gap: float, raced: bool) -> tuple[Plan, tuple[Trial, ...]]:
    """Return the plan for a depth of the target and the noise of the data, after a race if it has the data to race on.

    Arguments:
        found: the plan.
        data: of the row.
        gap: the depth of the target.
        raced: whether it has the data.
    """
    found = found.for_accuracy(_accuracy(data, found.n_workers, gap))
    if not raced:
        return found, ()
    one, size = _problem(data)
    trials = race(
        found,
        one,
        lambda: optimizers.Nesterov(one.initial(), size),
        ("gap", gap),
        STEPS,
        3,
        solver=lambda: optimizers.QuasiNewton(one.initial()),
    )
    return after(found, trials), trials


@cache
def _problem(data: str) -> tuple[problems.LogisticRegression, float]:
    one = problem(data)
    return one, rate(one)


@cache
def _accuracy(data: str, n_workers: int, gap: float) -> Accuracy:
    one, size = _problem(data)
    return measured_accuracy(one, lambda: optimizers.Nesterov(one.initial(), size), n_workers, gap, STEPS)


def judge(name: str, situation: Situation, data: str, late: LateWork, made: Runs, quick: bool, into: Judgement) -> None:
    """Print how far the advice of one row is from the best, and add what came of it.

    Arguments:
        name: of the row.
        situation, data, late: what it is about.
        made: what each choice takes.
        quick: whether to race nothing.
        into: what is added to.
    """
    plans = {known: planned(situation, late, known) for known in (True, False)}
    own = {setting: whole(setting, situation, data, late) for setting in adaptive_settings(situation.workers)}
    uncoded = whole("uncoded()", situation, data, late)
    for place, gap in enumerate(GAPS):
        best, least = _best(made, place)
        if not math.isfinite(least):
            continue
        all_runs = {**made, **own}
        least_of_all = _best(all_runs, place)[1]
        _, quickest = _best(own, place)
        if math.isfinite(quickest):
            into.ahead.setdefault(gap, []).append(least / quickest)
        said: list[str] = []
        for raced in (False,) if quick else (True, False):
            source = "data" if raced else "trace"
            both = {known: advised(plans[known], data, gap, raced) for known in (True, False)}
            kinds = ((source, made, least), ("data and adaptive", all_runs, least_of_all))
            for kind, runs, floor in kinds if raced else kinds[:1]:
                chosen = {known: _first(both[known][0], runs) for known in both}
                times = {known: medians(runs[item.setting], place, 1) for known, item in chosen.items()}
                over = times[False] / (times[True] if math.isfinite(times[True]) else floor)
                into.regrets.setdefault((kind, situation.drawn), []).append(max(over, 1.0))
                into.best.setdefault(kind, []).append(times[False] / floor)
                said.append(f"{kind} {times[False] / floor:.2f} ({times[True] / floor:.2f})")
                item, came = chosen[False], medians(runs[chosen[False].setting], place, None)
                found, trials = both[False]
                expected = found.steps_of(item) * item.seconds_per_step
                if math.isfinite(came):
                    into.errors.setdefault(kind, []).append(abs(expected / came - 1.0))
                slow = medians(uncoded, place, None)
                low, high = speed_up_range(found, item, None, trials)
                if math.isfinite(slow) and math.isfinite(came) and math.isfinite(high) and low > 0.0:
                    into.promises.setdefault(kind, []).append(Promise(low, high, slow / came))
        print(f"{name:<56} gap {gap:<6g} best {best:<32} regret (oracle): {', '.join(said)}", flush=True)


def _best(runs: Runs, place: int) -> tuple[str, float]:
    """Return what is best on one half of the replays, and its time on the other."""
    best = min(runs, key=lambda setting: medians(runs[setting], place, 0))
    return best, medians(runs[best], place, 1)


def _first(found: Plan, among: Runs) -> Forecast:
    return next(item for item in found.ranked if item.setting in among)
