"""An engine of any kind, with the faults of a schedule injected at their times."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias, final

from erasurehead._internal.arrays import Tree
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.late_work import rounds_kept
from erasurehead._internal.resumable import Resumable, as_present, from_plain, to_plain
from erasurehead.drills._interceptor import Interceptor
from erasurehead.drills._lying_program import NOTE, Corrupted
from erasurehead.drills._pending import PendingOrders
from erasurehead.drills._schedule import OF_WORKERS, SILENCING, Fault, FaultSchedule
from erasurehead.engines import Arrived, Died, Engine, Failed, Joined, Order, Program
from erasurehead.engines._base import Event
from erasurehead.engines._engine_around import EngineAround
from erasurehead.engines._wired_engine import WiredProgram
from erasurehead.errors import EngineError

Record: TypeAlias = Callable[[PlainData], None]
"""Records an entry of the journal, as plain data."""

OnCoordinatorFault: TypeAlias = Callable[[Fault, bool], None]
"""Called for faults of the coordinator, when they begin (True) and when they are over."""


@final
class FaultyEngine(EngineAround):
    """Injects faults into any engine.

    Faults are injected by the engine's clock, counted from the first order: kills, stops and continuations by the
    engine; disconnections and slowness by holding the events and orders of a worker; lies by a note on the orders,
    which the program of the worker obeys. All faults of a worker end with its process. Faults of the coordinator are
    left to a callback.

    Arguments:
        engine: the engine of the workers.
        faults: in any order.
        elapsed: for a resumed run on an engine without a state: seconds of the run so far. Earlier faults are over.
        spent: numbers of the faults that are not injected any more.
        record: called with an entry for each fault that is injected, missed or over. What follows from a fault is in
            the records of the run.
        on_coordinator_fault: called for faults of the coordinator.
        assigning: a context that is entered while a worker is started.
    """

    name: ClassVar[str] = "faulty"
    _checkpointed = ("_interceptor", "_pending", "_position", "_origin", "_round", "_present", "_active")

    def __init__(
        self,
        engine: Engine,
        faults: Sequence[Fault],
        *,
        elapsed: float = 0.0,
        spent: Iterable[int] = (),
        record: Record = lambda entry: None,
        on_coordinator_fault: OnCoordinatorFault = lambda fault, begins: None,
        assigning: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        super().__init__(engine)
        self.schedule = schedule = FaultSchedule(faults)
        self.spent = frozenset(spent)
        self._record, self._on_coordinator_fault, self._assigning = record, on_coordinator_fault, assigning
        self._interceptor = Interceptor(rounds_kept(engine.late))
        self._changes = sorted(
            (time, number, begins)
            for number, fault in enumerate(schedule.faults)
            for time, begins in ((fault.at, True), *([] if fault.lasting is None else [(fault.until, False)]))
        )
        self._corrupt = {fault.worker for fault in schedule.of("corrupt")}
        self._position = sum(time < elapsed for time, _, _ in self._changes)
        self._elapsed = elapsed
        self._origin: float | None = None
        self._round = -1
        self._order: tuple[Order, Order] | None = None
        self._pending = PendingOrders()
        self._present: set[int] = set()
        self._active: defaultdict[int, set[int]] = defaultdict(set)  # by worker: numbers of the faults under way

    @property
    def time(self) -> float:
        """Seconds since the first order of the run."""
        return self._elapsed if self._origin is None else self.now() - self._origin

    # --- the contract -----------------------------------------------------------------------------------------------

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self._end_all_faults(worker)
        self._pending.messages.pop(worker, None)
        with self._assigning():
            super().assign(worker, program, host)
        if program is not None:
            self._pending.messages[worker] = len(program.sent(False)), len(program.sent(True))

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        if self._origin is None:
            self._origin = self.now() - self._elapsed
        if order.round > self._round:
            self._round = order.round
            self._interceptor.on_new_round(order.round)
        sent = self._with_lies(order)
        chosen = sorted(self._pending.messages) if workers is None else list(workers)
        blocked = [worker for worker in chosen if self._interceptor.is_blocked(worker)]
        for worker in blocked:
            self._interceptor.hold_order(worker, sent)
        self.engine.submit(sent, [worker for worker in chosen if worker not in blocked])
        for worker in chosen:
            self._pending.ordered(worker, order)
            self._note_silence(worker)

    def next_event(self, until: float | None = None) -> Event | None:
        while True:
            self._apply_due_faults()
            due = self._interceptor.pop_due(self.now())
            for worker, order in self._interceptor.pop_reachable_orders():
                self.engine.submit(order, [worker])
            if due is not None:
                return self._delivered(due)
            own = min(self._next_change(), self._interceptor.next_due())
            limit = own if until is None else min(own, until)
            event = self.engine.next_event(None if math.isinf(limit) else limit)
            if event is None:
                if until is not None and self.now() >= until and own > self.now():
                    return None
                continue
            handled = self._handle(event)
            if handled is not None:
                return handled

    def release(self, arrived: Arrived) -> None:
        self._interceptor.leases.end(arrived)
        self.engine.release(arrived)

    def state(self) -> Tree | None:
        inner = self.engine.state()
        if inner is None:
            return None
        own = {name: to_plain(getattr(self, name)) for name in self._checkpointed}
        return {**own, "engine": inner}

    def restore(self, state: Tree, programs: Mapping[int, Program]) -> None:
        saved: Entries = state  # pyright: ignore[reportAssignmentType]  # what `state` returned
        super().restore(saved["engine"], programs)
        for name in self._checkpointed:
            present = getattr(self, name)
            if isinstance(present, Resumable):
                present.restore(saved[name])
            else:
                setattr(self, name, as_present(name, from_plain(saved[name]), present))
        self._log("restored", self.time)

    # --- faults -----------------------------------------------------------------------------------------------------

    def _next_change(self) -> float:
        """Return when the next fault begins or ends, in the engine's seconds; inf if there is none."""
        if self._origin is None or self._position == len(self._changes):
            return math.inf
        return self._origin + self._changes[self._position][0]

    def _apply_due_faults(self) -> None:
        while self._next_change() <= self.now():
            time, number, begins = self._changes[self._position]
            self._position += 1
            if number in self.spent:
                continue
            fault = self.schedule.faults[number]
            if fault.kind not in OF_WORKERS:
                self._log("injected" if begins else "over", time, fault=number)
                self._on_coordinator_fault(fault, begins)
            elif begins:
                self._begin(time, number, fault)
            elif fault.worker is not None and number in self._active[fault.worker]:
                self._end(time, number, fault, fault.worker)

    def _begin(self, time: float, number: int, fault: Fault) -> None:
        worker = fault.worker
        if worker is None or worker not in self._present:
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
                self._interceptor.disconnected.add(worker)
        except (EngineError, KeyError) as error:
            self._log("missed", time, fault=number, text=str(error))
            return
        if fault.kind != "kill":
            self._active[worker].add(number)
        self._log("injected", time, fault=number)
        self._note_silence(worker)

    def _note_silence(self, worker: int) -> None:
        """Record when a stopped or disconnected worker first has an order to answer: its silence begins then."""
        active = self._active.get(worker, ())
        silencing = [number for number in active if self.schedule.faults[number].kind in SILENCING]
        for number in self._pending.silenced(worker, silencing) if silencing else ():
            self._log("silent", self.time, fault=number)

    def _end(self, time: float, number: int, fault: Fault, worker: int) -> None:
        self._active[worker].discard(number)
        if any(self.schedule.faults[other].kind == fault.kind for other in self._active[worker]):
            return  # another of the kind goes on
        if fault.kind == "stop":
            self.proceed(worker)
        elif fault.kind == "slow":
            self._interceptor.slow.pop(worker, None)
        elif fault.kind == "disconnect":
            self._interceptor.heal(worker, self.now())
        self._log("over", time, fault=number)

    def _end_all_faults(self, worker: int) -> None:
        """End all faults of a worker whose process is gone, or about to be."""
        self._interceptor.reset(worker)
        self._present.discard(worker)
        self._pending.remove(worker)
        for number in sorted(self._active.pop(worker, ())):
            self._log("over", self.time, fault=number, text="with its process")

    def around(self, worker: int, program: Program) -> Program:
        if worker not in self._corrupt:
            return program
        if isinstance(program, WiredProgram):  # a lie is told before it is encoded
            return WiredProgram(Corrupted(program.program, worker), program.wire)
        return Corrupted(program, worker)

    def _with_lies(self, order: Order) -> Order:
        """Return an order with a note that tells workers to lie; it is the same for all workers of a round."""
        if self._order is not None and self._order[0] is order:
            return self._order[1]
        lying = {
            worker: number
            for worker, numbers in self._active.items()
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

    def _handle(self, event: Event) -> Event | None:
        if isinstance(event, Joined):
            self._present.add(event.worker)
        elif isinstance(event, Died):
            self._end_all_faults(event.worker)
        elif isinstance(event, Arrived | Failed):
            return self._delivered(event) if self._interceptor.try_pass(event, self.now()) else None
        return event

    def _delivered(self, event: Arrived | Failed) -> Event:
        """Record an answer, and whether it is the first lie of a fault that is delivered."""
        number = self._pending.answered(event)
        if number is not None:
            self._log("lied", self.time, fault=number)
        return event

    def _log(self, what: str, time: float, **more: Any) -> None:
        self._record({"what": what, "time": round(time, 6), **more})
