"""`consensus.train`: peers that talk to peers, on a virtual clock, to one model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead._internal.arrays import Array
from erasurehead.consensus.algorithms import Algorithm, parse_algorithm
from erasurehead.consensus.contract import MixedStep, Peer
from erasurehead.consensus.faults import Trouble, check_troubles
from erasurehead.consensus.graphs import Graph, parse_graph
from erasurehead.consensus.joint import JointConnectivity
from erasurehead.consensus.mixing import Fixed, Mixing, parse_mixing
from erasurehead.consensus.peers import Setup
from erasurehead.consensus.policies import Policy, parse_policy
from erasurehead.consensus.rows import MeanRow, PeerRow, TroubleRow
from erasurehead.consensus.shares import LocalGradients, Shares, Split, checked_shares, parse_split, taken_over
from erasurehead.consensus.views import View
from erasurehead.consensus.virtual import VirtualClock
from erasurehead.delays import as_delays
from erasurehead.delays.base import Delays
from erasurehead.errors import Diverged, check_count, invalid, real
from erasurehead.optimizers.schedules import Schedule, as_schedule
from erasurehead.problems.base import Problem
from erasurehead.training.notices import Notice
from erasurehead.training.result import Status

_WINDOW = 100
"""Steps a peer after which it is said that the union of the graphs is still not connected."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A run to be, checked: nothing has started.

    Attributes:
        problem: what is minimised.
        graph: who is whose neighbour.
        policy: whom a peer waits for.
        mixing: with which weights.
        algorithm: how a model moves.
        rate: step size by a peer's own steps.
        shares: the samples of each peer.
        batch: samples of a gradient; None for all of a peer's.
        delays: of the peers' work.
        late: what becomes of work that nobody waits for any more.
        rows_every: seconds of the clock after which the next row of the delays holds; None for a row a step.
        seconds_per_step: what a gradient takes besides, on the virtual clock.
        latency: seconds of a message's hop, on the virtual clock.
        troubles: what goes wrong.
        notice: seconds until it is noticed.
        orphans: whether the share of one who left is out, or taken over by its neighbours.
        seed: of batches, and of choices that a policy draws.
        x: the first model of all peers.
    """

    problem: Problem
    graph: Graph
    policy: Policy
    mixing: Mixing
    algorithm: Algorithm
    rate: Schedule
    shares: Shares
    batch: int | None
    delays: Delays
    late: Literal["carry", "preempt"]
    rows_every: float | None
    seconds_per_step: float
    latency: float
    troubles: tuple[Trouble, ...]
    notice: float
    orphans: Literal["out", "taken over"]
    seed: int
    x: Array

    def peers(self) -> list[Peer]:
        """Return new peers, who have not begun."""
        view = View(self.graph)
        mixing = self.mixing.on(self.graph, self.graph.edges)
        return [
            self.policy.peer(Setup(peer, view, mixing, self.algorithm, self.rate, self.x, self.late == "preempt",
                                   self.seed, self.policy))
            for peer in range(self.graph.n_peers)
        ]  # fmt: skip


def plan(
    problem: Problem,
    graph: Graph | str,
    policy: Policy | str = "dynamic()",
    *,
    peers: int | None = None,
    rate: float | str | Schedule,
    algorithm: Algorithm | str = "sgd()",
    mixing: Mixing | str = "metropolis()",
    split: Split | str | Sequence[Any] = "even()",
    batch: int | None = None,
    delays: Delays | str = "none()",
    late: Literal["carry", "preempt"] = "carry",
    rows_every: float | None = None,
    seconds_per_step: float = 0.0,
    latency: float = 0.0,
    faults: Sequence[Trouble] = (),
    notice: float = 0.0,
    orphans: Literal["out", "taken over"] = "out",
    seed: int = 0,
    initial: Array | None = None,
) -> Plan:
    """Check all that a run is made of; see `train` for the arguments.

    Raises:
        InvalidArgument: naming what does not fit.
    """
    if isinstance(graph, str):
        if peers is None:
            raise invalid("peers", "must be stated where the graph is a text", peers)
        graph = parse_graph(graph, check_count("peers", peers))
    elif peers is not None and peers != graph.n_peers:
        raise invalid("peers", f"must be {graph.n_peers}, as in the graph, or left out", peers)
    chosen, weights = parse_policy(policy), parse_mixing(mixing)
    chosen.check(graph)
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
    troubles = check_troubles(faults, graph)
    if troubles and isinstance(weights, Fixed) and weights.matrix is not None:
        raise invalid("mixing", "must not be a matrix of one's own where peers leave", str(weights), "metropolis() "
                      "goes with any graph")  # fmt: skip
    if isinstance(split, str | Split):
        shares = parse_split(split).shares(problem, graph.n_peers)
    else:
        shares = checked_shares(split, problem.n_samples, graph.n_peers)
    x = problem.initial() if initial is None else np.array(initial, dtype=np.float64)
    if x.shape != (problem.n_parameters,) or not np.isfinite(x).all():
        raise invalid("initial", f"must be finite numbers, shape ({problem.n_parameters},)", x.shape)
    x.flags.writeable = False
    LocalGradients(problem, shares, batch, seed)
    return Plan(
        problem, graph, chosen, weights, parse_algorithm(algorithm), as_schedule(rate), shares, batch, model, late,
        rows_every, float(seconds_per_step), float(latency), troubles, float(notice), orphans,
        check_count("seed", seed, at_least=0), x,
    )  # fmt: skip


@dataclass(eq=False, repr=False)
class ConsensusRun:
    """A run without a coordinator.

    Attributes:
        policy: as it is written.
        graph: who was whose neighbour.
        models: of the peers at the end, shape (n_peers, n_parameters).
        there: who was there at the end.
        means: how good the mean model was, at the beginning, along the way and at the end.
        rows: one a step of a peer, in the order in which they ended; empty if they were not to be kept.
        troubles: what befell the network.
        steps: of all peers together.
        seconds: of the clock.
        messages: that were sent; `vectors` of them carried a model, the others a few numbers.
        vectors: see there.
        gradient_seconds: of the processor, that went into gradients on the virtual clock.
        joint: when the union of the realised graphs was connected.
        status: how it ended: finished, interrupted, or failed, as nothing could happen any more.
        stopped: why training ended before its last step, in words; empty if it did not.
        state: what `train(resume=...)` goes on from, to the bit; None if it was not asked for.
        shares: the samples of each peer at the end.
    """

    policy: str
    graph: Graph
    models: Array
    there: list[int]
    means: list[MeanRow] = field(default_factory=list[MeanRow])
    rows: list[PeerRow] = field(default_factory=list[PeerRow])
    troubles: list[TroubleRow] = field(default_factory=list[TroubleRow])
    steps: int = 0
    seconds: float = 0.0
    messages: int = 0
    vectors: int = 0
    gradient_seconds: float = 0.0
    joint: JointConnectivity | None = None
    status: Status = "finished"
    stopped: str = ""
    state: dict[str, Any] | None = None
    shares: Shares = ()

    def __repr__(self) -> str:
        return (
            f"ConsensusRun({self.policy} on {self.graph}: {self.steps} steps of {self.graph.n_peers} peers in "
            f"{self.seconds:.4g} s)"
        )

    @property
    def x(self) -> Array:
        """The mean of the models of those who are there, shape (n_parameters,)."""
        return self.models[self.there].mean(axis=0)

    @property
    def distance(self) -> float:
        """Root mean square distance of the peers' models from their mean: how far they are from consensus."""
        return _distance(self.models[self.there])

    @property
    def objective(self) -> float:
        """The objective of the mean model over all training data."""
        return self.means[-1].objective

    @property
    def seconds_per_step(self) -> float:
        """Seconds of the clock in which each peer takes a step, on the mean."""
        return self.seconds * len(self.there) / self.steps if self.steps else math.nan

    @property
    def backups(self) -> float:
        """Neighbours that a step does not wait for, on the mean; NaN where no rows were kept."""
        return float(np.mean([row.backups for row in self.rows])) if self.rows else math.nan

    def time_to(self, objective: float) -> float | None:
        """Return the seconds after which the mean model first had an objective of at most this; None if it never had.

        Between two looks at it, the time is interpolated, by the logarithm of what is above.
        """
        before: MeanRow | None = None
        for row in self.means:
            if row.objective <= objective:
                if before is None or not before.objective > objective:
                    return row.time
                share = (before.objective - objective) / (before.objective - row.objective)
                return before.time + share * (row.time - before.time)
            before = row
        return None

    def summary(self) -> dict[str, Any]:
        """Return the figures of the whole run, as plain data."""
        last = self.means[-1]
        return {
            "policy": self.policy, "graph": str(self.graph), "peers": self.graph.n_peers, "steps": self.steps,
            "seconds": self.seconds, "seconds_per_step": self.seconds_per_step, "objective": last.objective,
            "first_objective": self.means[0].objective, "distance": last.distance, "metrics": dict(last.metrics),
            "messages": self.messages, "messages_with_models": self.vectors,
            "messages_per_step": self.messages / self.steps if self.steps else math.nan, "backups": self.backups,
            "spectral_gap": self.graph.spectral_gap, "there": self.there,
            "joint_steps": self.joint.longest if self.joint and self.joint.windows else None,
            "gone": [peer for peer in range(self.graph.n_peers) if peer not in self.there], "stopped": self.stopped,
        }  # fmt: skip


