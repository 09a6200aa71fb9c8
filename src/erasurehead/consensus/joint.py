"""Checks during a run that the graphs of its steps are jointly connected, as convergence requires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final


@final
class JointConnectivity:
    """The union of realised links, which starts over whenever it connects all present peers.

    Arguments:
        n_peers: number of peers.

    Attributes:
        windows: begin and end of each window of time in which the union became connected, and its steps per peer.
        since: when the current window began.
    """

    def __init__(self, n_peers: int) -> None:
        self.windows: list[tuple[float, float, float]] = []
        self.since = 0.0
        self._n_peers, self._there = n_peers, n_peers
        self._steps = 0
        self._parents = list(range(n_peers))
        self._parts = n_peers

    def add(self, peer: int, links: Iterable[int], time: float) -> None:
        """Record a step of a peer."""
        self._steps += 1
        for other in links:
            low, high = self._find(peer), self._find(other)
            if low != high:
                self._parents[high] = low
                self._parts -= 1
        if self._parts <= 1 + self._n_peers - self._there:
            self.windows.append((self.since, time, self._steps / max(1, self._there)))
            self._begin(time)

    def change(self, there: int, time: float) -> None:
        """Record the number of present peers; the union starts over."""
        self._there = there
        self._begin(time)

    def _begin(self, time: float) -> None:
        self.since, self._steps = time, 0
        self._parents = list(range(self._n_peers))
        self._parts = self._n_peers

    def _find(self, peer: int) -> int:
        parents = self._parents
        while parents[peer] != peer:
            parents[peer] = parents[parents[peer]]
            peer = parents[peer]
        return peer

    @property
    def longest(self) -> float:
        """The largest number of steps per peer of a window; inf if none was ever complete."""
        return max((steps for _, _, steps in self.windows), default=float("inf"))

    @property
    def open_steps(self) -> float:
        """Steps per peer of the current window."""
        return self._steps / max(1, self._there)

    def state(self) -> list[Any]:
        """Return everything that `restore` needs, as plain data."""
        windows = [list(window) for window in self.windows]
        return [self.since, self._steps, list(self._parents), self._parts, self._there, windows]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue from what `state` returned."""
        self.since, self._steps, parents, self._parts, self._there, windows = state
        self._parents = [int(parent) for parent in parents]
        self.windows = [(begin, end, steps) for begin, end, steps in windows]
