"""Jobs in the background: the newest of those that wait is done, errors come back, and nobody waits for ever."""

from __future__ import annotations

import threading

import pytest

from erasurehead.runs._checkpoints.background import Background

BOUND = 20.0


def test_what_waits_is_overtaken_by_what_is_newer() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), list[int]()

    def work(job: int) -> None:
        begun.set()
        assert go_on.wait(BOUND)
        done.append(job)

    background = Background(work)
    background.hand_over(1, 10)
    assert begun.wait(BOUND)
    for number in (2, 3, 4):
        background.hand_over(number, 10 * number)
    assert background.oldest() == 1
    go_on.set()
    background.wait(2)  # done by what came after it
    assert done == [10, 40]
    assert background.oldest() is None
    background.close()
    background.close()


def test_what_is_to_be_done_is_done_before_it_closes() -> None:
    done: list[int] = []
    background = Background(done.append)
    background.hand_over(1, 1)
    background.close()
    assert done == [1]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("erasurehead")]


def test_an_error_is_raised_once_to_whoever_comes_next() -> None:
    def work(job: int) -> None:
        raise OSError(28, "No space left on device")

    background = Background(work)
    background.hand_over(1, 1)
    with pytest.raises(OSError, match="No space"):
        background.wait(1)
    background.close()
    assert background.oldest() is None


def test_nothing_handed_over_is_nothing_to_wait_for() -> None:
    background = Background(lambda job: None)
    background.wait(5)
    background.close()
