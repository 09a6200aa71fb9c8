"""A script's `main` as a team on a virtual clock: ranks are threads of which one runs at a time, and nothing waits.

Each rank has generators (NumPy's, Python's, PyTorch's if it is there) and rank variables of its own. All else that a
process has is shared: modules and their globals, the working directory, standard output. The same main gives the same
bits on the same machine.
"""

from __future__ import annotations

import heapq
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeAlias, TypeVar, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus import Crash, NetworkPartition
from erasurehead.consensus._drawn_delays import DrawnDelays
from erasurehead.consensus._injected_faults import partitioned
from erasurehead.delays import Delays, parse
from erasurehead.errors import ErasureHeadError, check_count, invalid, real
from erasurehead.torch import _generators
from erasurehead.torch._member import Member
from erasurehead.torch._membership import LEASE
from erasurehead.torch._message_heads import Head
from erasurehead.torch._place import RankPlace, current_place, set_place
from erasurehead.torch._port import MemberPort
from erasurehead.torch._versions import Version

Returned = TypeVar("Returned")

_FAULT, _MESSAGE, _TIMER, _STEP, _SETTLED = range(5)
"""Kinds of events, in the order in which simultaneous ones are handled."""


_NOTHING = 100 * LEASE  # seconds in which nothing happens but that ranks hear of each other


@final
@dataclass(frozen=True)
class Hang:
    """A rank stops, as by SIGSTOP, and goes on later as if nothing had been.

    Arguments:
        rank: its number.
        at, until: in seconds since the simulation began.
    """

    rank: int
    at: float
    until: float


@final
@dataclass(frozen=True)
class Join:
    """One more rank comes, by the next number that no rank has had.

    Arguments:
        at: in seconds since the simulation began.
    """

    at: float


Event: TypeAlias = Crash | NetworkPartition | Hang | Join
"""What may happen to ranks; a `Crash` with `rejoin` is one with a `Join` at that time."""


class RankEnded(BaseException):
    """Raised in the thread of a rank that has died, or of a simulation that has ended: no error of a script's."""


@final
@dataclass(frozen=True)
class Simulated(Generic[Returned]):
    """What came of a simulation.

    Attributes:
        returned: by rank, what `main` returned; None for a rank that died.
        seconds: the time at which the last rank had ended.
        ended: by rank, when it ended.
        versions: of the team's model, in the order in which they were closed.
        messages: number of messages; `vectors` of them with a vector.
    """

    returned: tuple[Returned | None, ...]
    seconds: float
    ended: tuple[float, ...]
    versions: tuple[Version, ...]
    messages: int
    vectors: int


def simulate(
    main: Callable[[], Returned],
    ranks: int = 10,
    delays: Delays | str | None = None,
    seconds_per_sample: float | Sequence[float] = 0.0,
    seed: int = 0,
    faults: Sequence[Event] = (),
    latency: float = 0.0,
    mbit: float = float("inf"),
) -> Simulated[Returned]:
    """Run a script's main as a team on a virtual clock.

    A rank's step takes `seconds_per_sample` for each of its samples, and its delay, which is drawn by rank and step as
    if it came after the backward pass. All else takes no time.

    Arguments:
        main: the script; it calls `join` for its team. Called once for each rank.
        ranks: number of ranks.
        delays: a delay model, or its text; None for none.
        seconds_per_sample: of all ranks, or one number for each.
        seed: of the generators that ranks start with, each with its own.
        faults: what happens to ranks, and when: `consensus.Crash`, `consensus.NetworkPartition`, `Hang`, `Join`.
        latency: seconds that a message is under way.
        mbit: million bits a second that each rank's line carries each way. Vectors to or from a rank go over it one
            after the other; all other messages are short, and take no time beside their latency.

    Raises:
        InvalidArgument: if an argument breaks a rule.
        Exception: whatever `main` raises in a rank, with the rank and the time as a note.
    """
    import_module("torch")  # of whose generators each rank has its own
    return on_clock(main, ranks, delays, seconds_per_sample, seed, faults, latency, mbit)


def on_clock(main: Callable[[], Returned], *arguments: Any) -> Simulated[Returned]:
    """Do what `simulate` does, whichever library trains."""
    return cast("Simulated[Returned]", _Clock(main, *arguments).run())


