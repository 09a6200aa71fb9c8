"""What is recorded of a run without a coordinator: a row a step of a peer, and how good the mean model was when."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from erasurehead.consensus.contract import MixedStep


@dataclass(frozen=True)
class PeerRow:
    """One step of one peer.

    Attributes:
        peer: its number.
        step: of the peer, counted from 0.
        round: that it mixed in; the peer's own step where the policy knows no rounds of the network.
        begin: when it began to compute, in seconds since training began.
        ready: when its gradient was there.
        end: when it had mixed: from `ready` on it waited.
        links: neighbours that it averaged with, ascending.
        weights: of them; the rest to one is the peer's own.
        backups: neighbours that it did not wait for.
        hops: messages one after the other that it took to decide.
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
    """How good the mean of the peers' models was at a time.

    Attributes:
        step: steps a peer, on average.
        time: seconds since training began.
        objective: of the mean model over all training data, penalty included.
        distance: root mean square distance of the peers' models from it.
        metrics: on the test samples; empty where they are not asked for.
        peers: who was there.
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
    """What happened to the network.

    Attributes:
        time: when those who are left noticed it.
        gone: who was gone by then.
        sides: of a cut; empty for none.
        knitted: links that were added because the graph had fallen apart.
        shares: what became of the data of those who are gone: `"out"`, or `"taken over"`; empty where nobody is.
        noticed: of deaths, which neighbour noticed whose, and when: peer, whom, seconds since training began; the
            others have it from them.
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
