"""A plan in sentences: what to do, why, and how certain the advice is."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from erasurehead.delays import Bootstrap
from erasurehead.delays._distributions import Pareto
from erasurehead.errors import counted, numbered
from erasurehead.planning._forecasts import GUESS, Forecast, ratio, trace_rounds
from erasurehead.planning._planner import Plan
from erasurehead.planning._settings import usual_setting
from erasurehead.planning._speed_ups import speed_up_range
from erasurehead.planning._trials import Trial, decided_by_luck, took
from erasurehead.planning._what_if import if_worse, rounds_to_settle
from erasurehead.schemes._text import is_adaptive

_NEARLY = 1.1  # settings up to this multiple of the best time are nearly as good
_FAR = 1.5  # times as long as another setting, that the best may take on some data: worth a sentence
_SELDOM = 0.2  # a task that is counted in a smaller share of the steps is mentioned


def share_text(share: float) -> str:
    """Return a share of the data in percent, with as many digits as tell it from 0.

    >>> share_text(0.1), share_text(0.00024)
    ('10.0%', '0.024%')
    """
    return f"{share:.1%}" if share >= 0.01 else f"{100.0 * share:.2g}%"


def explain(plan: Plan, trials: Sequence[Trial] = (), goal: tuple[str, float] | None = None) -> str:
    """Return a plan as text, one line per paragraph: the advice, the reasons for it, and reservations.

    Arguments:
        plan: the plan; if there were trials, the one returned by `after`.
        trials: trials of its settings on data, if any.
        goal: metric and value that the trials were to reach.
    """
    return "\n".join((*_advice(plan, trials), *remarks(plan, trials, goal)))


def break_even(plan: Plan) -> float | None:
    """Return the seconds of computing a task above which no setting with redundancy beats those without.

    The benefit of redundancy depends on the cost of a further task, which a trace of whole step times does not contain.
    Each task is assumed to delay a worker by this time, in addition to the plan's delays, as is the case if all workers
    have equal loads and are idle when each order is given.

    Arguments:
        plan: the plan, as returned by `plan`.

    Returns:
        The seconds per task, smaller than `plan.seconds_per_task` if redundancy does not pay; None if there is nothing
        to compare, or redundancy pays at any cost.
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
    """Return a sentence on what limits the speed of a setting.

    Arguments:
        plan: the plan, as returned by `plan`.
        item: one of its forecasts.
    """
    if item.met < 1.0:
        return (
            f"in {1.0 - item.met:.1%} of the steps the wait rule is never met, because too many workers never answer."
        )
    clauses: list[str] = []
    computing = item.computing / item.seconds_per_step if item.seconds_per_step else 0.0
    if computing > 0.5:
        clauses.append(
            f"computing {counted('task', item.load)} takes {computing:.0%} of a step"
            if computing <= 1.0 + 1e-9
            else f"computing all {item.load} tasks would take {computing:.2g} times as long as a step"
        )
    elif item.messages > 1:
        sending = f"{item.arrived:.1f} of {plan.n_workers} workers send all of their {item.messages} messages by then"
        clauses.append(
            sending if item.arrived > 0.05 else f"no worker sends all of its {item.messages} messages by then"
        )
    elif item.arrived > 0.9 * plan.n_workers:
        clauses.append(
            f"it waits for {item.arrived:.1f} of {plan.n_workers} workers, so the slowest workers set the pace"
        )
    else:
        clauses.append(f"it waits for {item.arrived:.1f} of {plan.n_workers} workers")
    if item.missing > 0.005:
        clauses.append(
            f"{item.missing:.1%} of the gradient is missing on average"
            + (f", {_more_steps(item)}" if math.isfinite(item.steps) else "")
        )
    if item.neglected:
        clauses.append(
            f"{numbered('task', item.neglected)} {'are' if len(item.neglected) > 1 else 'is'} almost never counted"
        )
    elif math.isinf(item.steps) and item.floor >= (plan.accuracy.gap if plan.target is None else plan.target.epsilon):
        unit = "error" if plan.target is not None else "gap"
        clauses.append(f"the noise of its gradients keeps the {unit} above {item.floor:.3g}")
    if item.unanswered > 0.0:
        clauses.append(f"in {item.unanswered:.1%} of the steps it waits for a worker that did not answer")
    return ", and ".join(clauses) + "."


