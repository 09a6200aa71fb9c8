"""What notebooks show of runs, and the pictures of one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from statistics import fmean
from typing import cast

from erasurehead._internal.documents import Entries
from erasurehead.reports import _html as html, _measures as measures
from erasurehead.reports._canvas import Axes
from erasurehead.reports._panels import ComparedRuns
from erasurehead.reports._units import NOTHING
from erasurehead.training import Run

_MOST_METRICS = 20
_MOST = 10_000
"""Steps up to which all are read for what happened to workers; of longer runs, 200 are looked at."""

_FACTS = (
    *("status", "reason", "scheme", "code", "policy", "graph", "engine", "workers", "peers", "steps", "seconds"),
    *("seconds_per_step", "workers_waited_for", "coverage", "loss", "first_objective", "objective", "distance"),
    *("messages", "deaths"),
)
"""What is shown of a summary, in this order."""

_OF_PEERS = {"steps": "Steps of all peers", "seconds_per_step": "Seconds per step of a peer"}
"""What some of it is called without a coordinator."""


def summary_page(title: str, summary: Entries, more: Iterable[tuple[str, str]] = (), below: str = "") -> str:
    """Return the figures of a whole run as HTML.

    Arguments:
        title: above the table.
        summary: as `summary.json` has it. What is of another type than there is left out, as it may be anybody's file.
        more: further facts.
        below: HTML that follows.
    """
    metrics = summary.get("metrics")
    tested: Entries = cast("Entries", metrics) if isinstance(metrics, Mapping) else {}
    of_peers = _OF_PEERS if "peers" in summary else {}
    values: Entries = {
        **{of_peers.get(name) or name.replace("_", " ").capitalize(): summary.get(name) for name in _FACTS},
        **{f"Test {measures.metric_name(name)}": tested[name] for name in islice(tested, _MOST_METRICS)},
    }
    rows = [(name, _text(value)) for name, value in values.items()]
    return html.table(title, [row for row in (*rows, *more) if row[1]], below=below)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else NOTHING
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else ""


def run_page(run: Run) -> str:
    """Return a run as HTML: how it ended, how long it took, how good the model is, what happened, and the loss."""
    rows = [run.steps[place] for place in html.sampled(len(run.steps))]
    losses = [math.nan if row.loss is None or row.rejected else row.loss for row in rows]
    final, told = run.final, run.notices if len(run.steps) <= _MOST else []
    summary = {
        "status": run.status,
        "reason": run.stopped,
        "engine": run.engine,
        "steps": run.steps_taken,
        "seconds": run.seconds,
        "seconds_per_step": run.seconds_per_step,
        "metrics": run.evaluations[-1].metrics if run.evaluations else None,
    }
    if rows:
        summary |= {
            "workers": rows[-1].workers,
            "workers_waited_for": fmean(row.arrived for row in rows),
            "coverage": fmean(row.coverage for row in rows),
            "loss": losses[-1],
        }
    if final is not None:
        summary |= {"first_objective": final.first_objective, "objective": final.objective}
    notices = [("Notice" if one.step is None else f"In step {one.step + 1}", one.text) for one in told[-5:]]
    more = [("Notices before", f"{len(told) - 5:,}")] if len(told) > 5 else []
    curve = html.curve(losses, "loss over the steps, as estimated from the messages")
    return summary_page(f"Run of {run.scheme}", summary, [*more, *notices], curve)


def plot_run(run: Run, ax: Axes | None, kind: str) -> Axes:
    """Draw a run: see `Run.plot`."""
    return ComparedRuns.of([run]).plot(ax, kind)
