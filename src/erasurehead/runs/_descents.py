"""The exact objective along the runs of a comparison, evaluated when they are over: how near each comes to the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.problems import Problem
from erasurehead.reports._descents import Descent
from erasurehead.runs._experiment import Experiment
from erasurehead.training._evaluation import Snapshots

_MOST = 1_000  # number of models of a run whose objective is computed, each by a pass over the data


@dataclass(frozen=True, eq=False)
class Objectives:
    """The exact objective of models along one run.

    Attributes:
        times: seconds of training until each model, ascending, shape (n_models,).
        values: objectives, penalty included, shape (n_models,).
    """

    times: Array
    values: Array


class Models(Snapshots):
    """Keeps models along a run, for their objectives.

    Arguments:
        experiment: the experiment of the run.
    """

    def __init__(self, experiment: Experiment) -> None:
        section = experiment.config.run
        super().__init__(section.evaluate_every, experiment.first_model(), section.steps)

    def objectives(self, problem: Problem) -> Objectives | None:
        """Return the objectives, off the clock; None if samples are out of reach here, or nothing was kept.

        Arguments:
            problem: what was minimised.
        """
        models: list[tuple[float, Array]] = []
        for _, time, model in self.kept:
            if isinstance(model, np.ndarray):
                models.append((time, model))
        if not models or problem.exact([models[0][1]])[0].n_samples < problem.n_samples:
            return None
        places = np.unique(np.linspace(0, len(models) - 1, _MOST).round().astype(int))
        models = [models[place] for place in places.tolist()]
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that has diverged
            values = np.array([problem.objective(model) for _, model in models])
        return Objectives(np.array([time for time, _ in models]), values)


def descents(
    names: Sequence[str], objectives: Sequence[Objectives | None], least: float | None, virtual: bool
) -> list[Descent]:
    """Return the gaps of runs to the least objective.

    Arguments:
        names: names of the schemes, one per run.
        objectives: of each run, from the same first model; None where it has none.
        least: the least objective, as something that has converged found it; None if it is not known. The least of the
            runs will not do: the best of them would have no gap, however far it is from the minimum.
        virtual: whether times are of a virtual clock.

    Returns:
        One per run; empty if the least or other objectives are unknown, or none is below that of the first model.
    """
    curves = [one for one in objectives if one is not None]
    if len(curves) < len(objectives) or not curves or least is None:
        return []
    values = np.concatenate([one.values for one in curves])
    low = float(values[np.isfinite(values)].min(initial=least))
    first = float(curves[0].values[0])
    if not low < first:
        return []
    return [
        Descent(name, one.times, (one.values - low) / (first - low), virtual)
        for name, one in zip(names, curves, strict=True)
    ]
