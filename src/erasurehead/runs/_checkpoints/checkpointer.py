"""When checkpoints are made: the callback that hands a run's state to the store while training goes on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from erasurehead._internal.arrays import Tree
from erasurehead._internal.documents import Entries, PlainData
from erasurehead.errors import check_count, check_not_negative
from erasurehead.runs._checkpoints.background import Background
from erasurehead.runs._checkpoints.store import CheckpointStore
from erasurehead.runs._fingerprints import check_same, of_code
from erasurehead.runs._recorder import Recorder
from erasurehead.schemes import Scheme
from erasurehead.training import Callback, Run
from erasurehead.training._evaluation import without_models

STATE_BUDGET = 0.02
"""Fraction of the time that may be spent on states that are not due, so that one is available when training ends."""


@dataclass(frozen=True, eq=False)
class _Taken:
    """A state between two steps, and the length of the records at that time.

    Attributes:
        step: number of steps done.
        state: the state.
        records: bytes of each file of rows.
    """

    step: int
    state: Mapping[str, Tree]
    records: Mapping[str, int]


class Checkpointer(Callback):
    """Makes checkpoints in the folder of a run, in a separate thread.

    When training ends early, the newest state that was taken is written as a last checkpoint. When it is finished, one
    checkpoint without the evaluated models is kept, so that the run can be continued with more steps.

    Arguments:
        recorder: recorder of the run; it must precede this callback.
        every_steps: number of steps between checkpoints; 0 for never.
        every_seconds: seconds between checkpoints; 0 for never.
        keep: number of newest checkpoints to keep, at least 1.
        behind: largest number of steps that training may be ahead of a checkpoint that is being written.
        keep_finished: whether a finished run can be continued; if not, no checkpoint is kept.
        facts: what identifies the run, such as its step size and a fingerprint of its data, as plain data; stored in
            the checkpoint. A run that goes on from it is refused if it gives others, or if its code has changed.
    """

    def __init__(
        self,
        recorder: Recorder,
        every_steps: int = 0,
        every_seconds: float = 60.0,
        *,
        keep: int = 2,
        behind: int = 10,
        keep_finished: bool = True,
        facts: Entries | None = None,
    ) -> None:
        self.recorder = recorder
        self.every_steps = check_count("every_steps", every_steps, at_least=0)
        check_not_negative("every_seconds", every_seconds, "must be a finite number of seconds, at least 0")
        self.every_seconds = every_seconds
        self.behind = check_count("behind", behind, at_least=0)
        self.keep_finished = keep_finished
        self.store = recorder.store or CheckpointStore(recorder.folder.path, access=recorder.folder.access)
        self.store.keep = check_count("keep", keep)
        self.facts: PlainData = dict(facts or {})
        self.most_behind = 0
        """The largest number of steps that training was ahead of a checkpoint that was due."""
        self._background = Background(self._save)
        self._taken: _Taken | None = None
        self._steps = 0
        self._told = -1
        self._spent = 0.0
        self._began = self._last = time.monotonic()
        self._off = False

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self._begin(steps, code=of_code(scheme.code))

    def _begin(self, steps: int, **more: Any) -> None:
        self._steps = steps
        now = self.facts | more
        if self.recorder.checkpoint is not None:
            check_same(self.recorder.checkpoint.facts, now)
        self.facts = now | {"resumed": list(self.recorder.resumed)}

    def on_start(self, seconds: float) -> None:
        self._began = self._last = time.monotonic()

    def on_last_step(self, step: int) -> None:
        self._steps = step

    def on_state(self, step: int, state: Callable[[], Mapping[str, Tree]]) -> None:
        records = self.recorder.sizes
        if self._off or records is None:  # without records, nothing could be continued
            return
        now = time.monotonic()
        due = step > 0 and self._due(step, now)
        last = self.keep_finished and step == self._steps
        interrupted, self._told = step == self._told, step
        if due or last or interrupted or self._spent <= STATE_BUDGET * (now - self._began):
            self._taken = _Taken(step, state(), records)
            self._spent += time.monotonic() - now
        if interrupted:
            return  # `close` writes it
        with self._failing():
            if due and self._taken is not None:
                self._last = now
                self._background.hand_over(step, self._taken)
            oldest = self._background.oldest()
            self.most_behind = max(self.most_behind, 0 if oldest is None else min(step - oldest, self.behind))
            self._background.wait(step - self.behind)

    def on_end(self, run: Run) -> None:
        self.finish(bool(run.stopped), partial(without_models, evaluations=run.evaluations))

    def finish(
        self, early: bool, kept: Callable[[Mapping[str, Tree]], Mapping[str, Tree]] = lambda state: state
    ) -> None:
        """Write the last checkpoint, or remove all of them, and end the thread.

        Arguments:
            early: whether the run has ended early.
            kept: returns what is kept of the state of a finished run.
        """
        if early:
            self.close()
            return
        taken = self._last_taken()
        try:
            self._background.close()
            if self.keep_finished and taken is not None and taken.step == self._steps and not self._off:
                self._save(replace(taken, state=kept(taken.state)), alone=True)
            else:
                self.store.clear()
        except OSError as error:  # the run is finished nevertheless
            self.recorder.unrecorded(
                error, "The run is finished, but the checkpoint that it could be continued from may be missing."
            )

    def close(self) -> None:
        """Write the last state, if it is not on disk yet, and end the thread.

        If it cannot be written, this is reported as a notice, as something else has ended the run.
        """
        taken = self._last_taken()
        try:
            if taken is not None and not self._off:
                self._background.wait(taken.step)
                if self.store.step is None or self.store.step < taken.step:
                    self._background.hand_over(taken.step, taken)
            self._background.close()
        except OSError as error:
            self.recorder.unrecorded(error, "So the last checkpoint is missing.")

    def _due(self, step: int, now: float) -> bool:
        before = self._told if self._told >= 0 else step - 1  # peers take many steps between two states
        by_steps = self.every_steps > 0 and step // self.every_steps > before // self.every_steps
        return by_steps or (self.every_seconds > 0 and now - self._last >= self.every_seconds)

    def _last_taken(self) -> _Taken | None:
        """Return the last state, for a last checkpoint."""
        taken, self._taken = self._taken, None
        return taken

    def _save(self, taken: _Taken, alone: bool = False) -> None:
        self.store.save(taken.step, taken.state, taken.records, self.facts, alone=alone)

    @contextlib.contextmanager
    def _failing(self) -> Generator[None]:
        """Continue without checkpoints if they cannot be written and that is allowed."""
        try:
            yield
        except OSError as error:
            if self.recorder.required:
                raise
            self._off = True
            self.recorder.unrecorded(error, "Training goes on without checkpoints.")
