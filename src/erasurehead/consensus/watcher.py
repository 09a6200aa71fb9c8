"""Hooks that watch a run without a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from erasurehead._internal.arrays import Array
from erasurehead.consensus.plans import ConsensusPlan
from erasurehead.consensus.rows import MeanRow, PeerRow, TroubleRow
from erasurehead.training.notices import Notice


class Watcher:
    """Hooks that watch a run; empty by default."""

    def on_begin(self, plan: ConsensusPlan, steps: int) -> None:
        """Training begins; each peer will take this many steps on average."""

    def on_step(self, row: PeerRow) -> None:
        """A peer has taken a step."""

    def on_mean(self, row: MeanRow) -> None:
        """The mean model was evaluated."""

    def on_trouble(self, row: TroubleRow) -> None:
        """A peer left or came back, or the network was cut or healed."""

    def on_notice(self, notice: Notice) -> None:
        """Something happened that a person should know."""

    def on_state(self, step: int, state: Callable[[], dict[str, Any]], models: Array) -> None:
        """A moment between two events, after this many steps per peer, at which the state can be taken."""
