"""The outcome of a comparison: its table, figures and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from erasurehead._internal.documents import PlainData
from erasurehead.reports._descents import GAPS, Descent
from erasurehead.reports._measures import Aim
from erasurehead.reports._panels import ComparedRuns
from erasurehead.reports._rendering import to_html
from erasurehead.reports._table import ComparisonRow
from erasurehead.runs._alone import Alone
from erasurehead.runs._folder import RunFolder
from erasurehead.runs._heard_once import HeardOnce


@dataclass(frozen=True)
class Outcome:
    """The outcome of a comparison.

    Attributes:
        title: what was compared.
        target: metric and value of the target; None if there is none that all runs reach.
        rows: one per run.
        figures: the files written.
        folder: folder of the comparison.
        runs: the run folders.
        failures: for each scheme that could not be trained to the end, its name and the reason, in a sentence.
        interrupted: whether the user stopped the last run, so that the following ones were left out.
        alone: how long the same problem takes on one machine; empty if that was not tried.
        descents: how near each run came to the least objective, and when; empty if objectives are out of reach.
        pays: from which time of a pass over the data on distributing pays, as sentences; empty if that is not known.
        heard: how soon each gap can be reached at the earliest; empty if that is not known.
    """

    title: str
    target: Aim | None
    rows: tuple[ComparisonRow, ...]
    figures: tuple[Path, ...]
    folder: Path
    runs: tuple[Path, ...]
    failures: tuple[str, ...] = ()
    interrupted: bool = False
    alone: tuple[Alone, ...] = ()
    descents: tuple[Descent, ...] = ()
    pays: str = ""
    heard: Mapping[float, HeardOnce] = field(default_factory=dict[float, HeardOnce])

    def __repr__(self) -> str:
        return f"Outcome({self.title}: {', '.join(row.scheme for row in self.rows)})"

    def _repr_html_(self) -> str:
        return to_html(self.rows, self.title)

    def plot(self, ax: Any = None, kind: str = "progress") -> Any:
        """Draw the runs, which are read from their folders, as `ComparedRuns.plot` does, and return the axes.

        Arguments:
            ax: where to draw; by default in a new figure.
            kind: `"progress"`, `"step_times"` or `"speed_up"`.

        Raises:
            DataError: if a folder is gone or damaged.
            InvalidArgument: if there is no such picture, or `ax` is something else.
            MissingExtra: if matplotlib is not installed.
        """
        return ComparedRuns([RunFolder.open(folder).run for folder in self.runs], self.rows).plot(ax, kind)

    def as_dict(self) -> PlainData:
        """Return the outcome as plain data."""
        basis = self.rows[0].basis
        return {
            "title": self.title,
            "target": None if self.target is None else {"metric": self.target[0], "value": self.target[1]},
            "speed_up": {"compared": basis.compared, "baseline": basis.baseline},
            "final_metric": basis.metric,
            "schemes": [
                {**{key: value for key, value in asdict(row).items() if key != "basis"}, "folder": str(folder)}
                for row, folder in zip(self.rows, self.runs, strict=True)
            ],
            "alone": [asdict(one) for one in self.alone],
            "seconds_to_gap": {one.scheme: {f"{gap:g}": one.seconds_to(gap) for gap in GAPS} for one in self.descents},
            "heard_once": {f"{gap:g}": asdict(one) for gap, one in self.heard.items()},
            "figures": [str(path) for path in self.figures],
            "folder": str(self.folder),
        }


def say_heard_once(heard: Mapping[float, HeardOnce]) -> str:
    """Say how soon each gap can be reached at the earliest; empty if that is not known."""
    alike: dict[HeardOnce, list[str]] = {}
    for gap, one in heard.items():
        alike.setdefault(one, []).append(f"{gap:g}")
    told = [
        f"a gap of {' or '.join(gaps)} takes {one.share:.0%} of them, {one.seconds:.2g} s with {one.scheme}"
        for one, gaps in alike.items()
    ]
    limit = "The physical limit is how long it takes on average until enough of the data can have been heard once: "
    return f"{limit}{'; '.join(told)}. Short delays at the start can bring a run below it." if told else ""
