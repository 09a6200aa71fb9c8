"""Wrappers around an engine and around a program, for what changes only a part of another's behaviour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from erasurehead._internal.arrays import Array, Tree
from erasurehead._internal.late_work import LateWork
from erasurehead.engines._base import Arrived, Engine, Event, MessageSpec, Moment, Order, Program
from erasurehead.engines._fault_injection import FaultInjection, injection


class ProgramAround(Program):
    """Asks the wrapped program for everything. Override what should differ.

    Arguments:
        program: the wrapped program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.preload, self.pure, self.input_dtype = program.preload, program.pure, program.input_dtype

    def sent(self, by_task: bool) -> Sequence[MessageSpec]:
        return self.program.sent(by_task)

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return self.program.message_specs

    @property
    def input_size(self) -> int:
        return self.program.input_size

    @property
    def input_nbytes(self) -> int:
        return self.program.input_nbytes

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        return self.program.remaining(order, done)

    def take(self, order: Order) -> Any:
        return self.program.take(order)

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        self.program.compute(spec, taken, out)

    def state(self) -> Tree:
        return self.program.state()

    def restore(self, state: Tree) -> None:
        self.program.restore(state)


class EngineAround(Engine, FaultInjection):
    """Passes every call on to the wrapped engine, and is closed with it. Override what should differ.

    Arguments:
        engine: where the workers run.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.virtual, self.inside = engine.virtual, engine.inside
        self.late: LateWork = engine.late
        self.message_error, self.message_rounding = engine.message_error, engine.message_rounding

    def around(self, worker: int, program: Program) -> Program:
        """Return what a worker is given in place of a program; also asked for when a state is restored."""
        return program

    def hosts(self) -> Mapping[str, int | None]:
        return self.engine.hosts()

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self.engine.assign(worker, None if program is None else self.around(worker, program), host)

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        self.engine.submit(order, workers)

    def redirect(self, worker: int, order_round: int, message: int) -> None:
        self.engine.redirect(worker, order_round, message)

    def next_event(self, until: float | None = None) -> Event | None:
        return self.engine.next_event(until)

    def release(self, arrived: Arrived) -> None:
        self.engine.release(arrived)

    def kill(self, worker: int) -> None:
        injection(self.engine).kill(worker)

    def pause(self, worker: int) -> None:
        injection(self.engine).pause(worker)

    def proceed(self, worker: int) -> None:
        injection(self.engine).proceed(worker)

    def state(self) -> Tree | None:
        return self.engine.state()

    def restore(self, state: Tree, programs: Mapping[int, Program]) -> None:
        self.engine.restore(state, {worker: self.around(worker, program) for worker, program in programs.items()})

    def stamp(self, moment: Moment, order_round: int) -> float:
        return self.engine.stamp(moment, order_round)

    def now(self) -> float:
        return self.engine.now()

    def close(self) -> None:
        self.engine.close()
