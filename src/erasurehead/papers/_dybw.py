"""cb-DyBW (Xiong, Yan, Singh and Li, 2021): its setting, run by this library, with our figures and not theirs.

The abstract names the data; the rest of the setting is from memory: the learning rate
`0.2 * 0.95^k`, batches of 1,024, linear models and networks of two layers on 6 and 10 workers, one random straggler in
every iteration at least. No number of the paper was verified, and none is aimed at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np

from erasurehead.consensus import train
from erasurehead.consensus._result import ConsensusRun
from erasurehead.datasets import Dataset
from erasurehead.datasets._published.images import IMAGES, load_images
from erasurehead.delays import Fixed, ShiftedExponential
from erasurehead.errors import counted, invalid
from erasurehead.papers._exhibit import Exhibit, dress
from erasurehead.papers._numbers import FigureTable
from erasurehead.papers._reproduction import Paper, ReproductionSettings
from erasurehead.problems import Problem, SoftmaxRegression
from erasurehead.problems._network import TwoLayerNetwork
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._canvas import Axes

MODELS = ("lrm", "2nn")
"""Softmax regression, and a network of two layers."""

WORKERS = (6, 10)
POLICIES: Mapping[str, str] = {
    "cb-Full": "full()",
    "cb-DyBW as published": "dynamic(tree='fixed')",
    "cb-DyBW, measured tree": "dynamic()",
    "local": "local()",
    "static, fastest": "static(wait_for=1)",
}
"""What is compared, by the names of the figures."""

_HIDDEN, _BATCH, _ROWS, _SLOW = 64, 1_024, 10_000, 5.0
_TABLE = 2_000  # steps of delays that are drawn


def _begin(settings: ReproductionSettings) -> Callable[[str], Sequence[Exhibit]]:
    if settings.engine != "virtual":
        raise invalid("engine", "must be virtual for peers", settings.engine)

    @lru_cache(1)  # each data set is large, and its figures follow each other
    def data_of(name: str) -> Dataset:
        return load_images(name, settings.path, synthetic=settings.synthetic, rows=settings.rows or _ROWS)

    def make(figure: str) -> Sequence[Exhibit]:
        name, model, workers = figure.split("-")
        return _exhibits(figure, data_of(name), model, int(workers), settings.steps)

    return make


def _exhibits(id: str, data: Dataset, model: str, workers: int, steps: int) -> list[Exhibit]:
    problem = _problem(data, model)
    runs = {name: _run(problem, policy, workers, steps) for name, policy in POLICIES.items()}
    model_name = {"lrm": "softmax regression", "2nn": f"two-layer network of {_HIDDEN} hidden units"}[model]
    title = f"{data.name}, {model_name}, {counted('worker', workers)}"
    names = ("policy", "iteration", "seconds", "loss", "accuracy", "distance")
    numbers = FigureTable.of(
        names,
        [
            (name, row.step, row.time, row.objective, row.metrics.get("accuracy"), row.distance)
            for name, run in runs.items()
            for row in run.means
        ],
    )
    full = runs["cb-Full"]
    goal = max(run.objective for run in runs.values())
    summary = FigureTable.of(
        ("policy", "seconds per iteration", "less than cb-Full by", "loss at the end", f"seconds to loss {goal:.4g}"),
        [
            (
                name,
                run.seconds_per_step,
                1.0 - run.seconds_per_step / full.seconds_per_step,
                run.objective,
                run.time_to(goal),
            )
            for name, run in runs.items()
        ],
    )
    notes = [
        f"Source of the data: {data.source}.",
        *(f"{note[0].upper()}{note[1:]}." for note in data.notes),
        f"Batches of {_BATCH}, rate 0.2 * 0.95^k, a connected random graph (p = 0.4), work that is late dropped.",
        f"Delays of 1 + Exp(1) seconds; in each step one random worker takes {_SLOW:g} times as long.",
    ]
    return [
        Exhibit(
            f"{id}-{against}",
            f"{id}-{against}",
            f"{title}: loss against {against}",
            notes,
            numbers,
            summary,
            partial(_draw, runs=runs, against=against),
        )
        for against in ("iterations", "time")
    ]


def _problem(data: Dataset, model: str) -> Problem:
    test = (data.X_test, data.y_test)
    if model == "2nn":
        return TwoLayerNetwork(data.X_train, data.y_train, hidden=_HIDDEN, test=test)
    return SoftmaxRegression(data.X_train, data.y_train, test=test, n_classes=10)


def _run(problem: Problem, policy: str, workers: int, steps: int) -> ConsensusRun:
    table = ShiftedExponential(shift=1.0, mean=1.0).rows(0, _TABLE, workers)
    slow = np.random.default_rng(0).integers(0, workers, _TABLE)
    table[np.arange(_TABLE), slow] *= _SLOW
    return train(
        problem,
        "erdos_renyi(p=0.4)",
        policy,
        peers=workers,
        steps=steps,
        rate="geometric(0.2, 0.95)",
        batch=_BATCH,
        delays=Fixed(tuple(map(tuple, table.tolist()))),
        late="preempt",
        records=False,
        evaluate_every=max(1, steps // 25),
    )


def _draw(axes: Axes, runs: Mapping[str, ConsensusRun], against: str) -> None:
    for index, (name, run) in enumerate(runs.items()):
        places = np.array([row.step if against == "iterations" else row.time for row in run.means], dtype=np.float64)
        losses = np.array([row.objective for row in run.means], dtype=np.float64)
        canvas.curve(axes, places, losses, canvas.run_style(index), name, index)
    x = "iterations of each worker" if against == "iterations" else "seconds of the clock"
    dress(axes, x, "loss of the mean model, all data", loc="best")


_FIGURES = tuple(f"{data}-{model}-{workers}" for data in IMAGES for model in MODELS for workers in WORKERS)

DYBW = Paper(
    "dybw",
    "# cb-DyBW, in its setting\n\nThese figures are ours, on our clock; none of the paper's was verified.\n",
    _FIGURES,
    {
        name: [figure for figure in _FIGURES if figure.startswith(f"{name}-")]
        for name in (*IMAGES, *(f"{data}-{model}" for data in IMAGES for model in MODELS))
    },
    _begin,
)
"""Loss against iterations and time, and the time of an iteration, for each data set, model and number of workers."""
