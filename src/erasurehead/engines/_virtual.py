"""Workers on a virtual clock: a heap of events, and time that jumps from one to the next.

A message is computed only when it is decoded, and equal messages only once, so that a virtual run of a group code goes
through no more samples than plain gradient descent. On large sparse data it takes less than twice as long: each group's
columns are copied from the model, and its message is added to all coordinates. Computing takes no virtual time unless
`seconds_per_task` is set.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from erasurehead._internal.arrays import Tree
from erasurehead._internal.late_work import LateWork, check_late, rounds_kept
from erasurehead.delays import Delays
from erasurehead.delays._fixed import Recorded
from erasurehead.delays._script import ScriptedEvent
from erasurehead.delays._text import as_delays
from erasurehead.engines._base import (
    CLOSED,
    UNTIL_NEWER,
    WORKED,
    Arrived,
    Died,
    Engine,
    Event,
    Failed,
    Joined,
    MessageLost,
    MessageSpec,
    Moment,
    NoRoom,
    Offered,
    Order,
    Program,
    chosen,
    delay_of,
    told,
)
from erasurehead.engines._fault_injection import FaultInjection
from erasurehead.engines._leases import VirtualLease
from erasurehead.engines._playback import Playback
from erasurehead.engines._virtual_draws import RoundDraws
from erasurehead.engines._virtual_state import (
    Flight,
    OrderTable,
    Worker,
    event_from,
    event_to_tree,
    rounds_from,
    whole,
    worker_from,
    worker_to_tree,
)
from erasurehead.errors import DataError, EngineError, NothingUnderWay, check_count, check_not_negative, invalid, real

_WHOEVER = -1
"""Stands on the heap for any life: the event is for whichever worker has the number then."""
_BEFORE_ALL = (-1, 0.0)
"""The rank, among simultaneous events, of those that are not messages: before all messages."""


class VirtualEngine(Engine, FaultInjection):
    """Workers on a virtual clock.

    Arguments:
        delays: added to each message's computing time; None for none.
        late: what a worker does when a newer order is out while it is still busy: `"preempt"` drops the old work,
            `"carry"` finishes it first, `"drop(3)"` does so unless it is more than three rounds old.
        seconds_per_task: computing time of one task's partial gradient, in seconds.
        hosts: the simulated machines, each with the number of workers that it has room for; None for any number.
        seed: messages that arrive at the same moment are ordered randomly, by this seed and the step, so that none of
            them is always first; at least 0. In a replay they keep their recorded order.
    """

    name: ClassVar[str] = "virtual"
    virtual = True

    def __init__(
        self,
        delays: Delays | str | None = None,
        late: LateWork = "preempt",
        seconds_per_task: float = 0.0,
        hosts: Mapping[str, int | None] | None = None,
        seed: int = 0,
    ) -> None:
        self.late: LateWork = check_late(late)
        check_not_negative("seconds_per_task", seconds_per_task, "must be a finite number of seconds, at least 0")
        self.delays = None if delays is None else as_delays(delays)
        self.seed = check_count("seed", seed, at_least=0)
        self._draws = RoundDraws(self.delays, self.seed)
        self._kept = rounds_kept(late)
        self.seconds_per_task = seconds_per_task
        self._hosts: dict[str, int | None] = dict(hosts or {"virtual": None})
        self._workers: dict[int, Worker] = {}
        self._taken = Counter[str]()  # places taken on each host
        self._heap: list[tuple[float, int, float, int, int, int, Event | None]] = []
        self._sequence = 0
        self._clock = 0.0
        self._closed = False
        self._round = -1
        self._handed_out: list[VirtualLease] = []
        self._playback: Playback | None = None
        self._departed: dict[int, Worker] = {}  # workers that died in a replay
        if isinstance(self.delays, Recorded) and self.delays.script is not None:
            self._playback, self.late = Playback(self.delays.script), check_late(self.delays.script.old_work)

    def hosts(self) -> Mapping[str, int | None]:
        return dict(self._hosts)

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self._check_open()
        self._forget(worker)
        if program is not None:
            place = self._place(host)
            state = Worker(program, place, life=self._next())
            self._workers[worker] = state
            self._taken[place] += 1
            if self._playback is None or not self._playback.tells_of_workers:  # else it joins when it did
                self._push(self.now(), worker, state.life, Joined(worker, place, self.now()))

    def _forget(self, worker: int) -> None:
        state = self._workers.pop(worker, None)
        if state is not None:
            self._taken[state.host] -= 1

    def _place(self, host: str | None) -> str:
        taken = self._taken
        free = [name for name, room in self._hosts.items() if room is None or taken[name] < room]
        if not free:
            raise NoRoom(f"all places of the virtual hosts {', '.join(self._hosts)} are taken.")
        return host if host in free else min(free, key=lambda name: taken[name])

    def offer(self, workers: int, host: str, at: float | None = None) -> None:
        """Make room for more workers on a host, now or at a given time of the virtual clock."""
        time = self._when(at)
        self._push(time, _WHOEVER, _WHOEVER, Offered(workers, host, time))

    def _make_room(self, offered: Offered) -> None:
        room = self._hosts.get(offered.host, 0)
        self._hosts[offered.host] = None if room is None else room + offered.workers

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        self._check_open()
        if order.round > self._round:
            self._round = order.round
            self._draws.forget()
            for lease in self._handed_out:
                lease.end()
            self._handed_out.clear()
        flight = Flight(order)
        if self._playback is not None:
            self._playback.submit(flight)
            return
        for worker in list(self._workers) if workers is None else workers:
            state = self._workers.get(worker)
            if state is None:
                continue
            if (state.busy and not self._outdated(state, order)) or state.held is not None:
                state.waiting = flight
            else:
                self._begin(worker, state, flight)

    def redirect(self, worker: int, order_round: int, message: int) -> None:
        state = self._workers.get(worker)
        if state is None or self._playback is not None:
            return
        paused, state.told = state.told[0] == order_round, (order_round, message)
        if paused and not state.busy and state.current is not None and state.current.order.round == order_round:
            self._begin_part(worker, state)

    def _outdated(self, state: Worker, newest: Order) -> bool:
        """Return whether a worker drops its current work, now that there is a newer order."""
        return not self._kept or state.current is None or newest.round - state.current.order.round > self._kept

    def next_event(self, until: float | None = None) -> Event | None:
        self._check_open()
        while self._heap and (until is None or self._heap[0][0] <= until):
            time, _, _, _, worker, number, event = heapq.heappop(self._heap)
            if isinstance(event, Offered):
                self._advance(time)
                self._make_room(event)
                return event
            state = self._workers.get(worker)
            if state is None or number not in (_WHOEVER, state.life if event else state.work):
                continue
            if state.held is not None and number != _WHOEVER:
                state.held.append(event)
                continue
            self._advance(time)
            if event is None:
                return self._finish_part(worker, state)
            if isinstance(event, Died):
                self._forget(worker)
            return event
        if self._playback is not None and (played := self._play(self._playback, until)) is not None:
            return played
        if until is None and self._playback is not None and (waits := self._playback.nothing_more()) is not None:
            raise waits
        if until is None:
            raise NothingUnderWay("no worker can still answer: nothing is under way on the virtual clock.")
        self._advance(until)
        return None

    def _play(self, playback: Playback, until: float | None) -> Event | None:
        """Return what came next in the recorded round; None if the round is over, or the time has not come yet."""
        struck = playback.peek_event()
        if struck is not None:
            if until is not None and struck.time > until:
                return None
            playback.take_event()
            self._clock = max(self._clock, playback.stop if playback.done else struck.time)
            return self._play_event(struck)
        coming = playback.peek()
        if coming is None:
            while (worker := playback.take_failure()) is not None:
                if worker in self._workers:
                    return Failed(worker, self._round, "it failed in the recorded run", self._clock)
            if until is not None:
                self._clock = max(self._clock, playback.stop)
            return None
        time = playback.time_of(coming)
        if until is not None and time > until:
            return None
        message, flight = playback.take()
        self._clock = max(self._clock, playback.stop if playback.done else time)  # when the coordinator noticed
        state = self._workers.get(message.worker)
        specs = () if state is None or flight is None else state.program.remaining(flight.order, ())
        if state is None or flight is None or message.unit >= len(specs):
            raise DataError(
                f"the recorded run has a message {message.unit} of worker {message.worker} for round "
                f"{message.order_round}, which nobody here would send: a replay needs the scheme of that run."
            )
        spec = specs[message.unit]
        lease = VirtualLease(state.program, flight, spec, lost=not message.usable)
        self._handed_out.append(lease)
        started, step = playback.started(message), flight.order.step
        return Arrived(
            message.worker, spec, message.order_round, step, started, time, lease.read, lease, message.worked
        )

    def _play_event(self, scripted: ScriptedEvent) -> Event:
        """Return the event of a worker in a recorded run, as it happens again."""
        worker, time = scripted.worker, scripted.time
        if scripted.kind == "died":
            if worker in self._workers:
                self._departed[worker] = self._workers[worker]
            self._forget(worker)
            return Died(worker, scripted.reason, time, scripted.broken)
        if scripted.kind == "joined":
            if worker in self._departed and worker not in self._workers:  # the recorded run continued with new workers
                self._workers[worker] = self._departed[worker]
            return Joined(worker, scripted.host, time)
        if scripted.kind == "failed":
            return Failed(worker, self._round, scripted.reason, time)
        return Offered(scripted.count, scripted.host, time)

    def stamp(self, moment: Moment, order_round: int) -> float:
        if self._playback is not None:
            if moment == "end":
                self._playback.check_over()
            recorded = self._playback.begin(order_round) if moment == "begin" else self._playback.end
            if recorded is not None:
                self._clock = recorded
        return self.now()

    def release(self, arrived: Arrived) -> None:
        if arrived.lease is not None:
            arrived.lease.end()

    def kill(self, worker: int, at: float | None = None) -> None:
        """End a worker, now or at a given time of the virtual clock."""
        time = self._when(at)
        check_count("worker", worker, at_least=0)
        self._push(time, worker, _WHOEVER, Died(worker, "killed", time))

    def _when(self, at: float | None) -> float:
        if at is not None and not real(at) >= 0.0:
            raise invalid("at", "must be a number of seconds of at least 0", at)
        return self.now() if at is None else at

    def pause(self, worker: int) -> None:
        state = self._workers[worker]
        if state.held is None:
            state.held = []

    def proceed(self, worker: int) -> None:
        state = self._workers[worker]
        events, state.held = state.held or [], None
        for event in events:
            if event is None:
                self._push_message(self.now(), worker, state)
            else:
                self._push(self.now(), worker, state.life, event)
        if state.waiting is not None and (not state.busy or self._outdated(state, state.waiting.order)):
            self._begin(worker, state, state.waiting)

    def state(self) -> Tree:
        orders = OrderTable()
        workers = [worker_to_tree(number, state, orders) for number, state in self._workers.items()]
        return {
            "late": self.late,
            "seconds_per_task": self.seconds_per_task,
            "seed": self.seed,
            "clock": self._clock,
            "sequence": self._sequence,
            "round": self._round,
            "hosts": [[name, room] for name, room in self._hosts.items()],
            "heap": [[*entry[:6], event_to_tree(entry[6])] for entry in self._heap],
            "workers": workers,
            "orders": orders.to_tree(),
            "playback": None if self._playback is None else self._playback.state(),
        }

    def restore(self, state: Tree, programs: Mapping[int, Program]) -> None:
        self._check_open()
        try:
            self._restore(cast("Mapping[str, Any]", state), programs)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = error if isinstance(error, DataError) else repr(error)
            raise DataError(f"this is not a state of the virtual engine: {reason}") from None

    def _restore(self, state: Mapping[str, Any], programs: Mapping[int, Program]) -> None:
        for name in ("late", "seconds_per_task", "seed"):
            if state[name] != getattr(self, name):
                raise DataError(f"{name} was {state[name]!r} then, and is {getattr(self, name)!r} now.")
        rounds = rounds_from(state["orders"])
        workers = {whole(row["number"]): row for row in state["workers"]}
        without = sorted(set(workers) - set(programs))
        if without:
            raise DataError(f"workers {without} have no program.")
        self._workers = {number: worker_from(row, programs[number], rounds) for number, row in workers.items()}
        self._taken = Counter(worker.host for worker in self._workers.values())
        self._heap = [
            (float(time), whole(turn), float(place), whole(order), whole(worker), whole(number), event_from(event))
            for time, turn, place, order, worker, number, event in state["heap"]
        ]
        if (self._playback is None) != (state.get("playback") is None):
            raise DataError("a replay goes on as a replay, of the same run.")
        if self._playback is not None:
            self._playback.restore(state["playback"])
        self._hosts = {str(name): None if room is None else whole(room) for name, room in state["hosts"]}
        heapq.heapify(self._heap)
        self._clock, self._round = float(state["clock"]), whole(state["round"])
        self._sequence = whole(state["sequence"])
        self._draws.forget()
        for lease in self._handed_out:
            lease.end()
        self._handed_out.clear()

    def now(self) -> float:
        return self._clock

    def _advance(self, time: float) -> None:
        """Let it be `time`, if it is not later already."""
        self._clock = max(self._clock, time)

    def close(self) -> None:
        self._closed = True
        self._workers.clear()
        self._taken.clear()
        self._heap.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError(CLOSED)

    def _push(self, time: float, worker: int, number: int, event: Event) -> None:
        heapq.heappush(self._heap, (time, *_BEFORE_ALL, self._next(), worker, number, event))

    def _push_message(self, time: float, worker: int, state: Worker) -> None:
        """Schedule the arrival of the message that a worker is computing."""
        assert state.current is not None
        order = state.current.order
        place = self._draws.precedence(order, worker, self._workers, len(state.done))
        # Answers to earlier rounds come first, as they were sent before.
        heapq.heappush(self._heap, (time, order.round, place, self._next(), worker, state.work, None))

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence - 1

    def _begin(self, worker: int, state: Worker, flight: Flight) -> None:
        state.current, state.waiting = flight, None
        state.started = self.now()
        state.done = []
        state.work = self._next()
        self._begin_part(worker, state)

    def _begin_part(self, worker: int, state: Worker) -> None:
        assert state.current is not None
        order = state.current.order
        try:
            remaining = state.program.remaining(order, state.done)
        except Exception as error:
            self._fail(worker, state, order, error)
            return
        told_for, told_next = state.told
        spec = chosen(remaining, told_next if told_for == order.round else None) if remaining else None
        state.busy = spec is not None
        if spec is None:
            return
        state.spec = spec
        try:
            delay = delay_of(
                spec, len(state.done), lambda unit, work: self._draws.delay(order, worker, self._workers, unit, work)
            )
        except Exception as error:
            self._fail(worker, state, order, error)
            return
        seconds = self.seconds_per_task * (spec.work - spec.prior) + delay
        if math.isfinite(seconds):
            self._push_message(self.now() + seconds, worker, state)

    def _worked(self, worker: int, state: Worker, order: Order, spec: MessageSpec) -> float | None:
        """Return what of a message's time would be twice as long if it were twice as much work."""
        if not self.virtual:  # it takes our own time
            return None
        once, twice = (
            self._draws.delay(order, worker, self._workers, len(state.done), work)
            for work in (spec.work, 2.0 * spec.work)
        )
        return self.seconds_per_task * spec.work + (twice - once)

    def _fail(self, worker: int, state: Worker, order: Order, error: Exception) -> None:
        state.busy = False
        self._push(self.now(), worker, state.life, Failed(worker, order.round, told(error), self.now()))

    def _finish_part(self, worker: int, state: Worker) -> Event:
        flight, program, spec = state.current, state.program, state.spec
        assert flight is not None
        assert spec is not None
        lease = VirtualLease(program, flight, spec)
        try:
            if not (program.pure and self.virtual):
                lease.read()
        except MessageLost as lost:
            event: Event = Failed(worker, flight.order.round, str(lost), self.now())
        else:
            order, started = flight.order, state.started
            worked = self._worked(worker, state, order, spec) if order.note.get(WORKED, False) else None
            event = Arrived(worker, spec, order.round, order.step, started, self.now(), lease.read, lease, worked)
        if isinstance(event, Arrived):
            self._handed_out.append(lease)
            state.done.append(spec)
        if isinstance(event, Arrived) and not (state.waiting is not None and flight.order.note.get(UNTIL_NEWER, False)):
            self._begin_part(worker, state)
        else:
            state.busy = False
        if not state.busy and state.waiting is not None:
            self._begin(worker, state, state.waiting)
        return event
