"""Steps that remember each other: workers that are still busy with an older order when the next one is out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoder, Decoding
from erasurehead.decoding.layout import Layout
from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, MessageSpec, Order, Program
from erasurehead.engines.virtual import VirtualEngine
from erasurehead.errors import EngineError, Unreachable, check_count
from erasurehead.faults.policy import FaultPolicy
from erasurehead.planning.simulation import Simulation
from erasurehead.schemes.aggregation import Aggregation
from erasurehead.schemes.named import Scheme
from erasurehead.schemes.wait_rules.base import WaitRule
from erasurehead.training.assignment import Assignment
from erasurehead.training.round import RoundRunner
from erasurehead.training.worker_pool import WorkerPool


@dataclass(frozen=True, eq=False)
class _Idle(Program):
    """A worker that takes its time and computes nothing."""

    sends: tuple[MessageSpec, ...]

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return self.sends

    @property
    def input_size(self) -> int:
        return 1

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        return self.sends[len(done) :]

    def take(self, order: Order) -> Any:
        return None

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        out[:] = 0.0


class _Nothing(Aggregation):
    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        return None


def simulate_with_memory(
    decoder: Decoder,
    rule: WaitRule,
    delays: Delays,
    steps: int,
    seconds_per_task: float = 0.0,
    first_step: int = 0,
    late: LateWork = "carry",
    seed: int = 0,
) -> Simulation:
    """Simulate successive steps on the virtual engine's heap of events, with no model or gradient behind it.

    Event by event, some 100,000 arrivals a second; where steps do not depend on each other (`late="preempt"`, from
    which this differs in nothing but speed) use `simulate`.

    Arguments:
        decoder: of the code.
        rule: when to stop.
        delays: how slow the workers are.
        steps: how many, at least 1. Successive steps are not independent.
        seconds_per_task: computing time of a task, at least 0.
        first_step: the step of the first.
        late: what a worker does that is busy when the next order is out.
        seed: of the order of messages that arrive at the same moment.

    Returns:
        As of `simulate`; once the rule cannot be met any more, all further steps are inf.

    Raises:
        InvalidArgument: the rule can never be met with this code.
    """
    check_count("steps", steps)
    code = decoder.code
    scheme = Scheme("simulation", decoder, {"gradient": rule}, _Nothing())
    seconds, residual = np.full(steps, np.inf), np.full(steps, float(code.n_tasks))
    arrived, messages = np.zeros(steps, dtype=np.int64), np.zeros(steps, dtype=np.int64)
    engine = VirtualEngine(delays, late, seconds_per_task, seed=seed)
    with engine:
        programs = [_Idle(_parts(code, worker)) for worker in range(code.n_workers)]
        formation = Assignment.first(scheme, programs, Layout(1, [None] * code.n_messages))
        crew = WorkerPool(engine, formation, fault_policy=FaultPolicy(death="leave", suspected="ignore"))
        gathering = RoundRunner(crew)
        crew.start()
        order = Order(first_step, (np.zeros(1),))
        for number in range(steps):
            posted = engine.now()
            try:
                order = replace(order, step=first_step + number, round=number, posted=posted)
                gathered = gathering.gather(order)
            except (Unreachable, EngineError):  # or nobody is left who could answer
                break
            seconds[number] = gathered.waited
            residual[number] = gathered.decoding.residual
            arrived[number], messages[number] = gathered.view.finished, len(gathered.view.arrived)
            if rule.remembers:
                row = gathered.step_row(order, end=engine.now())
                gathering.learn(row, [*gathered.late_rows, *gathered.rows])
    return Simulation(seconds, residual, arrived, messages)


def _parts(code: GradientCode, worker: int) -> tuple[MessageSpec, ...]:
    return tuple(
        MessageSpec(message, float(len(code.tasks_of_message(message))), 1, content=0)
        for message in code.messages_of(worker).tolist()
    )