class _Clock:
    """The virtual clock, and who runs on it."""

    def __init__(
        self,
        main: Callable[[], object],
        ranks: int,
        delays: Delays | str | None,
        seconds_per_sample: float | Sequence[float],
        seed: int,
        faults: Sequence[Event],
        latency: float,
        mbit: float,
    ) -> None:
        check_count("ranks", ranks, at_least=1)
        if not callable(main):
            raise invalid("main", "must be a function without arguments", main)
        each = [seconds_per_sample] * ranks if isinstance(seconds_per_sample, int | float) else list(seconds_per_sample)
        if len(each) != ranks:
            raise invalid("seconds_per_sample", f"must be one number, or one for each of {ranks} ranks", len(each))
        for name, value in (*(("seconds_per_sample", one) for one in each), ("latency", latency)):
            if not 0.0 <= real(value) < float("inf"):
                raise invalid(name, "must be a number of seconds of at least 0", value)
        if not real(mbit) > 0.0:
            raise invalid(
                "mbit", "must be a number of million bits a second above 0", mbit, "leave it out for no limit"
            )
        model = parse(delays) if isinstance(delays, str) else delays
        if model is not None:
            if not isinstance(cast("object", model), Delays):
                raise invalid("delays", "must be a delay model, such as 'exponential(mean=0.2)', or None", model)
            model.check_workers(ranks)
        ever = ranks + sum(isinstance(fault, Join) or getattr(fault, "rejoin", None) is not None for fault in faults)
        for fault in faults:
            if not isinstance(cast("object", fault), Event):
                raise invalid("faults", "must be of consensus.Crash, NetworkPartition, eht.Hang and eht.Join", fault)
            rank = fault.peer if isinstance(fault, Crash) else fault.rank if isinstance(fault, Hang) else 0
            if rank not in range(ever):
                raise invalid("faults", f"must be of ranks from 0 to {ever - 1}, those that join included", fault)
            if isinstance(fault, Hang) and not fault.at < fault.until:
                raise invalid("faults", "must have ranks hang until later than at", fault)
        if current_place() is not None:
            raise invalid("main", "must not call simulate", "a simulation within a simulation")
        self.main, self.time, self.latency = main, 0.0, latency
        self._seconds_per_byte = 8e-6 / mbit
        self._free: dict[tuple[int, bool], float] = {}  # by rank and direction: from when on its line is
        self.seconds_per_sample, self.model = each, model
        self.drawn = None if model is None or model.follows_clock else DrawnDelays(model, ranks, None)
        self.messages = self.vectors = 0
        self.versions: list[Version] = []
        self.heap: list[tuple[float, int, int, int, Any]] = []
        self._events = 0
        self._to_come = 0  # events that are more than that ranks hear of each other
        self._stirred = 0.0
        self._sides: tuple[frozenset[int], ...] = ()
        self._error: BaseException | None = None
        self.seed, self.size = seed, ranks
        self.ranks = [_Rank(self, rank) for rank in range(ranks)]
        for fault in faults:
            self._schedule(fault)

    def _schedule(self, fault: Event) -> None:
        joins = fault.rejoin if isinstance(fault, Crash) else fault.at if isinstance(fault, Join) else None
        if joins is not None:
            self.push(joins, _FAULT, 0, self._join)
        if isinstance(fault, Crash):
            self.push(fault.at, _FAULT, 0, lambda: self.end(self.ranks[fault.peer]))
        elif isinstance(fault, Hang):
            self.push(fault.at, _FAULT, 0, lambda: setattr(self.ranks[fault.rank], "hangs_until", fault.until))
        elif isinstance(fault, NetworkPartition):
            self.push(fault.at, _FAULT, 0, lambda: self._part(frozenset(fault.peers)))
            if fault.until is not None:
                self.push(fault.until, _FAULT, 0, self._part)

    def _join(self) -> None:
        self.ranks.append(_Rank(self, len(self.ranks)))
        self.push(self.time, _STEP, len(self.ranks) - 1)

    def _part(self, *sides: frozenset[int]) -> None:
        self._sides = sides

    def push(self, when: float, kind: int, rank: int, what: Any = None) -> None:
        """Schedule an event."""
        self._events += 1
        self._to_come += kind not in (_MESSAGE, _TIMER)
        heapq.heappush(self.heap, (when, kind, self._events, rank, what))

    def run(self) -> Simulated[Any]:
        """Run until all ranks have ended."""
        outside = _generators.states()
        try:
            with _no_processes():
                for rank in self.ranks:
                    self.push(0.0, _STEP, rank.rank)
                while self.heap and not all(rank.ended for rank in self.ranks) and self._lively():
                    self._handle(*heapq.heappop(self.heap))
            waiting = [rank for rank in self.ranks if not rank.ended]
            if waiting:
                who = ", ".join(f"rank {rank.rank} for {rank.waits_for}" for rank in waiting)
                raise ErasureHeadError(f"Nothing can happen any more after {self.time:g} s, but there wait {who}.")
        finally:
            self._stop()
            _generators.restore(outside)
        ended = tuple(rank.end for rank in self.ranks)
        returned = tuple(rank.returned for rank in self.ranks)
        return Simulated(returned, max(ended), ended, tuple(self.versions), self.messages, self.vectors)

    def _lively(self) -> bool:
        """Whether anything can happen yet."""
        return self._to_come > 0 or self.heap[0][0] < self._stirred + _NOTHING

    def _handle(self, when: float, kind: int, _: int, number: int, what: Any) -> None:
        self.time = when
        rank = self.ranks[number]
        if kind not in (_MESSAGE, _TIMER):
            self._to_come -= 1
            self._stirred = max(self._stirred, when)
        if kind == _FAULT:
            what()
        elif when < rank.hangs_until:
            self.push(rank.hangs_until, kind, number, what)
        elif kind == _MESSAGE:
            rank.deliver(*what)
        elif kind == _TIMER:
            rank.timer(what)
        elif kind == _STEP or what == rank.awaited:
            rank.resume()
            if rank.error is not None:
                raise rank.error

    def end(self, rank: _Rank) -> None:
        """Let a rank die at once; all others learn of it."""
        if not rank.ended:
            rank.kill()
            for other in self.ranks:
                if other.member is not None and not other.ended:
                    other.member.on_lost(frozenset({rank.rank}))

    def carried(self, sender: int, receiver: int, nbytes: int) -> float:
        """Return when so many bytes have gone over both ranks' lines, which are free from then on."""
        ways = (sender, True), (receiver, False)
        end = max(self.time, *(self._free.get(way, 0.0) for way in ways)) + nbytes * self._seconds_per_byte
        self._free |= dict.fromkeys(ways, end)
        if end > self.time + LEASE:  # then something happens, however long it takes
            self._stirred = max(self._stirred, end)
        return end

    def cut(self, one: int, other: int) -> bool:
        """Whether no message gets from one rank to another."""
        return partitioned(one, other, self._sides)

    def _stop(self) -> None:
        for rank in self.ranks:
            rank.kill()


