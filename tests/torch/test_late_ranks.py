"""Which ranks are late for good: those that are slow, whenever they become it, and nobody in calm or in turn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.errors import InvalidArgument
from erasurehead.torch import LateRank, LateRanks

JITTER = 0.05


def backward(seconds: np.ndarray) -> np.ndarray:
    """Return times of ranks that do not tell stages apart."""
    return np.stack([0.0 * seconds, 0.0 * seconds, seconds], axis=1)


def calm(rng: np.random.Generator, n_ranks: int) -> np.ndarray:
    return 0.1 * np.maximum(1.0 + JITTER * rng.standard_normal(n_ranks), 0.5)


@pytest.mark.parametrize("n_ranks", [2, 4, 32])
@pytest.mark.parametrize("law", ["calm", "rough", "late in turn"])
def test_where_nobody_is_slow_for_good_nobody_is_named(n_ranks: int, law: str) -> None:
    rng, ranks = np.random.default_rng(n_ranks), LateRanks(n_ranks * ["here"])
    for _ in range(1_000):
        if law == "late in turn":
            seconds = 0.02 + rng.exponential(0.2, n_ranks)
        else:
            seconds = calm(rng, n_ranks) * (np.exp(0.2 * rng.standard_normal(n_ranks)) if law == "rough" else 1.0)
        ranks.observe(backward(seconds))
        assert ranks.late == ()


@given(
    n_ranks=st.integers(2, 12),
    since=st.integers(0, 80),
    times=st.floats(2.5, 50.0),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_a_slow_rank_is_named_after_three_steps_whenever_it_becomes_slow(
    n_ranks: int, since: int, times: float, seed: int, data: st.DataObject
) -> None:
    slow = data.draw(st.integers(0, n_ranks - 1))
    rng, ranks = np.random.default_rng(seed), LateRanks([f"host {rank}" for rank in range(n_ranks)])
    for step in range(since + 3):
        seconds = calm(rng, n_ranks)
        seconds[slow] *= times if step >= since else 1.0
        ranks.observe(backward(seconds))
        assert step == since + 2 or ranks.late == ()
    (late,) = ranks.late
    assert (late.rank, late.host, late.stage) == (slow, f"host {slow}", "")
    assert late.times == pytest.approx(times, rel=0.35)
    assert late.share == pytest.approx(1.0 - 1.0 / times, abs=0.2)
    assert f"late: {late.times:.2g} times the others" in ranks.table().splitlines()[1 + slow]


@given(
    n_ranks=st.integers(2, 12),
    since=st.integers(0, 40),
    seconds=st.floats(0.001, 0.5),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_ranks_that_tell_each_other_their_times_now_and_then_name_a_slow_one_as_soon(
    n_ranks: int, since: int, seconds: float, seed: int, data: st.DataObject
) -> None:
    slow, between = data.draw(st.integers(0, n_ranks - 1)), 0.1
    rng, ranks = np.random.default_rng(seed), LateRanks(n_ranks * ["here"])
    kept: list[np.ndarray] = []
    exchanges, due, most = 0, 3, max(3, int(np.ceil(1.2 * between / seconds)))
    for step in range(since + most):
        own = seconds * np.clip(1.0 + JITTER * rng.standard_normal(n_ranks), 0.92, 1.08)
        own[slow] *= 3.0 if step >= since else 1.0
        kept.append(own)
        if len(kept) == due:
            exchanges += 1
            for one in kept:
                ranks.observe(backward(one))
            kept, due = [], ranks.due(between)
        if step < since:
            assert ranks.late == ()
        if step == since:
            assert exchanges <= 3 + step / max(3, 0.9 * between / seconds)
    assert [late.rank for late in ranks.late] == [slow]


def test_where_ranks_vary_their_times_are_exchanged_at_most_twice_as_often() -> None:
    rng, ranks, due, exchanges = np.random.default_rng(0), LateRanks(4 * ["here"]), 1, 0
    steps = 0
    while steps < 3_000:
        for _ in range(due):
            ranks.observe(backward(0.02 + rng.exponential(0.2, 4)))
        steps, exchanges, due = steps + due, exchanges + 1, ranks.due(3.0)
    assert exchanges < 2 * steps * 0.45 / 3.0  # of 0.44 s each


def test_a_step_of_another_length_for_all_and_one_that_is_late_once_are_nothing() -> None:
    rng, ranks = np.random.default_rng(0), LateRanks(4 * ["here"])
    for step in range(60):
        seconds = calm(rng, 4) * (1.0 + 10.0 * (step % 7 == 0))
        seconds[step % 4] *= 30.0 if step % 10 == 9 else 1.0
        ranks.observe(backward(seconds))
        assert ranks.late == ()


@pytest.mark.parametrize(("place", "stage"), [(0, "data"), (1, "forward"), (2, "backward")])
def test_the_stage_in_which_a_rank_loses_most_is_named_where_they_are_told_apart(place: int, stage: str) -> None:
    ranks = LateRanks(["a", "b", "c"])
    for _ in range(3):
        seconds = np.array(3 * [[0.01, 0.03, 0.06]])
        seconds[1, place] += 0.2
        ranks.observe(seconds)
    assert ranks.late == (LateRank(1, "b", pytest.approx(3.0), pytest.approx(2 / 3), stage),)
    sentence = f"Rank 1 on b takes 3 times as long as the others, most of it in its {stage} stage: they wait for it "
    assert str(ranks.late[0]) == sentence + "during 67% of each step."


def test_two_slow_ranks_are_both_named_the_slowest_first() -> None:
    ranks = LateRanks(6 * ["here"])
    for _ in range(4):
        ranks.observe(backward(np.array([1.0, 3.0, 1.0, 1.0, 5.0, 1.0])))
    assert [late.rank for late in ranks.late] == [4, 1]
    assert ranks.late[1].share == 0.0  # nobody waits for it alone


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least 2 ranks"):
        LateRanks(["alone"])
    ranks = LateRanks(["a", "b"])
    assert ranks.table() == "No step has been measured yet."
    for seconds in (np.ones(2), np.full((2, 3), np.nan), np.full((2, 3), -1.0)):
        with pytest.raises(InvalidArgument, match="seconds"):
            ranks.observe(seconds)
