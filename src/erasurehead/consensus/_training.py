"""`consensus.train`: peers that train one model by averaging their models with each other's."""

from __future__ import annotations

import math
import zlib
from dataclasses import fields
from typing import Any, final

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.resumable import to_plain
from erasurehead._internal.state_json import encode
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.consensus._engine_run import EngineRun
from erasurehead.consensus._graphs import Graph, Sides
from erasurehead.consensus._plans import ConsensusPlan, plan
from erasurehead.consensus._policies import Policy
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._rows import MeanRow
from erasurehead.consensus._run_records import RunRecords
from erasurehead.consensus._shares import LocalGradients
from erasurehead.consensus._training_options import TrainingOptions
from erasurehead.consensus._views import NetworkView
from erasurehead.consensus._virtual import VirtualClock
from erasurehead.engines import Engine
from erasurehead.errors import check_choice
from erasurehead.optimizers import Schedule
from erasurehead.problems import Problem

ENGINES = ("virtual", "processes", "mpi")
"""Names of the engines that run peers."""

_OPTIONS = frozenset(field.name for field in fields(TrainingOptions))


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

    Every peer has its own model and its own share of the data. In each step, it takes a gradient step and averages its
    model with those of the neighbours that the policy makes it wait for.

    Arguments:
        problem: what is minimised, over the data of all peers.
        graph: the links between peers: a graph, or its text, such as `"ring()"`, together with `peers`.
        policy: which neighbours a peer waits for: a policy, or its text: `full()`, `static(wait_for=2)`, `dynamic()`
            (cb-DyBW), `local()`, `bounded_staleness()`, `pairwise()` (AD-PSGD),
            `pairwise(partners='in turn')`.
        steps: number of steps of each peer, on average.
        rate: step size, or a schedule of it by a peer's own steps.
        peers: number of peers, if the graph is a text.
        engine: `"virtual"` for the virtual clock; `"processes"`, `"mpi"`, or an engine whose workers can send messages
            to each other, for real peers, which sit out their delays.
        settings: of the plan (see `plan`): `algorithm`, `mixing`, `split` (or the samples of each peer),
            `batch`, `delays`, `late`, `rows_every`, `seconds_per_step`, `latency`, `faults`, `notice`, `orphans`,
            `seed`, `initial`; and of the run (see `TrainingOptions`): `evaluate_every`, `metrics`, `records`, `until`,
            `target`, `callbacks`, `resume`, `keep_state`, `stop`.

    Returns:
        The run; its `x` is the mean model.

    Raises:
        InvalidArgument: if an argument is invalid; raised before anything starts.
        EngineError: if peers cannot run on the engine, or one of them failed.
        Diverged: if a model is no longer finite, or after at least 10 steps a peer the objective of the mean model ends
            up a tenth above that of the first one.
    """
    options = TrainingOptions(steps=steps, **{name: settings.pop(name) for name in _OPTIONS & settings.keys()})
    return run_plan(plan(problem, graph, policy, peers=peers, rate=rate, **settings), options, engine)


def run_plan(plan: ConsensusPlan, options: TrainingOptions, engine: Engine | str = "virtual") -> ConsensusRun:
    """Run a plan.

    Arguments:
        plan: the plan.
        options: how it is run.
        engine: as for `train`.
    """
    # The matrix products are small, so that BLAS threads would mostly wait for each other. One thread also fixes the
    # order of every sum, and so gives the same bits on any number of cores.
    with threadpool_limits(limits=1):
        if engine == "virtual":
            return _VirtualRun(plan, options).run()
        if isinstance(engine, Engine):
            return EngineRun(plan, options, engine).run()
        with _engine(engine) as opened:
            return EngineRun(plan, options, opened).run()


def _engine(name: str) -> Engine:
    from erasurehead import engines

    hint = "a message between actors of Ray is a call, at more than twenty times the cost between processes"
    check_choice("engine", name, ENGINES, hint if name == "ray" else "")
    if name == "mpi":
        return engines.MPIEngine()
    return engines.ProcessEngine(fewer="use fewer peers")


@final
class _VirtualRun:
    """One run on the virtual clock, with its records and evaluations of the mean model."""

    def __init__(self, plan: ConsensusPlan, options: TrainingOptions) -> None:
        self.plan, self.options = plan, options
        self.records = RunRecords(plan, options)
        self.gradients = LocalGradients(plan.problem, plan.shares, plan.batch, plan.seed)
        self.clock = VirtualClock(plan, self.gradients, self.records.step, self._on_view_change)
        self.evaluations = 0

    def run(self) -> ConsensusRun:
        clock, options, records, run = self.clock, self.options, self.records, self.records.run
        n_peers, until = self.plan.graph.n_peers, options.end
        records.begin()
        if options.resume is None:
            clock.begin()
            self._evaluate()
        else:
            self._restore(options.resume)
        while not run.stopped:
            total = min(options.steps * n_peers, math.ceil((self.evaluations + 1) * options.evaluate_every * n_peers))
            going = clock.run(total, until)
            if not going and clock.time < until and math.isinf(until):
                run.status, run.stopped = "failed", "the run is stuck: every peer is waiting or gone"
            if going:
                self.evaluations += 1
            row = self._evaluate()
            last = not going or clock.total >= options.steps * n_peers
            if options.target is not None and row.objective <= options.target:
                last = True
            self._tell_state()
            if not (last or run.stopped) and (reason := options.stop()):
                run.status, run.stopped = "interrupted", reason
            if run.stopped:
                self._tell_state()
            if last:
                break
        run.models, run.present = self._models(), self._present()
        run.steps, run.seconds = clock.total, clock.time
        run.messages, run.vectors, run.gradient_seconds = clock.messages, clock.vectors, clock.gradient_seconds
        run.shares = records.ownership.shares
        if options.keep_state:
            run.state = self._state()
        records.end()
        return run

    def _tell_state(self) -> None:
        for callback in self.options.callbacks:
            callback.on_state(self.clock.total // self.plan.graph.n_peers, self._state)

    def _models(self) -> Array:
        return np.array([peer.model for peer in self.clock.peers])

    def _present(self) -> list[int]:
        return [peer for peer in range(self.plan.graph.n_peers) if peer not in self.clock.gone]

    def _evaluate(self) -> MeanRow:
        models = np.array([self.clock.peers[peer].model for peer in self._present()])
        return self.records.evaluate(models, self.clock.total, self.clock.time)

    def _on_view_change(self, time: float, gone: frozenset[int], sides: Sides) -> None:
        new = gone - self.records.ownership.gone
        around = NetworkView(self.plan.graph, gone - new, sides).neighbours
        noticed = [(other, peer, time) for peer in sorted(new) for other in around[peer] if other not in gone]
        if self.records.view_change(time, gone, sides, noticed):
            self.gradients.assign(self.records.ownership.shares)

    def _state(self) -> PlainData:
        return {"clock": self.clock.state(), "evaluations": self.evaluations, **self.records.state()}

    def _restore(self, state: Entries) -> None:
        self.clock.restore(state["clock"])
        self.evaluations = int(state["evaluations"])
        if self.evaluations < 0:  # it would go on for ever
            raise Unfit("a count is negative")
        self.records.restore(state)
        self.gradients.assign(self.records.ownership.shares)
        # What has been read as something else, or was left out, would be noticed only when it is saved again, or never.
        if (
            _comparable(self._state()) != _comparable(state)
            or to_plain(self.records.ownership.gone) != state["clock"]["known_gone"]
        ):
            raise Unfit("parts of it are of another kind, or contradict each other")


def _comparable(state: Entries) -> Any:
    """Return a state as plain data that are equal where states are, whether or not they have been saved."""

    def digest(array: Any) -> int:
        return zlib.crc32(array.tobytes(), zlib.crc32(f"{array.dtype} {array.shape}".encode()))

    return encode(state, digest)
