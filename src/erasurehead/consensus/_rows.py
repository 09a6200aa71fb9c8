"""Rows of the records of a run without a coordinator: steps of peers, evaluations of the mean model, view changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from erasurehead._internal.documents import PlainData


class _Row:
    def as_dict(self) -> PlainData:
        """Return the row as plain data, ready for JSON."""
        return vars(self)


@dataclass(frozen=True)
class PeerRow(_Row):
    """One step of one peer.

    Attributes:
        peer: number of the peer.
        step: number of its step, counted from 0.
        round: the round in which it mixed; the number of the step if the policy has no rounds of the whole network.
        begin: when it began to compute, in seconds since training began.
        ready: when its gradient was ready, in seconds since training began.
        end: when it had mixed, in seconds since training began; it waited from `ready` until then.
        links: neighbours that it averaged with, ascending.
        weights: their mixing weights; one minus their sum is the peer's own weight.
        backups: number of neighbours that it did not wait for.
        hops: number of consecutive messages that the decision took; 0 if nothing had to be decided.
    """

    peer: int
    step: int
    round: int
    begin: float
    ready: float
    end: float
    links: list[int] = field(default_factory=list[int])
    weights: list[float] = field(default_factory=list[float])
    backups: int = 0
    hops: int = 0


@dataclass(frozen=True)
class MeanRow(_Row):
    """An evaluation of the mean of the peers' models.

    Attributes:
        step: mean number of steps per peer.
        time: seconds since training began.
        objective: objective of the mean model over all training data, including the penalty.
        distance: root mean square distance of the peers' models from the mean model (`distance_of`).
        metrics: metrics on the test samples; empty if they were not requested.
        peers: number of present peers.
    """

    step: float
    time: float
    objective: float
    distance: float
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    peers: int = 0


@dataclass(frozen=True)
class ViewChangeRow(_Row):
    """A new view of the network: peers have left or rejoined, or a network partition has begun or healed.

    Attributes:
        time: when the change was first noticed, in seconds since training began.
        gone: the peers that are gone.
        sides: the sides of a network partition; empty for none.
        added_links: links that were added to reconnect the graph.
        shares: what happens to the samples of the peers that are gone: `"out"` or `"taken over"`; empty if none is.
        noticed: for each detected death: the detecting neighbour, the dead peer, and when, in seconds since training
            began; these neighbours have told the other peers.
    """

    time: float
    gone: list[int]
    sides: list[list[int]] = field(default_factory=list[list[int]])
    added_links: list[list[int]] = field(default_factory=list[list[int]])
    shares: str = ""
    noticed: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])
