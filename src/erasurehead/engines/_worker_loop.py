"""What a worker does on any engine: take orders, compute, sit out injected delays, drop old work, and answer."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from erasurehead._internal.arrays import Array
from erasurehead._internal.late_work import LateWork, rounds_kept
from erasurehead.delays import Delays
from erasurehead.engines._base import UNTIL_NEWER, WORKED, MessageSpec, Order, Program, chosen, delay_of, told

_LONGEST = 1e9  # seconds; longer delays are as good as endless
_PAUSE = 0.001  # seconds between two looks for room that the coordinator still reads
_MOST_OVERSLEPT = 0.05  # seconds of a wait that was too long that later ones make up for: more is no mere waking up


@dataclass(frozen=True, eq=False)
class Room:
    """Room for one message.

    Attributes:
        spec: spec of the message.
        vector: output for the vector, shape (spec.length,).
        where: how the transport identifies it.
    """

    spec: MessageSpec
    vector: Array
    where: Any = None


@dataclass(frozen=True, eq=False)
class OutgoingMessage:
    """A message to be sent.

    Attributes:
        order: the order that it answers.
        room: room that holds the vector.
        started: when work on the order began, in seconds of `time.monotonic`.
        last: whether it is the last one for the order.
        worked: as `Arrived` has it.
    """

    order: Order
    room: Room
    started: float
    last: bool
    worked: float | None = None
    reason: ClassVar[str] = ""


@dataclass(frozen=True)
class Failure:
    """To be sent: an order that is not answered, or not any further.

    Attributes:
        order_round: of the order.
        reason: why.
    """

    order_round: int
    reason: str


Answer: TypeAlias = OutgoingMessage | Failure


class Transport(ABC):
    """The way between a worker and its coordinator, as the loop that answers orders needs it.

    What ends the loop (the coordinator is gone, the worker is recalled) is an exception of the transport's own, which
    `ends` names: the loop lets it through.
    """

    ends: tuple[type[Exception], ...] = ()

    @abstractmethod
    def newer(self) -> bool:
        """Return whether there is an order newer than the last one taken; never waits."""

    def behind(self) -> float:
        """Return by how many rounds the newest order is newer than the one taken last, given that one is.

        By default inf, for transports whose coordinator announces only orders for which work is to be dropped.
        """
        return math.inf

    @abstractmethod
    def wait(self, until: float | None, welcome: bool) -> None:
        """Wait until there may be something new.

        Arguments:
            until: time limit, in seconds of `time.monotonic`; None for none.
            welcome: whether a newer order would be taken at once.
        """

    @abstractmethod
    def take(self) -> Order | None:
        """Take the newest order; None if it is already gone, and a newer one is on its way.

        Its points may be views of memory that is written again at any time.
        """

    @abstractmethod
    def copied(self) -> bool:
        """Record that what is needed from the last order taken has been copied.

        Returns:
            Whether the order was intact until now. If not, it, or a newer one, can be taken again.
        """

    def redirected(self, order_round: int) -> int | None:
        """Return where this worker was redirected last (`Engine.redirect`), if that was for this round.

        `wait` without a time limit returns when that has changed. By default nowhere, where engines pass nothing on.
        """
        return None

    @abstractmethod
    def claim(self, spec: MessageSpec) -> Room | None:
        """Return room for a message, or None if there is none yet."""

    @abstractmethod
    def free(self, room: Room) -> None:
        """Give back room whose message is not sent."""

    def answers(self, number: int, program: Program, delays: Delays | None, late: LateWork) -> Iterator[Answer]:
        """Answer orders without end: this is all that a worker does, on any engine.

        Arguments:
            number: number of the worker.
            program: what it runs.
            delays: injected after computing; None for none.
            late: what to do when a newer order is out while an injected delay still runs.

        Yields:
            Answers to be sent, in order; a message's room may be written again afterwards. One with a `reason` says
            why the order of its `order_round` is not answered; the others hold a message, in `room`, for an `order`,
            when work on it `started`, how long it was `worked` on, and whether it is the `last` one.
        """
        return WorkerLoop(number, program, delays, late, self).answers()


class WorkerLoop:
    """Answers orders.

    It is a generator of answers, so that each engine can send them in its own way: with calls, or as a stream.

    Arguments:
        number: number of the worker.
        program: what it runs.
        delays: injected after computing; None for none.
        late: what to do when a newer order is out while an injected delay still runs.
        transport: the way to the coordinator.
    """

    def __init__(
        self, number: int, program: Program, delays: Delays | None, late: LateWork, transport: Transport
    ) -> None:
        self.number = number
        self.program = program
        self.delays = delays
        self.preempt, self._kept = late == "preempt", rounds_kept(late)
        self.transport = transport
        self._worked: float | None = None  # seconds of computing the last message
        self._overslept = 0.0  # seconds by which an order's last message came after its delay was over

    def answers(self) -> Iterator[Answer]:
        """Yield the answers, in order and without end; a message's room may be written again afterwards."""
        while True:
            while not self.transport.newer():
                self.transport.wait(None, welcome=True)
            started = time.monotonic()
            order = self.transport.take()
            if order is not None:
                yield from self._answer(order, started)

    def _answer(self, order: Order, started: float) -> Iterator[Answer]:
        whole, self._overslept = True, 0.0
        try:
            try:
                taken = self.program.take(order)
            finally:
                whole = self.transport.copied()
            if not whole:
                return
            done: list[MessageSpec] = []
            remaining = self.program.remaining(order, done)
            while remaining:
                spec = self._next(order, remaining)
                room = None if spec is None else self._computed(order, spec, len(done), taken)
                if room is None:
                    return
                done.append(room.spec)
                error = None
                try:  # the remaining messages may depend on what was computed
                    remaining = self.program.remaining(order, done)
                except Exception as raised:
                    error = raised
                yield OutgoingMessage(order, room, started, error is None and not remaining, self._worked)
                if error is not None:
                    raise error
                if order.note.get(UNTIL_NEWER, False) and self.transport.newer():
                    return
        except self.transport.ends:
            raise
        except Exception as error:
            if not whole:
                return  # the order was overwritten while it was copied: not the program's fault
            yield Failure(order.round, told(error))

    def _next(self, order: Order, remaining: Sequence[MessageSpec]) -> MessageSpec | None:
        """Return what to send next, after a pause if we are to pause; None if a newer order ends that."""
        while (spec := chosen(remaining, self.transport.redirected(order.round))) is None:
            if self.transport.newer():
                return None
            self.transport.wait(None, welcome=self.preempt)
        return spec

    def _computed(self, order: Order, spec: MessageSpec, unit: int, taken: Any) -> Room | None:
        """Compute a message and sit out its delay; return its room, or None if it is dropped for a newer order."""
        room = self._claim(spec)
        if room is None:
            return None
        keep = False
        try:
            begun, seconds = time.monotonic(), 0.0
            self.program.compute(spec, taken, room.vector)
            ended = time.monotonic()  # to draw a delay takes time, too, which is part of it
            self._worked = ended - begun if order.note.get(WORKED, False) else None
            if self.delays is not None:
                draw, number, step, posted = self.delays.seconds, self.number, order.step, order.posted
                seconds = delay_of(spec, unit, lambda unit, work: draw(number, step, unit, work, posted))
                if self._worked is not None:
                    twice = self.delays.seconds(self.number, order.step, unit, 2.0 * spec.work, order.posted)
                    self._worked += twice - seconds
            keep = self._sit_out(ended + min(seconds, _LONGEST))
        finally:
            if not keep:
                self.transport.free(room)
        return room if keep else None

    def _claim(self, spec: MessageSpec) -> Room | None:
        """Return room for a message, or None if there is a newer order before there is room."""
        while (room := self.transport.claim(spec)) is None:
            if self._outdated():
                return None
            self.transport.wait(time.monotonic() + _PAUSE, welcome=False)
        return room

    def _sit_out(self, until: float) -> bool:
        """Wait until a time; return False as soon as the work is to be dropped.

        What the last wait was too long by is taken off: with many messages an order, it would add up.
        """
        until -= self._overslept
        while not self._outdated():
            if (now := time.monotonic()) >= until:
                self._overslept = min(now - until, _MOST_OVERSLEPT)
                return True
            self.transport.wait(until, welcome=self.preempt)
        return False

    def _outdated(self) -> bool:
        """Return whether the current work is to be dropped, given how much newer the newest order is."""
        return self.transport.newer() and self.transport.behind() > self._kept
