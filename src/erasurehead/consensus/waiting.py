"""How often the slowest peer takes part, which is what waiting for it amounts to."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import final

from erasurehead.consensus.rows import PeerRow
from erasurehead.consensus.watcher import Watcher


@final
class SlowestPeer(Watcher):
    """Counts the rounds of a run, and those in which its slowest peer took part.

    A slow peer that is a leaf of the tree of `dynamic()` is waited for once per epoch, and an epoch has at most as many
    rounds as the tree has links: this measures the resulting fraction of rounds.
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
        """The peer whose gradients take longest, on average; None before the first step."""
        return max(self._steps, key=lambda peer: self._seconds[peer] / self._steps[peer], default=None)

    @property
    def rounds(self) -> tuple[int, int]:
        """The rounds in which it took part, and all of them."""
        peer = self.peer
        return (0 if peer is None else self._steps[peer]), len(self._rounds)

    @property
    def times(self) -> float:
        """Mean seconds of its gradients, relative to the others'; NaN for a single peer."""
        peer = self.peer
        others = [self._seconds[one] / self._steps[one] for one in self._steps if one != peer]
        if peer is None or not sum(others):
            return float("nan")
        return self._seconds[peer] / self._steps[peer] / (sum(others) / len(others))
