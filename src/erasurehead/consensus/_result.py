"""The result of training without a coordinator: the peers' models, and their distance from consensus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import PlainData
from erasurehead._internal.shown import shown
from erasurehead.consensus._graphs import Graph
from erasurehead.consensus._joint_connectivity import JointConnectivity
from erasurehead.consensus._rows import MeanRow, PeerRow, ViewChangeRow
from erasurehead.consensus._shares import Shares
from erasurehead.errors import check_count, counted
from erasurehead.training._result import Status


@dataclass(eq=False, repr=False)
class ConsensusRun:
    """A run without a coordinator.

    Attributes:
        policy: text of the policy.
        graph: the graph of peers.
        models: models of all peers at the end, shape (n_peers, n_parameters); the last ones of those that are gone.
        present: the peers that were present at the end.
        means: evaluations of the mean model: at the beginning, during the run and at the end; of a resumed run, those
            since then.
        rows: one per step of a peer, in the order in which they ended; empty if they were not kept.
        view_changes: changes of the network that peers have noticed.
        steps: total number of steps of all peers.
        seconds: duration of the run, in seconds of the clock.
        messages: total number of messages sent; `vectors` of them carried a model, the others only a few numbers.
        vectors: see `messages`.
        gradient_seconds: processor seconds spent on gradients, on the virtual clock.
        joint: the windows in which the union of the realised graphs became connected.
        status: how the run ended: finished, interrupted, or failed (if all peers were gone or waiting for ever).
        stopped: why the run ended before its last step; empty if it did not.
        state: the state from which `train(resume=...)` continues bit for bit; None if it was not requested.
        shares: the samples of each peer at the end.
        first_objective: the objective of the mean model at the beginning; of a resumed run, when that first began.
    """

    policy: str
    graph: Graph
    models: Array
    present: list[int]
    means: list[MeanRow] = field(default_factory=list[MeanRow])
    rows: list[PeerRow] = field(default_factory=list[PeerRow])
    view_changes: list[ViewChangeRow] = field(default_factory=list[ViewChangeRow])
    steps: int = 0
    seconds: float = 0.0
    messages: int = 0
    vectors: int = 0
    gradient_seconds: float = 0.0
    joint: JointConnectivity | None = None
    status: Status = "finished"
    stopped: str = ""
    state: PlainData | None = None
    shares: Shares = ()
    first_objective: float = math.nan

    def __repr__(self) -> str:
        return (
            f"ConsensusRun({self.policy} on {self.graph}: {counted('step', self.steps)} of "
            f"{counted('peer', self.graph.n_peers)} in "
            f"{self.seconds:.4g} s)"
        )

    def _repr_html_(self) -> str:
        return shown("consensus._pictures", "run_page")(self)

    def plot(self, ax: Any = None, kind: str = "progress") -> Any:
        """Draw the run with matplotlib (the extra `report`), and return the axes.

        Arguments:
            ax: where to draw; by default in a new figure.
            kind: `"progress"`, the objective of the mean model over time; `"distance"`, that of the peers from it; and
                if rows were kept, `"graph"`, `"links"`, how often each was used, or `"timeline"`, what peers did.

        Raises:
            InvalidArgument: if there is no such picture, or `ax` is something else.
            MissingExtra: if matplotlib is not installed.
        """
        return shown("consensus._pictures", "plot_run")(self, ax, kind)

    @property
    def x(self) -> Array:
        """The mean of the models of all present peers, shape (n_parameters,)."""
        return self.models[self.present].mean(axis=0)

    def model(self, peer: int | None = None) -> Array:
        """Return a model of the run, shape (n_parameters,).

        Arguments:
            peer: number of a peer, for its model at the end, or its last one if it is gone; None for the mean model.

        Raises:
            InvalidArgument: if there is no such peer.
        """
        if peer is None:
            return self.x
        return self.models[check_count("peer", peer, 0, self.graph.n_peers - 1)]

    def distance_from_mean(self, peer: int | None = None) -> float:
        """Return the Euclidean distance of a peer's model from the mean model; 0 for None, which is the mean model."""
        return float(np.linalg.norm(self.model(peer) - self.x))

    @property
    def distance(self) -> float:
        """Root mean square distance of the present peers' models from their mean: the distance from consensus."""
        return distance_of(self.models[self.present])

    @property
    def objective(self) -> float:
        """The objective of the mean model at the end, over all training data."""
        return self.means[-1].objective

    @property
    def seconds_per_step(self) -> float:
        """Mean seconds of the clock per step of a peer."""
        return self.seconds * len(self.present) / self.steps if self.steps else math.nan

    @property
    def backups(self) -> float:
        """Mean number of neighbours that a step does not wait for; NaN if no rows were kept."""
        return float(np.mean([row.backups for row in self.rows])) if self.rows else math.nan

    def time_to(self, objective: float) -> float | None:
        """Return the time at which the mean model reached a given objective, in seconds; None if it never did.

        The time is interpolated linearly between two evaluations.
        """
        before: MeanRow | None = None
        for row in self.means:
            if row.objective <= objective:
                if before is None or not before.objective > objective:
                    return row.time
                fraction = (before.objective - objective) / (before.objective - row.objective)
                return before.time + fraction * (row.time - before.time)
            before = row
        return None

    def summary(self) -> PlainData:
        """Return the figures of the whole run as plain data, as `summary.json` has them."""
        last = self.means[-1]
        return {
            "policy": self.policy,
            "graph": str(self.graph),
            "peers": self.graph.n_peers,
            "steps": self.steps,
            "seconds": self.seconds,
            "seconds_per_step": self.seconds_per_step,
            "objective": last.objective,
            "first_objective": self.first_objective,
            "distance": last.distance,
            "metrics": dict(last.metrics),
            "messages": self.messages,
            "messages_with_models": self.vectors,
            "messages_per_step": self.messages / self.steps if self.steps else math.nan,
            "backups": self.backups,
            "spectral_gap": self.graph.spectral_gap,
            "present": self.present,
            "joint_steps": self.joint.longest if self.joint and self.joint.windows else None,
            "gone": [peer for peer in range(self.graph.n_peers) if peer not in self.present],
            "stopped": self.stopped,
        }


@dataclass(frozen=True)
class SlowestPeer:
    """The peer whose gradients take longest, and how often others waited for it: in the rounds that it took part in.

    With `dynamic()`, a slow peer that is a leaf of the spanning tree is waited for once per epoch, and an epoch has at
    most as many rounds as the tree has links.

    Attributes:
        peer: its number.
        times: mean seconds of its gradients, relative to the others; NaN for a single peer.
        rounds: number of rounds in which it took part.
        of: number of all rounds.
    """

    peer: int
    times: float
    rounds: int
    of: int

    @classmethod
    def of_rows(cls, rows: Sequence[PeerRow]) -> SlowestPeer | None:
        """Return the slowest peer of a run, given its steps; None if there are none."""
        seconds: dict[int, list[float]] = {}
        for row in rows:
            seconds.setdefault(row.peer, []).append(row.ready - row.begin)
        means = {peer: fmean(own) for peer, own in seconds.items()}
        if not means:
            return None
        peer = max(means, key=lambda one: means[one])
        others = [mean for one, mean in means.items() if one != peer]
        times = means[peer] / fmean(others) if sum(others) else math.nan
        return cls(peer, times, len(seconds[peer]), len({row.round for row in rows}))


def distance_of(models: Array) -> float:
    """Return the root mean square distance of models, shape (n, n_parameters), from their mean."""
    apart = models - models.mean(axis=0)
    return float(np.sqrt(np.einsum("ij,ij->", apart, apart) / len(models)))
