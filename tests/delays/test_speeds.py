"""Shares by speed: found within ten rounds, near the ideal, and steady where nothing changes for good."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.delays._speeds import LEAST_GAIN, Speeds
from erasurehead.errors import InvalidArgument

speeds_drawn = st.lists(st.floats(0.05, 50.0), min_size=1, max_size=12)


def rounds(
    speeds: Speeds, true: np.ndarray, count: int, rng: np.random.Generator, jitter: float = 0.05
) -> list[tuple[float, bool]]:
    """Return of each round how long it took, as a ratio to the ideal, and whether shares were moved after it."""
    made: list[tuple[float, bool]] = []
    for _ in range(count):
        noise = np.clip(1.0 + jitter * rng.standard_normal(len(true)), 0.5, 2.0)
        seconds = speeds.shares / true
        made.append((float(seconds.max() * true.sum()), False))
        for worker, (work, needed) in enumerate(zip(speeds.shares, seconds * noise, strict=True)):
            speeds.observe(worker, float(work), float(needed))
        made[-1] = made[-1][0], speeds.settle()
    return made


@pytest.mark.parametrize("true", [[1.0, 1.0, 0.5, 1.0], [1.0, 1.0, 1.0, 0.1], list(np.linspace(1, 4, 30))])
def test_speeds_are_found_within_ten_rounds(true: list[float]) -> None:
    speeds = Speeds(len(true))
    made = rounds(speeds, np.array(true), 40, np.random.default_rng(0))
    assert max(ratio for ratio, _ in made[10:]) <= 1.1
    assert speeds.moves <= 2


def test_speeds_that_are_given_are_those_to_begin_with() -> None:
    speeds = Speeds(3, [1, 2, 1])
    assert speeds.shares.tolist() == [0.25, 0.5, 0.25]
    assert speeds.speeds.tolist() == [1.0, 2.0, 1.0]
    speeds.observe(0, 10.0, 1.0)
    assert speeds.speeds.tolist() == [10.0, 20.0, 10.0]  # the others as they were said to compare with it


def test_where_nobody_is_slow_nothing_moves() -> None:
    speeds = Speeds(8)
    made = rounds(speeds, np.ones(8), 1_000, np.random.default_rng(1))
    assert speeds.moves == 0
    assert not any(moved for _, moved in made)


def test_stalls_and_steps_that_are_late_in_turn_move_nothing() -> None:
    speeds, rng = Speeds(4), np.random.default_rng(2)
    for _ in range(500):
        true = np.ones(4)
        true[rng.integers(0, 4)] = 0.05 if rng.random() < 0.2 else 1.0
        rounds(speeds, true, 1, rng)
    assert speeds.moves <= 1


def test_a_change_that_lasts_is_followed_and_back() -> None:
    speeds, rng = Speeds(4), np.random.default_rng(3)
    calm, slow = np.ones(4), np.array([1.0, 1.0, 0.25, 1.0])
    rounds(speeds, calm, 50, rng)
    assert rounds(speeds, slow, 60, rng)[-1][0] < 1.1
    assert rounds(speeds, calm, 60, rng)[-1][0] < 1.1
    assert 2 <= speeds.moves <= 4


@pytest.mark.parametrize("every", [1, 7, 20])
def test_speeds_that_swing_move_ever_more_seldom(every: int) -> None:
    speeds, rng = Speeds(4), np.random.default_rng(4)
    moves: list[int] = []
    for swing in range(2_000 // every):
        true = np.ones(4)
        true[0] = 0.2 if swing % 2 else 1.0
        moves += [number for number, (_, moved) in enumerate(rounds(speeds, true, every, rng), swing * every) if moved]
    assert len(moves) <= 14
    assert all(b - a > 10 for a, b in pairwise(moves))


def test_a_pause_ends_when_speeds_have_been_steady() -> None:
    speeds, rng = Speeds(2), np.random.default_rng(5)
    for swing in range(6):
        rounds(speeds, np.array([1.0, 0.3 if swing % 2 else 1.0]), 100, rng)
    rounds(speeds, np.ones(2), 2_000, rng)
    begun = speeds.moves
    made = rounds(speeds, np.array([1.0, 0.3]), 40, rng)
    assert speeds.moves == begun + 1
    assert made[-1][0] < 1.1


@given(speeds_drawn, st.integers(0, 2**32))
def test_nothing_moves_unless_it_pays(true: list[float], seed: int) -> None:
    speeds = Speeds(len(true), true)
    rounds(speeds, np.array(true), 30, np.random.default_rng(seed), jitter=LEAST_GAIN / 10)
    assert speeds.moves == 0


@given(st.integers(0, 30), st.integers(0, 2**32))
def test_state_goes_on_to_the_bit(before: int, seed: int) -> None:
    true = np.array([1.0, 0.4, 2.0])
    one, other = Speeds(3), Speeds(3)
    rounds(one, true, before, np.random.default_rng(seed))
    other.restore(one.state())
    ends = [rounds(speeds, true[::-1], 25, np.random.default_rng(seed + 1)) for speeds in (one, other)]
    assert ends[0] == ends[1]
    assert (one.shares == other.shares).all()


def test_somebody_is_needed() -> None:
    with pytest.raises(InvalidArgument, match="n_workers"):
        Speeds(0)


def test_no_work_and_no_time_teach_nothing() -> None:
    speeds = Speeds(2)
    for work, seconds in ((0.0, 1.0), (1.0, 0.0), (1.0, np.inf), (np.nan, 1.0)):
        speeds.observe(0, work, seconds)
    assert speeds.speeds.tolist() == [1.0, 1.0]
