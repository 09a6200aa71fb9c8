"""Uncoded work and fractional repetition: who holds what, and what survives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes import GradientCode, fractional_repetition, uncoded
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


def test_messages_of_errors() -> None:
    with pytest.raises(InvalidArgument, match=r"load must be at least n_tasks / n_workers = 12/3.*use load=4"):
        fractional_repetition(3, load=2, n_tasks=12)
    with pytest.raises(InvalidArgument, match="load must be at most the number of tasks, 5, but it is 6"):
        fractional_repetition(5, load=6)
    with pytest.raises(InvalidArgument, match="n_tasks must be at least n_workers = 4, but it is 3; use 3 workers"):
        uncoded(4, 3)
    with pytest.raises(InvalidArgument, match="load must be at least 1, but it is 0"):
        fractional_repetition(5, load=0)
