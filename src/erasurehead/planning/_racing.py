"""Selection among a plan's settings by successive halving on data, and the plan with the steps measured there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from erasurehead.errors import check_count
from erasurehead.optimizers import Optimizer
from erasurehead.planning._forecasts import Forecast
from erasurehead.planning._planner import Plan
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import Runs, Trial, how_far, took
from erasurehead.problems import Problem
from erasurehead.schemes._text import is_adaptive

_ENTRANTS = 24  # most settings of the Pareto front that are tried
_SLOWER = 1.5  # a run is ended after this multiple of the best time


def race(
    plan: Plan,
    problem: Problem,
    optimizer: Callable[[], Optimizer],
    goal: tuple[str, float],
    max_steps: int = 100,
    repeats: int = 3,
    progress: Callable[[int, int], None] | None = None,
    solver: Callable[[], Optimizer] | None = None,
) -> tuple[Trial, ...]:
    """Train on the virtual clock with the settings that could be the best, and select by successive halving.

    All are trained once. Then the slower half is dropped repeatedly, and the others are trained more often, the last
    ones `2 * repeats + 1` times. A run is ended once it has taken 1.5 times as long as the quickest one. The time of a
    setting is its mean number of steps (`Trial.expected_steps`) times the seconds per step of its forecast, which is
    based on many more steps. `adaptive` settings are tried separately with `solver`, and do not end runs of the other
    optimizer; `docs/planning.md` tells how their steps are counted.

    Arguments:
        plan: the plan, with settings, delays, computing times and kind of late work.
        problem: the problem, with the user's data or a sample of them, and with test samples if the goal needs them.
        optimizer: makes a new optimizer at its initial model for each run.
        goal: `("gap", 0.01)`, or a metric of the problem and the value to reach, such as `("auc", 0.84)`.
        max_steps: number of steps after which a run is given up, at least 1.
        repeats: number of runs of a setting before it is compared closely with others, 1 to 10,000.
        progress: called after each setting with the number of settings done and their total.
        solver: makes a new optimizer at its initial model for `adaptive` settings; by default they use `optimizer`,
            and are tried like all others.

    Returns:
        The trials, the quickest first.
    """
    check_count("repeats", repeats, at_most=10_000)
    trainer = Trainer(problem, optimizer, goal, max_steps)
    own = None if solver is None else Trainer(problem, solver, goal, max_steps)
    runs = Runs(trainer, plan.delays, plan.n_workers, plan.seconds_per_task, plan.late, own)
    forecasts = {item.setting: item for item in plan.ranked}
    beside = [] if own is None else [item for item in plan.ranked if is_adaptive(item.setting)]
    left = [setting for setting in _entrants(plan, beside) if forecasts[setting] not in beside]
    fixed = {plan.uncoded.setting} | ({plan.current.setting} if plan.current is not None else set[str]())
    trials: dict[str, Trial] = {}
    best = math.inf
    rounds = [1, repeats, 2 * repeats + 1] if repeats > 1 else [1]
    for number, often in enumerate(rounds):
        for place, setting in enumerate(left):
            item = forecasts[setting]
            most = math.inf if setting in fixed or item.missing == 0.0 else _SLOWER * best
            trials[setting] = trial = runs.trial(setting, often, most, item.seconds_per_step)
            if number == 0:
                best = min(best, took(item, trial))
            if progress is not None:
                progress(place + 1, len(left))
        in_order = sorted(left, key=lambda setting: took(forecasts[setting], trials[setting]))
        best = took(forecasts[in_order[0]], trials[in_order[0]])
        if number < len(rounds) - 1:
            left = in_order[: max(2, len(in_order) // 2)]
    for setting in sorted(trials, key=lambda name: trials[name].ended_at * forecasts[name].seconds_per_step):
        # A single lucky run may have ended runs of other settings that are better on the median.
        if 0.0 < trials[setting].ended_at * forecasts[setting].seconds_per_step < best:
            trials[setting] = runs.trial(setting, rounds[-1], _SLOWER * best, forecasts[setting].seconds_per_step)
            best = min(best, took(forecasts[setting], trials[setting]))
    trials |= {item.setting: runs.trial(item.setting, repeats, math.inf, item.seconds_per_step) for item in beside}
    # Runs with early steps differ by half, and some take several times as long: one of these must not rule a setting
    # out, nor a few lucky ones put the wrong setting first, and promise too much of it.

    def usual(item: Forecast) -> float:
        return trials[item.setting].median

    def mean(item: Forecast) -> float:
        return took(item, trials[item.setting])

    often = 2 * rounds[-1]
    for seconds in (usual, mean):
        for _ in beside:
            first = min(beside, key=seconds)
            if len(trials[first.setting].steps) >= often:
                break
            trials[first.setting] = runs.trial(first.setting, often, math.inf, first.seconds_per_step)
    safe = min((took(forecasts[name], one) for name, one in trials.items() if one.reached == 1.0), default=0.0)
    for name, one in trials.items():  # what sometimes misses the target is not quick because it was ended early
        if one.reached < 1.0 and (pace := forecasts[name].seconds_per_step) > 0.0:
            trials[name] = replace(one, instead=safe / pace)
    return tuple(
        sorted(trials.values(), key=lambda trial: (took(forecasts[trial.setting], trial), how_far(trial, goal[0])))
    )


def _entrants(plan: Plan, beside: Sequence[Forecast]) -> list[str]:
    """Return the Pareto front, the first of the ranking, the first without loss, the one in use now, and uncoded."""
    plan = replace(plan, ranked=tuple(item for item in plan.ranked if item not in beside))
    possible = [item for item in plan.front if not item.neglected]
    if len(possible) > _ENTRANTS:
        last = len(possible) - 1
        possible = [possible[round(number * last / (_ENTRANTS - 1))] for number in range(_ENTRANTS)]
    lossless = [item for item in plan.ranked if item.missing == 0.0 and item.met == 1.0][:1]
    current = [] if plan.current is None else [plan.current]
    chosen = [*plan.distinct[:5], *lossless, *possible, *current, plan.uncoded]
    return list(dict.fromkeys(item.setting for item in chosen))


def after(plan: Plan, trials: Sequence[Trial]) -> Plan:
    """Return a plan with the numbers of steps measured in trials on data; settings that were not tried come last.

    For settings that were not tried, the forecast gives the steps relative to those of exact descent, and the trials
    give the number of the latter.

    Arguments:
        plan: the plan for which the trials were made.
        trials: trials returned by `race`. If none reached the target, the plan is returned unchanged.
    """
    steps: Mapping[str, float] = {trial.setting: trial.expected_steps for trial in trials}
    if not any(map(math.isfinite, steps.values())):
        return plan
    tried = [item for item in plan.ranked if item.setting in steps]
    lossless = [item.setting for item in tried if item.missing == 0.0 and not is_adaptive(item.setting)]
    exact = min((steps[setting] for setting in lossless), default=math.nan)

    def with_steps_taken(item: Forecast) -> Forecast:
        taken = steps[item.setting]
        of = taken if is_adaptive(item.setting) else exact  # adaptive settings may use another optimizer
        return item.with_steps(taken, of if math.isfinite(of) else item.exact_steps)

    forecasts = {item.setting: with_steps_taken(item) for item in tried}
    for item in plan.ranked:
        if item.setting not in forecasts:  # if exact descent misses the target, nothing is known of the others
            scale = exact / item.exact_steps if math.isfinite(exact) else math.inf
            forecasts[item.setting] = item.with_steps(scale * item.steps, scale * item.exact_steps)
    again = plan.of(forecasts)
    first = [item for item in again.ranked if item.setting in steps]
    rest = [forecasts[item.setting] for item in plan.ranked if item.setting not in steps]
    return replace(again, ranked=(*first, *rest))
