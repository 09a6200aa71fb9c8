"""Plans of runs without a coordinator, checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus.algorithms import Algorithm, parse_algorithm
from erasurehead.consensus.contract import Peer
from erasurehead.consensus.faults import PeerFault, check_faults
from erasurehead.consensus.graphs import Graph, parse_graph
from erasurehead.consensus.mixing import FixedMixing, Mixing, parse_mixing
from erasurehead.consensus.peers import Setup
from erasurehead.consensus.policies import Policy, parse_policy
from erasurehead.consensus.shares import LocalGradients, SampleSplit, Shares, checked_shares, parse_split
from erasurehead.consensus.views import NetworkView
from erasurehead.delays import as_delays
from erasurehead.delays.base import Delays
from erasurehead.errors import InvalidArgument, check_count, invalid, real
from erasurehead.optimizers.schedules import Schedule, as_schedule
from erasurehead.problems.base import Problem


@dataclass(frozen=True, eq=False)
class Terms:
    """The part of a plan that does not depend on the problem.

    Attributes:
        graph: the links between peers.
        policy: which neighbours a peer waits for.
        mixing: the weights with which neighbours average.
        algorithm: how a peer's model moves.
        rate: step size, by a peer's own steps.
        delays: delays of the gradients.
        late: what happens to a gradient that nobody waits for any more: it is finished or dropped.
        rows_every: seconds of the clock after which the next row of the delays applies; None for one row per step.
        seconds_per_step: on the virtual clock, seconds that are added to each gradient.
        latency: on the virtual clock, seconds that each message takes.
        faults: faults of peers and of the network.
        notice: seconds until the other peers notice a crash or a network partition.
        orphans: whether the samples of a peer that is gone are left out, or taken over by its neighbours.
        seed: seed of mini-batches, and of the policy's random choices.
    """

    graph: Graph
    policy: Policy
    mixing: Mixing
    algorithm: Algorithm
    rate: Schedule
    delays: Delays
    late: Literal["carry", "preempt"]
    rows_every: float | None
    seconds_per_step: float
    latency: float
    faults: tuple[PeerFault, ...]
    notice: float
    orphans: Literal["out", "taken over"]
    seed: int


@dataclass(frozen=True, eq=False)
class ConsensusPlan(Terms):
    """A checked plan of a run without a coordinator.

    Attributes:
        problem: what is minimised.
        shares: the samples of each peer at the beginning.
        batch: number of samples per gradient; None for all samples of a peer.
        x: the first model of all peers, shape (n_parameters,).
    """

    problem: Problem
    shares: Shares
    batch: int | None
    x: Array

    def peer(self, number: int, steps: int = 0) -> Peer:
        """Return a new peer, which has not begun.

        Arguments:
            number: number of the peer.
            steps: number of steps that its earlier incarnations have taken; 0 if it has not crashed.
        """
        setup = Setup(
            number,
            self._view,
            self._mixing,
            self.algorithm,
            self.rate,
            self.x,
            self.late == "preempt",
            self.seed,
            self.policy,
            steps,
        )
        return self.policy.peer(setup)

    @cached_property
    def _view(self) -> NetworkView:
        return NetworkView(self.graph)

    @cached_property
    def _mixing(self) -> Mixing:
        return self.mixing.on(self.graph, self.graph.edges)

    def peers(self) -> list[Peer]:
        """Return a new peer for each number."""
        return [self.peer(number) for number in range(self.graph.n_peers)]


def plan(
    problem: Problem,
    graph: Graph | str,
    policy: Policy | str = "dynamic()",
    *,
    peers: int | None = None,
    rate: float | str | Schedule,
    algorithm: Algorithm | str = "sgd()",
    mixing: Mixing | str = "metropolis()",
    split: SampleSplit | str | Sequence[Any] = "even()",
    batch: int | None = None,
    delays: Delays | str = "none()",
    late: Literal["carry", "preempt"] = "carry",
    rows_every: float | None = None,
    seconds_per_step: float = 0.0,
    latency: float = 0.0,
    faults: Sequence[PeerFault] = (),
    notice: float = 0.0,
    orphans: Literal["out", "taken over"] = "out",
    seed: int = 0,
    initial: Array | None = None,
) -> ConsensusPlan:
    """Return the plan of a run; see `train` and `ConsensusPlan` for the arguments.

    Raises:
        InvalidArgument: if an argument is invalid; the error names it.
    """
    terms = check_terms(
        _graph(graph, peers, problem),
        policy,
        rate=rate,
        algorithm=algorithm,
        mixing=mixing,
        delays=delays,
        late=late,
        rows_every=rows_every,
        seconds_per_step=seconds_per_step,
        latency=latency,
        faults=faults,
        notice=notice,
        orphans=orphans,
        seed=seed,
    )
    n_peers = terms.graph.n_peers
    if isinstance(split, str | SampleSplit):
        shares = parse_split(split).shares(problem, n_peers)
    else:
        shares = checked_shares(split, problem.n_samples, n_peers)
    x = _first_model(problem, initial)
    LocalGradients(problem, shares, batch, seed)
    return ConsensusPlan(**vars(terms), problem=problem, shares=shares, batch=batch, x=x)


def check_terms(
    graph: Graph,
    policy: Policy | str,
    *,
    rate: float | str | Schedule,
    algorithm: Algorithm | str,
    mixing: Mixing | str,
    delays: Delays | str,
    late: Literal["carry", "preempt"],
    rows_every: float | None,
    seconds_per_step: float,
    latency: float,
    faults: Sequence[PeerFault],
    notice: float,
    orphans: Literal["out", "taken over"],
    seed: int,
) -> Terms:
    """Check the arguments of `plan` that do not depend on the problem, and return them in their final form.

    Raises:
        InvalidArgument: if an argument is invalid; the error names it.
    """
    parsed_policy, weights = parse_policy(policy), parse_mixing(mixing)
    try:
        parsed_policy.check(graph)
    except InvalidArgument as error:
        raise error.inside("policy", str(policy)) from None
    weights.check(graph)
    model = delays if isinstance(delays, Delays) else as_delays(delays)
    model.check_workers(graph.n_peers)
    if late not in ("carry", "preempt"):
        raise invalid("late", "must be 'carry' or 'preempt'", late)
    if orphans not in ("out", "taken over"):
        raise invalid("orphans", "must be 'out' or 'taken over'", orphans)
    if rows_every is not None and not (real(rows_every) > 0 and math.isfinite(rows_every)):
        raise invalid("rows_every", "must be a positive number of seconds, or None", rows_every)
    for name, value in (("seconds_per_step", seconds_per_step), ("latency", latency), ("notice", notice)):
        if not (math.isfinite(real(value)) and value >= 0.0):
            raise invalid(name, "must be a finite number of seconds of at least 0", value)
    checked_faults = check_faults(faults, graph)
    if checked_faults and isinstance(weights, FixedMixing) and weights.matrix is not None:
        raise invalid(
            "mixing",
            "must not be a matrix of your own where peers leave",
            str(weights),
            "metropolis() works on any graph",
        )
    return Terms(
        graph,
        parsed_policy,
        weights,
        parse_algorithm(algorithm),
        as_schedule(rate),
        model,
        late,
        rows_every,
        float(seconds_per_step),
        float(latency),
        checked_faults,
        float(notice),
        orphans,
        check_count("seed", seed, at_least=0),
    )


def _graph(graph: Graph | str, peers: int | None, problem: Problem) -> Graph:
    if peers is not None and check_count("peers", peers) > problem.n_samples:  # checked before a huge graph is drawn
        raise invalid(
            "peers",
            f"must be at most the number of training samples, {problem.n_samples}",
            peers,
            "each peer has at least one",
        )
    if isinstance(graph, str):
        if peers is None:
            raise invalid("peers", "must be given if the graph is a text", peers)
        return parse_graph(graph, peers)
    if peers is not None and peers != graph.n_peers:
        raise invalid("peers", f"must be {graph.n_peers}, as in the graph, or left out", peers)
    return graph


def _first_model(problem: Problem, initial: Array | None) -> Array:
    x = problem.initial() if initial is None else np.array(initial, dtype=np.float64)
    if x.shape != (problem.n_parameters,) or not np.isfinite(x).all():
        raise invalid("initial", f"must be finite numbers, shape ({problem.n_parameters},)", x.shape)
    x.flags.writeable = False
    return x
