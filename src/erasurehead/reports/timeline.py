"""Who was late: each worker's work in the first steps, on one clock for all runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from erasurehead.reports import measures
from erasurehead.reports.canvas import FAINT, INK, Axes, Figure, line_key, patch_key
from erasurehead.training.result import Run
from erasurehead.training.rows import ArrivalRow

Fate: TypeAlias = Literal["used", "spare", "late"]

FATES: dict[Fate, tuple[str, str]] = {
    "used": ("#009E73", "arrived, used"),
    "spare": ("#A6DCCB", "arrived, not needed"),
    "late": ("#EDB458", "late, not waited for"),
}


@dataclass(frozen=True)
class Stretch:
    """What one worker did for one message.

    Attributes:
        worker: its id.
        begin: when it began, in seconds since training began.
        end: when its message arrived; for a message that did not, when the step ended.
        fate: what became of the message.
    """

    worker: int
    begin: float
    end: float
    fate: Fate


def stretches(run: Run, until: float) -> list[Stretch]:
    """Return the work of all workers in the steps that began before a time.

    A message that was late but came in the end is late until it came.

    Arguments:
        run: with its arrivals.
        until: in seconds since training began.
    """
    submitted = {row.round: row.begin for row in run.steps if row.begin < until}
    came: dict[tuple[int, int], ArrivalRow] = {(row.round, row.message): row for row in run.arrivals if row.late}
    found: list[Stretch] = []
    for row in run.arrivals:
        begin = submitted.get(row.round)
        if begin is None or row.late:
            continue
        fate: Fate = "late" if row.censored else "used" if row.used else "spare"
        known = came.get((row.round, row.message), row)
        found.append(Stretch(row.worker, begin + (known.started or 0.0), begin + known.seconds, fate))
    return found


def window(runs: Sequence[Run], steps: int = 3, most: int = 40) -> float:
    """Return how many seconds to show: some steps of the slowest run, but not too many of the fastest."""
    slow = max((run.steps[min(steps, len(run.steps)) - 1].end for run in runs if run.steps), default=1.0)
    fast = min((run.steps[most - 1].end for run in runs if len(run.steps) >= most), default=slow)
    return min(slow, fast) or slow or 1.0  # on a virtual clock steps may take no time at all


def draw_timeline(axes: Axes, run: Run, until: float, title: str) -> None:
    """Draw one run: a line a worker, a bar a message, and a rule where each step ended.

    Arguments:
        axes: where.
        run: what.
        until: seconds to show.
        title: above it.
    """
    found = stretches(run, until)
    for fate, (colour, _) in FATES.items():
        bars = [item for item in found if item.fate == fate]
        axes.barh(
            [item.worker for item in bars], [item.end - item.begin for item in bars], height=0.8,
            left=[item.begin for item in bars], color=colour,
        )  # fmt: skip
    ends = [row.end for row in run.steps if row.end <= until]
    bottom = max(measures.n_workers(run), 1) - 0.5
    axes.vlines(ends, -0.5, bottom, color=INK, linewidth=0.8)
    axes.set_xlim(0, until)
    axes.set_ylim(bottom, -0.5)
    axes.set_title(title)
    axes.set_ylabel("worker")


def explain_timeline(figure: Figure) -> None:
    """Say above the panels what the colours mean."""
    keys = [patch_key(colour, label) for colour, label in FATES.values()]
    keys += [patch_key("white", "idle", edge=FAINT), line_key(INK, "step ends")]
    figure.legend(handles=keys, loc="outside upper left", ncols=5, handlelength=1.2, columnspacing=1.4)
