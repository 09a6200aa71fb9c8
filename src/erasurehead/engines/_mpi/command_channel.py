"""A rank's ear and mouth: what the coordinator asks of it, and what it answers."""

from __future__ import annotations

import math
import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from erasurehead.engines._mpi.backoff import BUSY, Backoff, Rhythm
from erasurehead.engines._mpi.transport import (
    Frame,
    FrameBuffers,
    Link,
    Receiving,
    Sending,
    Tag,
    frame_of,
    new_frame,
    read_head,
    reap,
)

_COORDINATOR = 0


class Recalled(Exception):
    """The coordinator has something else for this rank to do: `CommandChannel.recall` says what."""


class CommandChannel:
    """What the coordinator asks of this rank.

    An order comes only after the rank has said that it listens (by itself, or with its last message), and one for each
    time that it has: orders never queue up. While it does not listen, it is told at most that there is a newer one.

    Attributes:
        life: number of the assignment that this rank works on; goes with all that it says.
        order: the newest order, if one has come that nobody has taken.
        newer: whether there is an order newer than the last one taken.
        behind: by how many rounds, as far as this rank was told.
        redirected: the round for which this rank was redirected last, and where to.
        recall: what the rank is to do instead, after `Recalled`.
    """

    def __init__(self, link: Link) -> None:
        self.life = 0
        self.order: Frame | None = None
        self.newer = False
        self.behind = math.inf
        self.redirected: tuple[int, int] | None = None
        self.recall: tuple[Tag, Frame] | None = None
        self._link = link
        self._listening = False
        self._sendings: deque[Sending] = deque()
        self._rhythm = Rhythm()
        self._pool = FrameBuffers()
        self._any_tag = int(link.mpi.ANY_TAG)

    def take_recall(self) -> tuple[Tag, Frame]:
        """Wait for what the rank is to do next; earlier commands are void."""
        while self.recall is None:
            try:
                self.rest()
            except Recalled:
                break
        assert self.recall is not None
        found, self.recall = self.recall, None
        self._rhythm = Rhythm()
        self.order, self.newer, self._listening, self.redirected = None, False, False, None
        return found

    def take_order(self) -> Frame:
        """Say that this rank listens, and wait for an order."""
        while self.order is None:
            self.listen()
            self.rest()
        found, self.order, self.newer = self.order, None, False
        return found

    def give_back(self, order: Frame) -> None:
        """Let the next order have the memory of one that is taken."""
        self._pool.give(order)

    def listen(self) -> None:
        """Say that an order may come, if that is not said yet."""
        if self.now_listening():
            self.report("ready")

    def now_listening(self) -> bool:
        """Return whether what is sent next is to say that an order may come: whether that is not said yet."""
        before, self._listening = self._listening, True
        return not before

    def joined(self, shares: bool) -> None:
        """Say that the program is ready, that an order may come, and whether we have our ends of a lane past MPI."""
        self._listening = True
        self.report("joined", shares)

    def words(self, kind: str, *rest: Any) -> tuple[Any, ...]:
        """Return the head of what this rank says now."""
        return (kind, self.life, time.monotonic(), *rest)

    def report(self, kind: str, *rest: Any) -> None:
        """Send a few words."""
        self.send(frame_of(self.words(kind, *rest)))

    def send(self, frame: Frame) -> Sending:
        """Send a frame, which must stay unchanged until it is out."""
        sending = self._link.send(frame, _COORDINATOR, Tag.REPORT)
        if not sending.done():
            self._sendings.append(sending)
        return sending

    def look(self) -> bool:
        """Take all that has come; return whether something has.

        Raises:
            Recalled: if this rank is to do something else.
            Gone: if the coordinator is no more.
        """
        reap(self._sendings)
        some = False
        while (receiving := self._link.receive(_COORDINATOR, self._any_tag, self._pool.take)) is not None:
            some = True
            self._finish(receiving)
            if receiving.tag == Tag.ORDER:
                self.order, self.newer, self._listening = receiving.frame, True, False
                self._rhythm.came()
            elif receiving.tag == Tag.NEWER:
                self.order, self.newer, self._listening = None, True, False
                (self.behind,), _ = read_head(receiving.frame)
                self._pool.give(receiving.frame)
            elif receiving.tag == Tag.REDIRECT:
                self.redirected, _ = read_head(receiving.frame)
                self._pool.give(receiving.frame)
            elif receiving.tag == Tag.CRASH:
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                self.recall = receiving.tag, receiving.frame
                raise Recalled
        return some

    def rest(self, until: float | None = None) -> None:
        """Look, and sleep a little if nothing has come, but not beyond a time of `time.monotonic`."""
        if not self.look():
            self.sleep(until)

    def sleep(self, until: float | None = None) -> None:
        """Sleep a little before the next look, but not beyond a time of `time.monotonic`."""
        longest = BUSY if self._sendings else None
        if until is not None:
            left = max(until - time.monotonic(), 0.0)
            longest = left if longest is None else min(longest, left)
        self._rhythm.sleep(longest)

    def arrays(self, sizes: Sequence[int], tails: Sequence[bytes]) -> list[Frame]:
        """Receive the arrays that come after an assignment.

        Arguments:
            sizes: bytes of each that come as a message.
            tails: the rest of each.
        """
        found: list[Frame] = []
        for size, tail in zip(sizes, tails, strict=True):
            array = new_frame(size + len(tail))
            array[size:] = np.frombuffer(tail, dtype=np.uint8)
            backoff = Backoff()
            while (receiving := self._link.receive(_COORDINATOR, Tag.DATA, lambda n, to=array: to[:n])) is None:
                backoff.sleep(BUSY)
            self._finish(receiving)
            found.append(array)
        return found

    def _finish(self, receiving: Receiving) -> None:
        backoff = Backoff()
        while not receiving.done():
            backoff.sleep(BUSY)
