"""An engine under a fault schedule: any engine, with faults injected at their times."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias, final

from erasurehead._internal.arrays import Tree
from erasurehead.drills.interceptor import Interceptor
from erasurehead.drills.lying_program import NOTE, Corrupted
from erasurehead.drills.pending import PendingOrders
from erasurehead.drills.schedule import OF_WORKERS, Fault, FaultSchedule
from erasurehead.engines.base import (
    Arrived,
    Died,
    Engine,
    Event,
    Failed,
    Joined,
    Order,
    Program,
    rounds_kept,
)
from erasurehead.engines.engine_around import EngineAround
from erasurehead.engines.wired_engine import WiredProgram
from erasurehead.errors import EngineError

Told: TypeAlias = Callable[[dict[str, Any]], None]
"""Records something that happened, as plain data."""

Upon: TypeAlias = Callable[[Fault, bool], None]
"""Called for faults of the coordinator, when they begin (True) and when they are over."""


def _nobody(entry: dict[str, Any]) -> None:
    pass


def _nothing(fault: Fault, begins: bool) -> None:
    pass


@final
class FaultyEngine(EngineAround):
    """Any engine, under a fault schedule.

    Faults are injected by the engine's own clock, counted from the first order, whether anything happens at that time
    or not: kills, stops and continuations by the engine itself; cuts and slowness by holding back what passes between
    coordinator and worker; lies by a note on the orders, which the worker's program obeys. A fault ends with the
    process that it struck. What happens to the coordinator is left to `upon`.

    Arguments:
        engine: where the workers run.
        schedule: the fault schedule.
        elapsed: seconds of the run that are over: of a run that goes on, on an engine that has no state. What was
            due by then is over.
        spent: numbers of the faults that are not injected any more.
        told: is told what is injected, and what became of it here: what follows of it is for the run's records to tell.
        upon: called for faults of the coordinator.
        assigning: entered while a worker is started.
    """

    name: ClassVar[str] = "faulty"

    def __init__(
        self,
        engine: Engine,
        schedule: FaultSchedule,
        *,
        elapsed: float = 0.0,
        spent: Iterable[int] = (),
        told: Told = _nobody,
        upon: Upon = _nothing,
        assigning: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        super().__init__(engine)
        self.schedule = schedule
        self.spent = frozenset(spent)
        self._told, self._upon, self._assigning = told, upon, assigning
        self._interceptor = Interceptor(rounds_kept(engine.late))
        ends = [
            (fault.until, number, False) for number, fault in enumerate(schedule.faults) if fault.lasting is not None
        ]
        begins = [(fault.at, number, True) for number, fault in enumerate(schedule.faults)]
        self._acts = sorted([*begins, *ends])
        self._corrupt = {fault.worker for fault in schedule.of("corrupt")}
        self._position = sum(time < elapsed for time, _, _ in self._acts)
        self._elapsed = elapsed
        self._origin: float | None = None
        self._round = -1
        self._order: tuple[Order, Order] | None = None
        self._pending = PendingOrders()
        self._there: set[int] = set()
        self._suffering: defaultdict[int, set[int]] = defaultdict(set)  # by worker: numbers of the faults under way

    @property
    def time(self) -> float:
        """Seconds since the first order of the run."""
        return self._elapsed if self._origin is None else self.now() - self._origin

    # --- the contract -----------------------------------------------------------------------------------------------

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self._free(worker)
        self._pending.messages.pop(worker, None)
        with self._assigning():
            self.engine.assign(worker, None if program is None else self._wrapped(worker, program), host)
        if program is not None:
            self._pending.messages[worker] = len(program.message_specs)

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        if self._origin is None:
            self._origin = self.now() - self._elapsed
        if order.round > self._round:
            self._round = order.round
            self._interceptor.new_round(order.round)
        sent = self._annotated(order)
        chosen = sorted(self._pending.messages) if workers is None else list(workers)
        shut = [worker for worker in chosen if self._interceptor.shut(worker)]
        for worker in shut:
            self._interceptor.keep(worker, sent)
        self.engine.submit(sent, [worker for worker in chosen if worker not in shut])
        for worker in chosen:
            self._pending.ordered(worker, order.round)
            self._note_silence(worker)

    def next_event(self, until: float | None = None) -> Event | None:
        while True:
            self._strike()
            held = self._interceptor.take(self.now())
            for worker, order in self._interceptor.let_through():
                self.engine.submit(order, [worker])
            if held is not None:
                return self._delivered(held)
            own = min(self._next_act(), self._interceptor.next())
            limit = own if until is None else min(own, until)
            event = self.engine.next_event(None if math.isinf(limit) else limit)
            if event is None:
                if until is not None and self.now() >= until and own > self.now():
                    return None
                continue
            passed = self._pass(event)
            if passed is not None:
                return passed

    def release(self, arrived: Arrived) -> None:
        if not self._interceptor.release(arrived):
            self.engine.release(arrived)

    def state(self) -> Tree | None:
        inner = self.engine.state()
        if inner is None:
            return None
        return {
            "engine": inner,
            "interceptor": self._interceptor.state(),
            "position": self._position,
            "origin": self._origin,
            "round": self._round,
            "pending": self._pending.state(),
            "there": sorted(self._there),
            "suffering": {str(worker): sorted(numbers) for worker, numbers in self._suffering.items()},
        }

    def restore(self, state: Tree, programs: Mapping[int, Program]) -> None:
        saved: Mapping[str, Any] = state  # pyright: ignore[reportAssignmentType]  # what `state` returned
        wrapped = {worker: self._wrapped(worker, program) for worker, program in programs.items()}
        self.engine.restore(saved["engine"], wrapped)
        self._interceptor.restore(saved["interceptor"])
        self._position, self._round = int(saved["position"]), int(saved["round"])
        self._origin = None if saved["origin"] is None else float(saved["origin"])
        self._there = set(saved["there"])
        self._pending.restore(saved["pending"])
        self._suffering.clear()
        self._suffering.update({int(worker): set(numbers) for worker, numbers in saved["suffering"].items()})
        self._log("restored", self.time)

    # --- faults -----------------------------------------------------------------------------------------------------

    def _next_act(self) -> float:
        """Return when the next fault begins or ends, in the engine's seconds; inf if none does."""
        if self._origin is None or self._position == len(self._acts):
            return math.inf
        return self._origin + self._acts[self._position][0]

    def _strike(self) -> None:
        while self._next_act() <= self.now():
            time, number, begins = self._acts[self._position]
            self._position += 1
            if number in self.spent:
                continue
            fault = self.schedule.faults[number]
            if fault.kind not in OF_WORKERS:
                self._log("injected" if begins else "over", time, fault=number)
                self._upon(fault, begins)
            elif begins:
                self._begin(time, number, fault)
            elif fault.worker is not None and number in self._suffering[fault.worker]:
                self._end(time, number, fault, fault.worker)

    def _begin(self, time: float, number: int, fault: Fault) -> None:
        worker = fault.worker
        if worker is None or worker not in self._there:
            self._log("missed", time, fault=number, text=f"worker {worker} is not there")
            return
        try:
            if fault.kind == "kill":
                self.kill(worker)
            elif fault.kind == "stop":
                self.pause(worker)
            elif fault.kind == "slow":
                self._interceptor.slow[worker] = fault.by
            elif fault.kind == "disconnect":
                self._interceptor.cut.add(worker)
        except (EngineError, KeyError) as error:
            self._log("missed", time, fault=number, text=str(error))
            return
        if fault.kind != "kill":
            self._suffering[worker].add(number)
        self._log("injected", time, fault=number)
        self._note_silence(worker)

    def _note_silence(self, worker: int) -> None:
        """Record when a stopped or disconnected worker first owed an answer: its silence counts from then."""
        suffering = self._suffering.get(worker, ())
        mute = [number for number in suffering if self.schedule.faults[number].kind in ("stop", "disconnect")]
        for number in self._pending.silenced(worker, mute) if mute else ():
            self._log("silent", self.time, fault=number)

    def _end(self, time: float, number: int, fault: Fault, worker: int) -> None:
        self._suffering[worker].discard(number)
        if any(self.schedule.faults[other].kind == fault.kind for other in self._suffering[worker]):
            return  # another of the kind goes on
        if fault.kind == "stop":
            self.proceed(worker)
        elif fault.kind == "slow":
            self._interceptor.slow.pop(worker, None)
        elif fault.kind == "disconnect":
            self._interceptor.heal(worker, self.now())
        self._log("over", time, fault=number)

    def _free(self, worker: int) -> None:
        """End all faults of a worker: its process is gone, or about to be."""
        self._interceptor.forget(worker)
        self._there.discard(worker)
        self._pending.left(worker)
        for number in sorted(self._suffering.pop(worker, ())):
            self._log("over", self.time, fault=number, text="with its process")

    def _wrapped(self, worker: int, program: Program) -> Program:
        if worker not in self._corrupt:
            return program
        if isinstance(program, WiredProgram):  # a lie is told before it is encoded
            return WiredProgram(Corrupted(program.program, worker), program.wire)
        return Corrupted(program, worker)

    def _annotated(self, order: Order) -> Order:
        """Return an order that tells liars to lie; the same for all workers of a round."""
        if self._order is not None and self._order[0] is order:
            return self._order[1]
        lying = {
            worker: number
            for worker, numbers in self._suffering.items()
            for number in numbers
            if self.schedule.faults[number].kind == "corrupt"
        }
        self._pending.lying = lying
        sent = order
        if lying:
            lies = {str(worker): self.schedule.faults[number].lie for worker, number in sorted(lying.items())}
            sent = replace(order, note={**order.note, NOTE: lies})
        self._order = order, sent
        return sent

    # --- events -----------------------------------------------------------------------------------------------------

    def _pass(self, event: Event) -> Event | None:
        if isinstance(event, Joined):
            self._there.add(event.worker)
        elif isinstance(event, Died):
            self._free(event.worker)
        elif isinstance(event, Arrived | Failed):
            return self._delivered(event) if self._interceptor.passes(event, self.now()) else None
        return event

    def _delivered(self, event: Arrived | Failed) -> Event:
        """Record what is not owed any more, and of the first lie that gets through."""
        number = self._pending.answered(event)
        if number is not None:
            self._log("lied", self.time, fault=number)
        return event

    def _log(self, what: str, time: float, **more: Any) -> None:
        self._told({"what": what, "time": round(time, 6), **more})
