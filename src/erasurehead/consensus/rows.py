"""The records of a run without a coordinator: a row per step of a peer, and evaluations of the mean model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from erasurehead.consensus.contract import MixedStep


@dataclass(frozen=True)
class PeerRow:
    """One step of one peer.

    Attributes:
        peer: number of the peer.
        step: number of its step, counted from 0.
        round: the round in which it mixed; the peer's own step if the policy has no rounds of the network.
        begin: when it began to compute, in seconds since training began.
        ready: when its gradient was ready, in seconds since training began.
        end: when it had mixed; it waited from `ready` until then.
        links: neighbours that it averaged with, ascending.
        weights: their weights; the rest, up to one, is the peer's own.
        backups: neighbours that it did not wait for.
        hops: number of consecutive messages that the decision took.
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

    @classmethod
    def of(cls, peer: int, end: float, step: MixedStep) -> PeerRow:
        """Return the row of a step that has just ended."""
        return cls(
            peer, step.step, step.round, step.begun, step.ready, end, list(step.links), list(step.weights),
            step.backups, step.hops,
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class MeanRow:
    """An evaluation of the mean of the peers' models.

    Attributes:
        step: mean number of steps per peer.
        time: seconds since training began.
        objective: objective of the mean model over all training data, penalty included.
        distance: root mean square distance of the peers' models from it.
        metrics: metrics on the test samples; empty if they were not requested.
        peers: the peers that were present.
    """

    step: float
    time: float
    objective: float
    distance: float
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    peers: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class TroubleRow:
    """A change of the network.

    Attributes:
        time: when the remaining peers noticed it.
        gone: the peers that were gone by then.
        sides: the sides of a cut; empty for none.
        knitted: links that were added because the graph was disconnected.
        shares: what happened to the samples of peers that are gone: `"out"`, or `"taken over"`; empty if none is.
        noticed: for deaths, which neighbour noticed which peer's, and when, in seconds since training began; the
            others were told by these.
    """

    time: float
    gone: list[int]
    sides: list[list[int]] = field(default_factory=list[list[int]])
    knitted: list[list[int]] = field(default_factory=list[list[int]])
    shares: str = ""
    noticed: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, ready for JSON."""
        return asdict(self)
