"""How good the models of a run are: those on the way, kept until it is over or measured at once, and the final one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from erasurehead._internal.arrays import Array, Tree, squared_norm
from erasurehead._internal.resumable import Resumable, from_plain, to_plain
from erasurehead.errors import counted, numbered
from erasurehead.problems import Problem
from erasurehead.training._callbacks import Callback
from erasurehead.training._result import Evaluation, FinalModel, Rise, Run, far_above
from erasurehead.training._rows import StepRow

MOST_BYTES = 10**9
"""Most bytes of memory for the models that are kept for evaluation."""

MOST_KEPT = 5_000
"""Most models that are kept for evaluation: as many points as a figure can show."""


class Snapshots(Resumable, Callback):
    """Keeps the models to be evaluated. They are not copied, as optimizers never change a model in place.

    They take at most a gigabyte in total: whenever they would take more, every second one is dropped.

    When a finished run is continued, its models have been evaluated already, and their metrics are kept.

    Arguments:
        every: keep the model after every `every` steps, and after the last; 0 to keep none.
        initial: the model before the first step.
        last: number of steps of the run.
        callbacks: those with a hook for metrics are told them at once; models are then not kept, but measured.
    """

    checkpointed = ("every", "kept")

    def __init__(self, every: int, initial: Array, last: int, callbacks: Sequence[Callback] = ()) -> None:
        self.every, self.last = every, last
        self._told = [each for each in callbacks if type(each).on_metrics is not Callback.on_metrics]
        self.kept: list[tuple[int, float, Array | Mapping[str, float]]] = [(0, 0.0, initial)] if every else []
        self._most = min(MOST_KEPT, MOST_KEPT if self._told else max(MOST_BYTES // initial.nbytes, 2))
        self._newest: tuple[int, float, Array] | None = None
        self._first: tuple[Array, Mapping[str, float]] | None = None

    def begin(self, problem: Problem) -> None:
        """Measure the first model, so that what models are measured on is known to be there before training begins."""
        if self.every:
            x = cast("Array", self.kept[0][2])
            self._first, self._problem = (x, problem.metrics(x)), problem

    def on_step_end(self, row: StepRow, x: Array) -> None:
        done = row.step + 1
        self._newest = done, row.end, x
        if self.every and (done % self.every == 0 or done == self.last):
            metrics = self._problem.metrics(x) if self._told else {}
            for callback in self._told if metrics else ():
                callback.on_metrics(Evaluation(done, row.end, metrics))
            self.kept.append((done, row.end, metrics or x))
            if len(self.kept) > self._most:
                self.every *= 2
                self.kept = [kept for kept in self.kept if kept[0] % self.every == 0]

    def on_last_step(self, step: int) -> None:
        self.last = step
        newest = self._newest
        if self.every and newest is not None and newest[0] == step and self.kept[-1][0] != step:
            self.kept.append(newest)

    def settle(self, step: int, x: Array) -> None:
        """Record the model that a run ends with after so many steps: the newest, or the one before if it was no better.

        What was evaluated already stays; a model that was kept before the run was resumed does not.
        """
        other = self._newest is not None and self._newest[2] is not x
        if self.kept and self.kept[-1][0] == step and (other or isinstance(self.kept[-1][2], np.ndarray)):
            self.kept[-1] = (*self.kept[-1][:2], x)

    def model_before(self, step: int) -> tuple[int, Array] | None:
        """Return the newest kept model of at most `step` steps, with its number of steps; None if there is none."""
        for done, _, model in reversed(self.kept):
            if done <= step and isinstance(model, np.ndarray):
                return done, model
        return None

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned; if the run is longer now, what was kept as its last model is dropped."""
        super().restore(state)
        self.kept = [one for one in self.kept if one[0] == self.last or one[0] % self.every == 0]

    def evaluate(self, problem: Problem) -> Iterator[Evaluation]:
        """Yield the metrics of every model kept; nothing if the problem has nothing to evaluate on."""
        for step, time, model in self.kept:
            if self._first is not None and model is self._first[0]:
                metrics = self._first[1]
            else:
                metrics = problem.metrics(model) if isinstance(model, np.ndarray) else model
            if metrics:
                yield Evaluation(step, time, metrics)

    def evaluated(self) -> list[Evaluation]:
        """Return what is known without evaluating anything: the metrics of models that were evaluated in an earlier
        part of the run."""
        return [
            Evaluation(step, time, metrics)
            for step, time, metrics in self.kept
            if isinstance(metrics, dict) and metrics
        ]


