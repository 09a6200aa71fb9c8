"""Peer messages between processes: in order, whole, never lost but for vectors that newer ones have overtaken."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Generator

import numpy as np
import pytest

from erasurehead.engines import Endpoint, VirtualEngine
from erasurehead.engines._peer_channels import COORDINATOR, PeerMessage, peer_messaging
from erasurehead.engines._processes.peer_channels import SharedChannels
from erasurehead.errors import EngineError

from ..bounded import PATIENCE, PROMPT

LENGTH = 1_000


@pytest.fixture
def channels() -> Generator[SharedChannels]:
    made = SharedChannels(3, LENGTH)
    yield made
    made.close()


def all_of(endpoint: Endpoint, count: int, *senders: Endpoint) -> list[PeerMessage]:
    """Return so many peer messages; senders go on with what found the pipe full."""
    found: list[PeerMessage] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found += endpoint.receive()
        for sender in senders:
            assert not list(sender.receive())
    return found


def test_words_come_whole_and_in_order_however_many(channels: SharedChannels) -> None:
    here, there = channels.endpoint(0), channels.endpoint(1)
    said = [bytes([number % 251]) * (number * 37 % 20_000) for number in range(300)]  # more than a pipe holds
    for words in said:
        there.send(0, words)
    assert [message.head for message in all_of(here, 300, there)] == said
    here.close()
    there.close()


def test_of_vectors_the_newest_are_there_and_none_is_torn(channels: SharedChannels) -> None:
    here, there, other = (channels.endpoint(worker) for worker in range(3))
    for number in range(1, 21):
        there.send(0, b"%d" % number, np.full(LENGTH, float(number)))
        there.send(0, b"word")
    other.send(0, b"other", np.ones(7))
    found = all_of(here, 20 + channels.sides + 1)
    vectors = [
        (message.head, message.vector) for message in found if message.vector is not None and message.sender == 1
    ]
    assert [head for head, _ in vectors] == [b"%d" % number for number in range(21 - channels.sides, 21)]
    assert all((vector == float(head)).all() for head, vector in vectors if vector is not None)
    assert sum(message.vector is None for message in found) == 20
    assert [len(message.vector) for message in found if message.sender == 2 and message.vector is not None] == [7]
    for endpoint in (here, there, other):
        endpoint.close()


def test_vectors_of_any_type_go_to_several_and_are_views_where_asked_for(channels: SharedChannels) -> None:
    here, there, other = (channels.endpoint(worker) for worker in range(3))
    there.send([0, 2], b"half", np.arange(2 * LENGTH, dtype=np.float32))  # as many bytes as there is room for
    there.send([0, 2], b"bits", np.array([7, 8], dtype=np.uint16))
    assert here.silent([1, 2]) == frozenset()
    for endpoint, copy in ((here, True), (other, False)):
        half, bits = list(endpoint.receive(copy))
        assert half.vector is not None
        assert bits.vector is not None
        assert half.vector.dtype == np.float32
        assert half.vector.sum() == np.arange(2 * LENGTH).sum()
        assert bits.vector.dtype == np.uint16
        assert (half.vector.base is None) == copy
    with pytest.raises(EngineError, match=r"has 2001 elements, and there is room for 2000"):
        there.send([0, 2], b"", np.zeros(2 * LENGTH + 1, dtype=np.float32))
    for endpoint in (here, there, other):
        endpoint.close()


def test_who_takes_the_place_of_one_who_died_goes_on_numbering(channels: SharedChannels) -> None:
    here, there = channels.endpoint(0), channels.endpoint(1)
    there.send(0, b"old", np.zeros(3))
    there.close()
    again = channels.endpoint(1)
    again.send(0, b"new", np.ones(3))
    found = all_of(here, 2)
    assert [(message.head, message.vector is not None and message.vector.sum()) for message in found] == [
        (b"old", 0.0),
        (b"new", 3.0),
    ]
    here.close()
    again.close()


def test_the_coordinator_writes_to_all_and_a_message_wakes(channels: SharedChannels) -> None:
    endpoints = [pickle.loads(pickle.dumps(channels)).endpoint(worker) for worker in range(3)]
    for worker, endpoint in enumerate(endpoints):
        begin = time.monotonic()
        endpoint.wait(begin + 0.01)
        assert time.monotonic() - begin >= 0.01
        channels.tell(worker, b"begin")
        endpoint.wait(time.monotonic() + PATIENCE)
        assert time.monotonic() - begin < PROMPT
        assert [tuple(message[:2]) for message in endpoint.receive()] == [(COORDINATOR, b"begin")]
        endpoint.close()


def test_that_a_worker_has_ended_the_others_see_and_wake_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        channels = SharedChannels(2, LENGTH, lambda: {1: other.pid})
        endpoint = channels.endpoint(0)
        endpoint.learn(channels.where())
        assert endpoint.lost([0, 1]) == frozenset()
        other.kill()
        begin = time.monotonic()
        endpoint.wait(begin + PATIENCE)
        assert time.monotonic() - begin < PROMPT
        assert endpoint.lost([0, 1]) == {1}
        assert endpoint.lost([0]) == frozenset()
        assert endpoint.lost([1]) == {1}
        other.wait()
        again = channels.endpoint(0)
        again.learn(channels.where())
        assert again.lost([1]) == {1}
    endpoint.learn([[1, os.getpid()]])  # another has taken its place
    assert endpoint.lost([1]) == frozenset()
    endpoint.close()
    again.close()
    channels.close()


def test_a_vector_that_has_no_room_is_refused(channels: SharedChannels) -> None:
    endpoint = channels.endpoint(0)
    with pytest.raises(EngineError, match=r"has 1001 elements, and there is room for 1000"):
        endpoint.send(1, b"", np.zeros(LENGTH + 1))
    endpoint.close()


def test_engines_without_channels_say_so() -> None:
    with VirtualEngine() as engine, pytest.raises(EngineError, match="cannot write to each other"):
        peer_messaging(engine)
