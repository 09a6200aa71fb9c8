"""Whether the graphs of successive steps are jointly connected, which convergence requires."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from erasurehead._internal.documents import Entries
from erasurehead._internal.resumable import Resumable
from erasurehead._internal.storage.sealed import Unfit


@final
class JointConnectivity(Resumable):
    """The union of the realised links, which is reset whenever it connects all present peers.

    Arguments:
        n_peers: number of peers.

    Attributes:
        windows: for each window of time in which the union became connected: its begin and end, in seconds since
            training began, and its steps per peer.
        since: when the current window began.
    """

    checkpointed = ("windows", "since", "_present", "_steps", "_parents", "_n_components")

    def __init__(self, n_peers: int) -> None:
        self.windows: list[tuple[float, float, float]] = []
        self.since = 0.0
        self._n_peers, self._present = n_peers, n_peers
        self._steps = 0
        self._parents = list(range(n_peers))
        self._n_components = n_peers

    def add(self, peer: int, links: Iterable[int], time: float) -> None:
        """Record the links of a step.

        Arguments:
            peer: the peer that has taken the step.
            links: the neighbours that it has averaged with.
            time: when the step ended.
        """
        self._steps += 1
        for other in links:
            low, high = self._find(peer), self._find(other)
            if low != high:
                self._parents[high] = low
                self._n_components -= 1
        if self._n_components <= 1 + self._n_peers - self._present:
            self.windows.append((self.since, time, self._steps / max(1, self._present)))
            self._start_window(time)

    def reset(self, present: int, time: float) -> None:
        """Start a new window after a view change.

        Arguments:
            present: number of peers that are present now.
            time: when the view changed.
        """
        self._present = present
        self._start_window(time)

    def _start_window(self, time: float) -> None:
        self.since, self._steps = time, 0
        self._parents = list(range(self._n_peers))
        self._n_components = self._n_peers

    def _find(self, peer: int) -> int:
        parents = self._parents
        while parents[peer] != peer:
            parents[peer] = parents[parents[peer]]
            peer = parents[peer]
        return peer

    @property
    def longest(self) -> float:
        """The largest number of steps per peer of a complete window; inf if there is none."""
        return max((steps for _, _, steps in self.windows), default=float("inf"))

    @property
    def open_steps(self) -> float:
        """Steps per peer of the current window, in which the union is not connected yet."""
        return self._steps / max(1, self._present)

    def restore(self, state: Entries) -> None:
        super().restore(state)
        self.windows = [(float(begin), float(end), float(steps)) for begin, end, steps in self.windows]
        roots = range(self._n_peers)
        for _ in roots:  # whatever leads to no root within so many links goes round in a circle
            roots = [self._parents[peer] for peer in roots]
        if any(self._parents[root] != root or root < 0 for root in roots):
            raise Unfit("links that lead to no root")
