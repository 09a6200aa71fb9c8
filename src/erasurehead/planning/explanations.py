"""A plan in words: what to do, why, and how sure that is."""

from __future__ import annotations

import math

from erasurehead.delays.distributions import Pareto
from erasurehead.planning.forecasts import Forecast, trace_rounds
from erasurehead.planning.planner import Plan


def explain(plan: Plan) -> str:
    """Return a plan in sentences, a paragraph each: the advice, the reason, doubts."""
    return "\n".join((*_advice(plan), *remarks(plan)))


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


def remarks(plan: Plan) -> tuple[str, ...]:
    """Return what a user should know before relying on a plan, as sentences."""
    said: list[str] = []
    best = plan.best
    if plan.target is not None and math.isinf(best.seconds_to_target):
        lowest = min(plan.ranked, key=lambda item: item.floor if item.met == 1.0 else math.inf)
        said.append(
            f"No setting reaches an error of {plan.target.epsilon:g}; the lowest that one is sure to reach is "
            f"{lowest.floor:.3g}, by {lowest.setting}."
        )
    if plan.target is None:
        said.append(
            "Without a target these are times of as much progress as one exact step makes; noise from missing parts "
            "may keep the approximate settings from very small errors."
        )
    rounds = trace_rounds(plan.delays)
    rivals = [item for item in plan.as_good() if item is not best]
    if math.isfinite(rounds) and rivals:
        said.append(
            f"The trace of {rounds:.0f} independent rounds is too short to tell the best setting from {len(rivals)} "
            f"others, such as {rivals[0].setting}."
        )
    if isinstance(plan.delays, Pareto) and plan.delays.exponent <= 1.0:
        said.append("The delays have an infinite mean: times of settings that wait for all workers do not settle.")
    return tuple(said)


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
