"""A plan in words: what to do, why, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from erasurehead.delays.distributions import Pareto
from erasurehead.planning.forecasts import Forecast, trace_rounds
from erasurehead.planning.planner import Plan
from erasurehead.planning.trials import Trial

_NEARLY = 1.1  # so much of the best time is nearly as good


def explain(plan: Plan, trials: Sequence[Trial] = (), goal: tuple[str, float] | None = None) -> str:
    """Return a plan in sentences, a paragraph each: the advice, the reason, doubts.

    Arguments:
        plan: to be explained; where there were trials, as `after` them.
        trials: of its settings on data, if any.
        goal: metric and value that the trials were to reach.
    """
    return "\n".join((*_advice(plan), *remarks(plan, trials, goal)))


def break_even(plan: Plan) -> float | None:
    """Return the seconds of computing a task above which no setting with redundancy beats those without.

    What redundancy is worth hangs on what another task costs, which a trace of whole step times does not tell. Each
    task is taken to delay a worker by so much, beside the plan's delays: that is what happens where all workers have
    equal loads and are idle at each order.

    Returns:
        Below `plan.seconds_per_task` where redundancy does not pay; None where there is nothing to compare, or
        redundancy pays at any cost.
    """
    finite = [item for item in plan.ranked if math.isfinite(item.seconds_to_target)]
    plain, redundant = ([item for item in finite if (item.load > 1) is more] for more in (False, True))
    bounds = [min((_crossing(item, other) for other in plain), default=math.inf) for item in redundant]
    most = max(bounds, default=math.inf)
    return plan.seconds_per_task + most if math.isfinite(most) else None


def _crossing(item: Forecast, other: Forecast) -> float:
    slope = item.load * item.steps - other.load * other.steps
    return (other.seconds_to_target - item.seconds_to_target) / slope if slope > 0.0 else math.inf


def limits(plan: Plan, item: Forecast) -> str:
    """Return what keeps a setting from being quicker, in one sentence."""
    if item.met < 1.0:
        return f"in {1.0 - item.met:.1%} of the steps the rule is never met: too many workers never answer."
    said: list[str] = []
    computing = item.computing / item.seconds_per_step if item.seconds_per_step else 0.0
    if computing > 0.5:
        said.append(f"computing {item.load} tasks takes {computing:.0%} of a step")
    elif item.arrived > 0.9 * plan.n_workers:
        said.append(f"it waits for {item.arrived:.1f} of {plan.n_workers} workers, so that the slowest decide")
    else:
        said.append(f"it waits for {item.arrived:.1f} of {plan.n_workers} workers")
    if item.missing > 0.005:
        said.append(
            f"{item.missing:.1%} of the gradient is missing in the mean, which costs {item.steps_lost:.1%} more steps"
        )
    if plan.target is not None and math.isinf(item.steps):
        said.append(f"its noise keeps the error above {item.floor:.3g}")
    return ", and ".join(said) + "."


def remarks(plan: Plan, trials: Sequence[Trial] = (), goal: tuple[str, float] | None = None) -> tuple[str, ...]:
    """Return what a user should know before relying on a plan, as sentences; arguments as of `explain`."""
    said = [] if goal is None else _tried(plan, trials, goal)
    best = plan.best
    if plan.target is not None and math.isinf(best.seconds_to_target):
        lowest = min(plan.ranked, key=lambda item: item.floor if item.met == 1.0 else math.inf)
        said.append(
            f"No setting reaches an error of {plan.target.epsilon:g}; the lowest that one is sure to reach is "
            f"{lowest.floor:.3g}, by {lowest.setting}."
        )
    if plan.target is None and goal is None:
        said.append(
            "Without a target, times are those of as much progress as one exact step makes; noise from missing parts "
            "may keep the approximate settings from very small errors."
        )
    limit = break_even(plan)
    if best.load > 1 and limit is not None and plan.seconds_per_task == 0.0:
        said.append(
            "A further task is taken to cost a worker no computing time. Redundancy pays as long as a task takes less "
            f"than about {limit:.3g} s; say what it takes (seconds per task) if you know."
        )
    rounds = trace_rounds(plan.delays)
    rivals = [item for item in plan.as_good() if item is not best]
    if math.isfinite(rounds) and rivals:
        said.append(
            f"The trace of {_counted(rounds)} is too short to tell the best setting from "
            f"{len(rivals)} {'other' if len(rivals) == 1 else 'others'}, such as {rivals[0].setting}."
        )
    if best.load > 1:
        said += _with_less(plan)
    if isinstance(plan.delays, Pareto) and plan.delays.exponent <= 1.0:
        said.append("The delays have an infinite mean: times of settings that wait for all workers do not settle.")
    return tuple(said)


def _with_less(plan: Plan) -> list[str]:
    """Say which setting is nearly as quick with the least data a worker."""
    best = plan.best
    near = [item for item in plan.ranked if item.seconds_to_target <= _NEARLY * best.seconds_to_target]
    least = min(near, key=lambda item: item.load, default=best)
    if least.load >= best.load or math.isinf(best.seconds_to_target):
        return []
    longer = least.seconds_to_target / best.seconds_to_target - 1.0
    return [
        f"With less memory: {least.setting} takes {longer:.1%} longer, with {least.share_of_data:.1%} of the data a "
        f"worker instead of {best.share_of_data:.1%}."
    ]


def _counted(rounds: float) -> str:
    return "one round" if rounds < 2.0 else f"{rounds:.0f} independent rounds"


def _tried(plan: Plan, trials: Sequence[Trial], goal: tuple[str, float]) -> list[str]:
    metric, wanted = goal
    by_name = {trial.setting: trial for trial in trials}
    first = trials[0]
    if math.isinf(first.median):
        came = np.array(first.final)[np.isfinite(first.final)]
        how_far = f"the best, {first.setting}, came to {np.median(came):.4g}" if len(came) else "all ended before"
        return [f"No setting that was tried on the data reached {metric} {wanted:g}: {how_far}."]
    low, high = first.band
    slow = by_name.get(plan.uncoded.setting)
    beside = (
        ""
        if slow is None or slow is first
        else (
            ", which uncoded does not reach"
            if math.isinf(slow.median)
            else f": {slow.median / first.median:.2f} times as fast as uncoded ({slow.median:.4g} s)"
        )
    )
    return [
        f"Of those tried on the data, {first.setting} reaches {metric} {wanted:g} soonest, in {first.median:.4g} s "
        f"({low:.4g} to {high:.4g}){beside}."
    ]


def _advice(plan: Plan) -> tuple[str, ...]:
    best, uncoded = plan.best, plan.uncoded
    if math.isinf(best.seconds_to_target):
        return ("No setting does what is asked.",)
    if best is uncoded or (best.load == 1 and best.missing == 0.0):
        first = "Redundancy does not pay here: train uncoded, and wait for everybody."
    elif best.load == 1:
        first = f"Redundancy does not pay here, but not waiting for the slowest does: {best.setting}."
    else:
        first = f"Use {best.setting}: each worker holds {best.share_of_data:.1%} of the data ({best.load} tasks)."
    low, high = best.band
    unit = "s to the target" if plan.target is not None else "s for the progress of one exact step"
    second = (
        f"It takes {best.seconds_per_step:.4g} s a step (uncoded: {uncoded.seconds_per_step:.4g} s), and "
        f"{best.seconds_to_target:.4g} {unit} ({low:.4g} to {high:.4g}): {plan.speed_up(best):.2f} times as fast as "
        "uncoded"
    )
    if plan.current is not None:
        second += f", {plan.speed_up(best, plan.current):.2f} times as fast as {plan.current.setting}"
    return first, second + ".", f"What limits it: {limits(plan, best)}", f"What limits uncoded: {limits(plan, uncoded)}"
