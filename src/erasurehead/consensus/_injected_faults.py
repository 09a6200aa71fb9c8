"""Faults that a run injects into peers and their network: crashes, with or without a rejoin, and partitions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from erasurehead.consensus._graphs import Graph, Sides
from erasurehead.drills._schedule import SILENCING, FaultSchedule
from erasurehead.errors import check_count, check_not_negative, invalid, numbered, real


@final
@dataclass(frozen=True)
class Crash:
    """A peer is killed. It may rejoin later, without any of its state.

    Arguments:
        peer: number of the peer.
        at: when it is killed, in seconds since training began.
        rejoin: when it rejoins, in seconds since training began; None for never.
    """

    peer: int
    at: float
    rejoin: float | None = None

    def __post_init__(self) -> None:
        check_count("peer", self.peer, at_least=0)
        _check_times(self.at, self.rejoin, "rejoin")

    def __str__(self) -> str:
        back = "" if self.rejoin is None else f", and comes back at {self.rejoin:.4g} s"
        return f"peer {self.peer} is killed{back}"


@final
@dataclass(frozen=True)
class NetworkPartition:
    """The network splits into two sides; messages between them are lost until it heals.

    Arguments:
        peers: the peers on one side; all others are on the other side.
        at: when the network splits, in seconds since training began.
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

    def __str__(self) -> str:
        healed = "" if self.until is None else f", until {self.until:.4g} s"
        return f"the network is cut: {numbered('peer', self.peers)} on one side{healed}"


PeerFault: TypeAlias = Crash | NetworkPartition


def partitioned(one: int, other: int, sides: Iterable[Container[int]]) -> bool:
    """Return whether two peers are on different sides of a network partition.

    Arguments:
        one, other: the two peers.
        sides: the peers on each side; empty if the network is not partitioned.
    """
    return any((one in side) != (other in side) for side in sides)


def _check_times(at: float, end: float | None, name: str) -> None:
    check_not_negative("at", at, "must be a finite number of seconds of at least 0")
    if end is not None and not real(end) > at:
        raise invalid(name, f"must be after at ({at})", end)


def check_faults(faults: Iterable[PeerFault], graph: Graph) -> tuple[PeerFault, ...]:
    """Check faults against a graph, and return them ordered by time.

    Raises:
        InvalidArgument: if a peer does not exist, or crashes while it is gone, if all peers would be gone at once, if a
            side of a partition is empty, or if partitions overlap in time.
    """
    given: list[Any] = [*faults] if isinstance(faults, Iterable) else [faults]  # pyright: ignore[reportUnnecessaryIsInstance]
    if not all(isinstance(fault, PeerFault) for fault in given):
        raise invalid("faults", "must be a list of crashes and partitions", faults, "such as [Crash(2, at=5.0)]")
    ordered: tuple[PeerFault, ...] = tuple(sorted(given, key=lambda fault: fault.at))
    gone_until: dict[int, float] = {}
    partitioned_until = -1.0
    for fault in ordered:
        if isinstance(fault, Crash):
            check_count("peer", fault.peer, 0, graph.n_peers - 1)
            if fault.at < gone_until.get(fault.peer, -1.0):
                raise invalid("faults", f"must let peer {fault.peer} rejoin before it crashes again", fault)
            gone_until[fault.peer] = np.inf if fault.rejoin is None else fault.rejoin
            if sum(end > fault.at for end in gone_until.values()) > graph.n_peers - 1:
                raise invalid("faults", "must leave at least one peer at any time", fault)
        else:
            for peer in fault.peers:
                check_count("peers", peer, 0, graph.n_peers - 1)
            if not 0 < len(fault.peers) < graph.n_peers:
                raise invalid("peers of a network partition", "must be some of the peers, but not all", fault.peers)
            if fault.at < partitioned_until:
                raise invalid("faults", "must let one network partition heal before the next", fault)
            partitioned_until = np.inf if fault.until is None else fault.until
    return ordered


def changes_by(faults: Iterable[PeerFault], n_peers: int) -> Iterator[tuple[float, int, str, Sides]]:
    """Yield what faults change, and when: a peer has a `"crash"` or a `"rejoin"`, or there is another `"partition"`.

    Arguments:
        faults: the faults.
        n_peers: number of peers.

    Yields:
        Seconds since training began; the peer, -1 for the network; what happens; the sides of the partition, none of
        one that has healed.
    """
    for fault in faults:
        if isinstance(fault, Crash):
            yield fault.at, fault.peer, "crash", ()
            if fault.rejoin is not None:
                yield fault.rejoin, fault.peer, "rejoin", ()
        else:
            inside = frozenset(fault.peers)
            yield fault.at, -1, "partition", (inside, frozenset(range(n_peers)) - inside)
            if fault.until is not None:
                yield fault.until, -1, "partition", ()


def from_schedule(schedule: FaultSchedule) -> tuple[PeerFault, ...]:
    """Convert a fault schedule, as `erasurehead drill` writes it, to faults of peers.

    Peers that are killed never rejoin. Peers that hang or are disconnected count as crashed, and rejoin afterwards.

    Raises:
        InvalidArgument: if the schedule has faults of other kinds, which need a coordinator or a code.
    """
    faults: list[PeerFault] = []
    for fault in schedule.faults:
        if fault.kind == "kill" and fault.worker is not None:
            faults.append(Crash(fault.worker, fault.at))
        elif fault.kind in SILENCING and fault.worker is not None:
            faults.append(Crash(fault.worker, fault.at, None if fault.lasting is None else fault.until))
        else:
            raise invalid("kinds", "must be among kill, stop, disconnect for peers", fault.kind)
    return tuple(faults)
