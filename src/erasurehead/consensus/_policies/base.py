"""The interface of policies: which neighbours a peer waits for before it mixes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from erasurehead.consensus._graphs import Graph
from erasurehead.consensus._peers import LocalPeer, Setup


class Policy(ABC):
    """Which neighbours a peer waits for before it mixes. Immutable data, with a factory of peers that act on it.

    If your own policy waits for some neighbours and mixes with those that are ready, derive its peer from
    `RendezvousPeer` and implement `enough`; otherwise derive it from `LocalPeer`.
    """

    @abstractmethod
    def peer(self, setup: Setup) -> LocalPeer:
        """Return a new peer that acts on this policy."""

    def check(self, graph: Graph) -> None:
        """Check that the policy fits a graph.

        Raises:
            InvalidArgument: if it does not; the error names the argument.
        """
        return

    @abstractmethod
    def __str__(self) -> str:
        """Return the policy as it is written in a run file."""
