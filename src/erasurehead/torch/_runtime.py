"""A rank in a process of its own: a thread waits for messages and calls the member's handlers, beside the script.

Handlers and the script's calls of the member exclude each other. The thread sleeps in the system while nothing comes,
and sums let other threads run meanwhile. The script waits only for what its `wait` is told, and an error of the thread
is raised there, or at the script's next call.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines._peer_channels import PeerMessage
from erasurehead.errors import ErasureHeadError
from erasurehead.torch._endpoints._base import MOST_RANKS, RankEndpoint
from erasurehead.torch._member import Member
from erasurehead.torch._message_heads import HASTY, Head, Kind
from erasurehead.torch._place import RankPlace
from erasurehead.torch._port import MemberPort

logger = logging.getLogger("erasurehead")

_GLANCE = 1.0  # seconds for which the script waits without a look around, at most
_PATIENCE = 30.0  # seconds of waiting after which a person is told what for
_LONGEST = 60.0  # seconds for which the thread sleeps, at most
_LEAST = 8 * MOST_RANKS  # bytes of a vector that says who belongs
_YIELD = 2e-5  # seconds until the thread looks again whether the script has had its turn
_YIELDS = 50
_HELLOS = 6  # without an answer, a second each: who gathers would have been elected and have answered


def _last_error() -> Any:
    """Return the error by which the script has ended, if it has: exit functions are not told."""
    return getattr(sys, "last_value", None)


@final
class ProcessPlace(RankPlace, MemberPort):
    """A rank that runs on this machine's clock.

    Arguments:
        endpoint: this rank's end of the ways to the others; closed with the place.
        size: number of ranks that were started together.
    """

    def __init__(self, endpoint: RankEndpoint, size: int) -> None:
        self.rank, self.size, self.joins = endpoint.rank, size, endpoint.rank >= size
        self._endpoint = endpoint
        self._began, self._pid = time.monotonic(), os.getpid()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._asking = False  # whether the script waits for its turn
        self._member: Member | None = None
        self._early: list[tuple[int, Head, Array | None]] = []
        self._known_lost: set[int] = set()
        self._outside: Counter[int] = Counter()  # how often ranks have asked in a row to be let in for the first time
        self._timer = math.inf
        self._until = math.inf  # until when the thread sleeps, by `now`
        self._error: BaseException | None = None
        self._ending = False
        self._at_end: list[Callable[[], object]] = []
        self._failed = _last_error()
        self._thread = threading.Thread(target=self._run, name=f"erasurehead rank {self.rank}", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    # The place

    def now(self) -> float:
        return time.monotonic() - self._began

    def expect(self, nbytes: int) -> None:
        with self.held():
            self._endpoint.reserve(max(nbytes, _LEAST))

    def begin(self, member: Member) -> None:
        with self.held():
            self._member = member
            early, self._early = self._early, []
            for message in early:
                member.on_message(*message)
            self._known_lost.clear()  # it has not been told
        self._endpoint.wake()

    @property
    def team_ended(self) -> bool:
        return self._endpoint.team_ended

    def port(self) -> MemberPort:
        return self

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        self._check()
        self._asking = True
        with self._lock:
            self._asking = False
            self._check()
            yield
            if self._timer < self._until:
                self._endpoint.wake()

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        self._check()
        told, began = False, time.monotonic()
        self._asking = True
        with self._lock:
            self._asking = False
            while not ready():
                self._check()
                self._changed.wait(_GLANCE)
                if not told and time.monotonic() > began + _PATIENCE:
                    told = True
                    logger.warning("Rank %s has waited for %s for %.0f s.", self.rank, what, _PATIENCE)

    def at_end(self, call: Callable[[], object]) -> None:
        self._at_end.append(call)

    def _check(self) -> None:
        """Raise what the script has to know before it goes on."""
        if os.getpid() != self._pid:
            raise ErasureHeadError(
                f"This process was forked from rank {self.rank} of a team, and is no rank itself: only the process "
                "that has called join() makes steps."
            )
        if self._error is not None:
            raise self._error
        if self._ending:
            raise ErasureHeadError(f"Rank {self.rank} has left its team already.")

    # The port

    def send(self, to: int | Sequence[int], head: Head, vector: Array | None = None) -> None:
        send = self._endpoint.hurry if head.kind in HASTY else self._endpoint.send
        send(sorted(self._endpoint.others) if to == -1 else to, head.packed(), vector)

    def room(self, length: int, dtype: np.dtype[Any]) -> Array:
        return self._endpoint.room(length, dtype)

    def keep(self, vector: Array) -> Array:
        return self._endpoint.keep(vector)

    def wake_at(self, when: float) -> None:
        self._timer = when

    def wake_script(self) -> None:
        self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        try:
            while not self._ending:
                self._turn()
                for _ in range(_YIELDS):
                    if not self._asking:  # it stays so where the script was interrupted as it asked
                        break
                    time.sleep(_YIELD)
                self._endpoint.wait(self._began + self._until)
        except BaseException as error:
            with self._lock:
                self._error = error
                self._endpoint.close()  # the others shall not wait
                self._changed.notify_all()

    def _turn(self) -> None:
        """Handle what has happened, until the script asks for its turn."""
        with self._lock:
            if self._ending:
                return
            for message in self._endpoint.receive(copy=False):
                self._deliver(message)
                if self._asking:
                    break
            else:
                self._look_who_is_there()
            now = self.now()
            if self._member is not None and now >= self._timer:
                self._timer = math.inf
                self._member.on_time()
            self._until = min(self._timer, now + _LONGEST)

    def _deliver(self, message: PeerMessage) -> None:
        try:
            head = Head.unpacked(message.head)
        except ValueError as error:
            logger.warning("What rank %s said is not understood: %s.", message.sender, error)
            return
        self._known_lost.discard(message.sender)  # another process has its number
        if head.kind is Kind.HELLO and head.term < 0:
            self._outside[message.sender] += 1
        else:
            self._outside.clear()  # somebody may have been let in
        if self._member is None:
            vector = message.vector
            self._early.append((message.sender, head, None if vector is None else vector.copy()))
        else:
            self._member.on_message(message.sender, head, message.vector)

    def _look_who_is_there(self) -> None:
        if self._member is None:
            return
        outside = [rank for rank, times in self._outside.items() if times >= _HELLOS]
        if self.joins and not self._member.membership.belongs and self._endpoint.alone(outside):
            raise ErasureHeadError(
                f"Rank {self.rank} was started to join a team of which nobody is there any more: all others have ended."
            )
        if new := self._endpoint.lost(self._endpoint.others) - self._known_lost:
            self._known_lost |= new
            self._member.on_lost(new)

    # The end

    def _end(self) -> None:
        """Leave the team as the script ends, or fall out of it if it ends by an error."""
        if os.getpid() != self._pid or self._ending:
            return
        if self._failed is _last_error() and self._error is None:
            for call in self._at_end:
                call()
        self.close()

    def close(self) -> None:
        """End the thread and close the ways to the others; messages that are under way still arrive."""
        if self._ending or os.getpid() != self._pid:
            return
        atexit.unregister(self._end)
        with self._lock:
            self._ending = True
            self._changed.notify_all()
        self._endpoint.wake()
        if self._thread is not threading.current_thread():
            self._thread.join(_GLANCE)
        with self._lock:
            self._endpoint.close()
