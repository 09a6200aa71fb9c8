"""Several messages a worker, in order: partial stragglers, nested codes, uncoded work."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes import fractional_repetition, uncoded
from erasurehead.codes._cyclic import cyclic_mds
from erasurehead.codes._nested import nested
from erasurehead.codes._product import kronecker
from erasurehead.codes._several_messages import multi_message, partial_stragglers
from erasurehead.codes._transforms import by_task
from erasurehead.errors import InvalidArgument

from .oracles import optimal_residual, worst_residual


@pytest.mark.parametrize(
    ("n", "s", "slowness", "exclusive", "tasks", "fraction"),
    [(12, 2, 2.0, 3, 48, 0.125), (30, 3, 1.5, 8, 270, 0.0444)],  # SCHEMES 1c
)
def test_partial_stragglers_of_the_source(
    n: int, s: int, slowness: float, exclusive: int, tasks: int, fraction: float
) -> None:
    inner = fractional_repetition(12, 3) if n == 12 else cyclic_mds(30, 3)
    code = partial_stragglers(inner, slowness)
    assert code.n_tasks == tasks
    assert set(code.loads.tolist()) == {exclusive + s + 1}
    assert code.load / code.n_tasks == pytest.approx(fraction, abs=1e-4)
    assert code.load / code.n_tasks == pytest.approx((s + 1) * slowness / (n * (s + slowness)))
    assert code.owner.tolist() == np.repeat(np.arange(n), 2).tolist()
    assert code.structure.parts.tolist() == [0, 1] * n


def test_partial_stragglers_may_miss_their_second_message() -> None:
    code = partial_stragglers(cyclic_mds(6, 3), 3)
    first, second = np.flatnonzero(code.structure.parts == 0), np.flatnonzero(code.structure.parts == 1)
    for missing in combinations(second, 3):
        kept = np.setdiff1d(np.arange(12), missing)
        assert optimal_residual(code, kept) < 1e-15
    for worker in range(6):
        assert optimal_residual(code, np.setdiff1d(np.arange(12), first[worker])) > 0.5
    assert code.tolerance == 0


def test_nested_is_cyclic_codes_stacked_in_order() -> None:
    code = nested(7, 3)
    assert code.n_messages == 28
    for level, inner in enumerate(code.inner):
        rows = code.encoding[np.flatnonzero(code.structure.levels == level)]
        assert (rows != inner.encoding).nnz == 0
        assert inner.tolerance == level
    for worker in range(7):
        held = [set(code.tasks_of_message(message).tolist()) for message in code.messages_of(worker)]
        assert [len(tasks) for tasks in held] == [1, 2, 3, 4]
        assert all(fewer < more for fewer, more in pairwise(held))


@pytest.mark.parametrize(("n", "s"), [(6, 3), (7, 2), (5, 0)])
def test_nested_decodes_whenever_some_level_is_full(n: int, s: int) -> None:
    code = nested(n, s)
    assert worst_residual(code, s) < 1e-14
    random = np.random.default_rng(0)
    for _ in range(60):
        done = random.integers(0, s + 2, n)  # messages that each worker has sent
        kept = np.array([m for w in range(n) for m in code.messages_of(w)[: done[w]]], dtype=int)
        full = [level for level in range(s + 1) if (done > level).sum() >= n - level]
        if full:
            assert optimal_residual(code, kept) < 1e-14


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_uncoded_work_is_exact_when_every_task_has_come(n: int, k: int, data: st.DataObject) -> None:
    load = data.draw(st.integers(-(-k // n), k))
    code = multi_message(n, load, k)
    assert code.n_messages == n * load
    assert set(code.loads.tolist()) == {load}
    assert code.tolerance == code.replication.min() - 1
    assert code.replicas
    assert code.groups.tolist() == code.encoding.indices.tolist()
    if n == k:
        assert code.tolerance == load - 1


def test_copies_of_a_task_come_at_different_places() -> None:
    code = multi_message(6, 3)
    place = np.tile(np.arange(3), 6)
    for task in range(6):
        assert sorted(place[code.groups == task].tolist()) == [0, 1, 2]


def test_products_keep_the_order_of_messages() -> None:
    code = kronecker(nested(3, 1), uncoded(2))
    for worker in range(6):
        sizes = [len(code.tasks_of_message(message)) for message in code.messages_of(worker)]
        assert sizes == [1, 2]


def test_messages_of_errors() -> None:
    with pytest.raises(
        InvalidArgument, match=r"slowness must make load / \(slowness - 1\) .* use slowness=2.333333333"
    ):
        partial_stragglers(cyclic_mds(6, 3), 2.5)
    assert partial_stragglers(cyclic_mds(6, 3), 2.333333333).load == 7
    with pytest.raises(InvalidArgument, match=r"use slowness=5 \(1 exclusive tasks\)"):
        partial_stragglers(cyclic_mds(6, 3), 100)
    with pytest.raises(InvalidArgument, match="slowness must be more than 1"):
        partial_stragglers(cyclic_mds(6, 3), 1)
    with pytest.raises(InvalidArgument, match="code must bear at least one straggler"):
        partial_stragglers(uncoded(3), 2)
    with pytest.raises(InvalidArgument, match="code must have one message a worker, one piece and equal loads"):
        partial_stragglers(nested(4, 1), 2)
    with pytest.raises(InvalidArgument, match="stragglers must be at most 3, but it is 4"):
        nested(4, 4)
    with pytest.raises(InvalidArgument, match="load times 3 workers must cover 5 tasks, got 1; use load=2"):
        multi_message(3, 1, 5)


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 15))
def test_task_by_task_every_worker_holds_what_it_held_and_copies_are_finished_at_different_times(
    workers: int, load: int, tasks: int
) -> None:
    if load > tasks or workers < -(-tasks // load):
        return
    code = fractional_repetition(workers, load, tasks)
    one_by_one = by_task(code)
    assert (one_by_one.assignment != code.assignment).nnz == 0
    assert one_by_one.replicas
    firsts: dict[tuple[int, ...], list[int]] = {}
    for worker in range(workers):
        sent = [one_by_one.tasks_of_message(row).tolist() for row in one_by_one.messages_of(worker).tolist()]
        held = code.tasks_of(worker).tolist()
        assert sorted(task for (task,) in sent) == held
        firsts.setdefault(tuple(held), []).append(sent[0][0])
    for held, began in firsts.items():
        counts = np.unique(began, return_counts=True)[1]
        assert len(counts) == min(len(held), len(began))
        assert counts.max() - counts.min() <= 1
    for gone in range(workers):
        left = [row for row in range(one_by_one.n_messages) if one_by_one.owner[row] != gone]
        held = {int(one_by_one.tasks_of_message(row)[0]) for row in left}
        assert optimal_residual(one_by_one, left) == pytest.approx(tasks - len(held), abs=1e-9)
        if one_by_one.tolerance:
            assert len(held) == tasks
