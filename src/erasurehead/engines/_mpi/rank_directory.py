"""The ranks of a job as the coordinator knows them: where they are, what they do, and what they say.

A directory outlives the engines that use it: ranks are found once, and serve one engine after the other.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from erasurehead.engines._mpi.backoff import BUSY, Backoff
from erasurehead.engines._mpi.rendezvous import Place, leave, rendezvous
from erasurehead.engines._mpi.transport import (
    Frame,
    FrameBuffers,
    Gone,
    Receiving,
    Sending,
    Tag,
    frame_of,
    read_head,
    reap,
    world,
)
from erasurehead.engines._process_state import stop
from erasurehead.errors import EngineError

if TYPE_CHECKING:
    from mpi4py import MPI

_SHUTDOWN = 2.0  # seconds that ranks have to answer when the job ends
_GRACE = 1.0  # seconds within which a rank that was dismissed is as good as idle: it looks every few milliseconds


@dataclass(eq=False)
class Rank:
    """One rank but the coordinator.

    Attributes:
        number: in the communicator.
        place: where it runs.
        life: number of its assignment, or of its dismissal; what it says of another is void.
        state: `"idle"`, `"assigned"` or `"dismissed"`, which is idle as soon as it answers.
        dismissed: when it was.
        paused: whether it was stopped on purpose.
        gone: why it is no more; empty while it lives.
        clock: what its clock must be corrected by, in seconds; None until it has said something.
        sendings: what is on its way to it.
        receivings: what is on its way from it.
    """

    number: int
    place: Place
    life: int = 0
    state: str = "idle"
    dismissed: float = 0.0
    paused: bool = False
    gone: str = ""
    clock: float | None = None
    sendings: deque[Sending] = field(default_factory=deque[Sending])
    receivings: deque[Receiving] = field(default_factory=deque[Receiving])

    @property
    def free(self) -> bool:
        """Whether it can be given a program."""
        if self.gone or self.paused:
            return False
        return self.state == "idle" or (self.state == "dismissed" and time.monotonic() < self.dismissed + _GRACE)


@dataclass(frozen=True, eq=False)
class RankReport:
    """What a rank says.

    Attributes:
        rank: who; `rank.gone` is set where `kind` is `"gone"`.
        kind: what it is about.
        rest: the rest of its head.
        frame: with the vector, if there is one; to be given back to the directory's pool.
    """

    rank: Rank
    kind: str
    rest: tuple[Any, ...] = ()
    frame: Frame | None = None


class RankDirectory:
    """All ranks of a communicator but 0, which is this process.

    Attributes:
        ranks: by their number, the dead included.
        pool: frames to receive into.
        taken: whether an engine uses it.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._link, places = rendezvous(comm)
        self.own = places[0]
        self.ranks = {number: Rank(number, place) for number, place in enumerate(places) if number != 0}
        self.pool = FrameBuffers()
        self.taken = False
        self._any_source, self._any_tag = int(self._link.mpi.ANY_SOURCE), int(self._link.mpi.ANY_TAG)
        self._lives = 0
        self._gone: deque[Rank] = deque()
        self._peer_messages: deque[Sending] = deque()
        self._limbo: list[object] = []  # of the dead: MPI may not have let go of the memory yet

    def assign(self, rank: Rank, head: tuple[Any, ...], arrays: tuple[Frame, ...]) -> None:
        """Give a rank a program; it drops the one that it has.

        Arguments:
            rank: a living one.
            head: what it is told, after its life.
            arrays: what is sent after that.
        """
        rank.state = "assigned"
        self._renew(rank)
        self.send(rank, frame_of((rank.life, *head)), Tag.ASSIGN)
        for array in arrays:
            self.send(rank, array, Tag.DATA)

    def dismiss(self, rank: Rank) -> None:
        """Let a rank drop its program, and be idle."""
        if not rank.gone and rank.state == "assigned":
            rank.state, rank.dismissed = "dismissed", time.monotonic()
            self._renew(rank)
            self.send(rank, frame_of((rank.life,)), Tag.DISMISS)

    def _renew(self, rank: Rank) -> None:
        self._lives += 1
        rank.life = self._lives

    def send(self, rank: Rank, frame: Frame, tag: Tag) -> None:
        """Begin to send a frame, which must not be changed from now on."""
        if rank.gone:
            return
        try:
            rank.sendings.append(self._link.send(frame, rank.number, tag))
        except Gone as gone:
            self._bury(rank, str(gone))

    def write(self, number: int, frame: Frame) -> None:
        """Begin to send a peer message to a rank; one that is lost is noticed elsewhere."""
        assert self._link.beside is not None
        with contextlib.suppress(Gone):
            self._peer_messages.append(self._link.beside.send(frame, number, Tag.PEER_MESSAGE))
        while self._peer_messages:
            try:
                if not self._peer_messages[0].done():
                    break
            except Gone:
                self._limbo.append(self._peer_messages[0])
            self._peer_messages.popleft()

    def signal(self, rank: Rank, number: signal.Signals) -> bool:
        """Send a signal to a rank; return False if it is on another machine, where it cannot be sent to."""
        if rank.place.machine != self.own.machine:
            return False
        if not rank.gone:
            with contextlib.suppress(ProcessLookupError):
                stop(rank.place.pid) if number == signal.SIGSTOP else os.kill(rank.place.pid, number)
            rank.paused = number == signal.SIGSTOP
        return True

    def crash(self, rank: Rank) -> None:
        """Let a rank end without warning."""
        if not self.signal(rank, signal.SIGKILL):
            self.send(rank, frame_of(()), Tag.CRASH)

    @property
    def receiving(self) -> bool:
        """Whether something is on its way here."""
        return any(rank.receivings for rank in self.ranks.values())

    def reports(self) -> Iterator[RankReport]:
        """Return what ranks have said since the last look, each in its own order, and who is gone; never waits."""
        self._begin_receiving()
        for rank in self.ranks.values():
            if rank.gone:
                continue
            try:
                reap(rank.sendings)
                while rank.receivings and rank.receivings[0].done():
                    yield from self._read(rank, rank.receivings.popleft().frame)
            except Gone as gone:
                self._bury(rank, str(gone))
        while self._gone:
            yield RankReport(self._gone.popleft(), "gone")

    def _begin_receiving(self) -> None:
        """Take all that has come, and find out who is gone."""
        while True:
            try:
                receiving = self._link.receive(self._any_source, self._any_tag, self.pool.take)
            except Gone as gone:
                if not self._find_the_dead(str(gone)):
                    raise EngineError(f"MPI failed: {gone}.") from None
                continue
            if receiving is None:
                return
            self.ranks[receiving.source].receivings.append(receiving)

    def _find_the_dead(self, why: str) -> bool:
        lost = [self.ranks[number] for number in self._link.lost() if number in self.ranks]
        for rank in lost:
            self._bury(rank, why)
        return bool(lost)

    def _bury(self, rank: Rank, why: str) -> None:
        if not rank.gone:
            rank.gone = f"rank {rank.number} on {rank.place.host} is gone ({why})"
            self._limbo += [rank.sendings, rank.receivings]
            rank.sendings, rank.receivings = deque(), deque()
            self._gone.append(rank)

    def _read(self, rank: Rank, frame: Frame) -> Iterator[RankReport]:
        (kind, life, said, *rest), _ = read_head(frame)
        rank.clock = self._corrected(rank, said)
        if life == rank.life and kind in ("idle", "broken"):
            rank.state = "idle"
        if kind in ("ended", "left"):
            rank.state = kind
        if life == rank.life and kind != "idle":
            yield RankReport(rank, kind, tuple(rest), frame)
        else:
            self.pool.give(frame)

    def _corrected(self, rank: Rank, said: float) -> float:
        """Return what to add to a rank's clock, now that it has said its time: the quickest message tells best."""
        if rank.place.machine == self.own.machine:
            return 0.0
        seen = time.monotonic() - said
        return seen if rank.clock is None else min(seen, rank.clock)

    def wait_for(self, state: str, seconds: float) -> bool:
        """Wait until all living ranks are in a state; return whether they are. What they say else is dropped."""
        deadline, backoff = time.monotonic() + seconds, Backoff()
        while any(rank.state != state and not rank.gone for rank in self.ranks.values()):
            for report in self.reports():
                if report.frame is not None:
                    self.pool.give(report.frame)
            if time.monotonic() > deadline:
                return False
            backoff.sleep(BUSY if self.receiving else None)
        return True

    def wake(self) -> None:
        """Let all paused ranks go on."""
        for rank in self.ranks.values():
            if rank.paused:
                self.signal(rank, signal.SIGCONT)

    def shut_down(self) -> bool:
        """Let all ranks end; those of this machine that do not answer are ended. Return whether none was or is dead.

        Only when all have answered, or have not, is it known how they are to leave: so they are told after that.
        """
        self.wake()
        for rank in self.ranks.values():
            self.send(rank, frame_of(()), Tag.END)
        if not self.wait_for("ended", _SHUTDOWN):
            for rank in self.ranks.values():
                if rank.state != "ended":
                    self.signal(rank, signal.SIGKILL)
        whole = all(rank.state == "ended" and not rank.gone for rank in self.ranks.values())
        for rank in self.ranks.values():
            self.send(rank, frame_of((whole,)), Tag.LEAVE)
        if not whole:  # or they might find us gone before they have read that
            self.wait_for("left", _GRACE)
        return whole


_STATIONS: dict[int, RankDirectory] = {}
_PARTING: dict[int, MPI.Intracomm] = {}
"""By the number that MPI gives a communicator."""


def directory_of(comm: MPI.Intracomm | None) -> RankDirectory:
    """Return the directory of a communicator, by default of all ranks of the job; ranks are looked for once.

    Raises:
        EngineError: if this is not rank 0, or there is no other rank, or one does not come.
        MissingExtra: if mpi4py is not installed.
    """
    comm = world(comm)
    key = comm.py2f()
    if key not in _STATIONS:
        part_at_exit(comm)
        _STATIONS[key] = RankDirectory(comm)
    return _STATIONS[key]


def part_at_exit(comm: MPI.Intracomm) -> None:
    """See to it that the other ranks end when this process does: they wait for it until they are told."""
    if not _PARTING:
        atexit.register(_part)
    _PARTING[comm.py2f()] = comm


def _part() -> None:
    whole = True
    for comm in _PARTING.values():
        try:
            whole = directory_of(comm).shut_down() and whole
        except EngineError:
            whole = False
    leave(whole)
