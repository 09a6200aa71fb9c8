"""The callback that records a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

from erasurehead._internal.arrays import Array
from erasurehead._internal.atomic_files import unwritable
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import DataError
from erasurehead.runs._checkpoints.store import Checkpoint, CheckpointStore
from erasurehead.runs._folder import RunFolder
from erasurehead.runs._jsonl import JsonlWriter, to_line
from erasurehead.runs._locks import FolderLock
from erasurehead.runs._names import ARRIVALS, EVALUATIONS, LOCK, STEPS, WAITING, check_tame, has_steps
from erasurehead.runs._resuming import can_be_resumed, resumption
from erasurehead.runs._rows import RowsInFolder
from erasurehead.runs._summaries import figures, versions
from erasurehead.schemes import Scheme
from erasurehead.training import ArrivalRow, Callback, Notice, Resumption, Run, StepRow
from erasurehead.training._result import Status


class Recorder(Callback):
    """Writes a run into its folder: each step as it ends, and model, evaluations and summary at the end.

    Meanwhile no other run can use the folder: it is locked until the run or this process ends.

    Arguments:
        folder: the folder, from `RunFolder.create`.
        facts: further facts for `summary.json`, such as the data's name and shape.
        required: whether training ends when records can no longer be written; otherwise it continues without them.
        notify: called with a notice when it continues without records.

    Attributes:
        checkpoint: the checkpoint from which a run continues; None for a new run.
        resumption: the same, for the training loop.
        resumed: the steps after which the run was continued.
        store: store of the checkpoints of an earlier run; None for a new run.
        wait_every: seconds between two records of which workers are late.
        x: the newest model; None before the first step.
        saved: whether the last model is in the folder.
    """

    wait_every: float = 1.0
    kinds: ClassVar[Mapping[str, type[Any]]] = {ARRIVALS: ArrivalRow, STEPS: StepRow}
    """Of the rows in each file, in this order, so that every step on disk has its arrivals on disk."""

    def __init__(
        self,
        folder: RunFolder,
        facts: Entries | None = None,
        *,
        required: bool = True,
        notify: Callable[[Notice], None] = lambda notice: None,
    ) -> None:
        self.folder = folder
        self.required = required
        self.notify = notify
        self.checkpoint: Checkpoint | None = None
        self.resumption: Resumption | None = None
        self.resumed: list[int] = []
        self.store: CheckpointStore | None = None
        self._summary: PlainData = {"status": "running", "reason": "", **(facts or {}), "versions": versions()}
        self._files: dict[str, JsonlWriter] = {}
        self._lock: FolderLock | None = None
        self._lost = False
        self._rows = {name: RowsInFolder(kind, folder.path / name) for name, kind in self.kinds.items()}
        self.x: Array | None = None
        self.saved = False

    @property
    def summary(self) -> PlainData:
        """The contents of `summary.json`, whether or not it could be written."""
        return dict(self._summary)

    @classmethod
    def reopen(
        cls,
        folder: RunFolder,
        facts: Entries | None = None,
        *,
        required: bool = True,
        notify: Callable[[Notice], None] = lambda notice: None,
    ) -> Self:
        """Return the recorder of a run that is resumed from its newest checkpoint, in the same folder.

        Records after the checkpoint are cut off when training begins. The folder is locked from now on:
        train, or call `end`.

        Arguments:
            folder: folder of the run.
            facts, required, notify: as for a new recorder.

        Raises:
            DataError: if there is no usable checkpoint, or the records do not fit it, or something in the
                folder is not what runs create; nothing is changed then.
            InvalidArgument: if the run is still running.
        """
        recorder = cls(folder, facts, required=required, notify=notify)
        check_tame(folder.path)
        recorder._take_lock()
        try:
            store = CheckpointStore(folder.path, access=folder.access)
            checkpoint = store.load()
            for name in cls.kinds:
                if name not in checkpoint.records:
                    raise DataError(f"The newest checkpoint in {str(folder.path)!r} has no record of {name}.")
            recorder._go_on(checkpoint)
        except BaseException:
            recorder._release_lock()
            raise
        recorder.store, recorder.checkpoint = store, checkpoint
        recorder.resumed = [*map(int, checkpoint.facts.get("resumed", ())), checkpoint.step]
        return recorder

    def _go_on(self, checkpoint: Checkpoint) -> None:
        self.resumption = resumption(self.folder, checkpoint)

    @property
    def sizes(self) -> Mapping[str, int] | None:
        """Bytes written to each file of rows; None if they could not be written."""
        return None if self._lost else {name: file.size for name, file in self._files.items()}

    @property
    def has_steps(self) -> bool:
        """Whether the folder holds steps of the run."""
        return has_steps(self.folder.path)

    @property
    def can_be_resumed(self) -> bool:
        """Whether the run can be continued from a checkpoint."""
        return can_be_resumed(self.folder.path)

    def kept_rows(self) -> tuple[Sequence[StepRow], Sequence[ArrivalRow]]:
        return self._rows[STEPS], self._rows[ARRIVALS]

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self._summary |= {
            "scheme": scheme.name,
            "code": repr(scheme.code),
            "wait": str(scheme.rule),
            "workers": scheme.code.n_workers,
            "steps_planned": steps,
            "resumed": self.resumed,
        }
        self._begin()

    def _begin(self) -> None:
        self._try(self._open)
        self._try(lambda: self.folder.write_summary(self._summary))

    def _open(self) -> None:
        if self._lock is None:
            self._take_lock()
        if self.store is not None:
            self.store.tidy()
        self.folder.rows_may_change(self.kinds)
        before = self.checkpoint
        for name, rows in self._rows.items():
            size = before.records[name] if before else 0
            self._files[name] = rows.stored = JsonlWriter(self.folder.path / name, size, self.folder.access)

    def on_start(self, seconds: float) -> None:
        self._summary["start_seconds"] = seconds
        self._try(lambda: self.folder.write_summary(self._summary))

    def on_arrival(self, row: ArrivalRow) -> None:
        self._add(ARRIVALS, row)

    def _add(self, name: str, row: Any) -> None:
        if self._lost:
            self._rows[name].more.append(row)
        else:
            self._files[name].add(row.as_dict())

    def on_wait(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        if self._lost:
            return
        row = {"step": step, "waited": elapsed, "missing": list(missing), "time": time.time()}
        with contextlib.suppress(OSError), Folder.open(self.folder.path, self.folder.access) as folder:
            folder.write_whole(WAITING, [to_line(row).encode()])

    def on_step_end(self, row: StepRow, x: Array) -> None:
        self.x = x
        self._add(STEPS, row)
        self._try(self._flush)

    def on_last_step(self, step: int) -> None:
        self._try(self._flush)  # the last checkpoint includes late messages of a step that the time limit broke off

    def _flush(self) -> None:
        for file in self._files.values():
            file.flush()

    def on_end(self, run: Run) -> None:
        lines = [to_line({"step": e.step, "time": e.time, "metrics": dict(e.metrics)}) for e in run.evaluations]
        self.x = run.x
        self._summary |= {"engine": run.engine} | figures(run)
        self._end(run.status, run.stopped, lambda: self.folder.write(EVALUATIONS, "".join(lines)))

    def finish(self, x: Array, figures: Entries, status: Status, reason: str) -> None:
        """As `end`, of a run that has come to its end.

        Arguments:
            x: its model.
            figures: for the summary.
            status, reason: as for `end`.
        """
        self.x = x
        self._summary |= figures
        self._end(status, reason)

    def end(self, status: Status, reason: str) -> None:
        """Save the last model and the summary, and close the files. Later calls change nothing.

        Arguments:
            status: how the run ended.
            reason: why it ended early, as a sentence; empty if it did not.

        Raises:
            RecordsError: if something cannot be written; everything else is.
        """
        self._end(status, reason)

    def leave(self) -> None:
        """Release the folder as it is; nothing has been written."""
        self._release_lock()

    def _end(self, status: Status, reason: str, first: Callable[[], None] = lambda: None) -> None:
        if self._summary["status"] != "running":
            return
        files = self._files.values()
        # Late messages since the last step are not written yet, nor are rows that did not fit before.
        acts: list[Callable[[], None]] = [file.flush for file in files if not file.closed]
        acts += [first, *(file.close for file in files)]
        if files:
            acts.append(partial(self.folder.rows_are_final, self.kinds))
        if self.x is not None:
            acts.append(partial(self._write_model, self.x))
        failure = _first_failure(acts)
        serious = status == "finished" and self.required
        with contextlib.suppress(OSError), Folder.open(self.folder.path) as folder:
            folder.remove(WAITING)
        if failure is not None and serious:
            status, reason = "records", str(failure)  # so that the run can be continued and finished
        self._summary |= {"status": status, "reason": reason}
        unwritten = _first_failure([partial(self.folder.write_summary, self._summary)])
        failure = failure or unwritten
        self._release_lock()
        if failure is not None and serious:
            raise failure
        if failure is not None and not self._lost:
            self.unrecorded(failure)

    def _write_model(self, x: Array) -> None:
        self.folder.write_model(x)
        self.saved = True

    def _try(self, act: Callable[[], None]) -> None:
        """Write something; if that fails, continue without records if that is allowed."""
        if self._lost:
            return
        try:
            act()
        except OSError as error:
            self._lost = True
            self._summary["unrecorded"] = str(error)
            if self.required:
                raise
            for file in self._files.values():
                file.close()
            self.unrecorded(error, "Training goes on without records.")

    def unrecorded(self, error: OSError, then: str = "") -> None:
        """Report that something of the run cannot be written.

        Arguments:
            error: the reason.
            then: the consequence, as a sentence.
        """
        text = f"{error} {then}".strip()
        self.notify(Notice("unrecorded", data={"reason": str(error)}, text=text))

    def _take_lock(self) -> None:
        path = self.folder.path / LOCK
        try:
            self._lock = FolderLock(path, self.folder.access)
        except OSError as error:
            raise unwritable(path, error) from error

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _first_failure(acts: Iterable[Callable[[], None]]) -> OSError | None:
    """Do everything, as a smaller file may fit where another did not; return the first error."""
    failure: OSError | None = None
    for act in acts:
        try:
            act()
        except OSError as error:
            failure = failure or error
    return failure
