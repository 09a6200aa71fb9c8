"""A wrapper around an engine, for engines that change only a part of another's behaviour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from erasurehead._internal.arrays import Tree
from erasurehead.engines.base import Arrived, Engine, Event, LateWork, Moment, Order, Program
from erasurehead.engines.fault_injection import FaultInjection, injection


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

    def hosts(self) -> Mapping[str, int | None]:
        return self.engine.hosts()

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self.engine.assign(worker, program, host)

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        self.engine.submit(order, workers)

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
        self.engine.restore(state, programs)

    def stamp(self, moment: Moment, order_round: int) -> float:
        return self.engine.stamp(moment, order_round)

    def now(self) -> float:
        return self.engine.now()

    def close(self) -> None:
        self.engine.close()
