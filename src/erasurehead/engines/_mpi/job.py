"""What the ranks of a job other than the coordinator do."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NoReturn

from erasurehead._internal.signals import ENDING
from erasurehead.engines._base import told
from erasurehead.engines._lane import CoordinatorGone, Ends, Pipes
from erasurehead.engines._mpi.channel_transport import ChannelTransport
from erasurehead.engines._mpi.command_channel import CommandChannel, Recalled
from erasurehead.engines._mpi.peer_channels import open_channels
from erasurehead.engines._mpi.rank_directory import part_at_exit
from erasurehead.engines._mpi.rendezvous import Place, leave, rendezvous
from erasurehead.engines._mpi.start import START_LIMIT
from erasurehead.engines._mpi.transport import Frame, Gone, Tag, read_head, world
from erasurehead.engines._one_thread import one_thread
from erasurehead.engines._packed_program import unpack
from erasurehead.engines._shared_memory import accept
from erasurehead.errors import EngineError

if TYPE_CHECKING:
    from mpi4py import MPI


def serve(comm: MPI.Intracomm | None = None) -> None:
    """Serve the engines of rank 0, one after the other, until rank 0 ends. Every other rank must call this.

    Ends the process at once if rank 0 is killed.

    Arguments:
        comm: communicator of the job's ranks, the same on all of them; by default all ranks.

    Raises:
        EngineError: on rank 0, or if the ranks do not find each other.
        MissingExtra: if mpi4py is not installed.
    """
    atexit.register(leave, _served(world(comm)))


def _served(comm: MPI.Intracomm) -> bool:
    """Serve; return whether all ranks lived to the end."""
    one_thread()
    if comm.Get_rank() == 0:
        raise EngineError("rank 0 coordinates: it makes an MPIEngine; only the other ranks call serve().")
    with _ending_ignored():
        link, places = rendezvous(comm, math.inf)
        assert link.beside is not None
        open_channels(link.beside)
        try:
            return _serve(CommandChannel(link))
        except Gone:
            _end_with_coordinator(places, comm.Get_rank())


def serve_unless_coordinator(
    comm: MPI.Intracomm | None = None, say: Callable[[str], None] | None = None, start_limit: float = START_LIMIT
) -> None:
    """Serve on every rank but 0, and end the process after that; on rank 0 return at once.

    The other ranks end with rank 0, even if it never makes an engine.

    Arguments:
        comm: as for `serve`.
        say: shows a sentence to people, saying that this rank serves.
        start_limit: seconds that MPI may take to start, if this call starts it.
    """
    comm = world(comm, start_limit)
    if comm.Get_rank() == 0:
        part_at_exit(comm)
        return
    if say is not None:
        say(f"rank {comm.Get_rank()} of {comm.Get_size()} serves on {socket.gethostname()}")
    whole = _served(comm)
    sys.stdout.flush()
    sys.stderr.flush()
    leave(whole)
    os._exit(0)  # nothing is left to clean up, and interpreter shutdown would take longer


def _serve(channel: CommandChannel) -> bool:
    """Follow the coordinator until it ends the job; return whether all ranks are alive."""
    while True:
        tag, frame = channel.take_recall()
        if tag == Tag.END:
            channel.life = 0
            channel.report("ended")
        if tag == Tag.LEAVE:
            channel.report("left")
            (whole,), _ = read_head(frame)
            return whole
        if tag == Tag.DISMISS:
            (channel.life,), _ = read_head(frame)
            channel.report("idle")
        elif tag == Tag.ASSIGN:
            with contextlib.suppress(Recalled):
                _work(channel, frame)


def _work(channel: CommandChannel, frame: Frame) -> None:
    """Take a program, and answer orders with it until recalled."""
    (life, number, late, head, tails, sizes, offered), _ = read_head(frame)
    channel.life = life
    arrays = channel.arrays(sizes, tails)
    ends: Ends | None = accept(offered)
    with contextlib.suppress(CoordinatorGone), contextlib.nullcontext() if ends is None else contextlib.closing(ends):
        try:
            program, delays = unpack(head, arrays)
            transport = ChannelTransport(channel, program) if ends is None else Pipes(ends)
        except Exception as error:
            channel.report("broken", told(error))
            return
        channel.joined(ends is not None)
        for answer in transport.answers(number, program, delays, late):
            transport.send(answer)


def _end_with_coordinator(places: list[Place], own: int) -> NoReturn:
    """End this process, and wake stopped ones on this machine, so that they notice it too."""
    for rank, place in enumerate(places):
        if rank != 0 and place.machine == places[own].machine:
            with contextlib.suppress(OSError):
                os.kill(place.pid, signal.SIGCONT)
    os._exit(1)


@contextlib.contextmanager
def _ending_ignored() -> Generator[None]:
    """Leave Ctrl-C and its kin, which reach the whole job, to the coordinator."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
