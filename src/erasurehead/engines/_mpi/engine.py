"""Workers as ranks of an MPI job: rank 0 coordinates, the others serve."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from erasurehead._internal.late_work import LateWork, rounds_kept
from erasurehead.delays import Delays
from erasurehead.engines._base import (
    UNTIL_NEWER,
    Arrived,
    Died,
    Event,
    Failed,
    Joined,
    MessageSpec,
    NoRoom,
    Program,
)
from erasurehead.engines._encoded_order import EncodedOrder
from erasurehead.engines._leases import BufferLease
from erasurehead.engines._mpi.backoff import ALERT, BUSY, Backoff
from erasurehead.engines._mpi.job import serve_unless_coordinator
from erasurehead.engines._mpi.peer_channels import RankChannels
from erasurehead.engines._mpi.rank_directory import Rank, RankDirectory, RankReport, directory_of
from erasurehead.engines._mpi.rendezvous import check_place
from erasurehead.engines._mpi.transport import LINE, Frame, Tag, frame_of, new_frame, vector_in, whole, world
from erasurehead.engines._outside import OutsideEngine, Remote
from erasurehead.engines._packed_program import pack
from erasurehead.engines._peer_channels import PeerChannels, PeerMessaging
from erasurehead.engines._shared_memory import offer
from erasurehead.errors import EngineError

if TYPE_CHECKING:
    from mpi4py import MPI

_SHUTDOWN = 0.5  # seconds that ranks are given to become idle when the engine is closed


def _framed(order: EncodedOrder) -> Frame:
    frame = new_frame(whole(order.nbytes))
    order.write(frame)
    return frame


@dataclass(eq=False)
class _Worker(Remote):
    """One worker, and the rank that it runs on.

    To a rank on another machine at most one order is on its way: the next one, the newest of those submitted meanwhile,
    is due until the rank reports that it is listening.
    """

    rank: Rank
    announced: dict[int, MessageSpec]
    listening: bool = False
    sent: int = -1  # round of the newest order that it was sent
    until_newer: bool = False  # whether that one ends between messages when a newer one is out
    noticed: int = 0  # how often it has been told that something newer waits
    pushed: dict[int, float] = field(default_factory=dict[int, float])  # when the last order went out, by its round
    last_words: str = ""


class MPIEngine(OutsideEngine[_Worker], PeerMessaging):
    """Workers as ranks of an MPI job; rank 0 is the coordinator.

    It is made on rank 0, while every other rank serves: let a script begin with `MPIEngine.serve_unless_coordinator()`.
    A worker takes any idle rank; ranks beyond the number of workers are spares, which replace ranks that died. Several
    engines may use the same ranks, one after the other. If a death is to cost no more than the rank, the job must be
    started with `mpiexec --with-ft ulfm` (Open MPI 5); otherwise MPI ends the whole job.

    Models and messages of ranks on the coordinator's machine cross in shared memory, and past MPI, as those of
    processes do; those of ranks on other machines are sent through MPI.

    Arguments:
        delays: injected after computing, on the worker; None for none.
        late: what a worker does when a newer order is out while its injected delay still runs: `"preempt"` drops
            the old work, `"carry"` finishes the delay first, `"drop(3)"` does so unless the work is more than
            three rounds old.
        comm: ranks to use; all ranks of the job by default.
        share: False sends models and messages through MPI on this machine too, as between machines; for tests.

    Raises:
        EngineError: if this is not rank 0, or the job has no other rank.
        MissingExtra: if mpi4py is not installed.
    """

    name: ClassVar[str] = "mpi"
    serve_unless_coordinator = staticmethod(serve_unless_coordinator)

    def __init__(
        self,
        delays: Delays | str | None = None,
        late: LateWork = "preempt",
        comm: MPI.Intracomm | None = None,
        share: bool = True,
    ) -> None:
        super().__init__(delays, late)
        self.share = share
        self._comm = world(comm)
        check_place(self._comm)
        self._opened: RankDirectory | None = None
        self._by_rank: dict[int, int] = {}
        self._backoff = Backoff(ALERT)

    @property
    def _directory(self) -> RankDirectory:
        """The job's ranks; they are found when they are first needed."""
        self._check_open()
        if self._opened is None:
            directory = directory_of(self._comm)
            if directory.taken:
                raise EngineError("another MPIEngine uses these ranks; close it before the next one is used.")
            self._opened, directory.taken = directory, True
        return self._opened

    def hosts(self) -> Mapping[str, int | None]:
        return Counter(rank.place.host for rank in self._directory.ranks.values() if not rank.gone)

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        directory = self._directory
        old = self._remove(worker)
        rank = None if program is None else self._choose(worker, old, host)
        if old is not None and old is not rank:
            directory.dismiss(old)
        if program is None or rank is None:
            return
        packed = pack(program, self.delays)
        near = self.share and rank.place.machine == directory.own.machine
        lane = self._new_lane(program) if near else None
        self._workers[worker] = _Worker(rank, {spec.message: spec for spec in program.message_specs}, lane=lane)
        self._by_rank[rank.number] = worker
        self._assigned = True
        offered = offer(None if lane is None else lane.theirs)
        ends = [len(array) // LINE * LINE for array in packed.arrays]
        bodies = tuple(array[:end] for array, end in zip(packed.arrays, ends, strict=True))
        tails = [array[end:].tobytes() for array, end in zip(packed.arrays, ends, strict=True)]
        directory.assign(rank, (worker, self.late, packed.head, tails, ends, offered), bodies)

    def _remove(self, worker: int) -> Rank | None:
        """Forget a worker and what it has sent; return its rank."""
        if worker not in self._workers:
            return None
        state = self._forget(worker)
        self._void(worker)
        return state.rank

    def _choose(self, worker: int, old: Rank | None, host: str | None) -> Rank:
        """Return the rank for a worker: an idle one, on the host if there is one, or the one that it had."""
        free = [rank for rank in self._directory.ranks.values() if rank.free]
        wanted = [rank for rank in free if rank.place.host == host]
        had = [] if old is None or old.gone or old.paused else [old]
        if had and had[0].place.host == host:
            wanted += had
        taken = Counter(state.rank.place.host for state in self._workers.values())
        free.sort(key=lambda rank: (taken[rank.place.host], rank.state, rank.number))
        chosen = [*wanted, *free, *had]
        if chosen:
            return chosen[0]
        living = sum(not rank.gone for rank in self._directory.ranks.values())
        ranks = len(self._directory.ranks)
        raise NoRoom(
            f"worker {worker} cannot be started: of the {ranks} ranks beside the coordinator, {living} live, and "
            "none is idle; start the job with one rank more than there are workers, or use fewer workers."
        )

    def _send(self, far: Sequence[_Worker]) -> None:
        for state in far:
            self._push(state)

    def _redirect(self, state: _Worker, order_round: int, message: int) -> None:
        self._directory.send(state.rank, frame_of((order_round, message)), Tag.REDIRECT)

    def _push(self, state: _Worker) -> None:
        """Send the order that is due, if the rank is listening; otherwise notify it, if it drops late work."""
        due = state.due
        if due is None or due.order.round <= state.sent:
            state.due = None
        elif state.listening:
            self._directory.send(state.rank, due.form(_framed), Tag.ORDER)
            state.pushed, state.sent = {due.order.round: time.monotonic()}, due.order.round
            state.until_newer = bool(due.order.note.get(UNTIL_NEWER, False))
            state.listening, state.due = False, None
        else:
            behind = due.order.round - state.sent
            reasons = state.until_newer + (behind > rounds_kept(self.late))
            if reasons > state.noticed:
                self._directory.send(state.rank, frame_of((behind,)), Tag.NEWER)
                state.noticed = reasons

    def next_event(self, until: float | None = None) -> Event | None:
        self._look()
        return super().next_event(until)

    def _gather(self, seconds: float) -> None:
        self._backoff.sleep(min(seconds, BUSY) if self._directory.receiving else seconds, self._listen)
        self._look()

    def _hung_up(self, worker: int, state: _Worker) -> None:
        super()._hung_up(worker, state)
        self._backoff.reset()  # MPI says soon that the rank is gone

    def _look(self) -> None:
        for report in self._directory.reports():
            self._backoff.reset()
            self._take(report)

    def _take(self, report: RankReport) -> None:
        worker = self._by_rank.get(report.rank.number)
        frame, state = report.frame, None if worker is None else self._workers[worker]
        now = time.monotonic()
        if worker is None or state is None:
            pass
        elif report.kind == "arrived" and frame is not None:
            self._arrive(worker, state, report, frame, now)
            return
        elif report.kind == "ready":
            self._listens(state)
        elif report.kind == "joined":
            (shares,) = report.rest
            self._take_lane(worker, state, shares)
            self._events.append(Joined(worker, state.rank.place.host, now))
            self._listens(state)
        elif report.kind == "failed":
            number, reason = report.rest
            self._events.append(Failed(worker, number, reason, now))
        else:
            self._end(worker, state, report, now)
        if frame is not None:
            self._directory.pool.give(frame)

    def _listens(self, state: _Worker) -> None:
        state.listening, state.noticed = True, 0
        self._post([state])

    def _arrive(self, worker: int, state: _Worker, report: RankReport, frame: Frame, now: float) -> None:
        number, step, which, started, worked, listens = report.rest
        spec = which if isinstance(which, MessageSpec) else state.announced[which]
        lease = BufferLease(vector_in(frame, spec), partial(self._directory.pool.give, frame))
        begun = max(started + (report.rank.clock or 0.0), state.pushed.get(number, 0.0))
        begun = min(begun, now)
        self._events.append(Arrived(worker, spec, number, step, begun, now, lease.read, lease, worked))
        if listens:
            self._listens(state)

    def _end(self, worker: int, state: _Worker, report: RankReport, now: float) -> None:
        """Record that a worker has died: its rank is gone, or its program cannot be opened."""
        reason = str(report.rest[0]) if report.kind == "broken" else state.last_words or report.rank.gone
        self._events.append(Died(worker, reason, now, broken=report.kind == "broken"))
        self._forget(worker)

    def _forget(self, worker: int) -> _Worker:
        state = self._workers.pop(worker)
        del self._by_rank[state.rank.number]
        self._close_lane(state)
        return state

    def peer_channels(self, workers: int, length: int) -> PeerChannels:
        def ranks() -> Mapping[int, int]:
            return {worker: state.rank.number for worker, state in self._workers.items()}

        return RankChannels(ranks, self._directory.write)

    def kill(self, worker: int) -> None:
        state = self._workers[worker]
        state.last_words = f"rank {state.rank.number} on {state.rank.place.host} was killed"
        self._directory.crash(state.rank)

    def pause(self, worker: int) -> None:
        self._signal(worker, signal.SIGSTOP)

    def proceed(self, worker: int) -> None:
        self._signal(worker, signal.SIGCONT)

    def _signal(self, worker: int, number: signal.Signals) -> None:
        rank = self._workers[worker].rank
        if not self._directory.signal(rank, number):
            raise EngineError(
                f"worker {worker} cannot be sent {number.name}: its rank {rank.number} is on {rank.place.host}, and "
                "MPI can stop no process there; only workers beside the coordinator, on "
                f"{self._directory.own.host}, can be paused."
            )

    def pid(self, worker: int) -> int:
        """Return the process id of a worker on its host."""
        return self._workers[worker].rank.place.pid

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        directory = self._opened
        if directory is None:
            self._let_go()
            return
        directory.wake()
        for worker in list(self._workers):
            directory.dismiss(self._forget(worker).rank)
        directory.wait_for("idle", _SHUTDOWN)
        self._let_go()
        directory.pool.clear()
        directory.taken = False
