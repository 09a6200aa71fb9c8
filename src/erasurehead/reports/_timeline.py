"""Timelines: the work of each worker in the first steps, with one time axis for all runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from erasurehead.reports import _measures as measures
from erasurehead.reports._canvas import FAINT, INK, Axes, Figure, line_key, patch_key, whole_ticks
from erasurehead.training import ArrivalRow, Run

MessageUse: TypeAlias = Literal["used", "spare", "late"]

MESSAGE_USES: dict[MessageUse, tuple[str, str]] = {
    "used": ("#009E73", "arrived, used"),
    "spare": ("#A6DCCB", "arrived, not needed"),
    "late": ("#EDB458", "late, not waited for"),
}


@dataclass(frozen=True)
class WorkInterval:
    """The work of one worker on one message.

    Attributes:
        worker: id of the worker.
        begin: when it began, in seconds since training began.
        end: when its message arrived, or when the step ended if it did not.
        use: whether the message was used.
    """

    worker: int
    begin: float
    end: float
    use: MessageUse


def work_intervals(run: Run, until: float) -> list[WorkInterval]:
    """Return the work of all workers in the steps that began before a time.

    The work on a message that arrived late ends when it arrived.

    Arguments:
        run: a run with its arrivals.
        until: in seconds since training began.
    """
    submitted = {row.round: row.begin for row in run.steps if row.begin < until}
    late_arrivals: dict[tuple[int, int], ArrivalRow] = {
        (row.round, row.message): row for row in run.arrivals if row.late
    }
    intervals: list[WorkInterval] = []
    for row in run.arrivals:
        begin = submitted.get(row.round)
        if begin is None or row.late:
            continue
        use: MessageUse = "late" if row.censored else "used" if row.used else "spare"
        arrival = late_arrivals.get((row.round, row.message), row)
        intervals.append(WorkInterval(row.worker, begin + (arrival.started or 0.0), begin + arrival.seconds, use))
    return intervals


def visible_seconds(runs: Sequence[Run], steps: int = 3, max_steps: int = 40) -> float:
    """Return the seconds to show: some steps of the slowest run, but not too many of the fastest one.

    Arguments:
        runs: the runs.
        steps: number of steps of the slowest run.
        max_steps: largest number of steps of the fastest run.
    """
    slowest = max((run.steps[min(steps, len(run.steps)) - 1].end for run in runs if run.steps), default=1.0)
    fastest = min((run.steps[max_steps - 1].end for run in runs if len(run.steps) >= max_steps), default=slowest)
    return min(slowest, fastest) or slowest or 1.0  # steps may take no time on a virtual clock


def draw_timeline(axes: Axes, run: Run, until: float, title: str) -> None:
    """Draw one run: a row per worker, a bar per message, and a vertical line at the end of each step.

    Arguments:
        axes: the axes to draw into.
        run: the run.
        until: seconds to show.
        title: title of the panel.
    """
    intervals = work_intervals(run, until)
    for use, (colour, _) in MESSAGE_USES.items():
        bars: dict[int, list[Any]] = {}  # by worker: there may be thousands, drawn as a collection
        for one in intervals:
            if one.use == use:
                bars.setdefault(one.worker, []).append((one.begin, one.end - one.begin))
        for worker, own in bars.items():
            axes.broken_barh(own, (worker - 0.4, 0.8), facecolor=colour, linewidth=0)
    ends = [row.end for row in run.steps if row.end <= until]
    bottom = max(measures.n_workers(run), 1) - 0.5
    axes.vlines(ends, -0.5, bottom, color=INK, linewidth=0.8)
    axes.set_xlim(0, until)
    axes.set_ylim(bottom, -0.5)
    whole_ticks(axes.yaxis)
    axes.set_title(title)
    axes.set_ylabel("worker")


def add_timeline_legend(drawn: Figure | Axes, **place: Any) -> None:
    """Add a legend of the colours above the panels.

    Arguments:
        drawn: the figure; or the axes, if there is but one panel.
        place: where to put it instead.
    """
    handles = [patch_key(colour, label) for colour, label in MESSAGE_USES.values()]
    handles += [patch_key("white", "idle", edge=FAINT), line_key(INK, "step ends")]
    drawn.legend(
        handles=handles,
        handlelength=1.2,
        columnspacing=1.4,
        title="Each worker's answers, one bar each",
        alignment="left",
        **{"loc": "outside upper left", "ncols": 5, **place},
    )
