"""`consensus.train`: peers that train one model by averaging with each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, final

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead._internal.arrays import Array
from erasurehead.consensus.conduct import Conduct
from erasurehead.consensus.contract import MixedStep
from erasurehead.consensus.graphs import Graph
from erasurehead.consensus.live import LiveRun
from erasurehead.consensus.plans import ConsensusPlan, plan
from erasurehead.consensus.policies import Policy
from erasurehead.consensus.result import ConsensusRun
from erasurehead.consensus.rows import MeanRow, PeerRow
from erasurehead.consensus.run_records import RunRecords
from erasurehead.consensus.shares import LocalGradients
from erasurehead.consensus.views import View
from erasurehead.consensus.virtual import VirtualClock
from erasurehead.engines.base import Engine
from erasurehead.errors import invalid
from erasurehead.optimizers.schedules import Schedule
from erasurehead.problems.base import Problem

ENGINES = ("virtual", "processes", "mpi")
"""The engines for peers."""

_CONDUCT = frozenset(field.name for field in fields(Conduct))


def train(
    problem: Problem,
    graph: Graph | str,
    policy: Policy | str = "dynamic()",
    *,
    steps: int,
    rate: float | str | Schedule,
    peers: int | None = None,
    engine: Engine | str = "virtual",
    **settings: Any,
) -> ConsensusRun:
    """Train without a coordinator.

    Every peer has its own model and its own share of the data; it takes a gradient step and averages with those of its
    neighbours that the policy makes it wait for.

    Arguments:
        problem: what is minimised, over all data together.
        graph: who is whose neighbour, or its text, such as `"ring()"`, with `peers`.
        policy: whom a peer waits for, or its text: `full()`, `static(wait_for=2)`, `dynamic()` (cb-DyBW),
            `local()`, `bounded_staleness()`, `pairwise()` (AD-PSGD).
        steps: number of steps of each peer, on average.
        rate: step size or schedule, by a peer's own steps.
        peers: number of peers, if the graph is a text.
        engine: `"virtual"`, the virtual clock; `"processes"`, `"mpi"`, or an engine whose workers can write to each
            other: real peers, which sit out their delays.
        settings: of the plan (see `ConsensusPlan`): `algorithm`, `mixing`, `split` (or the samples of each peer),
            `batch`, `delays`, `late`, `rows_every`, `seconds_per_step`, `latency`, `faults`, `notice`, `orphans`,
            `seed`, `initial`; and how it is carried out (see `Conduct`): `evaluate_every`, `metrics`, `records`,
            `until`, `target`, `watchers`, `resume`, `keep_state`, `stop`.

    Returns:
        The run: `x` is the mean model.

    Raises:
        InvalidArgument: if something does not fit, before anything starts.
        EngineError: if peers cannot run on the engine, or one of them failed.
        Diverged: if the models are not finite any more.
    """
    conduct = Conduct(steps=steps, **{name: settings.pop(name) for name in _CONDUCT & settings.keys()})
    return carry_out(plan(problem, graph, policy, peers=peers, rate=rate, **settings), conduct, engine)


def carry_out(made: ConsensusPlan, conduct: Conduct, engine: Engine | str = "virtual") -> ConsensusRun:
    """Carry a plan out; see `train` for the engine."""
    # The products are small, so that threads of BLAS would mostly wait for each other; and one thread gives one order
    # of every sum, and so the same bits on machines of any number of cores.
    with threadpool_limits(limits=1):
        if engine == "virtual":
            return _OnVirtualClock(made, conduct).run()
        if isinstance(engine, Engine):
            return LiveRun(made, conduct, engine).run()
        with _engine(engine) as opened:
            return LiveRun(made, conduct, opened).run()


def _engine(name: str) -> Engine:
    from erasurehead import engines

    if name not in ENGINES:
        hint = "a message between actors of Ray is a call, at more than twenty times the cost between processes"
        raise invalid("engine", f"must be one of {', '.join(ENGINES)}", name, hint if name == "ray" else "")
    return engines.MPIEngine() if name == "mpi" else engines.ProcessEngine()


@final
class _OnVirtualClock:
    """One run on the virtual clock: clock, records and looks at the mean model."""

    def __init__(self, made: ConsensusPlan, conduct: Conduct) -> None:
        self.made, self.conduct = made, conduct
        self.kept = RunRecords(made, conduct)
        self.local = LocalGradients(made.problem, made.shares, made.batch, made.seed)
        self.clock = VirtualClock(
            made.peers(), self.local, made.delays, seconds_per_step=made.seconds_per_step, latency=made.latency,
            rows_every=made.rows_every, troubles=made.troubles, notice=made.notice, on_step=self._on_step,
            on_trouble=self._on_trouble,
        )  # fmt: skip
        self.looks = 0

    def run(self) -> ConsensusRun:
        clock, conduct, kept, done = self.clock, self.conduct, self.kept, self.kept.run
        n_peers, until = self.made.graph.n_peers, conduct.end
        kept.begin()
        if conduct.resume is None:
            clock.begin()
            self._look()
        else:
            self._restore(conduct.resume)
        while not done.stopped:
            total = min(conduct.steps * n_peers, math.ceil((self.looks + 1) * conduct.evaluate_every * n_peers))
            going = clock.run(total, until)
            if not going and clock.time < until and math.isinf(until):
                done.status, done.stopped = "failed", "the run is stuck: every peer is waiting or gone"
            if going:
                self.looks += 1
            row = self._look()
            last = not going or clock.total >= conduct.steps * n_peers
            if conduct.target is not None and row.objective <= conduct.target:
                last = True
            for watcher in conduct.watchers:
                watcher.on_state(clock.total // n_peers, self._state, self._models())
            if last or done.stopped:
                break
            if said := conduct.stop():
                done.status, done.stopped = "interrupted", said
        done.models, done.there = self._models(), self._there()
        done.steps, done.seconds = clock.total, clock.time
        done.messages, done.vectors, done.gradient_seconds = clock.messages, clock.vectors, clock.gradient_seconds
        done.shares = kept.holdings.shares
        if conduct.keep_state:
            done.state = self._state()
        return done

    def _models(self) -> Array:
        return np.array([peer.model for peer in self.clock.peers])

    def _there(self) -> list[int]:
        return [peer for peer in range(self.made.graph.n_peers) if peer not in self.clock.gone]

    def _look(self) -> MeanRow:
        models = np.array([self.clock.peers[peer].model for peer in self._there()])
        return self.kept.look(models, self.clock.total, self.clock.time)

    def _on_step(self, peer: int, time: float, step: MixedStep) -> None:
        self.kept.step(PeerRow.of(peer, time, step))

    def _on_trouble(self, time: float, gone: frozenset[int], sides: tuple[frozenset[int], ...]) -> None:
        new = gone - self.kept.holdings.gone
        around = View(self.made.graph, gone - new, sides).neighbours
        noticed = [(other, peer, time) for peer in sorted(new) for other in around[peer] if other not in gone]
        if self.kept.trouble(time, gone, sides, noticed):
            self.local.assign(self.kept.holdings.shares)

    def _state(self) -> dict[str, Any]:
        return {"clock": self.clock.state(), "looks": self.looks, **self.kept.state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.clock.restore(state["clock"])
        self.looks = int(state["looks"])
        self.kept.restore(state)
        self.local.assign(self.kept.holdings.shares)
