"""Hooks that watch a run: progress, records, snapshots, trackers. Each has empty defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from erasurehead._internal.arrays import Array, Tree
from erasurehead.training.notices import Notice
from erasurehead.training.rows import ArrivalRow, StepRow

if TYPE_CHECKING:
    from erasurehead.schemes.named import Scheme
    from erasurehead.training.result import Run


class Callback:
    """Watches a run. Override the hooks that you need; they run on the coordinator, and the time they take counts.

    Attributes:
        wait_every: least number of real seconds between two calls of `on_wait`.
    """

    wait_every: float = 0.0

    def kept_rows(self) -> tuple[Sequence[StepRow], Sequence[ArrivalRow]] | None:
        """Return the rows of the run, if this callback keeps them: those of `Run.steps` and `Run.arrivals`.

        They must include each row as soon as it was told, and those of an earlier part of the run that is resumed.
        Where no callback keeps them, they stay in memory.
        """
        return None

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        """Called before anything else."""

    def on_starting(self, workers: int) -> None:
        """Called when workers are about to be started outside this process, with their number."""

    def on_start(self, seconds: float) -> None:
        """Called when all workers are ready, with the seconds that it took; the training clock starts now."""

    def on_wait(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        """Called regularly while the coordinator waits for an order: see `waiting.TELL_EVERY`.

        Arguments:
            step: the current step.
            missing: workers that have not finished, ascending.
            elapsed: seconds since the order was submitted.
        """

    def on_arrival(self, row: ArrivalRow) -> None:
        """Called after a step for each of its messages, arrived or censored; and at once for late ones."""

    def on_step_end(self, row: StepRow, x: Array) -> None:
        """Called when a step is done, with the current model.

        If the optimizer tries points, it is the newest point, unless something speaks against it; where it turns out no
        better, later steps go back to the model before (see `Optimizer.best`), and a run that ends before that is known
        compares the two.

        You may keep a reference to the model: it is never changed in place.
        """

    def on_last_step(self, step: int) -> None:
        """Called when a run ends before its last step because a stopping rule is met, such as a target.

        It comes after `on_step_end` of its last step, and before `on_state`.

        Arguments:
            step: number of steps done.
        """

    def on_state(self, step: int, state: Callable[[], Mapping[str, Tree]]) -> None:
        """Called last after each step, when all of it is done and recorded; and once before the first, with 0.

        Arguments:
            step: number of steps done.
            state: returns all that is needed to resume from here bit for bit, as a tree of dicts with strings as keys,
                lists, strings, numbers, None and arrays. None of the arrays is changed afterwards.
        """

    def on_notice(self, notice: Notice) -> None:
        """Called at once when something happened that a person should know: a death, a refused message.

        A failure that a worker repeats is reported once until it changes; the step rows have every occurrence.
        """

    def on_evaluated(self, done: int, of: int) -> None:
        """Called when training is over, after each of the models that were kept has been evaluated.

        Arguments:
            done: how many have been.
            of: how many there are.
        """

    def on_end(self, run: Run) -> None:
        """Called when all steps are done, or training ended early, after the workers have been released."""
