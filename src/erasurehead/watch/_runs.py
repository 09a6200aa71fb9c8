"""Runs that are watched: what is known of each, as plain data. The page puts it into words and figures."""

from __future__ import annotations

import base64
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.documents import Entries, PlainData, from_json
from erasurehead._internal.storage.checksums import check_beside
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import DataError
from erasurehead.optimizers._order_kinds import kind_of
from erasurehead.runs import RunFolder
from erasurehead.runs._locks import is_locked
from erasurehead.runs._names import EVALUATIONS, LOCK, MEANS, PEERS, STEPS, VIEW_CHANGES, WAITING
from erasurehead.watch._answers import answers
from erasurehead.watch._columns import (
    MOST_WORKERS,
    GrowingColumns,
    WorkerSets,
    curve,
    entries,
    newest,
    number,
    numbers,
)
from erasurehead.watch._metrics import Sample
from erasurehead.watch._tail import Tail

NOBODY, GONE = 254, 255
"""Cells of a heat map in which a worker was not there yet, or was dead; others hold percentages."""

STATES = {"w": "working", "-": "waiting", "l": "late", "s": "suspected", "a": "put aside", "x": "dead"}
"""What a worker does, by the letter that stands for it."""

_RECENT = 50  # steps over which it is counted how often workers are late
_MOST_NOTICES = 300  # that the page is told of, the newest ones
_MOST_METRICS = 8
_FIGURES = {"loss": "loss", "wait_seconds": "waited", "residual": "residual"}  # that are told of the newest step
_MOST_RANKS = 4096  # of a team of networks

Seconds = tuple[float, float]

Files = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Excerpt:
    """What part of a run to show, and how finely.

    Attributes:
        begin, end: in seconds since training began; None for where the run begins and ends.
        low, high: the first worker, and one more than the last; None for all.
        points: the most points of a curve.
        columns: columns of the heat map.
        bars: the most single answers to draw.
        newest: whether to have those of the newest steps where there are more, rather than none.
    """

    begin: float | None = None
    end: float | None = None
    low: float | None = None
    high: float | None = None
    points: int = 800
    columns: int = 400
    bars: int = 6000
    newest: bool = False


