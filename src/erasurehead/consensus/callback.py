"""Hooks that are called during a run without a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from erasurehead._internal.arrays import Array
from erasurehead.consensus.plans import ConsensusPlan
from erasurehead.consensus.rows import MeanRow, PeerRow, ViewChangeRow
from erasurehead.training.notices import Notice


class ConsensusCallback:
    """Hooks that are called during a run without a coordinator; all are empty by default."""

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        """Called before training begins.

        Arguments:
            plan: the plan of the run.
            steps: number of steps of each peer, on average.
        """

    def on_step(self, row: PeerRow) -> None:
        """Called after each step of a peer."""

    def on_mean(self, row: MeanRow) -> None:
        """Called after each evaluation of the mean model."""

    def on_view_change(self, row: ViewChangeRow) -> None:
        """Called when peers have left or rejoined, or a network partition has begun or healed."""

    def on_notice(self, notice: Notice) -> None:
        """Called when something happened that the user should know."""

    def on_state(self, step: int, state: Callable[[], dict[str, Any]], models: Array) -> None:
        """Called after each evaluation on the virtual clock, when the state of the run can be saved.

        Arguments:
            step: number of steps per peer so far.
            state: returns the state of the run, as `train(resume=...)` takes it.
            models: models of all peers, shape (n_peers, n_parameters).
        """
