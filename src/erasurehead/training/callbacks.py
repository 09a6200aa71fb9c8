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
    """Watches a run. Override what is of interest; hooks run on the coordinator, and their time counts.

    Attributes:
        wait_every: real seconds that are to lie between two calls of `on_wait`, at least.
    """

    wait_every: float = 0.0

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        """Called before the workers are started."""

    def on_start(self, seconds: float) -> None:
        """Called when all workers are there, with the seconds that it took; the clock of the training starts now."""

    def on_wait(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        """Called every so often while an order is waited for: see `round.TELL_EVERY`.

        Arguments:
            step: the current step.
            missing: workers that have not finished, ascending.
            elapsed: seconds since the order was submitted.
        """

    def on_arrival(self, row: ArrivalRow) -> None:
        """Called after a step for every message of it, arrived or censored; and at once for late ones."""

    def on_step_end(self, row: StepRow, x: Array) -> None:
        """Called when a step is done, with the model that there is now.

        Of optimizers that try points it is the newest one that nothing speaks against; where it turns out no better, it
        is the one before again (see `Optimizer.best`), and a run that ends before that is known compares the two.

        You may keep a reference to it: it is never changed.
        """

    def on_last_step(self, step: int) -> None:
        """Called when it turns out that a run ends early, as it was asked to: its target is reached, say.

        It comes after `on_step_end` of its last step, and before `on_state`.

        Arguments:
            step: number of steps that it has then.
        """

    def on_state(self, step: int, state: Callable[[], Mapping[str, Tree]]) -> None:
        """Called last after each step, when it is wholly done and recorded; and once before the first, with 0.

        Arguments:
            step: number of steps done.
            state: returns all that is needed to go on from here to the bit, as a tree of dicts with texts for keys,
                lists, texts, numbers, None and arrays. None of the arrays is changed afterwards.
        """

    def on_notice(self, notice: Notice) -> None:
        """Called at once when something was noticed that a person should know: a death, a refused message.

        What a worker fails with again and again is told once until it changes; the rows have it each time.
        """

    def on_evaluated(self, done: int, of: int) -> None:
        """Called when training is over, after each of the models that were kept has been evaluated.

        Arguments:
            done: how many have been.
            of: how many there are.
        """

    def on_end(self, run: Run) -> None:
        """Called when all steps are done, or training ended early, after the workers have been let go."""
