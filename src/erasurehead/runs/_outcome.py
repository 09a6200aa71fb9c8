"""The outcome of a comparison: its table, figures and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from erasurehead._internal.documents import PlainData
from erasurehead.reports._canvas import Axes
from erasurehead.reports._descents import GAPS, Descent
from erasurehead.reports._panels import ComparedRuns
from erasurehead.reports._rendering import to_html
from erasurehead.runs._alone import Alone
from erasurehead.runs._heard_once import HeardOnce


@dataclass(frozen=True)
class Outcome:
    """The outcome of a comparison.

    Attributes:
        title: what was compared.
        compared: the runs beside each other, with a row for each.
        folder: folder of the comparison.
        folders: the folder of each run.
        figures: the files written.
        alone: how long the same problem takes on one machine; empty if that was not tried.
        descents: how near each run came to the least objective, and when; empty if objectives are out of reach.
        pays: from which time of a pass over the data on distributing pays, as sentences; empty if that is not known.
        heard: how soon each gap can be reached at the earliest; empty if that is not known.
    """

    title: str
    compared: ComparedRuns
    folder: Path
    folders: tuple[Path, ...]
    figures: tuple[Path, ...] = ()
    alone: tuple[Alone, ...] = ()
    descents: tuple[Descent, ...] = ()
    pays: str = ""
    heard: Mapping[float, HeardOnce] = field(default_factory=dict[float, HeardOnce])

    def __repr__(self) -> str:
        return f"Outcome({self.title}: {', '.join(self.compared.names)})"

    def _repr_html_(self) -> str:
        return to_html(self.compared.rows, self.title)

    def plot(self, ax: Axes | None = None, kind: str = "progress") -> Axes:
        """Draw the runs, as `ComparedRuns.plot` does, and return the axes."""
        return self.compared.plot(ax, kind)

    @property
    def _ends(self) -> list[str]:
        return [run.summary.get("status", run.status) for run in self.compared.runs]

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the last run, so that the following ones were left out."""
        return "interrupted" in self._ends

    @property
    def failures(self) -> tuple[str, ...]:
        """For each scheme that could not be trained to the end, its name and the reason, in a sentence."""
        ended = zip(self.compared.rows, self._ends, strict=True)
        return tuple(f"{row.scheme}: {row.stopped}" for row, end in ended if end not in ("finished", "interrupted"))

    def as_dict(self) -> PlainData:
        """Return the outcome as plain data."""
        basis = self.compared.rows[0].basis
        return {
            "title": self.title,
            "target": None if basis.target is None else {"metric": basis.target[0], "value": basis.target[1]},
            "speed_up": {"compared": basis.compared, "baseline": basis.baseline},
            "final_metric": basis.metric,
            "schemes": [
                {**{key: value for key, value in asdict(row).items() if key != "basis"}, "folder": str(folder)}
                for row, folder in zip(self.compared.rows, self.folders, strict=True)
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