def _more_steps(item: Forecast) -> str:
    """Say how many more steps a setting needs than the exact gradient: measured, or else with its range."""
    more = f"which costs {item.steps_lost:.1%} more steps"
    few, many = (count / item.exact_steps - 1.0 for count in item.steps_range)
    if few == many:
        fewer = f"with which it took {-item.steps_lost:.1%} fewer steps"
        return more if item.steps_lost >= 5e-4 else "which costs no more steps" if item.steps_lost > -5e-4 else fewer
    end = f"{many:.0%}" if many < math.inf else "never getting there"
    return f"{more} ({few:.0%} to {end}, depending on the data)"


def remarks(plan: Plan, trials: Sequence[Trial] = (), goal: tuple[str, float] | None = None) -> tuple[str, ...]:
    """Return sentences on what a user should know before relying on a plan.

    Arguments:
        plan, trials, goal: as in `explain`.
    """
    sentences = [] if goal is None else _tried(plan, trials, goal)
    best = plan.best
    if not plan.reached:
        sentences += _out_of_reach(plan)
    if plan.target is None and goal is None:
        accuracy = plan.accuracy
        sentences.append(
            f"Times are for as much progress as one step with the exact gradient makes, for a target of "
            f"gap={accuracy.gap:g} (--target) and data whose tasks differ by {accuracy.noise:g} (--task-noise)."
        )
    if not trials:
        sentences += _assumed(plan)
    if plan.target is not None and math.isfinite(best.bound):
        sentences.append(
            f"Theorem 1 guarantees this error within {counted('step', best.bound)} of {best.setting}, or "
            f"{best.bound * best.seconds_per_step:.4g} s. This is an upper bound; the forecast is {best.steps:.3g} "
            "steps."
        )
    limit = break_even(plan)
    if best.load > 1 and limit is not None and plan.seconds_per_task == 0.0:
        sentences.append(
            "Computing a further task is assumed to cost a worker no time. Redundancy pays as long as a task takes "
            f"less than about {limit:.3g} s; give the seconds per task if you know them."
        )
    sentences += _how_sure(plan)
    rounds = trace_rounds(plan.delays)
    rivals = [item for item in plan.as_good() if item is not best] if plan.reached else []
    if math.isfinite(rounds) and rivals:
        wanted = rounds_to_settle(plan)
        more = (
            ""
            if wanted is None
            else f"; about {math.ceil(wanted - rounds):,} more would settle every difference that matters (5%)"
        )
        sentences.append(
            f"The trace of {_counted(rounds)} is too short to tell the best setting from "
            f"{len(rivals)} {'other' if len(rivals) == 1 else 'others'}, such as {rivals[0].setting}{more}."
        )
    if best.load > 1 and plan.reached:
        sentences += _with_less(plan, {trial.setting for trial in trials})
    if isinstance(plan.delays, Pareto) and plan.delays.exponent <= 1.0:
        sentences.append(
            "The delays have an infinite mean: times of settings that wait for all workers do not converge to a value."
        )
    return tuple(sentences)


def _assumed(plan: Plan) -> list[str]:
    """Say what is assumed of the data where nothing was tried on any: the steps of `adaptive`, and who may fail."""
    sentences: list[str] = []
    item = next((item for item in plan.ranked if is_adaptive(item.setting)), None)
    if item is not None and item.steps_range[0] < item.steps_range[1] and math.isfinite(item.steps):
        few, many = item.steps_range
        sentences.append(
            f"{item.setting} is assumed to take as long as {item.steps:.2g} times the steps of exact descent: so it "
            f"was in the median of the data sets on which it was measured ({few:.2g} to {many:.2g} times). --data "
            "measures it on yours."
        )
    able = [item for item in plan.ranked if item.unanswered == 0.0 and math.isfinite(item.seconds_to_target)]
    quick = min(able, key=lambda item: item.seconds_to_target, default=plan.best)
    if quick.seconds_to_target < plan.best.seconds_to_target and math.isinf(quick.steps_range[1]):
        sentences.append(
            f"{quick.setting} would take {quick.seconds_to_target:.4g} s if tasks differ by {plan.accuracy.noise:g}, "
            "but where they differ more it may never get there: --task-noise says by how much they do, and --data "
            "measures it."
        )
    rival, times = plan.behind()
    if plan.reached and times > _FAR:
        sentences.append(
            f"On some of those data sets {rival.setting} would be up to {times:.2g} times as fast as "
            f"{plan.best.setting}, and on others slower or never there: --data says what yours are like."
        )
    return sentences


