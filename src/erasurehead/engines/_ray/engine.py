"""Workers as actors of a Ray cluster: programs and models cross in Ray's object store, to any of its machines."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays
from erasurehead.engines._base import NoRoom, Offered, Program
from erasurehead.engines._machine import machine
from erasurehead.engines._outside import OutsideEngine
from erasurehead.engines._packed_program import ArrayCache
from erasurehead.engines._ray.actor import THREADS, Actor
from erasurehead.engines._ray.cluster import connect, library
from erasurehead.engines._ray.handle import Handle
from erasurehead.engines._ray.incoming import Incoming
from erasurehead.engines._ray.nodes import Manager, Node, Nodes, NodeWatch, room
from erasurehead.engines._ray.shared_program import share
from erasurehead.errors import EngineError, check_count, check_not_negative, counted

_SLICE = 0.002
"""Seconds between two looks at what comes past Ray and what comes through it, where both may come."""


class RayEngine(OutsideEngine[Handle]):
    """Workers as actors of a Ray cluster.

    Each worker is one actor. Programs are objects in Ray's store, and so are models for other machines: what several
    workers of a machine need is there once, and is read without a copy. An actor on another machine streams its
    messages back as they are ready. On the coordinator's machine models and messages cross in shared memory, and past
    Ray, as those of processes do.

    Arguments:
        delays: injected after computing, on the worker; None for none.
        late: what a worker does when a newer order is out while its injected delay still runs: `"preempt"` drops
            the old work, `"carry"` finishes the delay first, `"drop(3)"` does so unless the work is more than
            three rounds old.
        address: host and port of the cluster's head, or `"auto"` for the one that runs on this machine. None for the
            one that this process is connected to, otherwise for a new one on this machine, which listens on the
            loopback interface only, and ends with the engine.
        max_restarts: how often Ray may start an actor again after its death; -1 for any number. The worker's return
            is a `Joined`. With 0, the user of the engine (`train`) replaces the dead.
        cpus: number of CPUs that Ray reserves for each worker. With 0, workers are placed anywhere, in any number.
        share: False sends messages through Ray on this machine too, as between machines; for tests.

    Raises:
        MissingExtra: if ray is not installed.
        EngineError: if the cluster cannot be reached or started.
    """

    name: ClassVar[str] = "ray"

    def __init__(
        self,
        delays: Delays | str | None = None,
        late: LateWork = "preempt",
        address: str | None = None,
        max_restarts: int = 0,
        cpus: float = 0,
        share: bool = True,
    ) -> None:
        super().__init__(delays, late)
        check_not_negative("cpus", cpus, "must be a number of processors, 0 or more")
        self.max_restarts = check_count("max_restarts", max_restarts, at_least=-1)
        self.cpus = cpus
        self.share = share
        self._ray = library()
        self._connection = connect(address)
        self._store = ArrayCache[Any]()
        self._machine = machine()
        try:
            self._incoming = Incoming(self._ray)
            self._nodes = Nodes(self._ray, self._connection.local, self._offer)
            self._manager = Manager(self._ray)
        except BaseException:
            self._connection.close()
            raise
        self._watch = None if self._connection.local else NodeWatch(self._nodes)

    def hosts(self) -> Mapping[str, int | None]:
        self._check_open()
        self._nodes.look()
        return {node.name: room(node, self.cpus) for node in self._nodes.alive()}

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self._check_open()
        there = self._workers.get(worker)
        if there is not None and there.returns and program is there.program:
            there.promised = True  # Ray is starting it again, with this very program: that is its replacement
            return
        node = None if host is None else self._nodes.named(host)
        if there is not None:
            self._remove(worker)
        if program is None:
            return
        self._assigned = True
        self._workers[worker] = self._start(worker, program, self._place(worker, node))

    def _place(self, worker: int, node: Node | None) -> str | None:
        """Return the number of the node where a worker is to run; None for any."""
        rooms = {one.id: room(one, self.cpus) for one in self._nodes.alive()}
        used = Counter(handle.node for handle in self._workers.values())
        if self.cpus > 0 and used.total() >= sum(places or 0 for places in rooms.values()):
            raise NoRoom(
                f"worker {worker} cannot be started: the cluster has room for {counted('worker', used.total())} "
                f"of {self.cpus} "
                "processors each; use fewer workers, or ask for less (cpus)."
            )
        places = None if node is None else rooms.get(node.id, 0)
        return None if node is None or (places is not None and used[node.id] >= places) else node.id

    def _start(self, worker: int, program: Program, node: str | None) -> Handle:
        strategy: Any = "SPREAD"
        if node is not None:  # not `soft`: Ray would place a worker that takes no processors anywhere
            strategies = import_module("ray.util.scheduling_strategies")
            strategy = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        kind = self._ray.remote(Actor).options(
            num_cpus=self.cpus,
            max_concurrency=THREADS,
            enable_task_events=False,
            max_restarts=self.max_restarts,
            max_task_retries=0,
            scheduling_strategy=strategy,
        )
        packed = share(self._ray, program, self.delays, self._store)
        actor = kind.remote(worker, packed, self.late, self._machine)
        near = self.share and node in (None, self._incoming.node)
        make_lane = partial(self._new_lane, program) if near else lambda: None
        return Handle(self._ray, worker, program, actor, node, self.max_restarts != 0, make_lane)

    def _redirect(self, state: Handle, order_round: int, message: int) -> None:
        state.actor.redirect.remote(order_round, message, time.monotonic())

    def _send(self, far: Sequence[Handle]) -> None:
        """Send the newest order to those that have taken the one before, so that nothing is ever queued."""
        acknowledgements = [handle.sent for handle in far if handle.sent is not None]
        taken: set[Any] = set()
        if acknowledgements:
            taken.update(self._ray.wait(acknowledgements, num_returns=len(acknowledgements), timeout=0)[0])
        for handle in far:
            if handle.sent is None or handle.sent in taken:
                handle.post()

    def _gather(self, seconds: float) -> None:
        far = [handle for handle in self._workers.values() if not handle.beside]
        near = len(self._workers) - len(far)
        if near:
            self._listen(min(seconds, _SLICE) if far else seconds)
        if far or not near:
            self._gather_from(far, 0.0 if near else seconds)
        self._manager.check()

    def _gather_from(self, far: Sequence[Handle], seconds: float) -> None:
        """Wait until something comes through Ray, and take all that has come."""
        due, items = self._incoming.wait(far, seconds)
        self._post(due)
        now = time.monotonic()
        for handle, item in items.items():
            if item is None or isinstance(item, Exception):
                event = handle.lose(item, now)
            else:
                event = handle.receive(item, now, self._nodes)
                if item[0] == "joined":
                    self._take_lane(handle.worker, handle, item[2])
                    self._post([handle])
            if event is not None:
                self._events.append(event)
            if handle.gone:
                self._remove(handle.worker, void=False)
        for handle in far:
            if not handle.gone and handle.stream is None:
                self._close_lane(handle)
                handle.reopen()

    def kill(self, worker: int) -> None:
        handle = self._handle(worker)
        if handle.on(self._machine):
            handle.signal(signal.SIGKILL)
        else:
            self._ray.kill(handle.actor, no_restart=self.max_restarts == 0)

    def pause(self, worker: int) -> None:
        handle = self._here(worker)
        handle.signal(signal.SIGSTOP)
        handle.paused = True

    def proceed(self, worker: int) -> None:
        handle = self._here(worker)
        handle.signal(signal.SIGCONT)
        handle.paused = False
        self._post([handle])

    def pid(self, worker: int) -> int:
        """Return the process id of a worker on its machine."""
        home = self._handle(worker).home
        if home is None:
            raise EngineError(f"worker {worker} has no process yet; wait until it has joined.")
        return home.pid

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._watch is not None:
            self._watch.close()
        for worker in list(self._workers):
            self._remove(worker)
        self._let_go()
        self._store.clear()
        self._connection.close()

    def _handle(self, worker: int) -> Handle:
        if worker not in self._workers:
            raise EngineError(f"there is no worker {worker}; there are {sorted(self._workers)}.")
        return self._workers[worker]

    def _here(self, worker: int) -> Handle:
        handle = self._handle(worker)
        if not handle.on(self._machine):
            raise EngineError(f"worker {worker} is not on this machine, or not yet: only here can it be paused.")
        return handle

    def _remove(self, worker: int, void: bool = True) -> None:
        """End a worker; `void` what it sent and nobody has taken."""
        handle = self._workers.pop(worker)
        self._close_lane(handle)
        with contextlib.suppress(Exception):  # it may be dead, or the cluster
            self._ray.kill(handle.actor, no_restart=True)
        if handle.on(self._machine):
            handle.signal(signal.SIGKILL)  # a stopped process would not hear Ray
        if void:
            self._void(worker)

    def _offer(self, node: Node) -> None:
        places = room(node, self.cpus)
        workers = max(1, int(node.cpus)) if places is None else places
        self._events.append(Offered(workers, node.name, time.monotonic()))
