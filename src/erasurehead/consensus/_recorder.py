"""What is recorded of a run without a coordinator, in its folder: the records of any run, with the rows of peers."""

from __future__ import annotations

import time
from collections.abc import Callable

from erasurehead._internal.documents import Entries
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._rows import MeanRow, PeerRow, ViewChangeRow
from erasurehead.consensus._training_options import ConsensusCallback
from erasurehead.errors import RecordsError
from erasurehead.runs import Checkpointer, Recorder
from erasurehead.runs._checkpoints.store import Checkpoint
from erasurehead.runs._names import MEANS, PEERS, VIEW_CHANGES
from erasurehead.runs._recording import Recording

_FLUSH_INTERVAL = 1.0
"""Seconds after which rows are written at the next step, and it is noticed that they cannot be."""


class PeerRecorder(Recorder, ConsensusCallback):
    """Writes the rows of a run without a coordinator."""

    kinds = {PEERS: PeerRow, MEANS: MeanRow, VIEW_CHANGES: ViewChangeRow}  # noqa: RUF012  # typed in the base class
    _flushed_at = 0.0
    _has_steps = False  # whatever became of their file since

    def _go_on(self, checkpoint: Checkpoint) -> None:
        clock = checkpoint.state["training"]["clock"]
        if clock["total"] // len(clock["peers"]) != checkpoint.step:
            raise Unfit(f"it is not of step {checkpoint.step}")

    @property
    def has_steps(self) -> bool:
        return self._has_steps or len(self._rows[PEERS]) > 0

    @property
    def can_be_resumed(self) -> bool:
        return True  # as long as there is a checkpoint

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        self._begin()

    def on_step(self, row: PeerRow) -> None:
        self._add(PEERS, row)
        if time.monotonic() - self._flushed_at > _FLUSH_INTERVAL:  # evaluations may be far apart
            self._flush()
        self._has_steps = True

    def on_mean(self, row: MeanRow) -> None:
        self._add(MEANS, row)
        self._flush()

    def on_view_change(self, row: ViewChangeRow) -> None:
        self._add(VIEW_CHANGES, row)

    def _flush(self) -> None:
        super()._flush()
        self._flushed_at = time.monotonic()


class PeerCheckpointer(Checkpointer, ConsensusCallback):
    """Makes checkpoints of a run without a coordinator, on the virtual clock."""

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        self._begin(steps)

    def on_state(self, step: int, state: Callable[[], Entries]) -> None:
        super().on_state(step, lambda: {"training": state()})


class PeerRecording(Recording, ConsensusCallback):
    """Everything that is recorded of a run without a coordinator while it trains."""

    recorders = PeerRecorder, PeerCheckpointer

    @property
    def state(self) -> Entries | None:
        """The state from which the run continues; None for a new one."""
        checkpoint = self._recorder.checkpoint
        return None if checkpoint is None else checkpoint.state["training"]

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        self._make_folder()

    def finish(self, run: ConsensusRun, model_of: int | None) -> None:
        """Write the model, the summary and the last checkpoint of a run that has come to its end.

        Arguments:
            run: the run.
            model_of: the peer whose model is saved; None for the mean model.

        Raises:
            RecordsError: if something cannot be written; the model is then saved elsewhere.
        """
        figures = {**run.summary(), "model_of": model_of, "model_distance": run.distance_from_mean(model_of)}
        try:
            self._recorder.finish(run.model(model_of), figures, run.status, run.stopped)
        except RecordsError as error:
            self._rescue_model()
            self.cut_off(error)
        self._checkpointer.finish(bool(run.stopped))
        self._end_trackers(run.status)
