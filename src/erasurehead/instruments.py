"""Hooks that watch a run: progress, records, snapshots, trackers. Each has empty defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from erasurehead.arrays import Array
from erasurehead.records.rows import ArrivalRow, StepRow

if TYPE_CHECKING:
    from erasurehead.run import Run
    from erasurehead.schemes import Scheme


class Instrument:
    """Watches a run. Override what is of interest; hooks run on the coordinator, and their time counts."""

    def preparing(self, scheme: Scheme, steps: int) -> None:
        """Called before the workers are started."""

    def ready(self, seconds: float) -> None:
        """Called when all workers are there, with the seconds that it took; the clock of the training starts now."""

    def waiting(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        """Called every so often while an order is waited for: see `gathering.TELL_EVERY`.

        Arguments:
            step: the current step.
            missing: workers that have not finished, ascending.
            elapsed: seconds since the order was submitted.
        """

    def arrival(self, row: ArrivalRow) -> None:
        """Called after a step for every message of it, arrived or censored; and at once for late ones."""

    def step(self, row: StepRow, x: Array) -> None:
        """Called when a step is done, with the model after it; keep a reference at will, it is never changed."""

    def notice(self, text: str) -> None:
        """Called when something happened that a person should know: a death, a refused message."""

    def finished(self, run: Run) -> None:
        """Called when all steps are done, or training ended early, after the workers have been let go."""
