"""How MPI ranks sleep between two looks: how late an order is found, and how often they look for it."""

from __future__ import annotations

import pytest

from erasurehead.engines._mpi import backoff
from erasurehead.engines._mpi.backoff import IDLE, Backoff, Rhythm


class Clock:
    """Stands for the module `time`: sleeping takes no time, but it is later then."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stand_in = Clock()
    monkeypatch.setattr(backoff, "time", stand_in)
    return stand_in


def wait(clock: Clock, rhythm: Rhythm, seconds: float) -> tuple[float, int]:
    """Wait for an order that comes after so many seconds; return how late it is found, and after how many sleeps."""
    due, sleeps = clock.now + seconds, 0
    while clock.now < due:
        rhythm.sleep()
        sleeps += 1
    late = clock.now - due
    rhythm.came()
    return late, sleeps


def test_the_wait_before_the_first_order_is_no_measure_of_a_step(clock: Clock) -> None:
    rhythm = Rhythm()
    wait(clock, rhythm, 60.0)
    for _ in range(5):
        late, _ = wait(clock, rhythm, 0.02)
        assert late <= IDLE


def test_orders_at_about_equal_intervals_are_found_soon_and_looked_for_seldom(clock: Clock) -> None:
    rhythm = Rhythm()
    found = [wait(clock, rhythm, seconds) for seconds in [1.0, *[0.2, 0.21, 0.19] * 4]][5:]
    assert max(late for late, _ in found) <= IDLE
    assert max(sleeps for _, sleeps in found) <= 30


def test_a_long_wait_is_looked_at_once_in_five_milliseconds_and_then_less(clock: Clock) -> None:
    rest = Backoff()
    sleeps = 0
    while clock.now < 1001.0:
        rest.sleep()
        sleeps += 1
    assert 170 <= sleeps <= 190
    before = clock.now
    rest.sleep(1e-3)
    assert clock.now == pytest.approx(before + 1e-3)
    rest.reset()
    before = clock.now
    rest.sleep()
    assert clock.now == before
