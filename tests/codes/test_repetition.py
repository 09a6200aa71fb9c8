"""Uncoded work and fractional repetition: who holds what, and what survives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes import GradientCode, build, fractional_repetition, uncoded
from erasurehead.codes._transforms import resized
from erasurehead.errors import InvalidArgument


@st.composite
def repetitions(draw: st.DrawFn) -> GradientCode:
    n_workers = draw(st.integers(1, 40))
    n_tasks = draw(st.integers(1, 60))
    least = -(-n_tasks // n_workers)
    return fractional_repetition(n_workers, draw(st.integers(least, n_tasks)), n_tasks)


@given(repetitions())
def test_groups_partition_tasks_and_workers_evenly(code: GradientCode) -> None:
    assert code.groups is not None
    workers = np.bincount(code.groups)
    assert workers.max() - workers.min() <= 1
    assert code.loads.max() <= code.parameters["load"]
    assert code.loads.max() - code.loads.min() <= 1
    assert code.tolerance == workers.min() - 1 == code.replication.min() - 1
    assert code.replicas
    for group in range(len(workers)):
        rows = code.encoding[np.flatnonzero(code.groups == group)].toarray()
        assert (rows == rows[0]).all()
    one_each = code.encoding[np.unique(code.groups, return_index=True)[1]]
    assert (one_each.sum(axis=0) == 1).all()


@pytest.mark.parametrize(("k", "c"), [(30, 3), (12, 4), (24, 2)])
def test_divisible_case_is_tandons(k: int, c: int) -> None:
    code = fractional_repetition(k, c)
    assert code.encoding.toarray().tolist() == np.kron(np.eye(k // c), np.ones((c, c))).tolist()
    assert code.tolerance == c - 1


def test_more_tasks_than_workers() -> None:
    code = fractional_repetition(6, load=4, n_tasks=12)  # the paper's n = 12, k = 6, c = 4: l = kc/n = 2 replicas
    assert set(code.replication.tolist()) == {2}
    assert set(code.loads.tolist()) == {4}


@given(st.integers(1, 30), st.integers(0, 40))
def test_uncoded_gives_every_task_to_one_worker(n_workers: int, more: int) -> None:
    code = uncoded(n_workers, n_workers + more)
    assert (code.replication == 1).all()
    assert code.loads.min() >= 1
    assert code.loads.max() - code.loads.min() <= 1
    assert (code.encoding.data == 1).all()
    assert code.tolerance == 0


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20), st.integers(1, 200))
def test_with_speeds_nobody_could_be_through_earlier(speeds: list[float], n_tasks: int) -> None:
    code = uncoded(len(speeds), n_tasks, speeds)
    assert (code.replication == 1).all()
    loads = code.loads
    last = int(np.argmax(loads / speeds))
    assert ((loads + 1) / speeds >= loads[last] / speeds[last] * (1 - 1e-12)).all()
    silent = np.flatnonzero(loads == 0)
    assert set(code.owner.tolist()) == set(range(len(speeds))) - set(silent.tolist())
    assert code.replicas


@pytest.mark.parametrize("n_workers", [4, 30])
def test_shares_by_speed_are_near_the_ideal(n_workers: int) -> None:
    for seed in range(20):
        speeds = np.random.default_rng(seed).uniform(1.0, 4.0, n_workers)
        code = uncoded(n_workers, speeds=speeds.tolist())
        assert (code.loads / speeds).max() / (code.n_tasks / speeds.sum()) <= 1.08


def test_speeds_survive_a_rebuild_and_other_numbers_of_workers_begin_alike() -> None:
    code = uncoded(4, speeds=[1, 2, 4, 4])
    again = build(code.name, **code.parameters)
    assert (again.encoding != code.encoding).nnz == 0
    assert resized(code, 3).loads.tolist() == [22, 21, 21]


def test_messages_of_errors() -> None:
    with pytest.raises(
        InvalidArgument,
        match=r"speeds must be one number for each of 4, but it is \[1.0, 1.0, 1.0, 1.0, 1.0\]; such as",
    ):
        uncoded(4, speeds=[1.0] * 5)
    with pytest.raises(InvalidArgument, match=r"speeds must be one number for each of 2, but it is '1,2'"):
        uncoded(2, speeds="1,2")  # pyright: ignore[reportArgumentType]
    for bad in (0, -1.0, np.inf, np.nan, "fast", None, True):
        with pytest.raises(InvalidArgument, match=r"speeds\[1\] must be a positive, finite number, but it is "):
            uncoded(2, speeds=[1.0, bad])  # pyright: ignore[reportArgumentType]
    assert uncoded(2, speeds=[1e308, 1e308]).loads.tolist() == [16, 16]
    assert uncoded(2, speeds=[1e-300, 1e300]).loads.tolist() == [0, 32]
    with pytest.raises(InvalidArgument, match=r"load must be at least n_tasks / n_workers = 12/3.*use load=4"):
        fractional_repetition(3, load=2, n_tasks=12)
    with pytest.raises(InvalidArgument, match="load must be at most the number of tasks, 5, but it is 6"):
        fractional_repetition(5, load=6)
    with pytest.raises(InvalidArgument, match="n_tasks must be at least n_workers = 4, but it is 3; use 3 workers"):
        uncoded(4, 3)
    with pytest.raises(InvalidArgument, match="load must be at least 1, but it is 0"):
        fractional_repetition(5, load=0)
