"""What a policy is: whom a peer waits for before it mixes, as plain data and as a peer that does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from erasurehead.consensus.graphs import Graph
from erasurehead.consensus.peers import LocalPeer, Setup


class Policy(ABC):
    """Whom a peer waits for. Plain data; `peer` makes the one that acts by it.

    A policy of your own that waits for neighbours and mixes with those who are there derives its peer from
    `RendezvousPeer` and implements `enough`; any other from `LocalPeer`.
    """

    keeps_mean: ClassVar[bool] = True
    """Whether mixing leaves the mean of all models as it is: both ends of a link mix, with one weight."""

    @abstractmethod
    def peer(self, setup: Setup) -> LocalPeer:
        """Return a peer."""

    def check(self, graph: Graph) -> None:
        """Raise if the policy does not go with a graph.

        Raises:
            InvalidArgument: naming the argument.
        """
        return

    @abstractmethod
    def __str__(self) -> str:
        """Return the policy as a run file writes it."""
