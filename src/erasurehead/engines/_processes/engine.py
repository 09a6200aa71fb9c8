"""Workers as processes of this machine: forked from one server, with shared memory for models and messages."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from multiprocessing import resource_tracker
from types import ModuleType
from typing import Any, ClassVar

from erasurehead._internal.late_work import LateWork
from erasurehead._internal.signals import ENDING
from erasurehead.delays import Delays
from erasurehead.engines._base import Died, Event, Joined, NoRoom, Program
from erasurehead.engines._buffers import MessageSlots
from erasurehead.engines._lane import Lane
from erasurehead.engines._outside import OutsideEngine, Remote
from erasurehead.engines._packed_program import ArrayCache, pack
from erasurehead.engines._peer_channels import PeerChannels, PeerMessaging
from erasurehead.engines._process_state import stop
from erasurehead.engines._processes import hidden_socket as hidden, server_watch, worker as worker_process
from erasurehead.engines._processes.forking import WorkerProcess, check_may_start
from erasurehead.engines._processes.peer_channels import SharedChannels
from erasurehead.engines._processes.process_limits import STARTING, reached, why_no_process
from erasurehead.engines._processes.safe_path import safe_path
from erasurehead.engines._processes.worker import ProgramInSharedMemory
from erasurehead.engines._shared_memory import SharedBlock, align
from erasurehead.errors import EngineError

_PRELOAD = "erasurehead.engines._processes.preload"
_SHUTDOWN = 0.5  # seconds that workers are given to end by themselves when the engine is closed
_KILLED = 5.0  # seconds after which it does not matter any more that a worker that was killed is not said to have ended
_START_FILES = 8  # files that are open at once while a process is started


@dataclass(eq=False)
class _Process(Remote):
    """One worker process, seen from the coordinator."""

    process: WorkerProcess
    last_words: str = ""


class ProcessEngine(OutsideEngine[_Process], PeerMessaging):
    """Workers as processes of this machine.

    They are forked from a server that has imported what they need, so that thirty are ready in about a second. Models
    and messages cross in shared memory; pipes carry only a wake-up signal and a few bytes per arrival. A worker ends
    with its parent, however that ends.

    Arguments:
        delays: injected after computing, on the worker; None for none.
        late: what a worker does when a newer order is out while its injected delay still runs: `"preempt"` drops
            the old work, `"carry"` finishes the delay first, `"drop(3)"` does so unless the work is more than
            three rounds old.
        fewer: the advice in errors where there is no room for all workers.
    """

    name: ClassVar[str] = "processes"

    def __init__(
        self,
        delays: Delays | str | None = None,
        late: LateWork = "preempt",
        fewer: str = "use fewer workers (--workers)",
    ) -> None:
        if os.name != "posix":
            raise EngineError("the process engine needs Linux or macOS; on Windows use the virtual engine, or WSL.")
        super().__init__(delays, late)
        self._fewer = fewer
        self._context = multiprocessing.get_context("forkserver")
        self._store = ArrayCache[SharedBlock]()
        _raise_file_limit()

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self._check_open()
        if worker in self._workers:
            self._remove(worker, time.monotonic())
            self._void(worker)
        if program is None:
            return
        try:
            self._start(worker, program)
        except (OSError, NoRoom) as error:
            raise NoRoom(f"worker {worker} cannot be started: {self._why_not(error)}") from None

    def _why_not(self, error: OSError | NoRoom) -> str:
        cause = error.__cause__ if isinstance(error, NoRoom) else error
        if isinstance(error, OSError) and error.errno in STARTING:
            return f"{why_no_process(error.errno, self._fewer)}."
        if isinstance(error, ConnectionError):
            return f"{reached(self._fewer) or error.strerror}."
        if not isinstance(cause, OSError) or cause.errno != errno.EMFILE:
            return str(error)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"{len(self._workers)} workers use up the {limit} files that a process may have open; raise the limit "
            f"(ulimit -n), or {self._fewer}."
        )

    def _start(self, worker: int, program: Program) -> None:
        check_may_start()
        order_buffer = self._order_buffers.of(program)
        self._context.set_forkserver_preload([_PRELOAD, *program.preload])
        lane = Lane(order_buffer, MessageSlots(program))
        with contextlib.ExitStack() as ends:  # whatever fails, no file stays open
            ends.callback(lane.close)
            args = (worker, self._share(program), lane.theirs, self.late)
            process = WorkerProcess(target=worker_process.main, args=args, daemon=True, name=f"worker-{worker}")
            _check_file_limit(lane.inlet)
            with safe_path(), _without_main_module(), _signals_blocked():
                _start_process(process)
            ends.pop_all()
        self._workers[worker] = _Process(process, lane=lane)
        self._take_lane(worker, self._workers[worker])
        self._assigned = True

    def _share(self, program: Program) -> ProgramInSharedMemory:
        """Put a program into shared memory; arrays that are already there are not written again."""
        packed = pack(program, self.delays)
        spans: list[tuple[int, int]] = []
        end = 0
        for array in packed.arrays:
            begin = align(end)
            end = begin + array.nbytes
            spans.append((begin, end))

        def write() -> SharedBlock:
            block = SharedBlock(end)
            for (low, high), array in zip(spans, packed.arrays, strict=True):
                block.buffer[low:high] = array.data
            return block

        return ProgramInSharedMemory(packed.head, tuple(spans), self._store.get(packed.arrays, write))

    def poll(self) -> Event | None:
        """Return the next event if there is one; never waits."""
        self._check_open()
        if not self._events:
            self._gather(0)
        return self._take_event() if self._events else None

    def peer_channels(self, workers: int, length: int) -> PeerChannels:
        def pids() -> Mapping[int, int]:
            return {worker: self.pid(worker) for worker in self._workers}

        return SharedChannels(workers, length, pids)

    def kill(self, worker: int) -> None:
        os.kill(self.pid(worker), signal.SIGKILL)

    def pause(self, worker: int) -> None:
        stop(self.pid(worker))

    def proceed(self, worker: int) -> None:
        os.kill(self.pid(worker), signal.SIGCONT)

    def pid(self, worker: int) -> int:
        """Return the process id of a worker."""
        pid = self._workers[worker].process.pid
        assert pid is not None
        return pid

    def close(self) -> None:
        self._closed = True
        for state in self._workers.values():
            if state.lane is not None:
                state.lane.hang_up()  # the end of the file tells each of them to go
        deadline = time.monotonic() + _SHUTDOWN
        for worker in list(self._workers):
            self._remove(worker, deadline)
        for block in self._store.clear():
            block.close()
        self._let_go()

    def _hear(self, worker: int, state: _Process, item: tuple[Any, ...]) -> None:
        if item[0] == "joined":
            self._events.append(Joined(worker, item[1], time.monotonic()))
        elif item[0] == "broken":
            state.last_words = item[1]
        else:
            super()._hear(worker, state, item)

    def _hung_up(self, worker: int, state: _Process) -> None:
        told = server_watch.join(state.process, _SHUTDOWN)
        code = state.process.exitcode
        reason = state.last_words
        if not reason and told:
            reason = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"exited with status {code}"
        reason = reason or "it ended, and the server that it was forked from does not say how"
        self._events.append(Died(worker, reason, time.monotonic(), broken=bool(state.last_words)))
        self._remove(worker, time.monotonic())

    def _remove(self, worker: int, until: float) -> None:
        """Give up a worker, which is killed if it has not ended until then."""
        state = self._workers.pop(worker)
        self._close_lane(state)
        process = state.process
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
        if server_watch.join(
            process, max(0.0, until + _KILLED - time.monotonic())
        ):  # it has ended in any case, but its number is given back by its server
            process.close()


def _start_process(process: WorkerProcess) -> None:
    """Start a process; try once more if the fork server ended meanwhile, as another is then started.

    Raises:
        OSError: if that fails, too.
    """
    try:
        with server_watch.watched():
            try:
                hidden.ensure_running()
                process.start()
            except (EOFError, ConnectionError):
                hidden.await_end()
                hidden.ensure_running()
                try:
                    process.start()
                except EOFError as error:
                    said = "the server that workers are forked from has ended"
                    raise ConnectionResetError(errno.ECONNRESET, said) from error
    except RuntimeError as error:  # no thread can be started
        raise OSError(errno.EAGAIN, str(error)) from error


def _check_file_limit(some: int) -> None:
    """Raise `OSError` if there are too few files to start a process: its server would print a traceback."""
    spare: list[int] = []
    try:
        for _ in range(_START_FILES):
            spare.append(os.dup(some))
    finally:
        for number in spare:
            os.close(number)


def _raise_file_limit() -> None:
    """Raise this process's limit of open files as far as allowed: every worker takes about five."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def _signals_blocked() -> Generator[None]:
    """Keep Ctrl-C and its kin from the server and the workers, which inherit this mask; ours are handled afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    resource_tracker.ensure_running()  # it would unblock some of them again, were it started with the server
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_main_module() -> Generator[None]:
    """Keep workers from importing the user's script: they do not need it, and it may lack the `__main__` guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
