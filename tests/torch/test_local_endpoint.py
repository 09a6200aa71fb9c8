"""Ranks beside each other on one host: who is let in, what arrives, and what is left when one is killed."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.errors import EngineError
from erasurehead.torch._endpoints._base import VERSION
from erasurehead.torch._endpoints._mapped import File, Mapped
from erasurehead.torch._endpoints.local import LocalEndpoint

from ..bounded import PATIENCE, PROMPT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks beside each other need Linux")

MB = 1 << 20


@pytest.fixture
def team() -> str:
    return f"test-{os.getpid()}-{time.monotonic_ns()}"


@contextmanager
def ranks(team: str, size: int, most: int = MB) -> Generator[list[LocalEndpoint]]:
    ends = [LocalEndpoint(team, rank, size) for rank in range(size)]
    for end in ends:
        end.reserve(most)
    try:
        yield ends
    finally:
        for end in ends:
            end.close()


def until(ready: Callable[[], bool], *ends: LocalEndpoint) -> list[Any]:
    """Let ends receive until something is so; return what came."""
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE
    while not ready() and time.monotonic() < deadline:
        for end in ends:
            found += end.receive()
        time.sleep(1e-3)
    assert ready()
    return found


def taken(end: LocalEndpoint, count: int, *others: LocalEndpoint) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        found.extend(end.receive(copy=False))
        return len(found) >= count

    until(enough, *others)
    return found


def read_all(end: LocalEndpoint, count: int, *others: LocalEndpoint) -> tuple[list[bytes], list[float]]:
    """Return heads without vectors, and the first elements of vectors, as they were when each was read."""
    words: list[bytes] = []
    numbers: list[float] = []

    def enough() -> bool:
        for message in end.receive(copy=False):
            if message.vector is None:
                words.append(message.head)
            else:
                numbers.append(float(message.vector[0]))
        return len(words) + len(numbers) >= count

    until(enough, *others)
    return words, numbers


def test_messages_come_whole_and_in_order_also_to_ranks_that_come_later(team: str) -> None:
    with rank_of(team, 0, 3) as first:
        said = [bytes([number % 251]) * (number * 37 % 30_000) for number in range(1_000)]
        for words in said[:500]:
            first.send([1, 2], words)
        with rank_of(team, 1, 3) as second, rank_of(team, 2, 3) as third:
            for words in said[500:]:
                first.send([2, 1], words)
            for end in (second, third):
                assert [(one.sender, one.head) for one in taken(end, 1_000, first)] == [(0, words) for words in said]
            second.send(0, b"back")
            assert taken(first, 1, second)[0] == (1, b"back", None)


@contextmanager
def rank_of(team: str, rank: int, size: int, most: int = MB) -> Iterator[LocalEndpoint]:
    end = LocalEndpoint(team, rank, size)
    end.reserve(most)
    try:
        yield end
    finally:
        end.close()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint16", "int64"])
def test_a_vector_is_written_once_for_all_and_read_where_it_lies(team: str, dtype: str) -> None:
    with ranks(team, 4) as (first, *others):
        vector = np.arange(1_000).astype(dtype)
        first.send([1, 2, 3], b"x", vector)
        for end in others:
            (message,) = taken(end, 1, first)
            assert message.vector is not None
            assert message.vector.dtype == vector.dtype
            assert (message.vector == vector).all()
            assert not message.vector.flags.owndata
            message.vector[:] = 0  # nobody else sees that
        assert places(first) == 1


def test_what_is_unread_is_never_overwritten_and_of_more_the_newest_come(team: str) -> None:
    with ranks(team, 3) as (first, second, third):
        until(lambda: {1, 2} <= first._inlets.keys(), first, second, third)
        for number in range(20):
            first.send([1, 2], b"v", np.full(1_000, number, np.float32))
            first.send([1, 2], b"w%d" % number)
            if number == 0:
                assert [message.head for message in taken(third, 2, first)] == [b"v", b"w0"]
        assert places(first) <= 6  # three are not read, two wait, and one was written before the oldest was left out
        for end, begin, last in ((second, 0, [0, 1, 18, 19]), (third, 1, [1, 2, 18, 19])):
            words, numbers = read_all(end, 24 - begin, first)
            assert numbers == last
            assert words == [b"w%d" % number for number in range(begin, 20)]
        first.send([1, 2], b"", np.zeros(3, np.float32))
        assert places(first) <= 6


def places(end: LocalEndpoint) -> int:
    """Return for how many vectors an end has memory."""
    assert end._places is not None
    return os.fstat(end._places.fd).st_size // end._places.stride


def test_a_vector_waits_until_it_was_agreed_how_large_they_are(team: str) -> None:
    with rank_of(team, 0, 2) as first, rank_of(team, 1, 2, most=0) as second:
        for number in range(5):
            first.send(1, b"x", np.full(10, number, np.float32))
        for _ in range(10):
            assert not [*second.receive(), *first.receive()]
            time.sleep(1e-3)
        second.reserve(40)
        assert read_all(second, 3, first) == ([], [0, 3, 4])


def test_larger_vectors_than_before_find_room(team: str) -> None:
    with ranks(team, 2, most=64 * MB) as (first, second):
        first.reserve(8)
        for length in (10, 1_000_000, 10):
            first.send(1, b"", np.full(length, length, np.float32))
            (message,) = taken(second, 1, first)
            assert message.vector is not None
            assert (len(message.vector), message.vector[-1]) == (length, length)


CHILD = """
import sys, os, time
import numpy as np
from erasurehead.torch._endpoints._mapped import File, Mapped
from erasurehead.torch._endpoints.local import LocalEndpoint
end = LocalEndpoint(sys.argv[1], int(sys.argv[2]), 2)
end.reserve(1 << 20)
end.send(0, b"hello", np.full(1000, 7.0, np.float32))
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(600)
if "end" in sys.argv:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(end.receive()):
        end.wait(time.monotonic() + 1)
    end.close()
    raise SystemExit
