"""Sentences on the model of a finished run: how good it is, and why it may not be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from erasurehead.errors import counted
from erasurehead.reports._units import seconds_text

if TYPE_CHECKING:
    from erasurehead.cli._output import Screen
    from erasurehead.runs import Experiment
    from erasurehead.training import Run
    from erasurehead.training._result import FinalModel

_WHOLE = 1e-9
"""Share by which, for rounding, a whole gradient may miss some of its tasks, and an equal objective may be larger."""

CONVERGED = 0.01
"""Gradient norm, as a fraction of the initial one, at which training has converged if columns have similar scales."""


def spanned(word: str, numbers: Collection[int]) -> str:
    """Return a number of things as text; if it varies, the fewest and the most."""
    fewest, most = min(numbers), max(numbers)
    return counted(word, most) if fewest == most else f"{fewest:,} to {counted(word, most)}"


def loss_text(done: Run) -> str:
    """Return the objective of the final model, or else the last loss estimate, as text; empty if neither is known."""
    if done.final is not None:
        part = "" if done.final.share >= 1.0 else f" of {done.final.share:.1%} of the data"
        return f"training objective {done.final.objective:.5g} (exact{part})"
    from erasurehead.reports._progress import estimated

    rows = [row for row in done.steps if row.loss is not None and not row.rejected]
    if not rows:
        return ""
    return f"training loss {rows[-1].loss:.5g}{estimated(rows[-1].coverage)}"


def warn(screen: Screen, experiment: Experiment, done: Run) -> None:
    """Print on stderr why the model may not be good: a rising loss, no convergence, or a target that was missed."""
    rise, final = done.rise, done.final
    if (target := experiment.config.run.until) is not None and done.ended not in (None, "until"):
        screen.warn(f"{target} was not reached")
    if rise is not None:
        screen.warn(
            f"the training loss has risen, from {rise.best:.5g} around step {rise.step + 1} to {rise.last:.5g}"
            + _why_risen(experiment, done)
        )
    elif final is not None and final.objective > final.first_objective + _WHOLE * abs(final.first_objective):
        screen.warn(
            f"training has not made the model better: the objective is {final.objective:.5g} after "
            f"{counted('step', done.steps_taken)}, and it was {final.first_objective:.5g} at the first model"
            + _why_risen(experiment, done)
        )
    elif final is not None and final.without_minimum:
        screen.warn(without_minimum(experiment))
    elif final is not None and (final.collinear or (final.unseen_gain is not None and done.ended != "converged")):
        screen.warn(nearly_collinear(experiment))
    elif final is not None and done.ended in (None, "steps", "max_seconds"):
        from erasurehead.training._stopping import TOLERANCE

        ends_by_itself = experiment.config.optimizer.name == "quasi_newton"
        if not converged(final, TOLERANCE if ends_by_itself else CONVERGED):
            limit = "--max-seconds" if done.ended == "max_seconds" else "--steps"
            screen.warn(not_converged(final, done.steps_taken, limit))


def _why_risen(experiment: Experiment, done: Run) -> str:
    config = experiment.config
    if config.optimizer.rate is not None:
        return f": the step size (--rate) may be too large; it is {config.optimizer.rate}"
    if any(row.coverage < 1.0 - _WHOLE for row in done.steps):
        from erasurehead.schemes._text import is_adaptive

        other = "" if is_adaptive(config.scheme or "") else "; adaptive waits for all in the end"
        return f": its steps used only parts of the gradient ({config.scheme}){other}"
    return f": messages lost digits on their way (--wire {config.run.wire})" if config.run.wire else ""


def ended_text(experiment: Experiment, done: Run) -> str:
    """Return why a run ended regularly before its last step; empty if it did not."""
    section, final = experiment.config.run, done.final
    taken = f"{done.steps_taken} of {counted('step', section.steps)}"
    if done.ended == "until":
        return f"ended because {section.until} was reached, after {taken}"
    if done.ended == "patience":
        return f"ended because nothing improved in {counted('step', section.patience or 0)}, after {taken}"
    if done.ended == "max_seconds":
        return f"ended after {section.max_seconds:g} s of training, and {taken}"
    if done.ended != "converged":
        return ""
    if final is not None and final.without_minimum:
        return f"ended because hardly anything is left to gain, after {taken}"
    return (
        "converged"
        if final is None or not final.collinear
        else f"not converged: nearly collinear columns, after {taken}"
    )


@dataclass(frozen=True)
class Worth:
    """Whether it paid to distribute the training.

    Attributes:
        paid: whether; None where nothing was distributed.
        reason: why, in a sentence without a full stop.
        seconds: of starting workers and training with them; None where there was none.
        alone_seconds: what this process alone takes for as many steps, by estimate.
    """

    paid: bool | None
    reason: str
    seconds: float | None = None
    alone_seconds: float | None = None

    def __str__(self) -> str:
        return self.reason


def verdict(experiment: Experiment, done: Run) -> Worth | None:
    """Return whether distributing paid; None if that is not known, as no part of the data is in reach of this process.

    A pass over the data is measured here, or over a part of it, if it is in files.
    """
    from erasurehead.cli._stopwatch import about
    from erasurehead.runs._needs_workers import pass_seconds

    why, run = experiment.unshared, experiment.config.run
    if run.engine == "virtual":
        return Worth(None, "nothing was distributed: the seconds of training are those of a virtual clock")
    if why is not None and why.workers > 1:
        reason = (
            f"not distributed: {counted('worker', why.workers)} take {about(why.start_seconds)} to start, "
            f"a pass over the data {about(why.pass_seconds)}"
        )
        return Worth(None, reason)
    if run.workers == 1 or run.engine == "in_process":
        return Worth(None, "not distributed: there is one worker")
    one = pass_seconds(experiment.problem)
    if one is None or not done.steps_taken:
        return None
    alone, spent = done.steps_taken * one, done.start_seconds + done.seconds
    injected = "" if experiment.delays.expected == 0.0 else ", without the injected delays"
    reason = (
        f"distributing {'paid' if spent < alone else 'did not pay'}: {about(spent)} with "
        f"{workers_text(done)}, about {about(alone)} alone{injected}"
    )
    return Worth(spent < alone, reason, spent, alone)


def workers_text(done: Run) -> str:
    """Return the number of workers as text; if it changed, the fewest and the most."""
    return spanned("worker", {row.workers for row in done.steps})


def measured_text(done: Run) -> str:
    """Return the time spent on measuring the target, as text; empty if it was not measured, or on a virtual clock."""

    parts = [
        f"{len(group)} times {where} ({seconds_text(sum(one.seconds for one in group))})"
        for beside, where in ((True, "beside training"), (False, "between steps"))
        if (group := [one for one in done.measured if one.beside == beside])
    ]
    return f"the target was measured {' and '.join(parts)}" if parts and done.engine != "virtual" else ""


def without_minimum(experiment: Experiment) -> str:
    """Return a sentence on an objective that has no minimum, and what gives it one."""
    return (
        "the objective has no minimum: of some samples the columns tell the class without exception, so that it falls "
        "for ever as their weights grow, and nothing holds these back (l2 is 0). This model is one on that way; "
        f"--l2 {1.0 / experiment.problem.n_samples:.2g} gives the objective a minimum"
    )


def nearly_collinear(experiment: Experiment) -> str:
    """Return a sentence on columns that say nearly the same, and what would help."""
    return (
        "training has not converged: nearly collinear columns. Some say so nearly what others say that rounding hides "
        "what is in their difference. Leave some of them out (--drop), or hold their weights together: "
        f"--l2 {1.0 / experiment.problem.n_samples:.2g}"
    )


def converged(final: FinalModel, small: float) -> bool:
    """Whether the gradient is that small a share of the first one, also along the columns with the smallest scale."""
    low, high = final.column_scales or (1.0, 1.0)
    return final.gradient_left <= small and final.gradient_left * high / low <= 1.0


def not_converged(final: FinalModel, steps: int, limit: str) -> str:
    """Return a sentence on how far training has converged, and what may hinder it.

    Arguments:
        final: the model at the end, in figures.
        steps: how many steps were taken.
        limit: the option that ended them.
    """
    more = f"more {'time' if limit == '--max-seconds' else 'steps'} ({limit})"
    sentence = (
        f"training has not converged: after {counted('step', steps)} the gradient is "
        f"{final.gradient_left:.2g} times as long as at the start"
    )
    scales = final.column_scales
    if scales is not None and scales[1] > 10.0 * scales[0]:
        sentence += (
            f", and the scales of the columns range from {scales[0]:.2g} to {scales[1]:.2g} (root mean square); the "
            f"smallest are learned last. Bring them to one scale, or take {more}"
        )
    else:
        sentence += f"; {more} would bring it closer"
    return sentence
