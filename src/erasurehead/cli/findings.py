"""What a finished run says of its own model: how good it is, and what speaks against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from erasurehead.cli.screen import Screen
    from erasurehead.runs.experiment import Experiment
    from erasurehead.training.result import FinalModel, Run

CONVERGED = 0.01
"""A gradient of at most this share of its first length has fallen enough, if the columns are of like scales."""


def loss_text(done: Run) -> str:
    """Return the objective of the final model, or the best that is known of it; empty where nothing is."""
    if done.final is not None:
        part = "" if done.final.share >= 1.0 else f" of {done.final.share:.1%} of the data"
        return f"training objective {done.final.objective:.5g} (exact{part})"
    from erasurehead.cli.progress import estimated

    known = [row for row in done.steps if row.loss is not None and not row.rejected]
    if not known:
        return ""
    return f"training loss {known[-1].loss:.5g}{estimated(known[-1].coverage)}"


def warn(screen: Screen, experiment: Experiment, done: Run) -> None:
    """Say on stderr what speaks against the model."""
    rise, final = done.rise, done.final
    if rise is not None:
        screen.warn(
            f"the training loss has risen, from {rise.best:.5g} around step {rise.step + 1} to {rise.last:.5g}"
            + _why_risen(experiment)
        )
    elif final is not None and done.ended in (None, "steps", "max_seconds"):
        ends_by_itself = experiment.config.optimizer.name == "quasi_newton"
        if ends_by_itself or not converged(final):
            screen.say(not_converged(final, len(done.steps)))


def _why_risen(experiment: Experiment) -> str:
    rate = experiment.config.optimizer.rate
    if rate is None:  # its steps with the whole gradient never lead uphill
        return f": its steps were taken with parts of the gradient ({experiment.config.scheme}); adaptive waits for all"
    return f": the step size (--rate) may be too large; it is {rate}"


def ended_text(experiment: Experiment, done: Run) -> str:
    """Return what ended a run before its last step without anything having gone wrong; empty if nothing did."""
    section, steps = experiment.config.run, len(done.steps)
    if done.ended == "until":
        return f"ended because {section.until} is reached, after {steps} of {section.steps} steps"
    if done.ended == "patience":
        return f"ended because nothing improved in {section.patience} steps, after {steps} of {section.steps}"
    if done.ended == "max_seconds":
        return f"ended after {section.max_seconds:g} s of training, and {steps} of {section.steps} steps"
    if done.ended == "converged":
        return f"ended because it has converged, after {steps} of {section.steps} steps"
    return ""


def measured_text(done: Run) -> str:
    """Return what measuring the target took, apart from training; empty if nothing was measured, or it took no time."""
    from erasurehead.reports.units import seconds_text

    parts = [
        f"{len(found)} times {where} ({seconds_text(sum(one.seconds for one in found))})"
        for beside, where in ((True, "beside training"), (False, "between steps"))
        if (found := [one for one in done.measured if one.beside == beside])
    ]
    return f"the target was measured {' and '.join(parts)}" if parts and done.engine != "virtual" else ""


def converged(final: FinalModel) -> bool:
    """Return whether the gradient has fallen enough, also along the columns of the smallest numbers."""
    low, high = final.column_scales or (1.0, 1.0)
    return final.gradient_left <= CONVERGED and final.gradient_left * high / low <= 1.0


def not_converged(final: FinalModel, steps: int) -> str:
    """Return how far training has come, and what may be in its way, as a sentence."""
    said = (
        f"training has not converged: after {steps} steps the gradient has fallen to {final.gradient_left:.2g} of its "
        "first length"
    )
    scales = final.column_scales
    if scales is not None and scales[1] > 10.0 * scales[0]:
        said += (
            f", and the columns are of scales from {scales[0]:.2g} to {scales[1]:.2g} (root mean square): what the "
            "small ones say is learned last; bring them to one scale, or take more steps (--steps)"
        )
    else:
        said += "; more steps (--steps) bring it closer"
    return said