print("up", flush=True)
while True:
    list(end.receive())
    end.wait(time.monotonic() + 60)
"""


def rank_process(team: str, rank: int, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, team, str(rank), *words],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def open_files() -> set[str]:
    found: set[str] = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}")
        except OSError:
            continue
    return found


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left_in_shared_memory")
@pytest.mark.parametrize("how", ["alone", "fork"])
def test_a_killed_rank_is_lost_at_once_and_another_takes_its_place(team: str, how: str) -> None:
    before = open_files()
    with rank_of(team, 0, 2) as end:
        lives: list[subprocess.Popen[str]] = []
        for life in range(1, 4):
            child = rank_process(team, life, how)
            lives.append(child)
            with child:
                found = taken(end, 1)
                assert found[0].head == b"hello"
                assert found[0].vector.sum() == 7_000.0
                assert child.stdout.readline() == "up\n"
                assert end.lost([life]) == frozenset()
                os.kill(child.pid, 9)
                begin = time.monotonic()
                while not end.lost([0, life]) and time.monotonic() - begin < PATIENCE:
                    end.wait(begin + PATIENCE)
                    assert not list(end.receive())
                assert time.monotonic() - begin < PROMPT  # forked children live on
                assert end.lost([0, life]) == {life}
                assert found[0].vector.sum() == 7_000.0, life  # its memory is there as long as it is looked at
                if how == "fork":
                    os.killpg(child.pid, 9)
    del found
    assert {line for line in open_files() - before if "pipe" not in line} == set()
    assert team not in Path("/proc/net/unix").read_text()


@pytest.mark.processes
@pytest.mark.slow
def test_what_a_rank_sent_before_its_end_comes_before_its_end(team: str) -> None:
    with rank_of(team, 0, 2) as end, rank_process(team, 1, "end") as child:
        end.send(1, b"go")
        found = until(lambda: end.lost([1]) == {1}, end)
        assert [message.head for message in found] == [b"hello"]
        assert child.wait(PATIENCE) == 0
        end.send(1, b"to nobody")
    with rank_of(team, 0, 2) as end, rank_of(team, 1, 2) as again:
        assert not list(again.receive())
        again.send(0, b"new")
        assert taken(end, 1, again)[0].head == b"new"


def test_a_number_is_not_given_twice(team: str) -> None:
    with rank_of(team, 0, 2) as end:
        with rank_of(team, 1, 2) as child:
            child.send(0, b"old")
            assert taken(end, 1, child)[0].head == b"old"
        until(lambda: end.lost([0, 1]) == {1}, end)
        end.send(1, b"to whom?")
        again = LocalEndpoint(team, 1, 2)
        with pytest.raises(
            EngineError, match="rank 0 has refused this one, rank 1: there was a rank 1 before, and one"
        ):
            until(lambda: False, end, again)
        again.close()
        with rank_of(team, 2, 2) as later:
            later.send(0, b"new")
            assert taken(end, 1, later)[0].head == b"new"
            end.send([1, 2], b"welcome")
            assert taken(later, 1, end)[0].head == b"welcome"
        assert set(end.others) == {1, 2}


def test_a_number_is_taken_once(team: str) -> None:
    with (
        rank_of(team, 1, 2),
        pytest.raises(EngineError, match=rf"rank 1 of this team runs .* it is process {os.getpid()}\."),
    ):
        LocalEndpoint(team, 1, 2)


def test_a_wait_ends_for_a_message_a_bell_and_the_time(team: str) -> None:
    with ranks(team, 2) as (first, second):
        until(lambda: 1 in first._inlets and 0 in second._inlets, first, second)
        for ring in (first.wake, lambda: second.send(0, b"x")):
            begin = time.monotonic()
            threading.Timer(0.05, ring).start()
            while not (woken := time.monotonic() - begin) > 0.05:
                first.wait(begin + PATIENCE)
                list(first.receive())
            assert woken < PROMPT
        begin = time.monotonic()
        while time.monotonic() < begin + 0.02:
            first.wait(begin + 0.02)
            list(first.receive())


def stranger(end: LocalEndpoint) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(f"{end._address}{end.rank}".encode())
    return connection


HELLO = struct.Struct("<4sII")
FRAME = struct.Struct("<BB6xqq")
GREETING = HELLO.pack(b"eht\x01", VERSION, 1)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([b"GET / HTTP/1.1"], "that is no greeting"),
        ([b"\x80\x04cposix\nsystem\n"], "that is no greeting"),
        ([HELLO.pack(b"eht\x01", 99, 1)], "it speaks version 1 of what ranks say, and not 99; install the same"),
        ([HELLO.pack(b"eht\x01", VERSION, 0)], "a team has no other rank 0"),
        ([HELLO.pack(b"eht\x01", VERSION, 1 << 30)], "a team has no other rank 1073741824"),
        ([GREETING, b"x"], "a message of 1 bytes"),
        ([GREETING, FRAME.pack(9, 0, 0, 0)], "a message of kind 9"),
        ([GREETING, FRAME.pack(2, 0, 0, 0)], "its memory could shrink"),
        ([GREETING, FRAME.pack(3, 0, 0, 0)], "its memory could shrink"),
        ([GREETING, FRAME.pack(1, 0, 0, 1 << 60)], "where at most 1048576 bytes were agreed on"),
        ([GREETING, FRAME.pack(1, 0, 0, -5)], "a vector of -20 bytes"),
        ([GREETING, FRAME.pack(1, 0, -64, 5)], "a vector of 20 bytes at -64"),
        ([GREETING, FRAME.pack(1, 0, 64, 5)], "a vector that ends at byte 84 of 0"),
        ([GREETING, FRAME.pack(1, 77, 0, 5)], "there is no type of elements number 77"),
    ],
)
def test_nonsense_is_turned_away_and_the_team_goes_on(team: str, said: list[bytes], why: str) -> None:
    with rank_of(team, 0, 3) as end, rank_of(team, 2, 3) as friend, stranger(end) as connection:
        connection.setblocking(False)
        for words in said:
            connection.send(words)
        heard: list[bytes] = []

        def answered() -> bool:
            try:
                heard.append(connection.recv(1 << 16))
            except BlockingIOError:
                return False
            return True

        assert not until(answered, end, friend)
        assert heard[0].startswith(b"eht-refused:")
        assert why in heard[0].decode()
        assert end.lost([1, 2]) == frozenset()  # no proof of anything
        friend.send(0, b"on")
        assert taken(end, 1, friend)[0].head == b"on"


def test_memory_that_could_shrink_while_it_is_read_is_refused(team: str) -> None:
    with rank_of(team, 0, 2) as end, stranger(end) as connection:
        fd = os.memfd_create("unsealed")
        connection.send(GREETING)
        connection.sendmsg([FRAME.pack(2, 0, 0, 0)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))])
        os.close(fd)
        until(lambda: 1 in end._inlets and end._inlets[1].ended, end)
        assert end.lost([1]) == frozenset()  # no proof of an end


def test_a_refused_rank_says_why(team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with rank_of(team, 0, 2) as end:
        monkeypatch.setattr("erasurehead.torch._endpoints.local.VERSION", 2)
        other = LocalEndpoint(team, 1, 2)
        monkeypatch.undo()
        with pytest.raises(EngineError, match="rank 0 has refused this one, rank 1: it speaks version 1 of what"):
            until(lambda: False, end, other)
        other.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user, too")
@pytest.mark.processes
def test_another_user_is_turned_away_on_both_sides(team: str) -> None:
    code = (
        "import os, socket, sys\nos.setuid(65534)\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "address = sys.argv[1].replace('@', '\\0').encode()\n"
    )
    with rank_of(team, 0, 2) as end:
        knock = f"{code}s.connect(address)\ntry: print(s.recv(99))\nexcept OSError as error: print(error.errno)"
        address = f"@{end._address[1:]}0"
        with subprocess.Popen([sys.executable, "-c", knock, address], stdout=subprocess.PIPE) as other:
            until(lambda: other.poll() is not None, end)
            assert other.stdout is not None
            assert other.stdout.read() in (b"b''\n", b"104\n")
        assert not end._strangers
        squat = f"{code}s.bind(address)\ns.listen()\nprint(flush=True)\ninput()"
        with subprocess.Popen(
            [sys.executable, "-c", squat, f"{address[:-1]}5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            other.stdout.readline()
            with pytest.raises(EngineError, match=r"the address of rank 5 .* by process \d+ of user 65534"):
                LocalEndpoint(team, 1, 6).close()
            with pytest.raises(EngineError, match=r"already: process \d+ of user 65534 has its address"):
                LocalEndpoint(team, 5, 6)
            other.communicate(b"\n")


def test_what_cannot_be_sent_is_refused(team: str) -> None:
    with rank_of(team, 0, 2) as end:
        with pytest.raises(EngineError, match=r"vectors of float32, float64, .* and not of complex128"):
            end.send(1, b"", np.zeros(3, complex))
        with pytest.raises(EngineError, match="a head has 40000 bytes, and at most 32768 are sent"):
            end.send(1, b"x" * 40_000)


def test_what_is_written_in_its_place_is_sent_without_a_copy_and_read_there_as_long_as_it_is_kept(team: str) -> None:
    with ranks(team, 2) as (first, second):
        until(lambda: 1 in first._inlets and 0 in second._inlets, first, second)
        kept: list[np.ndarray[Any, Any]] = []
        for number in range(12):
            vector = first.room(1_000, np.dtype(np.float32))
            vector[:] = number
            first.send(1, b"x", vector)
            del vector
            for message in until_one(second, first):
                assert message.vector is not None
                kept.append(second.keep(message.vector))
                assert kept[-1].flags.owndata == (number >= 4)  # five would be too many
        assert [float(vector.min()) for vector in kept] == list(range(12))
        assert [float(vector.max()) for vector in kept] == list(range(12))
        before = places(first)
        assert before <= 6  # the four that are kept, one that is read, and one to write to
        del kept[:], message
        for number in range(12):
            first.send(1, b"x", np.full(1_000, number, np.float32))
            assert [float(one.vector[0]) for one in taken(second, 1, first) if one.vector is not None] == [number]
        assert places(first) == before


def test_a_vector_is_seen_in_memory_that_may_be_pinned_and_who_writes_to_theirs_changes_nothing_there(
    team: str,
) -> None:
    with ranks(team, 2) as (first, second):
        until(lambda: 1 in first._inlets and 0 in second._inlets, first, second)
        sent = first.room(1_000, np.dtype(np.float32))
        sent[:] = np.arange(1_000)
        own = Mapped.of(sent[7:])
        assert own is not None
        assert own.shared is own
        first.send(1, b"x", sent)
        (kept,) = [second.keep(one.vector) for one in until_one(second, first) if one.vector is not None]
        theirs = Mapped.of(kept[7:])
        assert theirs is not None
        assert theirs.shared is theirs.shared is not theirs
        offset = kept.__array_interface__["data"][0] - theirs.address
        shared = np.frombuffer(theirs.shared, np.float32, 1_000, offset)
        np.testing.assert_array_equal(shared, kept)
        kept[0] = 5.0
        assert sent[0] == shared[0] == 0.0
        assert Mapped.of(sent.copy()) is None


def test_pinned_memory_is_released_while_it_is_mapped_when_its_last_vector_is_gone() -> None:
    def mapped(address: int) -> bool:
        return f"{address:x}-" in Path("/proc/self/maps").read_text()

    file, seen = File(os.memfd_create("pinned")), list[bool]()
    os.ftruncate(file.fd, MB)
    memory = Mapped.private(file, MB)
    address = memory.shared.address
    memory.shared.release = lambda: seen.append(mapped(address))
    vector = np.frombuffer(memory, np.float32, 10)[2:]
    del file, memory
    assert vector.sum() == 0.0
    assert mapped(address)
    assert not seen
    del vector
    assert seen == [True]
    assert not mapped(address)


def until_one(end: LocalEndpoint, other: LocalEndpoint) -> Iterator[Any]:
    """Yield the messages that come with the next one, as their end does."""
    found = 0
    while not found:
        other.wait(0.0)
        list(other.receive())
        for message in end.receive(copy=False):
            found += 1
            yield message
