"""Workers on a virtual clock: a heap of events, and time that jumps from one to the next.

A message is computed only when it is decoded, and equal messages once, so that a virtual run of a group code costs
no more than plain gradient descent. Computing takes no virtual time unless `seconds_per_task` says so.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from erasurehead.arrays import Array
from erasurehead.delays.base import Delays
from erasurehead.engines.base import (
    CLOSED,
    Arrived,
    Died,
    Engine,
    Event,
    Failed,
    Joined,
    LateWork,
    MessageLost,
    NoRoom,
    Offered,
    Order,
    Part,
    Program,
)
from erasurehead.errors import EngineError, invalid

_WHOEVER = -1
"""In place of a number on the heap: meant for whoever has the worker's number then."""


@dataclass(eq=False)
class _Round:
    """An order in flight, and the vectors of it that have been computed, by content."""

    order: Order
    vectors: dict[int, Array] = field(default_factory=dict[int, Array])


@dataclass(eq=False)
class _Worker:
    program: Program
    host: str
    life: int  # an event of an earlier worker of the same number is void
    work: int = -1  # number of the work in progress; the end of another one is void
    busy: bool = False
    part: Part | None = None  # what it is working on
    current: _Round | None = None
    waiting: _Round | None = None  # the newest order, taken when the current one is done
    started: float = 0.0
    done: list[Part] = field(default_factory=list[Part])
    held: list[Event | None] | None = None  # while paused: what would have happened, None for the end of a message


