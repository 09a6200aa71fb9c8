"""One actor, seen from the coordinator: what it is to be sent, and what it streams."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from erasurehead._internal.arrays import Array, dtype_of
from erasurehead.engines._base import Arrived, Died, Event, Failed, Joined, Program, told
from erasurehead.engines._encoded_order import EncodedOrder
from erasurehead.engines._lane import Lane
from erasurehead.engines._leases import BufferLease
from erasurehead.engines._outside import Remote
from erasurehead.engines._process_state import stop
from erasurehead.engines._ray.actor import Home, Item
from erasurehead.engines._ray.nodes import Nodes
from erasurehead.engines._ray.shared_program import put
from erasurehead.engines._shared_memory import offer

_SMALL = 50_000
"""Bytes of points up to which an order travels with the call; larger ones are put into the store once for all."""

_UNREAD = 2
"""Messages of each kind that an actor may have sent and nobody read; it waits with the next."""

_AGAIN = 0.1  # seconds between two attempts to reach an actor that Ray calls unavailable


def payload(ray: Any, order: EncodedOrder) -> Any:
    """Return an order as it travels: as bytes, or a reference of these in the store if they are many."""
    return put(ray, order) if order.points_nbytes > _SMALL else order


class Handle(Remote):
    """An actor.

    Arguments:
        ray: the library.
        worker: its number.
        program: what it runs.
        actor: Ray's handle of it.
        node: number of the node where it is to run; None for any.
        restarts: whether Ray starts it again when it has died.
        make_lane: makes a lane to it, if it may come to run beside us.

    Attributes:
        stream: what it has to say, item by item; None while it cannot be reached.
        coming: the item that was announced last, while it is on its way.
        home: where it runs; None until it has joined, and between a death and its return.
        returns: whether it has died, and Ray is starting it again.
        promised: whether somebody counts on its return.
        gone: whether it has died for good.
        sent: the order that was sent last; ready when it has been taken.
        paused: whether we have stopped its process: what is sent now, it would find before what comes later.
    """

    def __init__(
        self,
        ray: Any,
        worker: int,
        program: Program,
        actor: Any,
        node: str | None,
        restarts: bool,
        make_lane: Callable[[], Lane | None],
    ) -> None:
        super().__init__()
        self.worker = worker
        self.program = program
        self.actor = actor
        self.node = node
        self.stream: Any = None
        self.coming: Any = None
        self.home: Home | None = None
        self.returns = False
        self.promised = False
        self.gone = False
        self.sent: Any = None
        self.paused = False
        self._ray = ray
        self._restarts = restarts
        self._make_lane = make_lane
        self._unread = _UNREAD * max(1, len(program.message_specs))
        self._round = -1  # of the order that was sent last
        self._reached = False
        self._again = 0.0
        self._last_words = ""
        self.reopen()

    def wait(self) -> float:
        """Return for how many seconds there is nothing to do about this actor."""
        return math.inf if self.stream is not None else max(0.0, self._again - time.monotonic())

    def reopen(self) -> None:
        """Ask for a stream if there is none."""
        if self.stream is None and time.monotonic() >= self._again:
            serve = self.actor.serve.options(num_returns="streaming", _generator_backpressure_num_objects=self._unread)
            self.lane = self._make_lane()  # of this stream's own: a process that starts again finds none half used
            self.stream = serve.remote(offer(None if self.lane is None else self.lane.theirs))

    @property
    def ready(self) -> bool:
        """Whether a newer order is to be sent as soon as the one before has been taken."""
        return self.due is not None and self._reached and not self.paused

    def post(self) -> None:
        """Send the order that is due through Ray, if there is one, and it is there."""
        if self.due is not None and self.ready:
            self.sent = self.actor.take.remote(self.due.form(partial(payload, self._ray)), time.monotonic())
            self._round, self.due = self.due.order.round, None

    def on(self, machine: str) -> bool:
        """Return whether its process is on a machine, as far as we know."""
        return self.home is not None and self.home.machine == machine

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process, which must be on our machine."""
        assert self.home is not None
        with contextlib.suppress(ProcessLookupError):
            stop(self.home.pid) if number == signal.SIGSTOP else os.kill(self.home.pid, number)

    def receive(self, item: Item, now: float, nodes: Nodes) -> Event:
        """Return what an item means."""
        if item[0] == "arrived":
            _, order_round, step, spec, started, sent, worked = item
            lease = BufferLease(cast("Array", sent.view(dtype_of(spec.dtype))))
            return Arrived(self.worker, spec, order_round, step, started, now, lease.read, lease, worked)
        if item[0] == "failed":
            return Failed(self.worker, item[1], item[2], now)
        if item[0] == "broken":
            self.gone = True
            return Died(self.worker, item[1], now, broken=True)
        before, self.home, self.node = self.home, item[1], item[1].node
        self._reached, self.returns, self.promised, self.paused = True, False, False, False
        if before is not None:
            return Failed(self.worker, self._round, "the way to it was lost, and is there again", now)
        return Joined(self.worker, nodes.name(item[1].node), now)

    def lose(self, error: Exception | None, now: float) -> Event | None:
        """Return what it means that there is an error instead of an item, or (None) the end of the stream."""
        errors = self._ray.exceptions
        if isinstance(error, errors.ActorUnavailableError):
            self.stream, self._reached, self._again = None, False, now + _AGAIN
            if not self._restarts or self.returns:
                return None  # it is dead, as Ray will say the next time, or cannot be reached just now
            self.home, self.returns = None, True
            return Died(self.worker, "its process ended or cannot be reached; Ray starts it again", now)
        if error is None or isinstance(error, errors.ActorDiedError):
            self.gone = True
            if self.returns and not self.promised:
                return None
            return Died(self.worker, self._last_words or _reason(error), now)
        self._last_words = told(error)
        return Failed(self.worker, self._round, self._last_words, now)


def _reason(error: Exception | None) -> str:
    """Return what Ray says about a death, without its advice."""
    text = str(error)
    if "creation task" in text:
        return text.strip().splitlines()[-1]
    found = re.search(r"The actor (?:is dead|died) because (.*?)\.? *(?:\.\s|\n|$)", text)
    return found[1] if found else text