def without_models(state: Mapping[str, Tree], evaluations: Sequence[Evaluation]) -> dict[str, Tree]:
    """Return the state of a run with the metrics of its snapshots in place of the models.

    The result is small, and enough to continue a run that has been evaluated: no model is evaluated twice.

    Arguments:
        state: the state that `Callback.on_state` was given.
        evaluations: the metrics of all its snapshots; those that there was nothing to evaluate on may be missing.
    """
    snapshots = cast("Mapping[str, Any]", state["snapshots"])
    metrics = {evaluation.step: evaluation.metrics for evaluation in evaluations}
    kept = [(step, time, dict(metrics.get(step, {}))) for step, time, _ in from_plain(snapshots["kept"])]
    return {**state, "snapshots": {**snapshots, "kept": to_plain(kept)}}


_ROUNDING = 1e-12
"""Share by which objectives may differ only because their terms were added up in another order, as those of shards."""

_FAR, _NEAR = (1e8, 1e12, 1e15), (1e5,)
"""How far apart gradients are compared to see how the objective bends, the less it bends the farther, and where it is
not quadratic."""

_TOLD = 1e-14  # slopes that can be told from 0, over this distance
_NOISE = 2e-15  # slopes that are nothing but rounding, where the loss is 1

SOON = 10
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
        start, *ends = problem.losses([first, *models], lost)
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


def unseen_gain(problem: Problem, x: Array, directions: Array) -> float:
    """Return by how much the objective would fall at least along directions in which it hardly bends.

    Sums of second derivatives lose in their rounding how it bends there, where columns are nearly collinear. Gradients
    at points that are far apart do not: their difference is as exact as they are. Along the directions that bend least
    it is lost beside that of the others; these are looked at once more by themselves, from farther apart.

    Arguments:
        problem: what is minimised.
        x: the model, shape (n_parameters,).
        directions: shape (count, n_parameters), in units in which every column bends the objective by one.
    """
    gain = 0.0
    for reach in _FAR if problem.quadratic else _NEAR:
        points = [x, *(x + sign * reach * one for one in directions for sign in (1.0, -1.0))]
        with np.errstate(over="ignore", invalid="ignore"):
            found = [(exact.loss, exact.gradient) for exact in problem.exact(points)]
            slopes = np.array(
                [directions @ (one + problem.penalty_gradient(at)) for at, (_, one) in zip(points, found, strict=True)]
            )
        if not np.isfinite(slopes).all():
            return gain
        bends = (slopes[1::2] - slopes[2::2]) / (2.0 * reach)
        curvatures, turns = np.linalg.eigh(0.5 * (bends + bends.T))
        told = curvatures > _TOLD / reach
        along = (turns.T @ slopes[0])[told]
        along[np.abs(along) < _NOISE * math.sqrt(abs(found[0][0]))] = 0.0
        gain += float((0.5 * along**2 / curvatures[told]).sum())
        directions = turns.T[~told] @ directions
        if not len(directions):
            break
    return gain


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
        objective = problem.losses([x], lost)[0].loss + problem.penalty(x)
    return replace(final, before_rise=(step, objective))


def why_worse(run: Run, remedy: str) -> str:
    """Return why a completed run has failed nevertheless, as a sentence; empty if it has not."""
    final, rise = run.final, run.rise
    if final is None or run.steps_taken < SOON:
        return ""
    first, steps = f"{final.first_objective:.5g} at the first model", run.steps_taken
    if final.worse:
        tasks = [one.task for one in run.neglected]
        why = f", as {numbered('task', tasks)} were hardly ever counted" if tasks else remedy
        return (
            f"training has made the model worse: after {counted('step', steps)} the objective is "
            f"{final.objective:.5g}, and it was {first}{why}."
        )
    if rise is not None and rise.exact and far_above(rise.last, final.first_objective):
        return (
            f"the training loss goes up and down and does not settle: the mean of the last steps is {rise.last:.5g}, "
            f"and it was {first}{remedy}."
        )
    return ""
