"""The race of a plan's settings on data: successive halving, and the plan in the steps that came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from erasurehead.errors import check_count
from erasurehead.optimizers.base import Optimizer
from erasurehead.planning.forecasts import Forecast
from erasurehead.planning.planner import Plan
from erasurehead.planning.trainer import Trainer
from erasurehead.planning.trials import Runs, Trial, how_far, took
from erasurehead.problems.base import Problem
from erasurehead.schemes.text import is_adaptive

_ENTRANTS = 24  # settings of the Pareto front that are raced at most
_SLOWER = 1.5  # a run ends when its clock has passed so many times the best time


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
    """Train with the settings that could be the best, on the virtual clock, and continue with the quicker half of them.

    They are the plan's Pareto front, its first settings, the first that loses nothing of the gradient, the one that is
    in use, and uncoded. All are trained once; then, again and again, the slower half is left out (successive halving)
    and the others are trained more often, the last ones twice as often as `repeats` says, and once more. A run ends
    when it has taken half as long again as the quickest one: what it could still reach does not matter. What a setting
    needs is its mean steps (`Trial.expected_steps`) times the seconds per step of its forecast, which many more steps
    have gone into.

    Settings of the plan that are `adaptive` run beside the race, with the optimizer that goes with them, and end no run
    of another optimizer. Where late workers drop their work, they begin with short steps from few arrivals, as a run
    does: each counts as the part of a whole step that it takes, and so does the order that asks for curvatures (see
    `Trial.steps`). Else all their steps are whole gradients, so that one run tells the steps of all of them; what their
    first order computes beside the gradient is then not counted: at most another computation of a worker's tasks.

    Arguments:
        plan: whose settings, delays, computing times and kind of late work are taken.
        problem, optimizer, goal, max_steps: as of `try_settings`.
        repeats: runs of a setting after which it is compared with others closely, at least 1.
        progress: called after each setting with how many are done, and of how many.
        solver: makes a new optimizer at its initial model for settings that are `adaptive`; by default theirs is
            `optimizer`, and they are raced like all others.

    Returns:
        The trials, the quickest first.
    """
    check_count("repeats", repeats)
    trainer = Trainer(problem, optimizer, goal, max_steps)
    own = None if solver is None else Trainer(problem, solver, goal, max_steps)
    runs = Runs(trainer, plan.delays, plan.n_workers, plan.seconds_per_task, plan.late, own)
    known = {item.setting: item for item in plan.ranked}
    beside = [] if own is None else [item for item in plan.ranked if is_adaptive(item.setting)]
    left = [setting for setting in _entrants(plan, beside) if known[setting] not in beside]
    fixed = {plan.uncoded.setting} | ({plan.current.setting} if plan.current is not None else set[str]())
    trials: dict[str, Trial] = {}
    best = math.inf
    rounds = [1, repeats, 2 * repeats + 1] if repeats > 1 else [1]
    for number, often in enumerate(rounds):
        for place, setting in enumerate(left):
            item = known[setting]
            most = math.inf if setting in fixed or item.missing == 0.0 else _SLOWER * best
            trials[setting] = trial = runs.trial(setting, often, most, item.seconds_per_step)
            if number == 0:
                best = min(best, took(item, trial))
            if progress is not None:
                progress(place + 1, len(left))
        in_order = sorted(left, key=lambda setting: took(known[setting], trials[setting]))
        best = took(known[in_order[0]], trials[in_order[0]])
        if number < len(rounds) - 1:
            left = in_order[: max(2, len(in_order) // 2)]
    for setting in sorted(trials, key=lambda name: trials[name].ended_at * known[name].seconds_per_step):
        # One lucky run may have ended others that are better than it is in the median.
        if 0.0 < trials[setting].ended_at * known[setting].seconds_per_step < best:
            trials[setting] = runs.trial(setting, rounds[-1], _SLOWER * best, known[setting].seconds_per_step)
            best = min(best, took(known[setting], trials[setting]))
    trials |= {item.setting: runs.trial(item.setting, 1, math.inf, item.seconds_per_step) for item in beside}
    for _ in beside:  # one lucky run, of short steps, may have put another one first
        first = min(beside, key=lambda item: took(item, trials[item.setting]))
        if len(trials[first.setting].steps) >= rounds[-1]:
            break
        trials[first.setting] = runs.trial(first.setting, rounds[-1], math.inf, first.seconds_per_step)
    return tuple(
        sorted(trials.values(), key=lambda trial: (took(known[trial.setting], trial), how_far(trial, goal[0])))
    )


def _entrants(plan: Plan, beside: Sequence[Forecast]) -> list[str]:
    plan = plan.with_order([item for item in plan.ranked if item not in beside])
    possible = [item for item in plan.front if not item.neglected]
    if len(possible) > _ENTRANTS:
        last = len(possible) - 1
        possible = [possible[round(number * last / (_ENTRANTS - 1))] for number in range(_ENTRANTS)]
    lossless = [item for item in plan.ranked if item.missing == 0.0 and item.met == 1.0][:1]
    current = [] if plan.current is None else [plan.current]
    chosen = [*plan.distinct[:5], *lossless, *possible, *current, plan.uncoded]
    return list(dict.fromkeys(item.setting for item in chosen))


def after(plan: Plan, trials: Sequence[Trial]) -> Plan:
    """Return a plan in which steps are those of trials on data; settings that were not tried come behind.

    Of these, forecasts tell how many times the steps of exact descent they take, and the trials how many those are.

    Arguments:
        plan: which the trials were made for.
        trials: as `race` returns them. If none reached the target, the ranking stays as it is.
    """
    steps: Mapping[str, float] = {trial.setting: trial.expected_steps for trial in trials}
    if not any(map(math.isfinite, steps.values())):
        return plan
    tried = [item for item in plan.ranked if item.setting in steps]
    lossless = [item.setting for item in tried if item.missing == 0.0 and not is_adaptive(item.setting)]
    exact = min((steps[setting] for setting in lossless), default=math.nan)

    def known_of(item: Forecast) -> Forecast:
        taken = steps[item.setting]
        of = taken if is_adaptive(item.setting) else exact  # whose optimizer may be another
        return item.with_steps(taken, of if math.isfinite(of) else item.exact_steps)

    known = {item.setting: known_of(item) for item in tried}
    for item in plan.ranked:
        if item.setting not in known:  # if exact descent does not get there, nobody knows who would
            scale = exact / item.exact_steps if math.isfinite(exact) else math.inf
            known[item.setting] = item.with_steps(scale * item.steps, scale * item.exact_steps)
    again = plan.of(known)
    first = [item for item in again.ranked if item.setting in steps]
    rest = [known[item.setting] for item in plan.ranked if item.setting not in steps]
    return again.with_order((*first, *rest))