class WatchedRun:
    """A run with a coordinator that is watched, or another kind of run, by what it overrides.

    Arguments:
        place: its folder, or file.

    Attributes:
        seconds: of training, as far as it was recorded.
        live: whether it is in progress.
        problem: what is wrong with its files, as a sentence; empty if nothing is.
        faults: those that a drill inflicts on it, as notices.
    """

    kind = "run"
    files: ClassVar[Files] = {
        STEPS: ("step", "round", "begin", "waited", "end", "residual", "received", "loss", "few"),
        EVALUATIONS: ("time",),
    }

    def __init__(self, place: Path) -> None:
        self.place = place
        self.problem = ""
        self.faults: list[Entries] = []
        self.live, self._about = False, PlainData()
        self.begin()

    def begin(self) -> None:
        """Begin anew with the first line."""
        self._tails = {name: Tail(self.place / name) for name in self.files}
        self.columns = {name: GrowingColumns(*names) for name, names in self.files.items()}
        self.seconds, self._n_workers = 0.0, 0
        self._missing, self._dead = WorkerSets(), WorkerSets()
        self._notices, self._n_notices = list[Entries](), 0
        self._flags: dict[int, str] = {}
        self._metrics: dict[str, GrowingColumns] = {}
        self._checked = False  # whether the rows of a run that is over are those that it wrote

    def read(self) -> bool:
        """Take in some more of what was recorded; return whether there may be more to read at once.

        Raises:
            OSError: if it cannot be read any more.
            DataError: if it is damaged.
        """
        more = False
        for name, tail in self._tails.items():
            rows = tail.read()
            if rows is None:  # the run was resumed from a checkpoint, or another one has taken its place
                self.begin()
                return True
            for row in rows:
                self._take(name, row)
            more |= bool(rows)
        return more

    def look(self) -> bool:
        """Read settings and summary; return whether the run is in progress.

        Raises:
            OSError: if its folder is gone.
            DataError: if they are damaged.
        """
        with Folder.open(self.place) as folder:
            self.live = folder.kind(LOCK) == "file" and is_locked(self.place / LOCK)
            holder = folder.read(LOCK, 32).decode(errors="replace").strip() if self.live else ""
        known = RunFolder.open(self.place)
        self._about = {"holder": holder, "summary": known.summary, "tables": known.tables}
        for name in ("workers", "peers"):
            workers = number(known.summary, name)
            self._n_workers = max(self._n_workers, int(workers) if 0 < workers < MOST_WORKERS else 0)
        if not (self.live or self._checked):
            for file in self.files:
                check_beside(self.place / file)
            self._checked = True
        return self.live

    def _take(self, name: str, row: Entries) -> None:
        """Take in a row of a file."""
        for metric, value in entries(row.get("metrics")).items():
            if metric in self._metrics or len(self._metrics) < _MOST_METRICS:
                column = self._metrics.setdefault(metric, GrowingColumns("time", "value"))
                column.add({"time": row.get("time"), "value": value})
        if name == STEPS:
            missing, dead = numbers(row, "missing"), numbers(row, "dead")
            few = kind_of(str(row.get("kind"))).few
            self._add(name, {**row, "few": few, "loss": None if row.get("rejected") is True else row.get("loss")})
            self._missing.add(missing)
            self._dead.add(dead)
            workers = number(row, "workers")
            most = max(missing.max(initial=-1), dead.max(initial=-1)) + 1
            self._n_workers = max(self._n_workers, int(most), int(workers) if 0 < workers < MOST_WORKERS else 0)
            told = row.get("notices")
            for notice in map(entries, cast("list[Any]", told) if isinstance(told, list) else ()):
                self._notice(notice)

    def _add(self, name: str, row: Entries) -> None:
        self.columns[name].add(row)
        self.seconds = np.fmax(self.seconds, number(row, "end")).item()

    def _notice(self, notice: Entries) -> None:
        worker = notice.get("worker")
        if type(worker) is int and 0 <= worker < MOST_WORKERS:
            self._flags[worker] = str(notice.get("kind"))
        self._n_notices += 1
        self._notices = [*self._notices[1 - _MOST_NOTICES :], notice]

    def about(self) -> PlainData:
        """Return how the run stands."""
        return {
            "name": self.place.name,
            "path": str(self.place.absolute()),
            "kind": self.kind,
            "live": self.live,
            "problem": self.problem,
            "seconds": self.seconds,
            "n_workers": self._n_workers,
            "read": [sum(tail.done for tail in self._tails.values()), sum(tail.size for tail in self._tails.values())],
            "notices": [*merge(self.faults, self._notices, key=lambda notice: number(notice, "time"))],
            "n_notices": len(self.faults) + self._n_notices,
            **self._about,
            **(now := self._now()),
            "states": "".join(self._states(now)),
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how the run stands, as numbers by name."""
        about, labels = self.about(), {"run": self.place.name}
        for name, value in {
            "live": self.live,
            "steps": about["steps"],
            "seconds": self.seconds,
            **self._newest(),
        }.items():
            yield name, labels, float(value)
        for metric, column in self._metrics.items():
            yield "metric", {**labels, "metric": metric}, newest(column["value"])
        for state, said in STATES.items():
            yield "workers", {**labels, "state": said}, float(about["states"].count(state))

    def _newest(self) -> dict[str, float]:
        """Return the newest figures of the run."""
        columns = self.columns[STEPS]
        received = columns["received"]
        total = float(np.nansum(received)) if np.isfinite(received).any() else math.nan
        values = {name: newest(columns[column]) for name, column in _FIGURES.items()}
        return {**values, "received_bytes_total": total}

    def _states(self, now: Entries) -> Array:
        """Return what each worker does, as letters."""
        states = self._doing(now)
        states[[worker for worker in now["dead"] if worker < len(states)]] = "x"
        for worker, kind in self._flags.items():
            if kind in ("suspected", "lied") and worker < len(states):
                states[worker] = "s" if kind == "suspected" else "a"
        return states

    def _doing(self, now: Entries) -> Array:
        """Return what each worker does who is there."""
        states: Any = np.full(self._n_workers, "w" if self.live else "-")
        if not now["waits"]:
            states[now["missing"]] = "l"
            return states
        asked = numbers(now["waiting"], "missing")
        asked = asked[asked < self._n_workers]
        overdue = number(now["waiting"], "waited") > 2.0 * (now["usual"] or 0.0)
        states[:] = "-"
        states[asked] = "w"
        states[asked if overdue else np.intersect1d(asked, now["missing"])] = "l"
        return states

    def _now(self) -> PlainData:
        """Return what is known of the last steps and of the one that the run is in."""
        columns = self.columns[STEPS]
        steps, n = len(columns), self._n_workers
        waiting: Entries = {}
        with contextlib.suppress(OSError, ValueError, DataError), Folder.open(self.place) as folder:
            if self.live and folder.kind(WAITING):
                found = entries(from_json(folder.read(WAITING, 1 << 20)))
                waiting = {**found, "missing": numbers(found, "missing").tolist()}
        following = float(columns["step"][-1] + 1) if steps else 0.0
        return {
            "steps": steps,
            "missing": np.flatnonzero(self._missing.counts(steps - 1, steps, n)).tolist(),
            "dead": np.flatnonzero(self._dead.counts(steps - 1, steps, n)).tolist(),
            "recent": self._missing.counts(steps - _RECENT, steps, n).tolist(),
            "of": min(steps, _RECENT),
            "usual": float(np.median(columns["waited"][-_RECENT:])) if steps else None,
            "waiting": waiting,
            "waits": number(waiting, "step") == following,
        }

    def view(self, excerpt: Excerpt) -> PlainData:
        """Return what to draw of a part of the run."""
        begin = 0.0 if excerpt.begin is None else excerpt.begin
        end = max(self.seconds if excerpt.end is None else excerpt.end, begin + 1e-9 + abs(begin) * 1e-9)
        low = int(min(max(0.0, excerpt.low or 0.0), max(0, self._n_workers - 1)))
        high = int(min(max(low + 1.0, excerpt.high or math.inf), self._n_workers))
        cells = self._cells((begin, end), low, high, excerpt.columns)
        return {
            "from": begin,
            "to": end,
            "low": low,
            "high": high,
            "columns": excerpt.columns,
            "heat": base64.b64encode(np.round(cells).astype(np.uint8).tobytes()).decode(),
            **self._answers((begin, end), low, high, excerpt),
            "curves": self.curves((begin, end), excerpt.points),
            "metrics": {
                name: curve(column["time"], column["value"], (begin, end), excerpt.points)
                for name, column in self._metrics.items()
            },
        }

    def curves(self, seconds: Seconds, points: int) -> PlainData:
        """Return the curves of a part of the run, by name."""
        columns = self.columns[STEPS]
        loss, few = columns["loss"], columns["few"] > 0
        sure = np.where(few, math.nan, loss)
        if not np.isfinite(sure).any():
            sure, few = loss, np.zeros_like(few)
        found = {name: curve(columns["end"], columns[name], seconds, points) for name in columns.names[3:7]}
        return {
            **found,
            "loss": curve(columns["begin"], sure, seconds, points),
            "few": curve(columns["begin"], np.where(few, loss, math.nan), seconds, points),
            "median": float(np.median(columns["waited"])) if len(columns) else None,
        }

    def _range(self, seconds: Seconds) -> tuple[int, int]:
        """Return the first step in a part of the run, by its place, and one more than the last."""
        columns = self.columns[STEPS]
        first = np.searchsorted(columns["end"], seconds[0], side="right")
        return int(first), int(np.searchsorted(columns["begin"], seconds[1]))

    def _answers(self, seconds: Seconds, low: int, high: int, excerpt: Excerpt) -> PlainData:
        """Return the single answers in a part of the run, with their steps, if there are not too many."""
        columns, (first, last) = self.columns[STEPS], self._range(seconds)
        fitting = excerpt.bars // max(1, high - low)
        left_out = max(0, last - fitting - first) if excerpt.newest else 0
        first += left_out
        if not 0 < last - first <= fitting:
            return {}
        step = columns["step"]
        return {
            "answers": answers(self.place, step[first], step[last - 1], low, high, excerpt.bars),
            "known": columns["begin"][first] if left_out else seconds[0],
            "steps": {name: columns[name][first:last].tolist() for name in ("round", "begin", "end")},
        }

    def _cells(self, seconds: Seconds, low: int, high: int, n_columns: int) -> Array:
        """Return in what percentage of the steps of each column of a heat map each worker was late."""
        cells = np.full((high - low, n_columns), float(NOBODY))
        edges = np.linspace(*seconds, n_columns + 1)
        before, found = (0, 0), cells[:, 0]
        for column in range(n_columns):
            first, last = self._range((edges[column], edges[column + 1]))
            if first < last:
                if before != (first, last):  # a long step fills several columns
                    gone = self._dead.counts(first, last, high)[low:] == last - first
                    late = self._missing.counts(first, last, high)[low:] * (100.0 / (last - first))
                    before, found = (first, last), np.where(gone, GONE, late)
                cells[:, column] = found
        return cells


class WatchedPeers(WatchedRun):
    """A run without a coordinator that is watched: peers compute, wait for some neighbours, and average with them."""

    kind = "peers"
    files: ClassVar[Files] = {
        PEERS: ("peer", "begin", "ready", "end"),
        MEANS: ("time", "objective", "distance"),
        VIEW_CHANGES: ("time",),
    }

    def begin(self) -> None:
        super().begin()
        self._gone: list[tuple[float, IntArray]] = []

    def _take(self, name: str, row: Entries) -> None:
        super()._take(name, row)
        if name == VIEW_CHANGES:
            gone = numbers(row, "gone")
            self._gone.append((number(row, "time"), gone))
            self._notice({"kind": "view_change", "time": row.get("time"), "data": {"gone": gone[:20].tolist()}})
        if name == PEERS:
            (peer,) = numbers({"peer": [row.get("peer")]}, "peer").tolist()
            self._n_workers = max(self._n_workers, peer + 1)
        self._add(name, row)

    def _now(self) -> PlainData:
        columns, last = self.columns[PEERS], np.zeros(self._n_workers)
        peers = columns["peer"].astype(int)
        np.maximum.at(last, peers, columns["end"])
        counts = np.bincount(peers, minlength=self._n_workers)
        total = np.bincount(peers, columns["end"] - columns["begin"], self._n_workers)
        return {
            "steps": len(peers) / max(1, self._n_workers),
            "dead": self._gone[-1][1].tolist() if self._gone else [],
            "last": last.tolist(),
            "lengths": (total / np.maximum(counts, 1)).tolist(),
        }

    def _by_peer(self, low: int, high: int) -> list[Array]:
        """Return the rows of some peers, each of shape (3, steps): when one began, was ready, and had mixed."""
        columns = self.columns[PEERS]
        order = np.argsort(columns["peer"], kind="stable")
        cuts = np.searchsorted(columns["peer"][order], np.arange(low, high + 1))
        rows = np.stack([columns[name][order] for name in columns.names[1:]])
        return np.split(rows, cuts, axis=1)[1:-1]

    def _newest(self) -> dict[str, float]:
        columns, objective = self.columns[PEERS], self.columns[MEANS]["objective"]
        return {"loss": newest(objective), "wait_seconds": newest(columns["end"] - columns["ready"])}

    def _doing(self, now: Entries) -> Array:
        silent = self.seconds - np.array(now["last"]) > 3.0 * np.array(now["lengths"])
        return np.where(silent & self.live, "l", "w" if self.live else "-")

    def curves(self, seconds: Seconds, points: int) -> PlainData:
        columns, means = self.columns[PEERS], self.columns[MEANS]
        order = np.argsort(columns["end"], kind="stable")
        return {
            "loss": curve(means["time"], means["objective"], seconds, points),
            "distance": curve(means["time"], means["distance"], seconds, points),
            "waited": curve(columns["end"][order], (columns["end"] - columns["ready"])[order], seconds, points),
        }

    def _answers(self, seconds: Seconds, low: int, high: int, excerpt: Excerpt) -> PlainData:
        shown = [rows[:, (rows[2] > seconds[0]) & (rows[0] < seconds[1])] for rows in self._by_peer(low, high)]
        fits = sum(rows.shape[1] for rows in shown) <= excerpt.bars
        return {"turns": [rows.tolist() for rows in shown]} if fits else {}

    def _cells(self, seconds: Seconds, low: int, high: int, n_columns: int) -> Array:
        """Return in what percentage of the time of each column of a heat map each peer waited."""
        cells, edges = np.full((high - low, n_columns), float(NOBODY)), np.linspace(*seconds, n_columns + 1)
        for peer, rows in enumerate(self._by_peer(low, high)):
            if rows.size:
                waited = np.repeat(np.cumsum(rows[2] - rows[1]), 2)  # until a step is ready, and until it has ended
                until = np.interp(edges, rows[1:].T.ravel(), np.append(0.0, waited[:-1]))
                there = (edges[1:] > rows[0, 0]) & (edges[:-1] < rows[2, -1])
                cells[peer, there] = np.clip(np.diff(until) / np.diff(edges) * 100.0, 0.0, 100.0)[there]
        for (time, gone), until in zip(self._gone, [*(later for later, _ in self._gone[1:]), math.inf], strict=False):
            out = gone[(gone >= low) & (gone < high)] - low
            cells[np.ix_(out, np.flatnonzero((edges[1:] > time) & (edges[:-1] < until)))] = GONE
        return cells


class WatchedTeam(WatchedRun):
    """A team of networks that is watched, by the file that `record=` of `team.optimizer` names.

    Each version of its model is a step, for which the ranks that added nothing were late.
    """

    kind = "team"
    files: ClassVar[Files] = {STEPS: WatchedRun.files[STEPS]}

    def begin(self) -> None:
        super().begin()
        self._tails = {STEPS: Tail(self.place)}
        self._steps: Mapping[int, float] = {}
        self._clock = 0.0

    def look(self) -> bool:
        with Folder.open(self.place.parent) as folder:
            folder.check_file(self.place.name)
        return False

    def _take(self, name: str, row: Entries) -> None:
        now, told, members = number(row, "seconds"), entries(row.get("steps")), set(numbers(row, "members").tolist())
        steps = {rank: number(told, str(rank)) for rank in range(_MOST_RANKS) if str(rank) in told}
        added = {rank for rank, count in steps.items() if count > self._steps.get(rank, 0.0)}
        # Clocks of ranks that gather one after the other differ, so only the time between versions counts.
        begin, end = self.seconds, self.seconds + max(0.0, now - self._clock if self._steps else 0.0)
        self._clock, self._steps = now, {**self._steps, **steps}
        version = {"step": row.get("version"), "begin": begin, "end": end, "waited": end - begin}
        missing, dead = sorted(members - added), sorted(self._steps.keys() - members)
        super()._take(STEPS, {**version, "missing": missing, "dead": dead, "workers": max(self._steps, default=-1) + 1})

    def _answers(self, seconds: Seconds, low: int, high: int, excerpt: Excerpt) -> PlainData:
        return {}


def of_place(place: Path) -> WatchedRun:
    """Return the run in a folder, or the team whose record a file is."""
    if place.is_file():
        return WatchedTeam(place)
    with Folder.open(place) as folder:
        kind: Callable[[Path], WatchedRun] = WatchedPeers if folder.kind(PEERS) else WatchedRun
    return kind(place)
