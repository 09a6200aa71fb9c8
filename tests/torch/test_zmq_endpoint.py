"""Ranks on several hosts, as several contexts in one process here: what arrives, and who is let in."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

zmq: Any = pytest.importorskip("zmq")

from erasurehead.errors import EngineError, InvalidArgument  # noqa: E402
from erasurehead.torch._endpoints import zmq as hosts  # noqa: E402
from erasurehead.torch._endpoints.zmq import BEAT, PIECE, ZmqEndpoint  # noqa: E402

from ..bounded import PATIENCE  # noqa: E402

MB = 1 << 20


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(os.urandom(32).hex().encode())
    path.chmod(0o600)
    return path


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def rank_of(rank: int, port: int, secret: Path | None = None, most: int = 64 * MB) -> Generator[ZmqEndpoint]:
    end = ZmqEndpoint("team", rank, 3, ("127.0.0.1", port), secret, trusted_network=secret is None)
    if most:
        end.reserve(most)
    try:
        yield end
    finally:
        end.close()


Said = tuple[int, bytes, float | None]


def until(ready: Callable[[], bool], *ends: ZmqEndpoint, seconds: float = PATIENCE) -> list[Said]:
    """Let ends receive until something is so; return what came."""
    found: list[Said] = []
    deadline = time.monotonic() + seconds
    while not ready() and time.monotonic() < deadline:
        for end in ends:
            found += received(end)
        time.sleep(1e-3)
    assert ready()
    return found


def received(end: ZmqEndpoint) -> list[Said]:
    return [(m.sender, m.head, None if m.vector is None else float(m.vector.sum())) for m in end.receive()]


def taken(end: ZmqEndpoint, count: int, *others: ZmqEndpoint) -> list[Said]:
    found: list[Said] = []

    def enough() -> bool:
        found.extend(received(end))
        return len(found) >= count

    until(enough, *(other for other in others if other is not end))
    return found


@pytest.mark.parametrize("safe", [True, False])
def test_ranks_find_each_other_by_one_address_and_messages_come_in_order(port: int, secret: Path, safe: bool) -> None:
    key = secret if safe else None
    with rank_of(2, port, key) as third, rank_of(1, port, key) as second, rank_of(0, port, key) as first:
        for to in (first, third):
            for number in range(300):
                second.send(to.rank, b"%d" % number)
            assert taken(to, 300, first, second, third) == [(1, b"%d" % number, None) for number in range(300)]
        third.send(1, b"back", np.ones(3))
        assert taken(second, 1, first, third) == [(2, b"back", 3.0)]


@pytest.mark.parametrize("length", [0, 1, PIECE // 4, PIECE // 4 + 1, 2_500_000])
def test_vectors_come_whole(port: int, secret: Path, length: int) -> None:
    with rank_of(0, port, secret) as first, rank_of(1, port, secret) as second:
        vector = np.arange(length, dtype=np.float32)
        second.send(0, b"v", vector)
        second.send(0, b"w")
        vector[:] = 0.0  # it may change at once
        (_, head, total), after = taken(first, 2, second)
        assert head == b"v"
        assert total == pytest.approx(length * (length - 1) / 2, rel=1e-4)
        assert after == (1, b"w", None)


def test_what_must_not_wait_comes_before_a_vector_that_is_on_its_way(port: int, secret: Path) -> None:
    with rank_of(0, port, secret) as first, rank_of(1, port, secret) as second:
        heard: list[Said] = []

        def connected() -> bool:
            second.hurry(0, b"now")  # it is lost as long as there is no connection
            heard.extend(received(first))
            return (1, b"now", None) in heard

        until(connected, second)
        second.send(0, b"v", np.ones(8 * MB, np.float32))
        list(second.receive())
        second.hurry(0, b"view", np.arange(4))
        while (1, b"v", 8.0 * MB) not in heard:
            heard += taken(first, 1, second)
        assert heard.index((1, b"view", 6.0)) < heard.index((1, b"v", 8.0 * MB))


def test_of_vectors_that_nobody_reads_the_newest_come(port: int) -> None:
    with rank_of(0, port) as first, rank_of(1, port) as second:
        second.send(0, b"first")
        assert taken(first, 1, second)
        for number in range(10):
            second.send(0, b"v", np.full(1, number, np.float32))
            second.send(0, b"w")
            list(second.receive())
        found = [total for _, head, total in taken(first, 14, second) if head == b"v"]
        assert found == [0, 1, 8, 9]


def test_a_message_counts_as_read_also_where_the_reader_stops_after_it(port: int) -> None:
    with rank_of(0, port) as first, rank_of(1, port) as second:
        heads: list[bytes] = []

        def one() -> bool:
            for message in first.receive():
                heads.append(message.head)
                break
            return len(heads) == 40

        for number in range(40):
            second.send(0, b"%d" % number, np.ones(10))
            until(lambda: one() or len(heads) > number, second)  # noqa: B023
        assert heads == [b"%d" % number for number in range(40)]


def test_a_vector_waits_until_it_was_agreed_how_large_they_are(port: int) -> None:
    with rank_of(0, port, most=0) as first, rank_of(1, port) as second:
        second.send(0, b"before")
        second.send(0, b"v", np.ones(1_000_000, np.float32))
        assert taken(first, 1, second) == [(1, b"before", None)]
        begin = time.monotonic()
        assert not until(lambda: time.monotonic() > begin + 0.5, first, second)
        first.reserve(4_000_000)
        assert taken(first, 1, second) == [(1, b"v", 1_000_000.0)]


class Broken:
    """Stands between two ranks, and loses what it is told to, without a word."""

    def __init__(self, end: ZmqEndpoint) -> None:
        self.end, self.lose = end, 0.0
        self.random = np.random.default_rng(0)
        self.lost = 0
        self._plain = end._on_frames
        end._on_frames = self.frames  # type: ignore[method-assign]

    def frames(self, parts: list[memoryview]) -> None:
        if self.random.random() < self.lose:
            self.lost += 1
            return
        self._plain(parts)


def test_what_a_broken_connection_loses_is_sent_again(port: int) -> None:
    with rank_of(0, port) as first, rank_of(1, port) as second:
        second.send(0, b"begin")
        assert taken(first, 1, second)
        between = Broken(first)
        between.lose = 0.05
        found: list[Said] = []
        for number in range(60):
            second.send(0, b"%d" % number)
            if number % 10 == 0:
                second.send(0, b"v", np.full(3 * PIECE // 4, 1.0, np.float32))
                want = number + number // 10 + 2
                found += taken(first, want - len(found), second)
        words = [head for _, head, total in found if total is None]
        found += taken(first, 66 - len(found), second)
        words = [head for _, head, total in found if total is None]
        assert words == [b"%d" % number for number in range(60)]
        assert [total for _, _, total in found if total is not None] == [3 * PIECE // 4] * 6
        assert between.lost


def test_who_comes_later_has_a_number_of_its_own(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with rank_of(0, port) as first:
        with rank_of(1, port) as second:
            second.send(0, b"old")
            assert taken(first, 1, second) == [(1, b"old", None)]
        with rank_of(1, port) as again:
            again.send(0, b"new")
            until(lambda: "there are two ranks 1, and one that comes later needs" in caplog.text, first, again)
            assert not pump(3 * BEAT, first, again)
        with rank_of(7, port) as later:
            later.send(0, b"new")
            assert taken(first, 1, later) == [(7, b"new", None)]
            first.send(7, b"welcome")
            assert taken(later, 1, first) == [(0, b"welcome", None)]
        assert first.lost([1]) == frozenset()


# Hostile


def knocks(port: int, secret: Path, work: Callable[[ZmqEndpoint, ZmqEndpoint], None]) -> None:
    """Do something hostile to the port of rank 0; ranks that belong go on meanwhile, and nothing else arrives."""
    with rank_of(0, port, secret) as first, rank_of(1, port, secret) as second:
        second.send(0, b"before")
        assert taken(first, 1, second) == [(1, b"before", None)]
        work(first, second)
        second.send(0, b"after", np.ones(10))
        assert taken(first, 1, second) == [(1, b"after", 10.0)]
        assert set(first._book) == {0, 1}


def call(port: int, **options: Any) -> Any:
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    for name, value in options.items():
        setattr(dealer, name, value)
    dealer.connect(f"tcp://127.0.0.1:{port}")
    return dealer


def hung_up(dealer: Any) -> None:
    context = dealer.context
    dealer.close()
    context.term()


def pump(seconds: float, *ends: ZmqEndpoint) -> list[Said]:
    begin = time.monotonic()
    return until(lambda: time.monotonic() > begin + seconds, *ends)


@pytest.mark.slow
def test_another_secret_is_refused(port: int, secret: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"another secret, as long")
    other.chmod(0o600)

    def work(first: ZmqEndpoint, second: ZmqEndpoint) -> None:
        with rank_of(2, port, other) as stranger:
            stranger.send(0, b"let me in")
            assert not pump(1.0, first, second, stranger)

    knocks(port, secret, work)


def test_who_knows_the_listeners_key_only_is_refused_at_the_door(port: int, secret: Path) -> None:
    def work(first: ZmqEndpoint, second: ZmqEndpoint) -> None:
        assert first._keys is not None
        public, own = zmq.curve_keypair()
        dealer = call(port, curve_serverkey=first._keys.listener[0], curve_publickey=public, curve_secretkey=own)
        dealer.send_multipart([b"x", b"y"])
        assert not pump(0.5, first, second)
        hung_up(dealer)

    knocks(port, secret, work)


def test_who_comes_without_a_key_is_refused(port: int, secret: Path) -> None:
    def work(first: ZmqEndpoint, second: ZmqEndpoint) -> None:
        dealer = call(port)
        dealer.send_multipart([b"x", b"y"])
        assert not pump(0.5, first, second)
        hung_up(dealer)

    knocks(port, secret, work)


@pytest.mark.slow
def test_recorded_traffic_is_worth_nothing(port: int, secret: Path) -> None:
    """A man in the middle passes bytes on, records them, and sends them again."""
    recorded: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as middle:
        middle.settimeout(0.1)
        stop = threading.Event()

        def pass_on() -> None:
            while not stop.is_set():
                try:
                    here, _ = middle.accept()
                except TimeoutError:
                    continue
                there = socket.create_connection(("127.0.0.1", port))
                for source, to in ((here, there), (there, here)):
                    threading.Thread(target=copy, args=(source, to, source is here), daemon=True).start()

        def copy(source: socket.socket, to: socket.socket, keep: bool) -> None:
            with source:
                try:
                    while data := source.recv(1 << 16):
                        if keep:
                            recorded.append(data)
                        to.sendall(data)
                    to.shutdown(socket.SHUT_WR)
                except OSError:
                    return

        proxy = threading.Thread(target=pass_on)
        proxy.start()

        def work(first: ZmqEndpoint, second: ZmqEndpoint) -> None:
            own_port = middle.getsockname()[1]
            end = ZmqEndpoint("team", 2, 3, ("127.0.0.1", own_port), secret)
            try:
                end.send(0, b"pay me")
                assert taken(first, 1, second, end) == [(2, b"pay me", None)]
            finally:
                end.close()
            stop.set()
            first._book.pop(2, None)
            second._book.pop(2, None)
            with socket.create_connection(("127.0.0.1", port)) as again:
                for data in recorded:
                    try:
                        again.sendall(data)
                    except OSError:
                        break
                assert not pump(0.5, first, second)
            first._book.pop(2, None)

        try:
            knocks(port, secret, work)
        finally:
            stop.set()
            proxy.join()


def test_a_scan_a_slow_stranger_and_other_protocols_hold_nobody_up(port: int, secret: Path) -> None:
    def work(first: ZmqEndpoint, second: ZmqEndpoint) -> None:
        open_ones: list[socket.socket] = []
        for said in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" * 100, os.urandom(1_000), b"\xff" + b"\0" * 9):
            for _ in range(5):
                connection = socket.create_connection(("127.0.0.1", port))
                if said:
                    connection.sendall(said)
                open_ones.append(connection)
        assert not pump(0.5, first, second)
        second.send(0, b"meanwhile")
        assert taken(first, 1, second) == [(1, b"meanwhile", None)]
        for connection in open_ones:
            connection.close()

    knocks(port, secret, work)


HEADER = struct.Struct("<4sHBBI8sqqIqqq")


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([b"x", b"y"], "no message of a rank"),
        ([b"x" * HEADER.size], "no message of a rank"),
        ([("magic", b"what"), b""], "does not begin as ranks do"),
        ([("team", b"12345678"), b""], "or it is another team's"),
        ([("rank", 0), b""], "there is no other rank 0"),
        ([("rank", 1 << 20), b""], "there is no other rank 1048576"),
        ([("kind", 2), ("nbytes", 1 << 60), b""], "a vector of 1152921504606846976 bytes, where at most 67108864"),
        ([("kind", 2), ("nbytes", -4), b""], "a vector of -4 bytes"),
        ([("kind", 2), ("dtype", 200), b""], "no type of elements number 200"),
        ([("kind", 2), ("nbytes", 5), b""], "a vector of 5 bytes"),
        ([("kind", 4), ("nbytes", 8), b"short"], "a vector of 8 bytes in a message of 5"),
        ([("kind", 9), b""], "a message of kind 9"),
        ([("kind", 0), b"short"], "a sign of life of 5 bytes"),
        ([("kind", 0), b"\0" * 28 + b"9 nowhere"], "says where ranks are, and that is nowhere"),
    ],
)
def test_nonsense_in_a_trusted_network_is_ignored(
    port: int, frames: list[Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with rank_of(0, port) as first, rank_of(1, port) as second:
        second.send(0, b"before")
        assert taken(first, 1, second)
        fields: dict[str, Any] = {
            "magic": b"ehtz",
            "version": 1,
            "kind": 1,
            "dtype": 0,
            "rank": 2,
            "team": first._team,
            "began": 1,
            "ours": first._began,
            "tries": 0,
            "number": 1,
            "nbytes": 0,
            "offset": 0,
        }
        changed = dict(part for part in frames if isinstance(part, tuple))
        sent = [part for part in frames if isinstance(part, bytes)]
        dealer = call(port)
        dealer.send_multipart([HEADER.pack(*{**fields, **changed}.values()), *sent] if changed else sent)
        assert not until(lambda: why in caplog.text, first, second, seconds=20)
        second.send(0, b"after")
        assert taken(first, 1, second) == [(1, b"after", None)]
        hung_up(dealer)


def test_a_frame_that_is_too_long_is_refused_before_there_is_memory_for_it(port: int) -> None:
    with rank_of(0, port) as first, rank_of(1, port) as second:
        dealer = call(port)
        dealer.send_multipart([b"x", bytes(64 * MB)])
        assert not pump(0.5, first, second)
        with socket.create_connection(("127.0.0.1", port)) as raw:  # ZMTP 3.0 without security, then 2**62 bytes
            raw.sendall(b"\xff" + b"\0" * 8 + b"\x7f\x03\0NULL" + b"\0" * 48)
            raw.sendall(b"\x04\x26\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0"[:40])
            raw.sendall(b"\x02" + struct.pack(">Q", 1 << 62) + b"x" * 100)
            assert not pump(0.5, first, second)
        second.send(0, b"after")
        assert taken(first, 1, second) == [(1, b"after", None)]
        hung_up(dealer)


def test_another_version_is_named(port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with rank_of(0, port) as first, rank_of(1, port) as second:
        made = hosts._HEADER.pack
        odd = {second.rank}

        class Header:
            size = hosts._HEADER.size
            unpack = hosts._HEADER.unpack

            @staticmethod
            def pack(magic: bytes, version: int, kind: int, dtype: int, rank: int, *rest: Any) -> bytes:
                return made(magic, 2 if rank in odd else version, kind, dtype, rank, *rest)

        monkeypatch.setattr(hosts, "_HEADER", Header)
        until(lambda: "rank 1 speaks version 2 of what ranks say, and rank 0 version 1" in caplog.text, first, second)
        odd.clear()
        odd.add(0)
        with pytest.raises(EngineError, match=r"rank 0 speaks version 2 .* and rank 1 version 1: install the same"):
            pump(PATIENCE, first, second)


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (None, 0o600, r"secret_file must be given where ranks are on several hosts; write a secret to a file"),
        (b"short", 0o600, "secret_file must hold at least 16 bytes"),
        (b"long enough, but for all to read", 0o644, "secret_file must be readable by its owner only, .* chmod 600"),
        (b"gone", 0, r"secret_file must be a file that can be read \(No such file or directory\)"),
    ],
)
def test_without_a_good_secret_nothing_begins(
    tmp_path: Path, port: int, content: bytes | None, mode: int, why: str
) -> None:
    path = tmp_path / "secret"
    if content is not None and mode:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(InvalidArgument, match=why):
        ZmqEndpoint("team", 0, 3, ("127.0.0.1", port), None if content is None else path)


def test_a_port_that_is_taken_is_named(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_BIND", 0.1)
    with (
        rank_of(0, port),
        pytest.raises(EngineError, match=rf"rank 0 cannot listen at port {port}: Address already in use\."),
        rank_of(0, port),
    ):
        pass
    with pytest.raises(EngineError, match=r"the host of rank 0, no\.such\.host\.invalid, cannot be found"):
        ZmqEndpoint("team", 1, 3, ("no.such.host.invalid", port), trusted_network=True)
