"""Letters between processes: in order, whole, never lost but for vectors that newer ones have overtaken."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Generator

import numpy as np
import pytest

from erasurehead.engines import VirtualEngine
from erasurehead.engines.mail import COORDINATOR, Post, Received, correspondence
from erasurehead.engines.processes.mail import SharedMail
from erasurehead.errors import EngineError

from ..bounded import PATIENCE, PROMPT

LENGTH = 1_000


@pytest.fixture
def mail() -> Generator[SharedMail]:
    made = SharedMail(3, LENGTH)
    yield made
    made.close()


def all_of(post: Post, count: int, *senders: Post) -> list[Received]:
    """Return so many letters; senders go on with what found the pipe full."""
    found: list[Received] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found += post.letters()
        for sender in senders:
            assert not list(sender.letters())
    return found


def test_words_come_whole_and_in_order_however_many(mail: SharedMail) -> None:
    here, there = mail.post(0), mail.post(1)
    said = [bytes([number % 251]) * (number * 37 % 20_000) for number in range(300)]  # more than a pipe holds
    for words in said:
        there.send(0, words)
    assert [letter.head for letter in all_of(here, 300, there)] == said
    here.close()
    there.close()


def test_of_vectors_the_newest_are_there_and_none_is_torn(mail: SharedMail) -> None:
    here, there, other = (mail.post(worker) for worker in range(3))
    for number in range(1, 21):
        there.send(0, b"%d" % number, np.full(LENGTH, float(number)))
        there.send(0, b"word")
    other.send(0, b"other", np.ones(7))
    found = all_of(here, 20 + mail.sides + 1)
    vectors = [(letter.head, letter.vector) for letter in found if letter.vector is not None and letter.sender == 1]
    assert [head for head, _ in vectors] == [b"%d" % number for number in range(21 - mail.sides, 21)]
    assert all((vector == float(head)).all() for head, vector in vectors if vector is not None)
    assert sum(letter.vector is None for letter in found) == 20
    assert [len(letter.vector) for letter in found if letter.sender == 2 and letter.vector is not None] == [7]
    for post in (here, there, other):
        post.close()


def test_who_takes_the_place_of_one_who_died_goes_on_numbering(mail: SharedMail) -> None:
    here, there = mail.post(0), mail.post(1)
    there.send(0, b"old", np.zeros(3))
    there.close()
    again = mail.post(1)
    again.send(0, b"new", np.ones(3))
    found = all_of(here, 2)
    assert [(letter.head, letter.vector is not None and letter.vector.sum()) for letter in found] == [
        (b"old", 0.0), (b"new", 3.0),
    ]  # fmt: skip
    here.close()
    again.close()


def test_the_coordinator_writes_to_all_and_a_letter_wakes(mail: SharedMail) -> None:
    posts = [pickle.loads(pickle.dumps(mail)).post(worker) for worker in range(3)]
    for worker, post in enumerate(posts):
        begin = time.monotonic()
        post.wait(begin + 0.01)
        assert time.monotonic() - begin >= 0.01
        mail.tell(worker, b"begin")
        post.wait(time.monotonic() + PATIENCE)
        assert time.monotonic() - begin < PROMPT
        assert [tuple(letter[:2]) for letter in post.letters()] == [(COORDINATOR, b"begin")]
        post.close()


def test_that_a_worker_has_ended_the_others_see_and_wake_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        mail = SharedMail(2, LENGTH, lambda: {1: other.pid})
        post = mail.post(0)
        post.learn(mail.where())
        assert post.lost([0, 1]) == frozenset()
        other.kill()
        begin = time.monotonic()
        post.wait(begin + PATIENCE)
        assert time.monotonic() - begin < PROMPT
        assert post.lost([0, 1]) == {1}
        assert post.lost([0]) == frozenset()
        assert post.lost([1]) == {1}
        other.wait()
        again = mail.post(0)
        again.learn(mail.where())
        assert again.lost([1]) == {1}
    post.learn([[1, os.getpid()]])  # another has taken its place
    assert post.lost([1]) == frozenset()
    post.close()
    again.close()
    mail.close()


def test_a_vector_that_has_no_room_is_refused(mail: SharedMail) -> None:
    post = mail.post(0)
    with pytest.raises(EngineError, match=r"has 1001 elements, and there is room for 1000"):
        post.send(1, b"", np.zeros(LENGTH + 1))
    post.close()


def test_engines_without_letters_say_so() -> None:
    with VirtualEngine() as engine, pytest.raises(EngineError, match="cannot write to each other"):
        correspondence(engine)
