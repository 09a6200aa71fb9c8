"""Faults of peers and their network during a run: leaving, coming back, being cut off."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from erasurehead.consensus.graphs import Graph
from erasurehead.drills.schedule import FaultSchedule
from erasurehead.errors import check_count, invalid, real


@final
@dataclass(frozen=True)
class Leave:
    """A peer is killed, and may come back, with nothing but its place in the graph.

    Arguments:
        peer: number of the peer.
        at: when it is killed, in seconds since training began.
        back: when it comes back, in seconds since training began; None for never.
    """

    peer: int
    at: float
    back: float | None = None

    def __post_init__(self) -> None:
        check_count("peer", self.peer, at_least=0)
        _check_times(self.at, self.back, "back")


@final
@dataclass(frozen=True)
class Cut:
    """The network splits into two parts between which no message gets through, and heals.

    Arguments:
        peers: the peers of one part; all others are the other.
        at: when it splits, in seconds since training began.
        until: when it heals, in seconds since training began; None for never.
    """

    peers: tuple[int, ...]
    at: float
    until: float | None = None

    def __post_init__(self) -> None:
        for peer in self.peers:
            check_count("peers", peer, at_least=0)
        object.__setattr__(self, "peers", tuple(sorted(set(self.peers))))
        if not self.peers:
            raise invalid("peers", "must be at least one", self.peers, "a network is cut between them and all others")
        _check_times(self.at, self.until, "until")


Trouble: TypeAlias = Leave | Cut


def parted(one: int, other: int, sides: Iterable[Container[int]]) -> bool:
    """Return whether one of the cuts separates two peers.

    Arguments:
        one, other: the two peers.
        sides: the peers on one side of each cut.
    """
    return any((one in side) != (other in side) for side in sides)


def _check_times(at: float, end: float | None, name: str) -> None:
    if not (np.isfinite(real(at)) and at >= 0.0):
        raise invalid("at", "must be a finite number of seconds of at least 0", at)
    if end is not None and not real(end) > at:
        raise invalid(name, f"must be after at ({at})", end)


def check_troubles(troubles: Iterable[Trouble], graph: Graph) -> tuple[Trouble, ...]:
    """Check faults against a graph, and return them as a tuple.

    Raises:
        InvalidArgument: if a peer does not exist, one leaves while it is gone, all leave, or a cut has an empty side.
    """
    found = tuple(sorted(troubles, key=lambda trouble: trouble.at))
    away: dict[int, float] = {}
    cut_until = -1.0
    for trouble in found:
        if isinstance(trouble, Leave):
            check_count("peer", trouble.peer, 0, graph.n_peers - 1)
            if trouble.at < away.get(trouble.peer, -1.0):
                raise invalid("faults", f"must let peer {trouble.peer} come back before it leaves again", trouble)
            away[trouble.peer] = np.inf if trouble.back is None else trouble.back
            if sum(end > trouble.at for end in away.values()) > graph.n_peers - 1:
                raise invalid("faults", "must leave at least one peer at any time", trouble)
        else:
            for peer in trouble.peers:
                check_count("peers", peer, 0, graph.n_peers - 1)
            if not 0 < len(trouble.peers) < graph.n_peers:
                raise invalid("peers of a cut", "must be some and not all", trouble.peers)
            if trouble.at < cut_until:
                raise invalid("faults", "must let one cut heal before the next", trouble)
            cut_until = np.inf if trouble.until is None else trouble.until
    return found


def from_schedule(schedule: FaultSchedule) -> tuple[Trouble, ...]:
    """Convert a fault schedule to faults of peers.

    Peers that are killed leave for good; those that hang or are disconnected leave, and come back afterwards.

    Raises:
        InvalidArgument: if it has a fault that does not exist for peers, as they have no coordinator and do not decode.
    """
    found: list[Trouble] = []
    for fault in schedule.faults:
        if fault.kind == "kill" and fault.worker is not None:
            found.append(Leave(fault.worker, fault.at))
        elif fault.kind in ("stop", "disconnect") and fault.worker is not None:
            found.append(Leave(fault.worker, fault.at, None if fault.lasting is None else fault.until))
        else:
            raise invalid("kinds", "must be among kill, stop, disconnect for peers", fault.kind)
    return tuple(found)