def _out_of_reach(plan: Plan) -> list[str]:
    """Say how close the settings get to the target, and what would reach it."""
    able = [item for item in plan.ranked if item.met == 1.0 and not item.neglected]
    if not able:
        return [
            "Every setting waits for workers that never answer, or never counts some task. To reach the target, allow "
            "more tasks per worker (--max-load), or plan without those workers."
        ]
    lowest = min(able, key=lambda item: (item.floor, item.seconds_per_step))
    wanted = plan.target.epsilon if plan.target is not None else plan.accuracy.gap
    unit = "an error" if plan.target is not None else "a gap"
    return [
        f"No setting is expected to reach {unit} of {wanted:g}; {lowest.setting} comes closest, with "
        f"{lowest.floor:.3g}. A setting that waits for more workers, or a smaller step size, would reach it."
    ]


def _how_sure(plan: Plan) -> list[str]:
    sentences: list[str] = []
    best, rounds = plan.best, trace_rounds(plan.delays)
    if rounds < GUESS:
        sentences.append(f"This is a guess: the trace has only {_counted(rounds)}, and a plan needs at least {GUESS}.")
    if isinstance(plan.delays, Bootstrap) and plan.delays.tail_index < 2.0:
        sentences.append(
            f"The longest delays have a tail of exponent {plan.delays.tail_index:.2g}, so their mean hardly settles: "
            "do not rely on the bands of settings that wait for everybody."
        )
    open_ones = [item for item in plan.ranked if item.unanswered > 0.0]
    if open_ones:
        one, named, such = _named(open_ones, "waits", "wait")
        sentences.append(
            f"{named} for workers that did not answer in the trace{such}: "
            f"nobody knows how long that takes, so {'it is' if one else 'they are'} ranked last. --absent late treats "
            "those workers as late, and --absent dead as lost."
        )
    neglecting = [item for item in plan.ranked if item.neglected]
    if neglecting:
        tasks = sorted({task for item in neglecting for task in item.neglected})
        one, named, such = _named(neglecting, "is", "are")
        sentences.append(
            f"{named} ruled out because {'it never counts' if one else 'they never count'} {numbered('task', tasks)}"
            f"{such}: the workers that hold "
            f"{'it' if len(tasks) == 1 else 'them'} are always too late, or gone."
        )
    if plan.reached and 0.0 < best.least_counted < _SELDOM:
        sentences.append(
            f"The task that is counted least often is counted in {best.least_counted:.0%} of the steps: if its rows "
            "are unlike the others, the model learns little from them."
        )
    return sentences


def in_short(plan: Plan, trials: Sequence[Trial] = (), goal: tuple[str, float] | None = None) -> tuple[str, str, str]:
    """Return three sentences: why the best setting is chosen, what would change that, and what the plan does not know.

    Arguments:
        plan, trials, goal: as in `explain`.
    """
    best, second = plan.best, next((item for item in plan.distinct if item is not plan.best), plan.best)
    if trials and goal is not None:
        count = counted("trial", len(trials[0].steps))
        why = f"its mean steps to {goal[0]} {goal[1]:g} in {count}, times its seconds per step"
    else:
        why = f"{best.steps:.3g} times the steps of the exact gradient, at {best.seconds_per_step:.4g} s each"
        if plan.target is not None:
            why = f"{counted('step', best.steps)}, at {best.seconds_per_step:.4g} s each"
    longer = ratio(second.seconds_to_target, best.seconds_to_target) - 1.0 if plan.reached else math.nan
    beside = f"; {second.setting} takes {longer:.1%} longer" if math.isfinite(longer) and second is not best else ""
    reason = f"Why: {best.setting} takes {best.seconds_to_target:.4g} s, which is {why}{beside}."
    limit = break_even(plan)
    cost = None if limit is None or best.load == 1 else f"a task that takes more than {limit:.3g} s to compute"
    worse = if_worse(plan)
    if worse.holds:
        parts = [] if cost is None else [cost, "but not delays that exceed their median by twice as much"]
        change = ", ".join(parts) or "not even delays that exceed their median by twice as much"
    else:
        change = (
            "delays that exceed their median by twice as much (it would then take "
            f"{worse.longer} as {worse.best.setting})"
        )
        change += "" if cost is None else f", or {cost}"
    unknown = "how long rounds will take if they are unlike those of the trace"
    if not isinstance(plan.delays, Bootstrap):
        unknown = f"whether your workers behave like {plan.delays}"
    if not trials:
        unknown += ", and how many steps your data need, as nothing was tried on them"
    return reason, f"What would change it: {change}.", f"What it does not know: {unknown}."


