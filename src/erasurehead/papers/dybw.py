"""cb-DyBW (Xiong, Yan, Singh and Li, 2021): its setting, run by this library, with our figures and not theirs.

The abstract names the data; the rest of the setting is from memory: the learning rate
`0.2 * 0.95^k`, batches of 1,024, linear models and networks of two layers on 6 and 10 workers, one random straggler in
every iteration at least. No number of the paper was verified, and none is aimed at.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead._internal.atomic_files import write_whole
from erasurehead.consensus.result import ConsensusRun
from erasurehead.consensus.training import train
from erasurehead.datasets import IMAGES, Dataset, load_images
from erasurehead.delays import Fixed, ShiftedExponential
from erasurehead.errors import counted, invalid
from erasurehead.papers import selection
from erasurehead.papers.exhibit import Exhibit
from erasurehead.papers.numbers import FigureTable, load_arrow
from erasurehead.papers.settings import ReproductionSettings
from erasurehead.problems import Problem, SoftmaxRegression, TwoLayerNetwork
from erasurehead.reports import canvas
from erasurehead.reports.canvas import FAINT, Axes
from erasurehead.runs.jsonl import to_text
from erasurehead.runs.names import RUNS, make_folder, next_free

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

EXHIBITS = tuple(f"{data}-{model}-{workers}" for data in IMAGES for model in MODELS for workers in WORKERS)
"""The names of the exhibits: data, model and number of workers."""


@dataclass(frozen=True, eq=False)
class DybwReproduction:
    """The exhibits that `reproduce` made.

    Attributes:
        folder: the folder with all files.
        exhibits: the exhibits made, each with its files.
        seconds: the wall-clock time it took.
    """

    folder: Path
    exhibits: Sequence[tuple[Exhibit, Sequence[Path]]]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the reproduction as plain data."""
        return {
            "paper": "dybw",
            "engine": "virtual",
            "late": "preempt",
            "seconds": self.seconds,
            "folder": str(self.folder),
            "exhibits": [exhibit.as_dict(files) for exhibit, files in self.exhibits],
        }

    def to_markdown(self) -> str:
        """Return the page that shows everything."""
        parts = [
            "# cb-DyBW, in its setting\n",
            "These figures are ours, on our clock; none of the paper's was verified.\n",
        ]
        for exhibit, files in self.exhibits:
            parts.append(f"## {exhibit.title}\n")
            parts += [f"![{exhibit.title}]({path.name})\n" for path in files if path.suffix == ".png"]
            parts.append(exhibit.summary.to_markdown())
            parts.append("".join(f"- {note}\n" for note in exhibit.notes))
        return "\n".join(parts)


def select(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the exhibits asked for, in the order of `EXHIBITS`; all of them if none is named.

    Arguments:
        wanted: names from `EXHIBITS`; or data for all of its models, such as `mnist`, or a model for any number of
            workers, such as `cifar10-lrm`.

    Raises:
        InvalidArgument: for an unknown name; the message lists the known ones.

    >>> select(["mnist-lrm"])
    ('mnist-lrm-6', 'mnist-lrm-10')
    """
    several = [*IMAGES, *(f"{data}-{model}" for data in IMAGES for model in MODELS)]
    return selection.select(
        wanted, EXHIBITS, {name: [id for id in EXHIBITS if id.startswith(f"{name}-")] for name in several}
    )


def reproduce(
    figures: Sequence[str] = (),
    settings: ReproductionSettings | None = None,
    out: str | os.PathLike[str] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> DybwReproduction:
    """Run the setting of cb-DyBW on the virtual clock: loss against iterations and time, time of an iteration.

    Arguments:
        figures: see `select`.
        settings: number of steps, folder of the data, `rows` of stand-ins; None for the defaults.
        out: the folder to write to, which must be empty or missing; None for a new one in `runs`.
        tell: called with a line of text on each thing that is being made.

    Raises:
        InvalidArgument: for an unknown figure, a folder that is not empty, or a setting that does not fit.
        MissingExtra: if matplotlib or pyarrow is not installed.
    """
    begin, settings = time.perf_counter(), settings or ReproductionSettings()
    if settings.engine != "virtual":
        raise invalid("engine", "must be virtual for peers", settings.engine)
    chosen = select(figures)
    load_arrow()
    with canvas.drawing():  # so that a missing matplotlib is found out before anything is trained
        folder = make_folder(out or next_free(RUNS, "reproduce-dybw"))
    made: list[tuple[Exhibit, Sequence[Path]]] = []
    held: dict[str, Dataset] = {}
    for id in chosen:
        tell(f"making {id} ...")
        name, model, workers = id.split("-")
        if name not in held:
            held = {name: load_images(name, settings.path, synthetic=settings.synthetic, rows=settings.rows or _ROWS)}
        for exhibit in _exhibits(id, held[name], model, int(workers), settings.steps):
            made.append((exhibit, exhibit.write(folder)))
    reproduction = DybwReproduction(folder, made, time.perf_counter() - begin)
    write_whole(folder / "reproduction.md", [reproduction.to_markdown().encode()])
    write_whole(folder / "reproduction.json", [to_text(reproduction.as_dict()).encode()])
    return reproduction


def _exhibits(id: str, data: Dataset, model: str, workers: int, steps: int) -> list[Exhibit]:
    problem = _problem(data, model)
    runs = {name: _run(problem, policy, workers, steps) for name, policy in POLICIES.items()}
    said = {"lrm": "softmax regression", "2nn": f"two-layer network of {_HIDDEN} hidden units"}[model]
    title = f"{data.name}, {said}, {counted('worker', workers)}"
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
    goal = max(run.means[-1].objective for run in runs.values())
    rows: list[tuple[str, float, float, float, float | None]] = []
    for name, run in runs.items():
        reached = run.time_to(goal)
        rows.append(
            (
                name,
                run.seconds_per_step,
                1.0 - run.seconds_per_step / full.seconds_per_step,
                run.means[-1].objective,
                reached,
            )
        )
    summary = FigureTable.of(
        ("policy", "seconds per iteration", "less than cb-Full by", "loss at the end", f"seconds to loss {goal:.4g}"),
        rows,
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
            f"{title}: loss against {what}",
            notes,
            numbers,
            summary,
            partial(_draw, runs=runs, against=against),
        )
        for against, what in (("iterations", "iterations"), ("time", "time"))
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
    axes.set_xlabel("iterations of each worker" if against == "iterations" else "seconds of the clock")
    axes.set_ylabel("loss of the mean model, all data")
    axes.grid(color=FAINT, linewidth=0.5)
    axes.legend()
