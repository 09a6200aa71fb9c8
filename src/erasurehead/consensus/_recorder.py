"""The callback that records a run without a coordinator, with checkpoints from which it can be resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from erasurehead._internal.arrays import Array
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._rows import MeanRow, PeerRow, ViewChangeRow
from erasurehead.consensus._training_options import ConsensusCallback
from erasurehead.runs import RunFolder
from erasurehead.runs._checkpoints.store import CheckpointStore
from erasurehead.runs._config.sections import CheckpointsSection
from erasurehead.runs._fingerprints import check_same
from erasurehead.runs._jsonl import JsonlWriter
from erasurehead.runs._locks import FolderLock
from erasurehead.runs._names import LOCK, MEANS, PEERS, ROWS_OF_PEERS, VIEW_CHANGES
from erasurehead.runs._summaries import versions
from erasurehead.training import Notice
from erasurehead.training._result import Status

_FLUSH_INTERVAL = 1.0
"""Seconds after which rows are written at the next step, and it is noticed that they cannot be."""


class PeerRecorder(ConsensusCallback):
    """Writes rows during the run, and checkpoints between two events.

    Arguments:
        folder: the run folder, which is locked during the run.
        facts: what determines the run; a checkpoint can only be resumed by a run with the same facts.
        section: when to write checkpoints.
        resume: whether to resume from the newest checkpoint.
        model_of: the peer whose model is saved; None for the mean model.
        summary: further entries of the summary.
        notify: called with a notice when something else has changed the records.

    Attributes:
        state: the state in the newest checkpoint; None for a new run.

    Raises:
        DataError: if there is no usable checkpoint.
        InvalidArgument: if the run is still running, or its facts have changed.
    """

    def __init__(
        self,
        folder: RunFolder,
        facts: Mapping[str, Any],
        section: CheckpointsSection,
        resume: bool,
        model_of: int | None,
        summary: Mapping[str, Any],
        notify: Callable[[Notice], None],
    ) -> None:
        self.folder, self.facts, self.section, self.model_of = folder, dict(facts), section, model_of
        self._summary = dict(summary)
        self._notify, self._changed = notify, False
        self._lock: FolderLock | None = FolderLock(folder.path / LOCK, folder.access)
        self.store = CheckpointStore(folder.path, section.keep, folder.access)
        self.state: Mapping[str, Any] | None = None
        try:
            sizes: Mapping[str, int] = {}
            if resume:
                checkpoint = self.store.load()
                check_same(checkpoint.facts, self.facts)
                self.state, sizes = checkpoint.state["training"], checkpoint.records
                clock: Any = checkpoint.state["training"]["clock"]
                if clock["total"] // len(clock["peers"]) != checkpoint.step:
                    raise Unfit(f"it is not of step {checkpoint.step}")
            self.store.tidy()
            folder.rows_may_change(ROWS_OF_PEERS)
            self._files = {
                name: JsonlWriter(
                    folder.path / name, int(sizes.get(name, 0)), folder.access, partial(self._note_change, name)
                )
                for name in ROWS_OF_PEERS
            }
        except BaseException:
            self._release()
            raise
        self._saved = -1
        self._saved_at = self._flushed_at = time.monotonic()
        self._state: Callable[[], dict[str, Any]] | None = None
        self._step = 0

    @property
    def has_steps(self) -> bool:
        """Whether any peer has taken a step in this run."""
        return len(self._files[PEERS]) > 0

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        self.folder.write_summary({"status": "running", **self._summary, "versions": versions()})

    def on_step(self, row: PeerRow) -> None:
        self._files[PEERS].add(vars(row))
        if time.monotonic() - self._flushed_at > _FLUSH_INTERVAL:  # evaluations may be far apart
            self._flush()

    def on_mean(self, row: MeanRow) -> None:
        self._files[MEANS].add(vars(row))
        self._flush()  # on_state, which flushes them too, is not called for real peers

    def _flush(self) -> None:
        for file in self._files.values():
            file.flush()
        self._flushed_at = time.monotonic()

    def on_view_change(self, row: ViewChangeRow) -> None:
        self._files[VIEW_CHANGES].add(vars(row))

    def on_state(self, step: int, state: Callable[[], dict[str, Any]], models: Array) -> None:
        self._flush()
        self._step, self._state = step, state
        by_steps = self.section.every_steps and step - max(0, self._saved) >= self.section.every_steps
        by_time = self.section.every_seconds and time.monotonic() - self._saved_at >= self.section.every_seconds
        # Where rows were lost, the checkpoints before are of no use any more.
        if by_steps or by_time or (self._changed and (self.section.every_steps or self.section.every_seconds)):
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest state, unless it was written already."""
        if self._state is None or (self._saved == self._step and not self._changed):
            return
        if self._changed:
            self.store.rows_have_changed()
            self._changed = False
        sizes = {name: file.size for name, file in self._files.items()}
        self.store.save(self._step, {"training": self._state()}, sizes, self.facts)
        self._saved, self._saved_at = self._step, time.monotonic()

    def end(self, run: ConsensusRun | None, status: Status, reason: str) -> None:
        """Write the last checkpoint, the model and the summary, and release the folder.

        Arguments:
            run: the run; None if it ended by an error, so that it can only be resumed from an earlier checkpoint.
            status: how the run ended.
            reason: why it ended early; empty if it did not.
        """
        if self._lock is None:
            return
        try:
            for file in () if run is None else self._files.values():
                file.flush()  # which also notices what was done to it
            if run is not None and (run.stopped or self.section.keep_finished):
                self.checkpoint()
            for file in self._files.values():
                file.close()
            self.folder.rows_are_final(ROWS_OF_PEERS)
            figures: dict[str, Any] = {}
            if run is not None:
                self.folder.write_model(run.model(self.model_of))
                figures = {
                    **run.summary(),
                    "model_of": self.model_of,
                    "model_distance": run.distance_from_mean(self.model_of),
                }
            self.folder.write_summary(
                {"status": status, "reason": reason, **self._summary, **figures, "versions": versions()}
            )
            if run is not None and not run.stopped and not self.section.keep_finished:
                self.store.clear()
        finally:
            self._release()

    def _note_change(self, name: str, lost: int, text: str) -> None:
        """Take note that something else has changed a file of rows."""
        self._changed = True
        self._summary["changed_by_others"] = [*self._summary.get("changed_by_others", ()), text]
        self._notify(Notice("rewritten", data={"file": name, "reason": text, "lost": lost}, text=text))

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
