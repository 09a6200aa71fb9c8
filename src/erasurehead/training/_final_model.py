"""How good the final model is, computed from the data, and whether training has improved anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from erasurehead._internal.arrays import Array, squared_norm
from erasurehead.errors import counted, numbered
from erasurehead.problems import Problem
from erasurehead.training._evaluation import Snapshots
from erasurehead.training._result import FinalModel, Rise, Run

_ROUNDING = 1e-12
"""Share by which objectives may differ only because their terms were added up in another order, as those of shards."""

_SOON = 10
"""Number of steps before which a model that got worse may still get better."""


def lowest(
    problem: Problem, first: Array, models: Sequence[Array], lost: Sequence[slice] = ()
) -> tuple[Array, FinalModel | None]:
    """Return the model with the lowest objective, evaluated on the data that are in reach and were not lost.

    Arguments:
        problem: what is minimised.
        first: the model that training began with.
        models: at least one; if several are equally low, but for rounding, the first is returned.
        lost: samples that are left out.

    Returns:
        The model, and its figures; None if no data are in reach.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a model may have diverged
        start, *ends = problem.exact([first, *models], lost)
        values = [end.loss + problem.penalty(x) for end, x in zip(ends, models, strict=True)]
    best = 0
    for index, value in enumerate(values):
        if value < values[best] - _ROUNDING * abs(values[best]):
            best = index
    x, end = models[best], ends[best]
    if not end.n_samples:
        return x, None
    norms = [
        math.sqrt(squared_norm(problem.regularizer.residual(point, exact.gradient)))
        for exact, point in ((start, first), (end, x))
    ]
    return x, FinalModel(
        objective=values[best],
        first_objective=start.loss + problem.penalty(first),
        share=end.n_samples / problem.n_samples,
        gradient_norm=norms[1],
        first_gradient_norm=norms[0],
        column_scales=problem.column_scales(),
        without_minimum=end.n_samples == problem.n_samples and problem.without_minimum(end.loss),
    )


def with_objective_before_rise(
    final: FinalModel, problem: Problem, snapshots: Snapshots, rise: Rise, lost: Sequence[slice]
) -> FinalModel:
    """Return the figures with the objective of a model from before the loss estimates rose, if one was kept.

    Estimates from different parts of the data differ by what these parts are, and not only by the models.

    Arguments:
        final: the figures of the final model.
        problem: what is minimised.
        snapshots: the models that were kept along the way.
        rise: how the estimates have risen.
        lost: samples that are left out, as they were for `final`.
    """
    kept = snapshots.model_before(rise.step)
    if kept is None:
        return final
    step, x = kept
    with np.errstate(over="ignore", invalid="ignore"):
        objective = problem.exact([x], lost)[0].loss + problem.penalty(x)
    return replace(final, before_rise=(step, objective))


def why_worse(run: Run, remedy: str) -> str:
    """Return why a completed run has failed nevertheless, as a sentence; empty if it has not."""
    final, rise = run.final, run.rise
    if final is None or run.steps_taken < _SOON:
        return ""
    first, steps = f"{final.first_objective:.5g} at the first model", run.steps_taken
    if run.neglected and final.worse:
        return (
            f"training has made the model worse: after {counted('step', steps)} the objective is "
            f"{final.objective:.5g}, and it "
            f"was {first}, as {numbered('task', [one.task for one in run.neglected])} were hardly ever counted."
        )
    if final.worse:
        return (
            f"training has made the model worse: after {counted('step', steps)} the objective is "
            f"{final.objective:.5g}, and it "
            f"was {first}{remedy}."
        )
    if rise is not None and rise.exact and final.above_first(rise.last):
        return (
            f"the training loss goes up and down and does not settle: the mean of the last steps is {rise.last:.5g}, "
            f"and it was {first}{remedy}."
        )
    return ""
