"""A run in its folder: records, checkpoints and requests from outside begin and end together."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.signals import stopped_by, uninterrupted
from erasurehead.datasets import Dataset
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.errors import Diverged, ErasureHeadError, InvalidArgument, RecordsError
from erasurehead.runs._checkpoints.checkpointer import Checkpointer
from erasurehead.runs._config.sections import CheckpointsSection
from erasurehead.runs._config.toml import to_toml
from erasurehead.runs._control import Control
from erasurehead.runs._fingerprints import flat
from erasurehead.runs._folder import RunFolder
from erasurehead.runs._names import CONFIG, ENCODING, SUMMARY, next_free, remove_run
from erasurehead.runs._recorder import Recorder
from erasurehead.runs._summaries import describe
from erasurehead.schemes import Scheme
from erasurehead.trackers import Tracker
from erasurehead.trackers._texts import tracker_of
from erasurehead.trackers._tracked_run import TrackedRun
from erasurehead.training import Callback, Notice, Resumption, Run
from erasurehead.training._result import Status


class RecordedConfig(Protocol):
    """What is asked of the configuration of a run that is recorded."""

    run: Any
    checkpoints: CheckpointsSection

    def model_dump(self, *, exclude: Any) -> PlainData:
        """Return its tables."""
        ...


class Recording(Callback):
    """Everything that is recorded of one run while it trains.

    The folder of a new run is created when everything about the run has been checked, and removed again if it ends by
    an error before its first step.

    Arguments:
        out: the run folder; when a run is resumed, it is opened and locked at once.
        config: configuration of the run.
        data: the data set.
        facts: what determines the run: a checkpoint is only continued by a run with the same facts.
        resuming: whether the run continues from its newest checkpoint.
        callbacks: hooks that watch; they are told of problems with the records.
        group: what the run belongs to, such as a comparison, for trackers.

    Attributes:
        callbacks: for the training loop, in order: the records are written before the callbacks are called, and
            a checkpoint is made after them. The trackers of the settings come last.

    Raises:
        InvalidArgument: if the folder has been taken meanwhile.
        DataError: if there is no usable checkpoint.
    """

    recorders: ClassVar[tuple[type[Recorder], type[Checkpointer]]] = Recorder, Checkpointer
    """Those who write rows and checkpoints."""

    def __init__(
        self,
        out: Path,
        config: RecordedConfig,
        data: Dataset | ShardFolder,
        facts: Entries,
        resuming: bool = False,
        callbacks: Sequence[Callback] = (),
        group: str = "",
    ) -> None:
        self._out, self._config, self._data, self._facts = out.expanduser(), config, data, facts
        trackers = [tracker_of(text) for text in dict.fromkeys(config.run.track)]
        self._watching, self._group = [*callbacks, *trackers], group
        self._trackers = [one for one in self._watching if isinstance(one, Tracker)]
        self._new, self._control = not resuming, None
        self._made: list[Path] = []
        with uninterrupted():
            self._recorder = self._recorder_for(resuming)
        section = config.checkpoints
        self._checkpointer = self.recorders[1](
            self._recorder,
            section.every_steps,
            section.every_seconds,
            keep=section.keep,
            behind=section.behind,
            keep_finished=section.keep_finished,
            facts=facts,
        )
        self.callbacks: list[Any] = [self, self._recorder, *callbacks, self._checkpointer, *trackers]

    @property
    def resumption(self) -> Resumption | None:
        """The state from which the run continues; None for a new one."""
        return self._recorder.resumption

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self._make_folder()

    def _make_folder(self) -> None:
        section, folder = self._config.run, self._recorder.folder
        with uninterrupted():  # once the folder exists, the run can be continued
            if self._new:
                self._made = [place for place in (self._out, *self._out.parents) if not place.exists()]
                RunFolder.create(self._out, section.overwrite, section.access)
                folder.write(ENCODING, self._data.encoding.to_json())
            folder.write(CONFIG, self._run_file)
        self._control = Control(self._out)
        settings = {
            name: str(value)
            for name, value in flat(self._config.model_dump(exclude={"run": {"out", "overwrite", "track"}})).items()
            if value not in (None, "", ())
        }
        tracked = TrackedRun(self._out.absolute().name, settings, self._group, self._out, section.access)
        for tracker in self._trackers:
            tracker.announce(tracked)

    def wanted(self, step: int) -> int | None:
        """Return a newly requested number of workers; None if there is no new request."""
        return None if self._control is None else self._control.wanted()

    def end(self, run: Run) -> None:
        """Add to a finished run its summary, and the place of its model."""
        saved = self._rescue_model()
        run.summary = {**self._recorder.summary, "model": None if saved is None else str(saved)}

    def cut_off(self, error: BaseException) -> None:
        """Write the remaining records of a run that has ended with an error.

        Raises:
            RecordsError: if that was the error; it then names the last good checkpoint.
        """
        if self._control is None:  # nothing has been made yet
            self._recorder.leave()
            return
        with contextlib.suppress(OSError):  # a full disk may have ended the run
            if isinstance(error, KeyboardInterrupt):
                self._recorder.end("interrupted", stopped_by(error))
            else:
                status = "diverged" if isinstance(error, Diverged) else "failed"
                self._recorder.end(status, str(error) or type(error).__name__)
        self._checkpointer.close()
        self._end_trackers(self._recorder.summary["status"])
        if self._new and isinstance(error, ErasureHeadError) and not self._recorder.has_steps:
            remove_run(self._out, self._made)
            return
        if isinstance(error, RecordsError):
            # Otherwise the run continues from its checkpoint.
            if self._recorder.summary.get("steps") == self._config.run.steps:
                self._rescue_model()
            step, good = self._checkpointer.store.step, "There is no checkpoint."
            if step is not None and self._recorder.can_be_resumed:
                good = f"The last good checkpoint is that of step {step}."
            elif step is not None:
                good = "No checkpoint can be used, as the rows that belong to it are not there."
            raise RecordsError(f"{error} {good}") from error

    def _end_trackers(self, status: Status) -> None:
        for tracker in self._trackers:
            tracker.end(status)
            for notice in tracker.own_notices():
                self._notify(notice)

    @property
    def _run_file(self) -> str:
        return to_toml(self._config.model_dump(exclude={"run": {"out", "overwrite"}}))

    @property
    def _summary(self) -> PlainData:
        # That of shards tells how they were cut, too, and so not whether others are of the same rows.
        fingerprint = None if isinstance(self._data, ShardFolder) else self._facts["data"]
        described = {**describe(self._data), "fingerprint": fingerprint}
        return {"engine": self._config.run.engine, "data": described}

    def _notify(self, notice: Notice) -> None:
        for callback in self._watching:
            callback.on_notice(notice)

    def _recorder_for(self, resuming: bool) -> Recorder:
        section, summary = self._config.run, self._summary
        required, notify = getattr(section, "records", "required") == "required", self._notify
        if not resuming:
            return self.recorders[0](RunFolder(self._out, section.access), summary, required=required, notify=notify)
        folder = RunFolder.open(self._out, section.access)
        recorder = self.recorders[0].reopen(folder, summary, required=required, notify=notify)
        for reason in recorder.checkpoint.passed_over if recorder.checkpoint else ():
            text = f"the run continues from an older checkpoint: {reason}"
            notify(Notice("older_checkpoint", data={"reason": reason}, text=text))
        if reason := folder.damage(SUMMARY):
            data = {"file": SUMMARY, "reason": reason}
            notify(Notice("rewritten", data=data, text=f"the summary is written again: {reason}"))
        if not folder.has(ENCODING):
            folder.write(ENCODING, self._data.encoding.to_json())
        return recorder

    def _rescue_model(self) -> Path | None:
        """Save the model elsewhere if there was no room in the run folder, and report where.

        Returns:
            The folder, which `predict` accepts; None if it cannot be written anywhere.
        """
        recorder, out = self._recorder, self._out
        if recorder.saved or recorder.x is None:
            return out if recorder.saved else None
        for where in (lambda: out.absolute().parent, Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
            place = out
            try:
                place = next_free(where(), f"{out.name}-rescued")
                folder = RunFolder.create(place)
                folder.write(CONFIG, self._run_file)
                folder.write(ENCODING, self._data.encoding.to_json())
                folder.write_model(recorder.x)
                folder.write_summary(recorder.summary)
            except (OSError, RuntimeError, InvalidArgument):  # there is no such folder, or it has no room
                if place != out:
                    shutil.rmtree(place, ignore_errors=True)
                continue
            text = f"the model could not be saved in {out}; it is in {place}"
            self._notify(Notice("model_moved", data={"folder": str(place)}, text=text))
            return place
        text = f"the model could not be saved in {out}, nor anywhere else that was tried: it is lost"
        self._notify(Notice("model_lost", text=text))
        return None
