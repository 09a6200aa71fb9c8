"""The run folder: everything that a run writes, and reading it back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, cast

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.atomic_files import unwritable
from erasurehead._internal.documents import Entries, PlainData, from_json, from_toml
from erasurehead._internal.storage.access import Access
from erasurehead._internal.storage.checksums import (
    CHECKSUMS,
    Checksum,
    Running,
    check_data,
    read_checksums,
    write_checksums,
)
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.typed import of_type, row_maker
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import DataError, InvalidArgument, unreadable
from erasurehead.runs._jsonl import LinesOnDisk, lines_in, to_text
from erasurehead.runs._names import (
    ARRIVALS,
    CONFIG,
    ENCODING,
    EVALUATIONS,
    MODEL,
    ROWS,
    STEPS,
    SUMMARY,
    make_folder,
    no_run_folder,
)
from erasurehead.training import ArrivalRow, StepRow

if TYPE_CHECKING:
    from erasurehead.datasets._preprocessing.encoding import Encoding
    from erasurehead.training import Run
    from erasurehead.training._result import Status
    from erasurehead.training._stopping import Ending

_Row = TypeVar("_Row")


class _Data(TypedDict, total=False):
    name: str
    train_rows: int
    fingerprint: str | None


class _Summary(TypedDict, total=False):
    """What is used of `summary.json`."""

    status: str
    reason: str
    scheme: str
    engine: str
    start_seconds: float | None
    data: _Data
    final: PlainData | None
    neglected: list[PlainData]
    ended: str | None
    measured: PlainData | None
    optimum: PlainData | None
    steps: int
    resumed: list[int]
    policy: str
    graph: str
    peers: int
    seconds: float
    seconds_per_step: float
    deaths: int
    workers_at_end: int | None


class _Section(TypedDict, total=False):
    source: str
    loss: str
    l2: float
    l1: float
    penalize_intercept: bool
    model: str
    hidden: int
    late: str
    initial: str
    engine: str
    workers: int


class _Tables(TypedDict, total=False):
    """What is used of `config.toml` without building the run again."""

    data: _Section
    problem: _Section
    consensus: _Section
    delays: _Section
    run: _Section


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run.

    ================== ==================================================================
    config.toml        all settings; a valid run file for `erasurehead train`
    steps.jsonl        one `StepRow` per line, written during the run
    arrivals.jsonl     one `ArrivalRow` per line, written during the run
    peers.jsonl        without a coordinator, one `PeerRow` per line instead; with
    means.jsonl        one `MeanRow` per line, and
    view_changes.jsonl     one `ViewChangeRow` per line
    evaluations.jsonl  one `Evaluation` per line, at the end
    model.safetensors  the last model, as the tensor `x`
    encoding.json      how raw rows become rows of the design matrix
    summary.json       status, versions, figures of the whole run
    checksums.json     checksums of these files, so that damage is noticed
    trackers.json      what trackers have shown of the run, where it has some
    checkpoints        checkpoints, during the run, and after it ended early
    .lock              during the run: keeps other runs out
    ================== ==================================================================

    Links, pipes and the like in place of its files are refused. Every file except for the last three is compared with
    its checksum when it is read.

    Arguments:
        path: of the folder.
        access: who may read what will be written into it.
    """

    path: Path
    access: Access = "private"

    @classmethod
    def create(cls, path: StrPath, overwrite: bool = False, access: Access = "private") -> Self:
        """Create a new run folder, with its parents.

        Arguments:
            path: path of the folder. An existing one keeps its mode.
            overwrite: whether to remove an earlier run in it.
            access: who may read it: only its owner (`"private"`), its `"group"`, or `"all"`.

        Raises:
            InvalidArgument: if it is already in use, or cannot be written to.
        """
        place = make_folder(path, overwrite, access)
        run = cls(place, access)
        with run._writing(STEPS) as folder:
            write_checksums(folder, {})
            os.close(folder.writable(STEPS))
        return run

    @classmethod
    def open(cls, path: StrPath, access: Access = "private") -> Self:
        """Open the folder of an earlier run, or of one that is still running.

        Arguments:
            path: of the folder.
            access: who may read what will be written into it.

        Raises:
            DataError: if there is none, or it was recorded by an earlier version, without checksums.
        """
        place = Path(path).expanduser()
        try:
            with Folder.open(place) as folder:
                if not folder.kind(STEPS):
                    raise DataError(f"{str(place)!r} is not a run folder: there is no {STEPS} in it.")
                folder.check_file(STEPS)
                read_checksums(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise no_run_folder(place, error) from None
        except OSError as error:
            raise unreadable(error.filename, error) from None
        return cls(place, access)

    def _repr_html_(self) -> str:
        from erasurehead.reports._run_pages import summary_page

        try:
            summary: Entries = self.summary or {"status": "under way, or cut off: there is no summary yet"}
            data: Entries = summary.get("data", {})
        except DataError as error:
            summary = {"status": "damaged", "reason": str(error)}
            data = {}
        return summary_page(f"Run in {self.path}", summary, [("Data", str(data.get("name", "")))])

    def plot(self, ax: Any = None, kind: str = "progress") -> Any:
        """Draw the run, as far as it was recorded, as `Run.plot` does, and return the axes.

        Arguments:
            ax: where to draw; by default in a new figure.
            kind: `"progress"`, `"step_times"` or `"timeline"`.

        Raises:
            DataError: if a file is damaged.
            InvalidArgument: if there is no such picture, `ax` is something else, the run has no steps yet, or it is one
                without a coordinator.
            MissingExtra: if matplotlib is not installed.
        """
        place = str(self.path)
        if "consensus" in self.tables:
            drawn = (
                "erasurehead consensus draws such runs, and erasurehead compare FOLDER FOLDER draws them side by side"
            )
            raise InvalidArgument(place, "must be a run with a coordinator to be drawn by plot", hint=drawn)
        run = self.run
        if not run.steps:
            raise InvalidArgument(place, "must have made a step to be drawn", hint="ask again when it has")
        return run.plot(ax, kind)

    @property
    def summary(self) -> PlainData:
        """The contents of `summary.json`; empty if it does not exist.

        Raises:
            DataError: if it cannot be read, or is damaged.
        """
        text = self._text(SUMMARY)
        try:
            content: Any = {} if text is None else from_json(text)
        except ValueError as error:
            raise DataError(f"{self.path / SUMMARY} cannot be read: {error}.") from None
        return cast("dict[str, Any]", of_type(_Summary, content, self.path / SUMMARY))

    @property
    def tables(self) -> PlainData:
        """The contents of `config.toml`; empty if it does not exist.

        Raises:
            DataError: if it cannot be read. It may have been edited: see `damage`.
        """
        text = self._text(CONFIG, check=False)
        try:
            content = {} if text is None else from_toml(text)
        except ValueError as error:
            raise DataError(f"{self.path / CONFIG} cannot be read: {error}.") from None
        return cast("dict[str, Any]", of_type(_Tables, content, self.path / CONFIG))

    def has(self, name: str) -> bool:
        """Return whether a file with this name exists."""
        with self._reading(name) as folder:
            return folder.kind(name) != ""

    def lost(self, name: str) -> bool:
        """Return whether a file that the run wrote exists no more."""
        with self._reading(name) as folder:
            return folder.kind(name) == "" and name in read_checksums(folder)

    def damage(self, name: str) -> str:
        """Return how a file differs from what was written, as a sentence; empty if it does not."""
        try:
            self._data(name)
        except DataError as error:
            return str(error)
        return ""

    @property
    def encoding(self) -> Encoding:
        """How raw rows become rows of the design matrix.

        Raises:
            DataError: if there is none, or it is damaged.
        """
        from erasurehead.datasets._preprocessing.encoding import Encoding

        text = self._text(ENCODING)
        if text is None:
            raise DataError(f"There is no {ENCODING} in {str(self.path)!r}.")
        return Encoding.from_json(text)

    @property
    def x(self) -> Array:
        """The last model, shape (n_parameters,).

        Raises:
            DataError: if there is none, because the run did not finish, or it is damaged.
        """
        from erasurehead._internal.tensor_files import model_in

        data = self._data(MODEL)
        if data is None:
            raise DataError(f"There is no {MODEL} in {str(self.path)!r}: the run was cut off, or is still going on.")
        return model_in(data, self.path / MODEL)

    @property
    def run(self) -> Run:
        """The run, as far as it was recorded; with an empty model if none was saved.

        Raises:
            DataError: if a file is damaged; a truncated last line does not count.
        """
        from erasurehead.training import Run
        from erasurehead.training._evaluator import Measured
        from erasurehead.training._optimum import Optimum
        from erasurehead.training._result import Evaluation, FinalModel
        from erasurehead.training._task_counts import Neglected

        summary, path = self.summary, self.path / SUMMARY
        steps, arrivals = self.step_rows(), self.arrival_rows()
        status: Status = summary.get("status", "running")
        return Run(
            scheme=str(summary.get("scheme", self.path.name)),
            engine=str(summary.get("engine", "")),
            x=self.x if self.has(MODEL) else np.empty(0),
            steps=steps,
            arrivals=arrivals,
            start_seconds=float(summary.get("start_seconds") or 0.0),
            evaluations=self.rows(EVALUATIONS, Evaluation),
            status=status,
            stopped="" if status == "finished" else str(summary.get("reason") or "cut off, or still going on"),
            final=None if (final := summary.get("final")) is None else of_type(FinalModel, final, path),
            neglected=[of_type(Neglected, row, path) for row in summary.get("neglected", ())],
            ended=cast("Ending | None", summary.get("ended")),
            measured=[] if (last := summary.get("measured")) is None else [of_type(Measured, last, path)],
            optimum=None if (least := summary.get("optimum")) is None else of_type(Optimum, least, path),
        )

    def step_rows(self) -> list[StepRow]:
        """Return the rows of the steps.

        Raises:
            DataError: if a line is damaged; a truncated last line does not count.
        """
        return self.rows(STEPS, StepRow)

    def arrival_rows(self) -> list[ArrivalRow]:
        """Return the rows of the messages.

        Raises:
            DataError: if a line is damaged; a truncated last line does not count.
        """
        return self.rows(ARRIVALS, ArrivalRow)

    def stored_lines(self, name: str, size: int) -> LinesOnDisk:
        """Return the lines in the first bytes (the size) of the file of this name, to be read when they are asked for.

        Raises:
            DataError: if the file cannot be read.
        """
        with self._reading(name) as folder:
            file = folder.opened(name)
            try:
                return LinesOnDisk.of(file, self.path / name, size)
            finally:
                os.close(file)

    def arrivals(self) -> list[PlainData]:
        """Return the lines of `arrivals.jsonl` as plain data.

        Raises:
            DataError: if a line is damaged; a truncated last line does not count.
        """
        return self._lines(ARRIVALS)

    def write(self, name: str, text: str) -> None:
        """Write a text as the file of this name atomically: readers find either the old one or the new one.

        Raises:
            RecordsError: if it cannot be written.
        """
        self._write(name, text.encode())

    def write_summary(self, summary: Entries) -> None:
        """Write `summary.json`."""
        self.write(SUMMARY, to_text(summary))

    def write_model(self, x: Array) -> None:
        """Write `model.safetensors`."""
        from erasurehead._internal.tensor_files import model_bytes

        self._write(MODEL, model_bytes(x))

    def rows_may_change(self, names: Iterable[str] = ROWS) -> None:
        """Remove the files of rows from the list of checksums, as they are going to change.

        Raises:
            RecordsError: if the list cannot be written.
        """
        with self._writing(CHECKSUMS) as folder:
            sums, growing = read_checksums(folder), set(names)
            if not growing.isdisjoint(sums):
                write_checksums(folder, {name: kept for name, kept in sums.items() if name not in growing})

    def rows_are_final(self, names: Iterable[str] = ROWS) -> None:
        """Flush the files of rows to the disk, and store their checksums, as they will not change any more.

        Raises:
            RecordsError: if one cannot be read, or the checksums cannot be written.
        """
        with self._writing(CHECKSUMS) as folder:
            sums = read_checksums(folder)
            for name in names:
                folder.sync_file(name)
                sums[name] = (Running().upto(folder, name, folder.size(name)),)
            write_checksums(folder, sums)

    def _write(self, name: str, data: bytes) -> None:
        """Write a file, announced in advance, so that either it or the old one matches the checksums at any moment."""
        with self._writing(name) as folder:
            sums = read_checksums(folder)
            recorded, after = sums.get(name, ()), Checksum.of(data)
            current = Checksum.of(folder.read(name)) if recorded and folder.kind(name) == "file" else None
            before = (current,) if current is not None and current in recorded and current != after else ()
            if recorded != (announced := (*before, after)):
                write_checksums(folder, {**sums, name: announced})
            folder.write_whole(name, [data])

    @contextlib.contextmanager
    def _writing(self, name: str) -> Generator[Folder]:
        try:
            with Folder.open(self.path, self.access) as folder:
                yield folder
        except OSError as error:
            raise unwritable(Path(str(error.filename or self.path / name)), error) from error

    @contextlib.contextmanager
    def _reading(self, name: str) -> Generator[Folder]:
        try:
            with Folder.open(self.path) as folder:
                yield folder
        except OSError as error:
            raise unreadable(self.path / name, error) from None

    def _data(self, name: str, check: bool = True) -> bytes | None:
        """Return the contents of a file, after comparing its checksum; None if it does not exist."""
        with self._reading(name) as folder:
            if not folder.kind(name):
                return None
            data = folder.read(name)
        if check:
            self._check(name, data)
        return data

    def _check(self, name: str, data: bytes) -> None:
        with self._reading(name) as folder:
            check_data(self.path / name, data, read_checksums(folder))

    def _text(self, name: str, check: bool = True) -> str | None:
        data = self._data(name, check)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path / name} is not UTF-8 text (byte {error.start}).") from None

    def rows(self, name: str, kind: type[_Row]) -> list[_Row]:
        """Return the rows of a file; empty if there is no such file.

        Arguments:
            name: of the file.
            kind: of the rows, a dataclass.

        Raises:
            DataError: if a line is damaged, or no such row; a truncated last line does not count.
        """
        make = row_maker(kind, self.path / name)
        return [make(number, row) for number, row in enumerate(self._lines(name), start=1)]

    def _lines(self, name: str) -> list[PlainData]:
        data = self._data(name, check=False)
        if data is None:
            return []
        lines = lines_in(data, self.path / name)  # which reports where the damage is, if it is visible there
        self._check(name, data)
        return lines