def _with_less(plan: Plan, tried: Collection[str]) -> list[str]:
    """Say which setting is nearly as fast with the least data per worker; if any were tried, one of these."""
    best = plan.best
    candidates = [item for item in plan.ranked if not tried or item.setting in tried]
    fastest, slowest = best.seconds_to_target, _NEARLY * best.seconds_to_target
    near = [item for item in candidates if fastest <= item.seconds_to_target <= slowest]
    least = min(near, key=lambda item: item.load, default=best)
    if least.load >= best.load or math.isinf(fastest):
        return []
    longer = ratio(least.seconds_to_target, best.seconds_to_target) - 1.0
    return [
        f"With less memory: {least.setting} takes {longer:.1%} longer, with {share_text(least.share_of_data)} of the "
        f"data a worker instead of {share_text(best.share_of_data)}."
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.4g} s" if math.isfinite(seconds) else "never ends"


def _named(items: Sequence[Forecast], does: str, do: str) -> tuple[bool, str, str]:
    """Return whether there is one setting, its name or how many there are, and an example of several."""
    first, one = items[0].setting, len(items) == 1
    return one, f"{first} {does}" if one else f"{len(items)} settings {do}", "" if one else f", such as {first}"


def _counted(rounds: float) -> str:
    return "one round" if rounds < 2.0 else f"{rounds:.0f} independent rounds"


def _tried(plan: Plan, trials: Sequence[Trial], goal: tuple[str, float]) -> list[str]:
    metric, wanted = goal
    by_name = {trial.setting: trial for trial in trials}
    first = trials[0]
    if math.isinf(first.median):
        came = np.array(first.final)[np.isfinite(first.final)]
        how_far = f"the best, {first.setting}, reached {np.median(came):.4g}" if len(came) else "all ended earlier"
        more = "More steps (--steps) or another step size (--rate) may help."
        return [f"No setting that was tried on the data reached {metric} {wanted:g}: {how_far}. {more}"]
    forecasts = {item.setting: item for item in plan.ranked}
    item = forecasts[first.setting]
    low, high = min(first.steps) * item.seconds_per_step, max(first.steps) * item.seconds_per_step
    slow = by_name.get(plan.uncoded.setting)
    beside = ""
    if slow is not None and slow is not first:
        other = took(plan.uncoded, slow)
        times = ratio(other, took(item, first))
        if math.isinf(slow.median_steps):
            beside = ", which uncoded does not reach"
        elif math.isinf(times):
            beside = f"; uncoded takes {other:.4g} s"
        else:
            beside = f": {_fold(times)} times as fast as uncoded ({other:.4g} s)"
    sentences = [
        f"Of the settings tried on the data, {first.setting} reaches {metric} {wanted:g} soonest, in "
        f"{took(item, first):.4g} s ({low:.4g} to {'?' if math.isinf(high) else f'{high:.4g}'}){beside}."
    ]
    sentences += _solver(plan, trials)
    off = [trial for trial in trials if trial.contradicts(forecasts[trial.setting])]
    if off:
        here = forecasts[off[0].setting]
        sentences.append(
            f"Trials contradict the forecast for {off[0].setting}: they took {off[0].seconds_per_step:.4g} s a step "
            f"instead of {here.seconds_per_step:.4g} s. The ranking uses the forecast, which is a mean over many more "
            "steps."
        )
    if decided_by_luck(trials):
        few = min(trial.median_steps for trial in trials if not is_adaptive(trial.setting))
        harder = min(0.01, wanted / 10) if metric == "gap" else 0.01
        sentences.append(
            f"The target is reached within {counted('step', few)}, so luck decides: choose one that is harder to "
            f"reach, such as --target gap={harder:g}."
        )
    return sentences


