"""Ranks on several hosts: ZeroMQ's connections, encrypted with keys that are made from a secret that all ranks have.

Authentication, encryption, reconnection and back-pressure are ZeroMQ's. What it leaves open is done here: who is where
(each rank tells what it knows), messages that a broken connection has lost (they are numbered, and sent again), vectors
in pieces, so that none is so large that signs of life wait for it, and a connection of its own for what must not wait
for vectors at all: on slow lines a model takes longer than a silence after which a rank is taken for dead. Over a
network no end is certain, so `lost` never names anybody.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines._peer_channels import PeerMessage, each
from erasurehead.errors import EngineError, MissingExtra
from erasurehead.torch._endpoints._base import (
    MOST_RANKS,
    VERSION,
    Nonsense,
    RankEndpoint,
    forget_in_forked,
    number_of,
    vector_type,
)
from erasurehead.torch._endpoints._keys import Keys, read_secret
from erasurehead.torch._endpoints._numbered import Inlet, Outlet, Sent

try:
    import zmq as _zmq
    from zmq.utils.z85 import encode as z85
except ImportError:
    raise MissingExtra("A team on several hosts needs pyzmq: pip install 'erasurehead[torch]'.") from None

zmq: Any = _zmq  # its constants are made when it is imported
logger = logging.getLogger("erasurehead")

_HEADER = struct.Struct("<4sHBBI8sqqIqqq")
"""Magic, version, kind, dtype, rank, team, when the sender began and when it thinks that the receiver did, how often it
has begun again, number of the message, bytes of its vector, and where in it a piece begins."""

_STATE = struct.Struct("<qqIq")
"""Of a beat: the last message of yours that was read; from which one on they are to be sent again, how often that was
asked for; our last one."""

_MAGIC = b"ehtz"
_BEAT, _WORDS, _VECTOR, _PIECE, _HASTY = range(5)

BEAT = 0.25
"""Seconds between two signs of life."""

PIECE = 1 << 17
"""Bytes of a vector that are sent at once."""

_MOST_FRAME = PIECE + 1024
_WATER = 16  # pieces that ZeroMQ holds for a connection on each side
_DEAD = 10_000  # milliseconds without an answer after which a connection is made anew: TCP alone would wait for minutes
_HANDSHAKE = 5_000  # milliseconds that a stranger has to prove itself
_BIND = 10.0  # seconds until the port of a rank that was started again must be free


@final
class ZmqEndpoint(RankEndpoint):
    """A rank's end of the ways to others on any hosts.

    Arguments:
        team: equal for all ranks of the team, and for no other team.
        rank: number of this rank.
        size: ranks 0 to `size` - 1 are looked for; of others we hear when they come.
        contact: where one rank can be reached, which listens there: host and port.
        secret_file: a file that only its owner can read, with at least 16 bytes, the same for all ranks.
        trusted_network: do without a secret, where nobody else can reach the ports.
        listens: whether this is that rank; by default rank 0 is.

    Raises:
        InvalidArgument: if there is neither a secret nor trust, or the secret is none.
        EngineError: if the port is taken.
    """

    def __init__(
        self,
        team: str,
        rank: int,
        size: int,
        contact: tuple[str, int],
        secret_file: str | os.PathLike[str] | None = None,
        trusted_network: bool = False,
        listens: bool | None = None,
    ) -> None:
        listens = rank == 0 if listens is None else listens
        host = contact[0] if listens else _own_address(contact)
        secret = read_secret(secret_file, trusted_network)
        self.rank, self._began = rank, time.time_ns()
        self._team = hashlib.sha256(team.encode()).digest()[:8]
        self._due = 0.0  # when the next sign of life is
        self._most = 0
        self._outlets: dict[int, Outlet] = {}
        self._inlets: dict[int, Inlet] = {}
        self._found: deque[tuple[int, Inlet, int, PeerMessage]] = deque()
        self._to_tell: set[int] = set()  # ranks that are to hear at once what was read of them
        self._odd: set[int] = set()  # ranks of other versions, and when those began whose number another has
        self._driver = 0
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._open = True
        self._context = zmq.Context()
        self._keys = keys = None if secret is None else Keys.of_team(team, secret)
        self._doorman: Any = None
        if keys is not None:
            self._doorman = self._context.socket(zmq.REP)
            self._doorman.bind("inproc://zeromq.zap.01")
        self._router = self._socket(zmq.ROUTER)
        if keys is not None:
            self._router.curve_server = True
            self._router.zap_domain = b"erasurehead"
            self._router.curve_publickey, self._router.curve_secretkey = keys.listener
        self._book: dict[int, str] = {rank: f"{host}:{self._bound(contact[1] if listens else 0)}"}
        for other in range(size):
            if other != rank:
                self._outlet(other)
        if not listens:
            self._meet(0, f"{contact[0]}:{contact[1]}")
        forget_in_forked(self)

    @property
    def others(self) -> Collection[int]:
        return self._outlets.keys()

    def _socket(self, kind: int) -> Any:
        made = self._context.socket(kind)
        made.linger = 0
        made.maxmsgsize = _MOST_FRAME
        made.rcvhwm = made.sndhwm = _WATER
        made.handshake_ivl = _HANDSHAKE
        made.heartbeat_ivl, made.heartbeat_timeout, made.heartbeat_ttl = 2_000, _DEAD, _DEAD
        made.reconnect_ivl, made.reconnect_ivl_max = 100, 2_000
        made.connect_timeout = 5_000
        return made

    def _bound(self, port: int) -> int:
        deadline = time.monotonic() + _BIND
        while True:
            try:
                self._router.bind(f"tcp://*:{port or '*'}")
                return int(self._router.last_endpoint.decode().rpartition(":")[2])
            except zmq.ZMQError as error:
                if time.monotonic() < deadline and error.errno == zmq.EADDRINUSE:
                    time.sleep(0.1)
                    continue
                self.close()
                raise EngineError(
                    f"rank {self.rank} cannot listen at port {port}: {os.strerror(error.errno)}."
                ) from None

    def _meet(self, rank: int, address: str) -> None:
        """Write to a rank at an address from now on."""
        outlet = self._outlet(rank)
        if outlet.address == address or rank == self.rank:
            return
        if outlet.socket is not None:
            outlet.socket.close()
            outlet.express.close()
        outlet.address = address
        outlet.socket, outlet.express = self._call(rank, address), self._call(rank, address)
        self._due = 0.0
        self._book[rank] = address

    def _call(self, rank: int, address: str) -> Any:
        """Return a connection to a rank."""
        made = self._socket(zmq.DEALER)
        made.immediate = True  # nothing is given to a connection that is not there
        if self._keys is not None:
            made.curve_serverkey = self._keys.listener[0]
            made.curve_publickey, made.curve_secretkey = self._keys.caller
        try:
            made.connect(f"tcp://{address}")
        except zmq.ZMQError as error:
            raise EngineError(f"rank {rank} is said to be at {address}, which is no address: {error}.") from None
        return made

    def _outlet(self, rank: int) -> Outlet:
        outlet = self._outlets.get(rank)
        if outlet is None:
            outlet = self._outlets[rank] = Outlet()
        return outlet

    # What goes out

    def reserve(self, nbytes: int) -> None:
        first, self._most = not self._most, max(self._most, nbytes)
        if first:
            for rank, inlet in self._inlets.items():
                self._ask(rank, inlet)
            self.wake()

    def send(self, to: int | Sequence[int], head: bytes, vector: Array | None = None) -> None:
        message = Sent.of(head, vector)
        for rank in each(to):
            if rank != self.rank:
                self._outlet(rank).add(message)
        self._let_go_out()

    def hurry(self, to: int | Sequence[int], head: bytes, vector: Array | None = None) -> None:
        message = Sent.of(head, vector)
        for rank in each(to):
            if rank != self.rank:
                self._outlet(rank).hasty.append(message)
                if vector is not None:  # it is said again later than words are, if it was lost
                    self._outlet(rank).add(message)
        self._let_go_out()

    def _let_go_out(self) -> None:
        if threading.get_ident() != self._driver:  # only the thread that waits may use the sockets
            self.wake()

    def _header(self, outlet: Outlet, kind: int, dtype: int = 0, nbytes: int = 0, offset: int = 0) -> bytes:
        number = 0 if kind == _BEAT else outlet.next
        ends = self.rank, self._team, self._began, outlet.began
        return _HEADER.pack(_MAGIC, VERSION, kind, dtype, *ends, outlet.tries, number, nbytes, offset)

    def _flush(self, outlet: Outlet) -> None:
        """Give ZeroMQ what it takes."""
        try:
            while outlet.ready:
                head, vector = outlet.kept[outlet.next - outlet.first]
                if vector is None:
                    outlet.socket.send_multipart([self._header(outlet, _WORDS), head], zmq.NOBLOCK)
                elif outlet.offset < 0:
                    header = self._header(outlet, _VECTOR, number_of(vector.dtype), vector.nbytes)
                    outlet.socket.send_multipart([header, head], zmq.NOBLOCK)
                    outlet.offset = 0
                if vector is not None:
                    data = memoryview(cast("Any", vector)).cast("B") if vector.nbytes else memoryview(b"")
                    while outlet.offset < len(data):
                        piece = data[outlet.offset : outlet.offset + PIECE]
                        header = self._header(outlet, _PIECE, 0, len(data), outlet.offset)
                        outlet.socket.send_multipart([header, piece], zmq.NOBLOCK, copy=False)
                        outlet.offset += len(piece)
                outlet.next, outlet.offset = outlet.next + 1, -1
        except zmq.Again:
            pass

    def _hasten(self, outlet: Outlet) -> None:
        """Send what must not wait; it is said again if it was lost, as it is where there is no connection yet."""
        hasty, outlet.hasty = outlet.hasty, []
        with contextlib.suppress(zmq.Again):
            for head, vector in hasty if outlet.began else ():
                dtype, data = (0, b"") if vector is None else (number_of(vector.dtype), vector.tobytes())
                header = self._header(outlet, _HASTY, dtype, len(data))
                outlet.express.send_multipart([header, head + data], zmq.NOBLOCK)

    def _beat(self, rank: int, outlet: Outlet, book: bool) -> None:
        """Tell a rank what was read of it, and perhaps where all ranks are."""
        inlet = self._inlets.get(rank)
        told = (0, 0, 0) if inlet is None else (inlet.through, inlet.expected, inlet.tries)
        body = _STATE.pack(*told, outlet.next - 1)
        if book:
            body += "\n".join(f"{number} {address}" for number, address in self._book.items()).encode()
        with contextlib.suppress(zmq.Again):
            outlet.socket.send_multipart([self._header(outlet, _BEAT), body], zmq.NOBLOCK)

    # What comes in

    def receive(self, copy: bool = True) -> Iterator[PeerMessage]:
        self._driver = threading.get_ident()
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        self._open_doors()
        for _ in range(16 * _WATER):
            try:
                parts = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            try:
                self._on_frames([part.buffer for part in parts])
            except Nonsense as error:
                logger.warning("What came at the port of rank %s was ignored: %s.", self.rank, error)
        beats = time.monotonic() >= self._due
        if beats:
            self._due = time.monotonic() + BEAT
        self._go_out(beats)
        while self._found:
            rank, inlet, number, message = self._found.popleft()
            try:
                yield message
            finally:  # also where nothing more is asked for now
                inlet.through = number
                if message.vector is not None:
                    self._to_tell.add(rank)
        self._go_out(False)

    def _go_out(self, beats: bool) -> None:
        for rank, outlet in self._outlets.items():
            if outlet.socket is None:
                continue
            self._hasten(outlet)
            self._flush(outlet)
            if beats or rank in self._to_tell:
                self._beat(rank, outlet, beats)
        self._to_tell.clear()

    def _open_doors(self) -> None:
        """Say who may come in: whoever has the key that is made from the secret."""
        while self._doorman is not None:
            try:
                asked = self._doorman.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            known = self._keys is not None and len(asked) == 7 and z85(asked[6]) == self._keys.caller[0]
            answer = [b"200", b"OK"] if known and asked[5] == b"CURVE" else [b"400", b"no rank of this team"]
            self._doorman.send_multipart([asked[0], asked[1], *answer, b"", b""])

    def _on_frames(self, parts: list[memoryview]) -> None:
        if len(parts) != 3 or len(parts[1]) != _HEADER.size:
            raise Nonsense(f"{len(parts)} frames that are no message of a rank")
        magic, version, kind, dtype, rank, team, began, ours, tries, *which = _HEADER.unpack(parts[1])
        body = parts[2]
        if magic != _MAGIC:
            raise Nonsense("it does not begin as ranks do")
        if version != VERSION:
            self._on_version(rank, version)
            return
        if team != self._team or rank == self.rank or rank >= MOST_RANKS:
            raise Nonsense(f"there is no other rank {rank} in this team, or it is another team's")
        inlet = self._inlets.get(rank)
        if inlet is None:
            inlet = self._inlets[rank] = Inlet(began)
            self._outlet(rank).began = began
        elif began != inlet.began:
            if began not in self._odd:
                self._odd.add(began)
                raise Nonsense(f"there are two ranks {rank}, and one that comes later needs a number of its own")
            return
        new = ours == self._began and tries >= inlet.tries  # and not meant for an earlier process, or sent again since
        if kind == _BEAT:
            self._on_beat(rank, inlet, ours, new, body)
        elif kind == _HASTY:
            if ours == self._began:
                self._on_hasty(rank, inlet, dtype, body, which[1])
        elif new:
            self._on_message(rank, inlet, kind, dtype, body, *which)

    def _on_version(self, rank: int, version: int) -> None:
        if rank in self._odd:
            return
        self._odd.add(rank)
        why = (
            f"rank {rank} speaks version {version} of what ranks say, and rank {self.rank} version {VERSION}: install "
            "the same version of erasurehead for all ranks"
        )
        if rank == 0:
            raise EngineError(f"{why}.")
        logger.warning("%s.", why)

    def _on_beat(self, rank: int, inlet: Inlet, ours: int, new: bool, body: memoryview) -> None:
        if len(body) < _STATE.size:
            raise Nonsense(f"a sign of life of {len(body)} bytes")
        through, again, tries, last = _STATE.unpack_from(body)
        outlet = self._outlet(rank)
        if ours == self._began:
            outlet.through(through)
            outlet.again(again, tries)
        if new and last >= inlet.expected:  # it was sent before this, on the same connection or one that broke
            self._ask(rank, inlet)
        for line in bytes(body[_STATE.size :]).decode("ascii", "replace").splitlines():
            number, _, address = line.partition(" ")
            host, _, port = address.rpartition(":")
            if not (number.isdigit() and int(number) < MOST_RANKS and host and port.isdigit() and len(address) < 300):
                raise Nonsense("it says where ranks are, and that is nowhere")
            if int(number) == rank or int(number) not in self._book:
                self._meet(int(number), address)

    def _ask(self, rank: int, inlet: Inlet) -> None:
        """Ask for what was lost once more; each beat repeats that, until it comes."""
        if self._most:
            inlet.tries += 1
            inlet.vector = None
            self._to_tell.add(rank)

    def _on_message(
        self, rank: int, inlet: Inlet, kind: int, dtype: int, body: memoryview, number: int, nbytes: int, offset: int
    ) -> None:
        if number < inlet.expected:
            return
        if number > inlet.expected or (kind == _PIECE and (inlet.vector is None or offset != inlet.got)):
            self._ask(rank, inlet)
            return
        if kind == _WORDS:
            self._complete(rank, inlet, PeerMessage(rank, bytes(body), None))
        elif kind == _VECTOR:
            own = vector_type(dtype)
            if nbytes < 0 or nbytes % own.itemsize or nbytes > self._most > 0:
                raise Nonsense(f"a vector of {nbytes} bytes, where at most {self._most} were agreed on")
            if not self._most:
                return  # it is asked for when it is agreed how large vectors are
            inlet.head, inlet.vector, inlet.got = bytes(body), np.empty(nbytes // own.itemsize, own), 0
            if not nbytes:
                self._complete(rank, inlet, PeerMessage(rank, inlet.head, inlet.vector))
        elif kind == _PIECE and inlet.vector is not None:
            room = memoryview(cast("Any", inlet.vector)).cast("B")
            if not 0 < len(body) <= len(room) - offset:
                raise Nonsense(f"a piece of {len(body)} bytes at {offset} of a vector of {len(room)}")
            room[offset : offset + len(body)] = body
            inlet.got += len(body)
            if inlet.got == len(room):
                self._complete(rank, inlet, PeerMessage(rank, inlet.head, inlet.vector))
        else:
            raise Nonsense(f"a message of kind {kind}")

    def _on_hasty(self, rank: int, inlet: Inlet, dtype: int, body: memoryview, nbytes: int) -> None:
        own, begin = vector_type(dtype), len(body) - nbytes
        if nbytes < 0 or begin < 0 or nbytes % own.itemsize:
            raise Nonsense(f"a vector of {nbytes} bytes in a message of {len(body)}")
        if nbytes and not self._most:
            return
        vector = np.frombuffer(bytes(body[begin:]), own) if nbytes else None
        self._found.append((rank, inlet, inlet.expected - 1, PeerMessage(rank, bytes(body[:begin]), vector)))

    def _complete(self, rank: int, inlet: Inlet, message: PeerMessage) -> None:
        self._found.append((rank, inlet, inlet.expected, message))
        inlet.expected += 1
        inlet.vector = None

    # Who is there

    def lost(self, workers: Collection[int]) -> frozenset[int]:
        return frozenset()

    def wait(self, until: float) -> None:
        self._driver = threading.get_ident()
        if self._found or self._to_tell:
            return
        poller = zmq.Poller()
        poller.register(self._bell, zmq.POLLIN)
        poller.register(self._router, zmq.POLLIN)
        if self._doorman is not None:
            poller.register(self._doorman, zmq.POLLIN)
        for outlet in list(self._outlets.values()):
            if outlet.socket is not None and outlet.ready:
                poller.register(outlet.socket, zmq.POLLOUT)
        seconds = min(until, self._due) - time.monotonic()
        if seconds > 0:
            poller.poll(int(1e3 * seconds) + 1)

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._bell, 1)

    def forget(self) -> None:
        if self._open:
            self._open = False
            os.close(self._bell)  # the sockets are their own process's

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        deadline = time.monotonic() + 1.0  # what was said last shall arrive
        while any(outlet.ready for outlet in self._outlets.values()) and time.monotonic() < deadline:
            self._go_out(False)
            time.sleep(1e-3)
        for outlet in self._outlets.values():
            if outlet.socket is not None:
                outlet.socket.close(linger=500)
                outlet.express.close(linger=500)
        for end in (getattr(self, "_router", None), self._doorman):
            if end is not None:
                end.close()
        self._context.term()
        os.close(self._bell)


def _own_address(contact: tuple[str, int]) -> str:
    """Return the address from which this host reaches the contact."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect(contact)
            return str(way.getsockname()[0])
    except OSError as error:
        raise EngineError(f"the host of rank 0, {contact[0]}, cannot be found: {error}.") from None
