"""Entries from the records of a run, merged into the journal: what counts is what a user could read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from erasurehead.errors import ErasureHeadError
from erasurehead.runs.folder import RunFolder
from erasurehead.training.notices import NoticeKind

_ENTRIES: Mapping[NoticeKind, str] = {
    "died": "died",
    "joined": "joined",
    "suspected": "suspected",
    "lied": "named",
    "refused": "refused",
}
"""The name of the journal entry for each kind of notice. In journals, `lied` means that a lie was delivered."""


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Return the notices about workers in the records of a run, and whether it went on without records, as entries."""
    try:
        run = RunFolder.open(folder)
        rows, summary = run.step_rows(), run.summary
    except ErasureHeadError:
        return []
    entries: list[dict[str, Any]] = [
        {"what": _ENTRIES[notice.kind], "time": notice.time, "worker": worker, "text": notice.reason}
        for row in rows
        for notice in row.notices
        if notice.kind in _ENTRIES
        for worker in notice.workers
    ]
    entries += [{"what": "resumed", "time": 0.0, "step": int(step)} for step in summary.get("resumed", ())]
    if summary.get("unrecorded"):
        last = rows[-1].end if rows else 0.0
        entries.append({"what": "unrecorded", "time": last, "text": str(summary["unrecorded"])})
    return entries


def merged(journal: Iterable[dict[str, Any]], records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a journal with what the records tell in its place: in the last life that was there at its time.

    Arguments:
        journal: of what was done to the run, by its lives, one after the other.
        records: as `recorded` returns them; they are those of the run as it ended.
    """
    lives: list[list[dict[str, Any]]] = []
    for entry in journal:
        if entry["what"] == "life" or not lives:
            lives.append([])
        lives[-1].append(entry)
    begins = [float(life[0]["time"]) for life in lives]
    for entry in records:
        index = max((number for number, begin in enumerate(begins) if begin <= entry["time"]), default=0)
        if lives:
            lives[index].append(entry)
    return [entry for life in lives for entry in (life[0], *sorted(life[1:], key=lambda one: float(one["time"])))]
