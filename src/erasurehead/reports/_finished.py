"""The comparison of finished runs, with and without a coordinator: one table and one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.storage.access import Access
from erasurehead.errors import invalid
from erasurehead.reports import _canvas as canvas, _measures as measures
from erasurehead.reports._canvas import INK, Axes
from erasurehead.reports._rendering import Column, as_markdown, as_table, final_values, race_columns
from erasurehead.reports._units import time_unit

if TYPE_CHECKING:
    from rich.table import Table

LOSS = "loss"
"""The training objective, among the metrics of a run."""

PICTURE = "progress"
"""The name of the figure, without suffix."""

Curve = tuple[tuple[float, float], ...]
"""Seconds since training began, and a value; ascending."""


@dataclass(frozen=True)
class FinishedRun:
    """The result of a finished run, with or without a coordinator.

    Attributes:
        name: the scheme, or the policy and the graph of peers.
        peers: whether it was a run without a coordinator.
        workers: number of workers.
        virtual: whether its seconds are those of a virtual clock.
        steps: number of steps of each worker, on average.
        seconds: seconds of training, including all waiting.
        seconds_per_step: mean seconds per step of a worker.
        curves: values over time by metric: metrics on the test samples, and `loss`, the training objective: of the mean
            model of peers; with a coordinator, the estimate that came with each gradient.
        facts: conditions of the run, such as `{"delays": "none()"}`, for notes about differences between runs.
        stopped: why it ended early; empty if it did not.
    """

    name: str
    peers: bool
    workers: int
    virtual: bool
    steps: float
    seconds: float
    seconds_per_step: float
    curves: Mapping[str, Curve]
    facts: Entries
    stopped: str = ""

    def time_to(self, metric: str, target: float) -> float | None:
        """Return the seconds after which a metric first reached a target; None if it never did."""
        falls = measures.lower_is_better(metric)
        reached = (time for time, value in self.curves[metric] if (value <= target if falls else value >= target))
        return next(reached, None)

    def final(self, metric: str) -> float | None:
        """Return the last value of a metric; None if there is none."""
        return self.curves[metric][-1][1] if self.curves.get(metric) else None


@dataclass(frozen=True)
class FinishedComparison:
    """A comparison of finished runs.

    Arguments:
        runs: at least two runs.
        target: metric and value to reach; None for none.

    Raises:
        InvalidArgument: if there are fewer runs, or one has not measured the metric of the target.
    """

    runs: Sequence[FinishedRun]
    target: tuple[str, float] | None

    def __post_init__(self) -> None:
        if len(self.runs) < 2:
            raise invalid("runs", "must be two or more", len(self.runs))
        if self.target is None:
            return
        for run, name in zip(self.runs, self.names, strict=True):
            if not run.curves.get(self.target[0]):
                metrics = ", ".join(metric for metric, curve in run.curves.items() if curve)
                raise invalid("target", f"must name what was measured of {name}", self.target[0], f"that is {metrics}")

    @classmethod
    def of(cls, runs: Sequence[FinishedRun], target: tuple[str, float] | None = None) -> FinishedComparison:
        """Return the comparison, by default with a target that all runs have reached: see `common_target`."""
        return cls(runs, target or common_target(runs))

    @property
    def names(self) -> list[str]:
        """The label of each run: its name, with a number if several have the same."""
        return measures.numbered_names([run.name for run in self.runs])

    @property
    def times(self) -> list[float | None]:
        """Seconds to the target, run by run; None if it was not reached."""
        return [None if self.target is None else run.time_to(*self.target) for run in self.runs]

    @property
    def speed_ups(self) -> list[float | None]:
        """The speed-up of each run to the target over the first; None if one of them did not reach it.

        Without a target, or if the first run began beyond it, the speed-up per step.
        """
        own = self.times if self.by_target else [run.seconds_per_step for run in self.runs]
        return [None if not seconds or not own[0] else own[0] / seconds for seconds in own]

    @property
    def by_target(self) -> bool:
        """Whether speed-ups compare times to the target."""
        return bool(self.times[0])

    @property
    def metric(self) -> str:
        """The metric of the column of final values: the target's, or the first one that all runs have."""
        return self.target[0] if self.target else _common_metric(self.runs)

    @property
    def notes(self) -> list[str]:
        """Notes: what speed-ups compare, and in what the runs differ."""
        names = self.names
        notes = [f"Speed-ups compare the {measures.compared(self.target, self.by_target)}; {names[0]} is 1."]
        notes += measures.target_notes(names, self.times, self.target)
        for fact in self.runs[0].facts:
            values = [run.facts.get(fact) for run in self.runs]
            if any(value != values[0] for value in values):
                each = "; ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
                notes.append(f"The comparison is not fair, as the runs differ in their {fact}: {each}.")
        if any(run.peers for run in self.runs) and not all(run.peers for run in self.runs):
            notes.append(
                "The loss of peers is that of their mean model, over all data; with a coordinator it is the "
                "estimate that comes with each gradient."
            )
        return notes + measures.early_end_notes(names, [run.stopped for run in self.runs])

    def to_markdown(self) -> str:
        """Return the table as Markdown, with its notes below."""
        return as_markdown(self._columns(), self.notes)

    def to_table(self, title: str | None = None) -> Table:
        """Return the table for a terminal."""
        return as_table(self._columns(), self.notes, title)

    def as_dict(self) -> PlainData:
        """Return the comparison as plain data."""
        return {
            "target": None if self.target is None else {"metric": self.target[0], "value": self.target[1]},
            "speed_up": {"compared": "target" if self.by_target else "seconds_per_step", "baseline": self.names[0]},
            "runs": [
                {
                    "name": name,
                    "peers": run.peers,
                    "workers": run.workers,
                    "steps": run.steps,
                    "seconds": run.seconds,
                    "seconds_per_step": run.seconds_per_step,
                    "seconds_to_target": time,
                    "speed_up": speed_up,
                    "final": {metric: run.final(metric) for metric in run.curves},
                    **run.facts,
                    "stopped": run.stopped,
                }
                for name, run, time, speed_up in zip(self.names, self.runs, self.times, self.speed_ups, strict=True)
            ],
            "notes": self.notes,
        }

    def draw(
        self, folder: Path, formats: Sequence[str] = ("png", "svg"), title: str = "", access: Access = "private"
    ) -> list[Path]:
        """Draw the training loss over time, a metric on the test samples if there is one, and the time of a step.

        Raises:
            InvalidArgument: if a format is not known.
            MissingExtra: if matplotlib is not installed.
        """
        formats, metric = canvas.check_formats(formats), self.metric
        metrics = [LOSS] if metric == LOSS else [LOSS, metric]
        with canvas.drawing():
            path = canvas.prepare_folder(folder, access)
            figure = canvas.new_figure(5.0 * len(metrics) + 4.4, 4.4 + 0.24 * len(self.runs), title)
            panels: list[Axes] = list(figure.subplots(1, len(metrics) + 1))
            for axes, name in zip(panels, metrics, strict=False):
                self._draw_curve(axes, name)
            handles, labels = panels[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower left", ncols=3, title="Run", alignment="left")
            self._draw_steps(panels[-1])
            return canvas.save(figure, path, PICTURE, formats, access)

    def _draw_curve(self, axes: Axes, metric: str) -> None:
        unit = time_unit([run.seconds for run in self.runs])
        points = [np.array(run.curves.get(metric, ())).reshape(-1, 2) for run in self.runs]
        curves = [(own[:, 0], own[:, 1]) for own in points]
        styles = [canvas.run_style(index) for index in range(len(curves))]
        clock = measures.clock_of([run.virtual for run in self.runs])
        measures.draw_over_time(axes, self.names, curves, styles, clock, unit, measures.log_edge(curves))
        aim = self.target if self.target is not None and self.target[0] == metric else None
        if aim is not None:
            axes.axhline(aim[1], color=INK, linewidth=1.0, linestyle=(0, (1, 2)))
        measures.limit_values(axes, [values for _, values in curves], aim, measures.lower_is_better(metric))
        axes.set_title("Training loss" if metric == LOSS else f"Test {measures.metric_name(metric)}")

    def _draw_steps(self, axes: Axes) -> None:
        unit = time_unit([run.seconds_per_step for run in self.runs])
        values = [run.seconds_per_step / unit.size for run in self.runs]
        colours = [canvas.run_style(index).colour for index in range(len(values))]
        canvas.named_bars(axes, [measures.shorten(name, 40) for name in self.names], values, colours, unit.name)
        axes.set_xlabel(f"mean time ({unit.name})")
        axes.set_title("Time of a step")

    def _columns(self) -> list[Column]:
        columns = [
            Column(("Run",), self.names),
            Column(("Workers",), [str(run.workers) for run in self.runs]),
            Column(("Steps",), [f"{run.steps:.0f}" for run in self.runs]),
            *race_columns([run.seconds_per_step for run in self.runs], self.times, self.speed_ups, self.target),
            Column(("Final", "loss"), final_values([run.final(LOSS) for run in self.runs])),
        ]
        if self.metric != LOSS:
            finals = final_values([run.final(self.metric) for run in self.runs])
            columns.append(Column(("Final", measures.metric_name(self.metric)), finals))
        return columns


def _common_metric(runs: Sequence[FinishedRun]) -> str:
    """Return the preferred metric that all runs have measured, or the loss."""
    measured = [[metric for metric, curve in run.curves.items() if curve and metric != LOSS] for run in runs]
    return measures.common_metric(measured) or LOSS


def common_target(runs: Sequence[FinishedRun]) -> tuple[str, float] | None:
    """Return a target that every run has reached: 95% of the way from the first model to the worst run's best one.

    Returns:
        Metric and value, to four digits; None if a run has not improved.
    """
    metric = _common_metric(runs)
    curves = [[value for _, value in run.curves.get(metric, ())] for run in runs]
    value = None if not all(curves) else measures.reached_by_all(curves, metric)
    return None if value is None else (metric, value)
