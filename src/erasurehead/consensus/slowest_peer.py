"""In how many rounds the slowest peer takes part: the others wait for it in these rounds only."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import final

from erasurehead.consensus.callback import ConsensusCallback
from erasurehead.consensus.rows import PeerRow


@final
class SlowestPeer(ConsensusCallback):
    """Counts the rounds of a run, and those in which its slowest peer took part.

    With `dynamic()`, a slow peer that is a leaf of the spanning tree is waited for once per epoch, and an epoch has at
    most as many rounds as the tree has links. This measures the resulting fraction of rounds.
    """

    def __init__(self) -> None:
        self._rounds = set[int]()
        self._steps = Counter[int]()
        self._seconds = defaultdict[int, float](float)

    def on_step(self, row: PeerRow) -> None:
        self._rounds.add(row.round)
        self._steps[row.peer] += 1
        self._seconds[row.peer] += row.ready - row.begin

    @property
    def peer(self) -> int | None:
        """The peer with the largest mean time per gradient; None before the first step."""
        return max(self._steps, key=lambda peer: self._seconds[peer] / self._steps[peer], default=None)

    @property
    def rounds(self) -> tuple[int, int]:
        """Number of rounds in which the slowest peer took part, and of all rounds."""
        peer = self.peer
        return (0 if peer is None else self._steps[peer]), len(self._rounds)

    @property
    def slowdown(self) -> float:
        """Mean seconds per gradient of the slowest peer, relative to the others; NaN for a single peer."""
        peer = self.peer
        others = [self._seconds[other] / self._steps[other] for other in self._steps if other != peer]
        if peer is None or not sum(others):
            return float("nan")
        return self._seconds[peer] / self._steps[peer] / (sum(others) / len(others))