class VirtualEngine(Engine):
    """Workers on a virtual clock.

    Arguments:
        delays: what is added to each message's computing time; None for nothing.
        late: what a worker does when a newer order is out while it is still busy: `"preempt"` drops the old work,
            `"carry"` finishes it first.
        seconds_per_task: computing time of one task's partial gradient, in seconds.
        hosts: the machines that it plays, and how many workers each bears; None for any number.
    """

    name: ClassVar[str] = "virtual"

    def __init__(
        self,
        delays: Delays | None = None,
        late: LateWork = "preempt",
        seconds_per_task: float = 0.0,
        hosts: Mapping[str, int | None] | None = None,
    ) -> None:
        if late not in ("preempt", "carry"):
            raise invalid("late", "must be 'preempt' or 'carry'", late)
        if not (math.isfinite(seconds_per_task) and seconds_per_task >= 0):
            raise invalid("seconds_per_task", "must be a finite number of seconds, at least 0", seconds_per_task)
        self.delays = delays
        self.late: LateWork = late
        self.seconds_per_task = seconds_per_task
        self._hosts: dict[str, int | None] = dict(hosts or {"virtual": None})
        self._workers: dict[int, _Worker] = {}
        self._heap: list[tuple[float, int, int, int, Event | None]] = []
        self._sequence = itertools.count()
        self._clock = 0.0
        self._closed = False
        self._round = -1
        self._handed_out: list[_Loan] = []
        self._delay_rows: dict[tuple[int, int, float], Array] = {}

    def hosts(self) -> Mapping[str, int | None]:
        return dict(self._hosts)

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self._check_open()
        self._workers.pop(worker, None)
        if program is not None:
            place = self._place(host)
            state = _Worker(program, place, life=next(self._sequence))
            self._workers[worker] = state
            self._push(self._clock, worker, state.life, Joined(worker, place, self._clock))

    def _place(self, host: str | None) -> str:
        taken = Counter(state.host for state in self._workers.values())
        free = [name for name, room in self._hosts.items() if room is None or taken[name] < room]
        if not free:
            raise NoRoom(f"all places of the virtual hosts {', '.join(self._hosts)} are taken.")
        return host if host in free else min(free, key=lambda name: taken[name])

    def offer(self, workers: int, host: str, at: float | None = None) -> None:
        """Make room for more workers on a host, now or at a given time of the virtual clock."""
        time = self._clock if at is None else at
        self._push(time, _WHOEVER, _WHOEVER, Offered(workers, host, time))

    def _make_room(self, offered: Offered) -> None:
        room = self._hosts.get(offered.host, 0)
        self._hosts[offered.host] = None if room is None else room + offered.workers

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        self._check_open()
        if order.round > self._round:
            self._round = order.round
            self._delay_rows.clear()
            for loan in self._handed_out:
                loan.end()
            self._handed_out.clear()
        flight = _Round(order)
        for worker in list(self._workers) if workers is None else workers:
            state = self._workers.get(worker)
            if state is None:
                continue
            if (state.busy and self.late == "carry") or state.held is not None:
                state.waiting = flight
            else:
                self._begin(worker, state, flight)

    def next_event(self, until: float | None = None) -> Event | None:
        self._check_open()
        while self._heap and (until is None or self._heap[0][0] <= until):
            time, _, worker, number, event = heapq.heappop(self._heap)
            if isinstance(event, Offered):
                self._clock = max(self._clock, time)
                self._make_room(event)
                return event
            state = self._workers.get(worker)
            if state is None or number not in (_WHOEVER, state.life if event else state.work):
                continue
            if state.held is not None and number != _WHOEVER:
                state.held.append(event)
                continue
            self._clock = max(self._clock, time)
            if event is None:
                return self._finish_part(worker, state)
            if isinstance(event, Died):
                del self._workers[worker]
            return event
        if until is None:
            raise EngineError("no worker can still answer: nothing is under way on the virtual clock.")
        self._clock = max(self._clock, until)
        return None

    def release(self, arrived: Arrived) -> None:
        for loan in self._handed_out:
            if loan.read == arrived.read:
                loan.end()

    def kill(self, worker: int, at: float | None = None) -> None:
        """End a worker, now or at a given time of the virtual clock."""
        time = self._clock if at is None else at
        self._push(time, worker, _WHOEVER, Died(worker, "killed", time))

    def pause(self, worker: int) -> None:
        state = self._workers[worker]
        if state.held is None:
            state.held = []

    def proceed(self, worker: int) -> None:
        state = self._workers[worker]
        held, state.held = state.held or [], None
        for event in held:
            self._push(self._clock, worker, state.life if event else state.work, event)
        if state.waiting is not None and (self.late == "preempt" or not state.busy):
            self._begin(worker, state, state.waiting)

    def now(self) -> float:
        return self._clock

    def close(self) -> None:
        self._closed = True
        self._workers.clear()
        self._heap.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError(CLOSED)

    def _push(self, time: float, worker: int, number: int, event: Event | None) -> None:
        heapq.heappush(self._heap, (time, next(self._sequence), worker, number, event))

    def _begin(self, worker: int, state: _Worker, flight: _Round) -> None:
        state.current, state.waiting = flight, None
        state.started = self._clock
        state.done = []
        state.work = next(self._sequence)
        self._begin_part(worker, state)

    def _begin_part(self, worker: int, state: _Worker) -> None:
        assert state.current is not None
        order = state.current.order
        try:
            parts = state.program.parts(order, state.done)
        except Exception as error:
            state.busy = False
            reason = f"{type(error).__name__}: {error}"
            self._push(self._clock, worker, state.life, Failed(worker, order.round, reason, self._clock))
            return
        state.busy = bool(parts)
        if parts:
            state.part = parts[0]
            seconds = self.seconds_per_task * parts[0].work + self._delay(worker, order.step, state, parts[0])
            if math.isfinite(seconds):
                self._push(self._clock + seconds, worker, state.work, None)

    def _delay(self, worker: int, step: int, state: _Worker, part: Part) -> float:
        if self.delays is None:
            return 0.0
        key = (step, len(state.done), part.work)
        row = self._delay_rows.get(key)
        if row is None or len(row) <= worker:
            row = self.delays.row(step, max(self._workers) + 1, unit=len(state.done), work=part.work)
            self._delay_rows[key] = row
        return float(row[worker])

    def _finish_part(self, worker: int, state: _Worker) -> Event:
        flight, program, part = state.current, state.program, state.part
        assert flight is not None
        assert part is not None
        loan = _Loan(program, flight, part)
        event: Event = Arrived(
            worker, part, flight.order.round, flight.order.step, state.started, self._clock, loan.read
        )
        if not program.pure:
            try:
                loan.read()
            except MessageLost as lost:
                event = Failed(worker, flight.order.round, str(lost), self._clock)
        if isinstance(event, Arrived):
            self._handed_out.append(loan)
            state.done.append(part)
            self._begin_part(worker, state)
        else:
            state.busy = False
        if not state.busy and state.waiting is not None:
            self._begin(worker, state, state.waiting)
        return event


class _Loan:
    """A vector lent to the coordinator: computed when it is first read, refused after it was given back."""

    def __init__(self, program: Program, flight: _Round, part: Part) -> None:
        self._source: tuple[Program, _Round, Part] | None = (program, flight, part)
        self._own: Array | None = None

    def end(self) -> None:
        self._source = self._own = None

    def read(self) -> Array:
        if self._source is None:
            raise EngineError("the vector of this message was released; read it before the next order is submitted.")
        program, flight, part = self._source
        shared = part.content if program.pure else None
        vector = self._own if shared is None else flight.vectors.get(shared)
        if vector is None:
            vector = np.empty(part.length, dtype=part.dtype)
            try:
                program.compute(part, program.take(flight.order), vector)
            except Exception as error:
                raise MessageLost(f"message {part.message}: {type(error).__name__}: {error}") from error
            if shared is None:
                self._own = vector
            else:
                flight.vectors[shared] = vector
        return vector