def _fold(times: float) -> str:
    return f"{times:,.0f}" if times >= 100.0 else f"{times:.2f}"


def _times(plan: Plan, trials: Sequence[Trial], over: Forecast, name: str) -> str:
    middle = plan.speed_up(plan.best, over)
    if math.isinf(over.seconds_to_target):
        return f"{name} does not reach the target"
    if math.isinf(middle):
        return f"{name} takes {over.seconds_to_target:.4g} s"
    low, high = speed_up_range(plan, plan.best, over, trials)
    if math.isinf(high):
        between = f" (at least {_fold(low)} in 95% of runs, as the delays of some are all 0)"
    else:
        between = f" ({_fold(low)} to {_fold(high)} in 90% of runs)" if low < high else ""
    return f"{_fold(middle)} times as fast as {name}{between}"


def _solver(plan: Plan, trials: Sequence[Trial]) -> list[str]:
    """Say how the default of `erasurehead train` compares with the best of all others, if both were tried."""
    by_name = {item.setting: item for item in plan.ranked}
    usual = by_name.get(usual_setting(plan.n_workers))
    reached = [trial for trial in trials if math.isfinite(trial.median_steps)]
    own = [trial for trial in trials if is_adaptive(trial.setting)]
    others = [trial for trial in reached if not is_adaptive(trial.setting)]
    if not own:
        return []
    first = next((trial for trial in reached if trial in own), None)
    if first is None:
        return [f"{own[0].setting} does not reach the target with the optimizer that train uses by default."]
    item = by_name[first.setting]
    steps = counted("step", first.expected_steps)
    if first.begins_early:
        steps = f"as long as {steps} with the whole gradient (its first steps use few arrivals)"
    seconds = took(item, first)
    sentence = f"With the optimizer that train uses by default, {first.setting} takes {steps}, {seconds:.4g} s"
    if usual is not None and usual is not item and math.isfinite(usual.seconds_to_target):
        sentence += f" ({usual.setting}, the default: {usual.seconds_to_target:.4g} s)"
    if not others:
        return [f"{sentence}. No setting with the other optimizer reaches the target."]
    best = by_name[others[0].setting]
    taken = counted("step", others[0].expected_steps)
    return [f"{sentence}. The best of the others, {best.setting}, takes {taken}, {took(best, others[0]):.4g} s."]


def _advice(plan: Plan, trials: Sequence[Trial]) -> tuple[str, ...]:
    best, uncoded = plan.best, plan.uncoded
    if not plan.reached:
        return ("No setting reaches the target, so no setting is recommended.",)
    if best.load == 1 and is_adaptive(best.setting):
        first = f"Redundancy does not pay here: use {best.setting}."
    elif best is uncoded or (best.load == 1 and best.missing == 0.0):
        first = "Redundancy does not pay here: train uncoded, and wait for all workers."
    elif best.setting.startswith("uncoded("):
        first = f"Redundancy does not pay here, but shares of the work by speed do, without a code: {best.setting}."
    elif best.load == 1:
        first = f"Redundancy does not pay here, but not waiting for the slowest workers does: {best.setting}."
    else:
        share = f"{share_text(best.share_of_data)} of the data ({counted('task', best.load)})"
        first = f"Use {best.setting}: each worker holds {share}."
    if is_adaptive(best.setting):
        first += f" Its optimizer chooses its step sizes itself, so train needs no other setting than {best.setting}."
    low, high = best.band
    absolute = plan.target is not None or trials
    unit = "s to the target" if absolute else "s for as much progress as one exact step makes"
    second = (
        f"It takes {best.seconds_per_step:.4g} s a step (uncoded: {_seconds(uncoded.seconds_per_step)}), and "
        f"{best.seconds_to_target:.4g} {unit} ({low:.4g} to {'?' if math.isinf(high) else f'{high:.4g}'}): "
        + _times(plan, trials, uncoded, "uncoded")
    )
    if plan.current is not None and plan.current is not uncoded:
        second += f", {_times(plan, trials, plan.current, plan.current.setting)}"
    return first, second + ".", f"What limits it: {limits(plan, best)}", f"What limits uncoded: {limits(plan, uncoded)}"
