"""The interface of policies: whom a peer waits for before it mixes, as data and as a peer that acts on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from erasurehead.consensus.graphs import Graph
from erasurehead.consensus.peers import LocalPeer, Setup


class Policy(ABC):
    """Whom a peer waits for. Immutable data; `peer` makes a peer that acts on it.

    A policy of your own that waits for neighbours and mixes with those that are ready derives its peer from
    `RendezvousPeer` and implements `enough`; any other from `LocalPeer`.
    """

    keeps_mean: ClassVar[bool] = True
    """Whether mixing preserves the mean of all models: both ends of a link mix, with the same weight."""

    @abstractmethod
    def peer(self, setup: Setup) -> LocalPeer:
        """Return a peer."""

    def check(self, graph: Graph) -> None:
        """Raise if the policy does not fit a graph.

        Raises:
            InvalidArgument: if it does not; the error names the argument.
        """
        return

    @abstractmethod
    def __str__(self) -> str:
        """Return the policy as it is written in a run file."""