class _Rank(RankPlace, MemberPort):
    """A rank: its thread, its place, and its member's port."""

    def __init__(self, clock: _Clock, rank: int) -> None:
        size = clock.size
        self.rank, self.size, self.joins = rank, size, rank >= size
        self.ahead = int(clock.latency > 0.0)
        self.hangs_until = 0.0
        self.clock = clock
        self.member: Member | None = None
        self.returned: Any = None
        self.ended, self.end, self.through = False, 0.0, False
        self.error: BaseException | None = None
        self.waits_for = "its turn"
        self.awaited = 0  # the number of the wait that goes on
        self._dead = False
        self._ready: Callable[[], bool] | None = None
        self._early: list[tuple[int, Head, Array | None]] = []
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._generators = _seeded(clock.seed, rank)
        self._variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
        self._timer = -1.0
        self._at_end: list[Callable[[], object]] = []
        self._thread = threading.Thread(target=self._run, name=f"rank {rank}", daemon=True)

    # The thread

    def _run(self) -> None:
        self._turn.acquire()
        set_place(self)
        try:
            if not self._dead:
                self.returned = self.clock.main()
                for call in self._at_end:
                    call()
                self.through = True
        except RankEnded:
            pass
        except BaseException as error:
            error.add_note(f"In rank {self.rank} of {self.size}, {self.clock.time:g} s after the simulation began.")
            self.error = error
        finally:
            self.ended, self.end = True, self.clock.time
            self._back.release()

    def resume(self) -> None:
        """Let the thread run until it waits or ends."""
        if self.ended:
            return
        if not self._thread.ident:
            self._thread.start()
        _generators.restore(self._generators)
        before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update({name: str(value) for name, value in self._variables.items()})
        self._turn.release()
        self._back.acquire()
        self._generators = _generators.states()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def kill(self) -> None:
        """End the thread where it waits."""
        if not self.ended and self._thread.ident:
            self._dead = True
            self.resume()
            self._thread.join()
        self.ended = True

    def _yield(self) -> None:
        """Give the turn back, and wait for the next one; in the thread."""
        if self._dead:
            raise RankEnded
        self._back.release()
        self._turn.acquire()
        if self._dead:
            raise RankEnded

    # The place

    def now(self) -> float:
        return self.clock.time

    def begin(self, member: Member) -> None:
        self.member = member
        gone = frozenset(rank.rank for rank in self.clock.ranks if rank.ended)
        if gone:
            member.on_lost(gone)
        early, self._early = self._early, []
        for message in early:
            member.on_message(*message)

    @property
    def team_ended(self) -> bool:
        return any(rank.through for rank in self.clock.ranks)

    def port(self) -> MemberPort:
        return self

    def held(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        while not ready():
            self._ready, self.waits_for = ready, what
            self.awaited += 1
            self._yield()
        self._ready = None

    def at_end(self, call: Callable[[], object]) -> None:
        self._at_end.append(call)

    def record(self, version: Version) -> None:
        self.clock.versions.append(version)

    def compute(self, samples: float, step: int, until: Callable[[], bool] | None = None) -> None:
        clock = self.clock
        seconds = samples * clock.seconds_per_sample[self.rank % self.size]
        if clock.drawn is not None:
            seconds += clock.drawn.seconds(self.rank % self.size, step, clock.time)
        elif clock.model is not None:
            seconds += clock.model.seconds(self.rank % self.size, step, posted=clock.time)
        end = clock.time + seconds
        if until is not None:
            if seconds < float("inf"):
                clock.push(end, _FAULT, 0, self.wake_script)
            self.wait(lambda: clock.time >= end or until(), "the end of its step, or of the others'")
            return
        self.waits_for = "the end of a step that never ends"
        if seconds < float("inf"):
            clock.push(end, _STEP, self.rank)
        self._yield()

    def settle(self) -> None:
        self.awaited += 1
        self.clock.push(self.clock.time, _SETTLED, self.rank, self.awaited)
        self._yield()

    @property
    def counts_samples(self) -> bool:
        return True

    # The port

    def send(self, to: int | Sequence[int], head: Head, vector: Array | None = None) -> None:
        clock = self.clock
        copied = None if vector is None else vector.copy()
        for rank in range(len(clock.ranks)) if to == -1 else (to,) if isinstance(to, int) else to:
            if rank != self.rank and not clock.cut(self.rank, rank):
                clock.messages += 1
                clock.vectors += vector is not None
                sent = clock.time if copied is None else clock.carried(self.rank, rank, copied.nbytes)
                clock.push(sent + clock.latency, _MESSAGE, rank, (self.rank, head, copied))

    def wake_at(self, when: float) -> None:
        if when != self._timer and when < float("inf"):
            self.clock.push(max(when, self.clock.time), _TIMER, self.rank, when)
        self._timer = when

    def wake_script(self) -> None:
        if self._ready is not None:
            self._ready = None
            self.clock.push(self.clock.time, _SETTLED, self.rank, self.awaited)

    # What comes

    def deliver(self, sender: int, head: Head, vector: Array | None) -> None:
        """Give the member a message, or keep it for a member that is to come."""
        if self.ended or self.clock.cut(sender, self.rank):
            return
        if self.member is None:
            self._early.append((sender, head, vector))
        else:
            self.member.on_message(sender, head, vector)

    def timer(self, when: float) -> None:
        """Tell the member that a time has come, if it is still the one asked for."""
        if when == self._timer and self.member is not None and not self.ended:
            self._timer = -1.0
            self.member.on_time()


def _seeded(seed: int, rank: int) -> _generators.States:
    """Return the states that a rank's generators start with."""
    outside = _generators.states()
    _generators.begin(int(np.random.SeedSequence((seed, rank)).generate_state(1)[0]))
    own = _generators.states()
    _generators.restore(outside)
    return own


@contextmanager
def _no_processes() -> Any:
    """Refuse that ranks start processes."""
    start, fork = BaseProcess.start, os.fork

    def outside(call: Any) -> Any:
        def checked(*arguments: object) -> Any:
            if current_place() is None:
                return call(*arguments)
            raise ErasureHeadError(
                "A simulated rank cannot start processes, as ranks are threads of one process: load data with "
                "DataLoader(num_workers=0)."
            )

        return checked

    BaseProcess.start, os.fork = outside(start), outside(fork)
    try:
        yield
    finally:
        BaseProcess.start, os.fork = start, fork