class Watcher:
    """Hooks that watch a run; empty by default."""

    def on_begin(self, plan: Plan, steps: int) -> None:
        """Training begins, and each peer is to take so many steps on the mean."""

    def on_step(self, row: PeerRow) -> None:
        """A peer has taken a step."""

    def on_mean(self, row: MeanRow) -> None:
        """The mean model was looked at."""

    def on_trouble(self, row: TroubleRow) -> None:
        """Somebody left or came back, or the network was cut or healed."""

    def on_notice(self, notice: Notice) -> None:
        """Something was noticed that a person should know."""

    def on_state(self, step: int, state: Callable[[], dict[str, Any]], models: Array) -> None:
        """A moment between two events, after so many steps a peer, at which the state can be taken."""


def train(
    problem: Problem,
    graph: Graph | str,
    policy: Policy | str = "dynamic()",
    *,
    steps: int,
    rate: float | str | Schedule,
    peers: int | None = None,
    evaluate_every: float = 1.0,
    metrics: bool = True,
    records: bool = True,
    until: float | None = None,
    target: float | None = None,
    watchers: Sequence[Watcher] = (),
    resume: Mapping[str, Any] | None = None,
    keep_state: bool = False,
    stop: Callable[[], str] = lambda: "",
    **settings: Any,
) -> ConsensusRun:
    """Train without a coordinator, on the virtual clock.

    Every peer has its own model and its own share of the data; it takes a gradient step and averages with those of its
    neighbours that the policy makes it wait for.

    Arguments:
        problem: what is minimised, over all data together.
        graph: who is whose neighbour, or the text of it, such as `"ring()"`, with `peers`.
        policy: whom a peer waits for, or the text of it: `full()`, `static(wait_for=2)`, `dynamic()` (cb-DyBW),
            `local()`, `bounded_staleness()`, `pairwise()` (AD-PSGD).
        steps: of each peer, on the mean.
        rate: step size or schedule, by a peer's own steps.
        peers: how many, where the graph is a text.
        evaluate_every: steps a peer from one look at the mean model to the next.
        metrics: whether the test samples are looked at, too.
        records: whether a row is kept of each step of each peer.
        until: seconds of the clock after which it ends; None for none.
        target: the objective of the mean model at which it ends; None for none.
        watchers: hooks that watch.
        resume: the state of an earlier run with the same arguments: it goes on to the bit.
        keep_state: whether the result has the state of its end.
        stop: asked after each look at the mean model; a sentence ends training.
        settings: `algorithm`, `mixing`, `split` (or the samples of each peer), `batch`, `delays`, `late`, `rows_every`,
            `seconds_per_step`, `latency`, `faults`, `notice`, `orphans`, `seed`, `initial`: see `Plan`.

    Returns:
        The run: `x` is the mean model.

    Raises:
        InvalidArgument: if something does not fit, before anything starts.
        Diverged: if the models are not finite any more.
    """
    made = plan(problem, graph, policy, peers=peers, rate=rate, **settings)
    return carry_out(
        made, steps=steps, evaluate_every=evaluate_every, metrics=metrics, records=records, until=until, target=target,
        watchers=watchers, resume=resume, keep_state=keep_state, stop=stop,
    )  # fmt: skip


