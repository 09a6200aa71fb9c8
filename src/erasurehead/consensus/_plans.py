"""Plans of runs without a coordinator, checked before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus._algorithms import Algorithm, DecentralizedSGD, parse_algorithm
from erasurehead.consensus._contract import Peer
from erasurehead.consensus._graphs import Graph, parse_graph
from erasurehead.consensus._injected_faults import PeerFault, check_faults
from erasurehead.consensus._mixing import Metropolis, Mixing, parse_mixing
from erasurehead.consensus._peers import Setup
from erasurehead.consensus._policies import Dynamic, Policy, parse_policy
from erasurehead.consensus._shares import LocalGradients, SampleSplit, Shares, checked_shares, parse_split
from erasurehead.consensus._views import NetworkView
from erasurehead.delays import Delays
from erasurehead.delays._fixed import NoDelay
from erasurehead.delays._text import as_delays
from erasurehead.errors import (
    InvalidArgument,
    check_count,
    check_not_negative,
    check_positive,
    check_type,
    invalid,
)
from erasurehead.optimizers import Schedule
from erasurehead.optimizers._schedules import as_schedule
from erasurehead.problems import Problem
from erasurehead.problems._own import check_own, check_problem

_READ: Mapping[str, Callable[[Any], Any]] = {
    "policy": parse_policy,
    "mixing": parse_mixing,
    "delays": as_delays,
    "algorithm": parse_algorithm,
    "rate": as_schedule,
}
"""For each term that can be given as a text: what makes of the text what it stands for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ConsensusTerms:
    """The part of a plan that does not depend on the problem. Whatever is made of a text can be given as its text.

    Arguments:
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

    Raises:
        InvalidArgument: if an argument is invalid; the error names it.
    """

    graph: Graph
    policy: Policy = field(default_factory=Dynamic)
    mixing: Mixing = field(default_factory=Metropolis)
    algorithm: Algorithm = field(default_factory=DecentralizedSGD)
    rate: Schedule
    delays: Delays = field(default_factory=NoDelay)
    late: Literal["carry", "preempt"] = "carry"
    rows_every: float | None = None
    seconds_per_step: float = 0.0
    latency: float = 0.0
    faults: Sequence[PeerFault] = ()
    notice: float = 0.0
    orphans: Literal["out", "taken over"] = "out"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, read in _READ.items():
            object.__setattr__(self, name, read(getattr(self, name)))
        try:
            self.policy.check(self.graph)
        except InvalidArgument as error:
            raise error.inside("policy", str(self.policy)) from None
        self.delays.check_workers(self.graph.n_peers)
        for name, one, other in (("late", "carry", "preempt"), ("orphans", "out", "taken over")):
            if (value := getattr(self, name)) not in (one, other):
                raise invalid(name, f"must be '{one}' or '{other}'", value)
        if self.rows_every is not None:
            check_positive("rows_every", self.rows_every, "must be a positive number of seconds, or None")
        for name in ("seconds_per_step", "latency", "notice"):
            check_not_negative(name, getattr(self, name), "must be a finite number of seconds of at least 0")
        check_count("seed", self.seed, at_least=0)
        object.__setattr__(self, "faults", check_faults(self.faults, self.graph))


@dataclass(frozen=True, eq=False, kw_only=True)
class ConsensusPlan(ConsensusTerms):
    """A checked plan of a run without a coordinator: its terms (see `ConsensusTerms`), and what is minimised.

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


def plan(
    problem: Problem,
    graph: Graph | str,
    policy: Policy | str = "dynamic()",
    *,
    peers: int | None = None,
    split: SampleSplit | str | Sequence[Any] = "even()",
    batch: int | None = None,
    initial: Array | None = None,
    **terms: Any,
) -> ConsensusPlan:
    """Return the plan of a run.

    Arguments:
        problem: what is minimised.
        graph: the links between peers: a graph, or its text together with `peers`.
        policy: which neighbours a peer waits for: a policy, or its text.
        peers: number of peers, if the graph is a text.
        split: how the samples are split, or the samples of each peer.
        batch: number of samples per gradient; None for all samples of a peer.
        initial: the first model of all peers; by default that of the problem.
        terms: `rate`, the step size or a schedule of it, and what else differs from the defaults: `algorithm`,
            `mixing`, `delays`, `late`, `rows_every`, `seconds_per_step`, `latency`, `faults`, `notice`, `orphans`,
            `seed`.

    Raises:
        InvalidArgument: if an argument is invalid; the error names it.
    """
    check_problem(problem)
    if unknown := terms.keys() - (settings := [item.name for item in fields(ConsensusTerms)]):
        name = min(unknown)
        raise invalid(name, "must be a setting of peers", terms[name], f"there are {', '.join(settings[2:])}")
    checked = ConsensusTerms(graph=_graph(graph, peers, problem), policy=policy, **terms)  # pyright: ignore[reportArgumentType]  # read
    n_peers = checked.graph.n_peers
    if isinstance(split, str | SampleSplit):
        shares = parse_split(split).shares(problem, n_peers)
    else:
        shares = checked_shares(split, problem.n_samples, n_peers)
    x = np.array(problem.initial() if initial is None else initial, dtype=np.float64)  # peers send float64
    if x.shape != (problem.n_parameters,) or not np.isfinite(x).all():
        raise invalid("initial", f"must be finite numbers, shape ({problem.n_parameters},)", x.shape)
    x.flags.writeable = False
    check_own(problem, x, n_peers)
    LocalGradients(problem, shares, batch, checked.seed)
    return ConsensusPlan(**vars(checked), problem=problem, shares=shares, batch=batch, x=x)


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
    check_type("graph", graph, Graph, "must be a graph, or the text of one", "such as 'ring()', with peers=10")
    if peers is not None and peers != graph.n_peers:
        raise invalid("peers", f"must be {graph.n_peers}, as in the graph, or left out", peers)
    return graph