def carry_out(
    made: Plan,
    *,
    steps: int,
    evaluate_every: float = 1.0,
    metrics: bool = True,
    records: bool = True,
    until: float | None = None,
    target: float | None = None,
    watchers: Sequence[Watcher] = (),
    resume: Mapping[str, Any] | None = None,
    keep_state: bool = False,
    stop: Callable[[], str] = lambda: "",
) -> ConsensusRun:
    """Carry a plan out on the virtual clock; see `train` for the arguments."""
    check_count("steps", steps)
    if not (math.isfinite(real(evaluate_every)) and evaluate_every > 0):
        raise invalid("evaluate_every", "must be a positive number of steps", evaluate_every)
    # The products are small, so that threads of BLAS would mostly wait for each other; and one thread gives one order
    # of every sum, and so the same bits on machines of any number of cores.
    with threadpool_limits(limits=1):
        return _Training(made, records, metrics, watchers, resume).run(
            steps, evaluate_every, math.inf if until is None else until, target, keep_state, stop
        )


class _Training:
    """One run on the virtual clock: clock, records and looks at the mean model."""

    def __init__(
        self, made: Plan, records: bool, metrics: bool, watchers: Sequence[Watcher], resume: Mapping[str, Any] | None
    ) -> None:
        self.made, self.records, self.metrics, self.watchers = made, records, metrics, tuple(watchers)
        n_peers = made.graph.n_peers
        self.local = LocalGradients(made.problem, made.shares, made.batch, made.seed)
        self.shares = made.shares
        self.orphaned: frozenset[int] = frozenset()
        self.joint = JointConnectivity(n_peers)
        self.joint_said = False
        self.run_ = ConsensusRun(str(made.policy), made.graph, np.empty((0, 0)), [], joint=self.joint)
        self.clock = VirtualClock(
            made.peers(), self.local, made.delays, seconds_per_step=made.seconds_per_step, latency=made.latency,
            rows_every=made.rows_every, troubles=made.troubles, notice=made.notice, on_step=self._on_step,
            on_trouble=self._on_trouble,
        )  # fmt: skip
        self.next_look = 0.0
        self.resume = resume

    def run(
        self, steps: int, every: float, until: float, target: float | None, keep_state: bool, stop: Callable[[], str]
    ) -> ConsensusRun:
        made, clock, done = self.made, self.clock, self.run_
        n_peers = made.graph.n_peers
        for watcher in self.watchers:
            watcher.on_begin(made, steps)
        looks = 0
        if self.resume is None:
            clock.begin()
            self._look()
        else:
            self._restore(self.resume)
            looks = int(self.resume["looks"])
        while not done.stopped:
            total = min(steps * n_peers, math.ceil((looks + 1) * every * n_peers))
            going = clock.run(total, until)
            if not going and clock.time < until and math.isinf(until):
                done.status, done.stopped = "failed", "nothing can happen any more: every peer waits, or is gone"
            if going:
                looks += 1
            row = self._look()
            last = not going or clock.total >= steps * n_peers
            if target is not None and row.objective <= target:
                last = True
            self.looks = looks
            for watcher in self.watchers:
                watcher.on_state(clock.total // n_peers, self._state, self._models())
            if last or done.stopped:
                break
            if said := stop():
                done.status, done.stopped = "interrupted", said
        done.models, done.there = self._models(), self._there()
        done.steps, done.seconds = clock.total, clock.time
        done.messages, done.vectors, done.gradient_seconds = clock.messages, clock.vectors, clock.gradient_seconds
        done.shares = self.shares
        if keep_state:
            done.state = self._state()
        return done

    def _models(self) -> Array:
        return np.array([peer.model for peer in self.clock.peers])

    def _there(self) -> list[int]:
        return [peer for peer in range(self.made.graph.n_peers) if peer not in self.clock.gone]

    def _look(self) -> MeanRow:
        there = self._there()
        models = np.array([self.clock.peers[peer].model for peer in there])
        mean = models.mean(axis=0)
        if not np.isfinite(mean).all():
            raise Diverged("The peers' models are not finite any more: the rate is too large.")
        measured = self.made.problem.metrics(mean) if self.metrics else {}
        step = self.clock.total / self.made.graph.n_peers
        row = MeanRow(step, self.clock.time, self.made.problem.objective(mean), _distance(models), measured, len(there))
        self.run_.means.append(row)
        for watcher in self.watchers:
            watcher.on_mean(row)
        if not self.joint_said and self.joint.open_steps > _WINDOW:
            self.joint_said = True
            text = (
                f"In the last {_WINDOW} steps the links that were realised have not connected all peers: some learn"
                " nothing of others' data. Wait for more neighbours."
            )
            notice = Notice("not_connected", data={"steps": _WINDOW}, text=text, time=self.clock.time)
            for watcher in self.watchers:
                watcher.on_notice(notice)
        return row

    def _on_step(self, peer: int, time: float, step: MixedStep) -> None:
        if step.links:
            self.joint.add(peer, step.links, time)
        if self.records or self.watchers:
            row = PeerRow(
                peer, step.step, step.round, step.begun, step.ready, time, list(step.links), list(step.weights),
                step.backups, step.hops,
            )  # fmt: skip
            if self.records:
                self.run_.rows.append(row)
            for watcher in self.watchers:
                watcher.on_step(row)

    def _on_trouble(self, time: float, gone: frozenset[int], sides: tuple[frozenset[int], ...]) -> None:
        view = View(self.made.graph, gone, sides)
        left = gone - self.orphaned
        for peer in sorted(left):
            heirs = [other for other in self.made.graph.neighbours[peer] if other not in gone]
            if self.made.orphans == "taken over" and heirs:
                self.shares = taken_over(self.shares, peer, heirs)
            else:
                self.shares = tuple(
                    np.empty(0, dtype=np.int64) if other == peer else share for other, share in enumerate(self.shares)
                )
        back = self.orphaned - gone
        if back:  # what its neighbours took over, they give back
            own = {peer: self.made.shares[peer] for peer in back}
            held = np.concatenate(list(own.values()))
            self.shares = tuple(
                own.get(peer, share if peer in back else share[~np.isin(share, held)])
                for peer, share in enumerate(self.shares)
            )
        if left or back:
            self.orphaned = gone
            self.local.assign(self.shares)
        self.joint.change(self.made.graph.n_peers - len(gone), time)
        shares = "" if not gone else "taken over" if self.made.orphans == "taken over" else "out"
        row = TroubleRow(
            time, sorted(gone), [sorted(side) for side in sides], [list(link) for link in view.knitted], shares
        )
        self.run_.troubles.append(row)
        for watcher in self.watchers:
            watcher.on_trouble(row)

    def _state(self) -> dict[str, Any]:
        joint = self.joint
        return {
            "clock": self.clock.state(), "looks": self.looks, "orphaned": sorted(self.orphaned),
            "shares": [] if self.shares is self.made.shares else list(self.shares),
            "joint": [joint.since, joint._steps, list(joint._parents), joint._parts, joint._there,  # pyright: ignore[reportPrivateUsage]
                      [list(window) for window in joint.windows]],
        }  # fmt: skip

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.clock.restore(state["clock"])
        self.orphaned = frozenset(state["orphaned"])
        if len(state["shares"]):
            self.shares = tuple(np.asarray(share, dtype=np.int64) for share in state["shares"])
            self.local.assign(self.shares)
        joint = self.joint
        joint.since, joint._steps, parents, joint._parts, joint._there, windows = state["joint"]  # pyright: ignore[reportPrivateUsage]
        joint._parents = [int(parent) for parent in parents]  # pyright: ignore[reportPrivateUsage]
        joint.windows = [(begin, end, steps) for begin, end, steps in windows]


def _distance(models: Array) -> float:
    apart = models - models.mean(axis=0)
    return float(np.sqrt(np.einsum("ij,ij->", apart, apart) / len(models)))
