"""Codes over data that stay where they are: exact without any `stragglers` workers, whatever the placement."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from erasurehead import codes
from erasurehead.codes._exactness import Unbearable
from erasurehead.codes._placed import placed
from erasurehead.decoding import make_decoder
from erasurehead.errors import InvalidArgument
from erasurehead.schemes import parse_scheme


@st.composite
def placements(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """A number of stragglers, and a placement that has every task on more workers than that."""
    n_workers = draw(st.integers(2, 7))
    stragglers = draw(st.integers(0, min(3, n_workers - 1)))
    several = st.sets(st.integers(0, n_workers - 1), min_size=stragglers + 1)
    held: list[list[int]] = [[] for _ in range(n_workers)]
    for task, holders in enumerate(draw(st.lists(several, min_size=1, max_size=9))):
        for worker in holders:
            held[worker].append(task)
    return held, stragglers


@pytest.mark.slow
@given(placements())
def test_any_workers_but_so_many_decode_exactly(case: tuple[list[list[int]], int]) -> None:
    held, stragglers = case
    try:
        code = placed(held, stragglers, draws=5)
    except Unbearable:
        assume(False)
        raise
    assert [code.tasks_of(worker).tolist() for worker in range(code.n_workers)] == held
    decoder = make_decoder(code)
    for gone in combinations(range(code.n_workers), stragglers):
        decoding = decoder.decode(code.messages_without(gone))
        assert decoding.exact
        weights = np.zeros(code.n_messages)
        weights[decoding.messages] = decoding.weights[0]
        assert weights @ code.encoding.toarray() == pytest.approx(np.ones(code.n_tasks), abs=1e-5)


def by_speed(speeds: np.ndarray, n_tasks: int, stragglers: int) -> list[list[int]]:
    """Loads in proportion to speeds, laid end to end around the circle of tasks."""
    loads = codes.uncoded(len(speeds), n_tasks * (stragglers + 1), speeds.tolist()).loads
    ends = np.cumsum(loads)
    return [[task % n_tasks for task in range(end - load, end)] for load, end in zip(loads, ends, strict=True)]


@pytest.mark.slow
def test_loads_by_speed_are_near_the_ideal_and_exact_without_any_two() -> None:
    """Thirty workers of speeds 1 to 4; what an exact step would take at least is 1."""
    for seed in range(5):
        speeds = np.random.default_rng(seed).uniform(1, 4, 30)
        code = placed(by_speed(speeds, 120, 2), 2)
        assert (code.loads / speeds).max() / (120 * 3 / speeds.sum()) <= 1.08
        decoder, rows = make_decoder(code), code.encoding.toarray()
        for gone in combinations(range(30), 2):
            decoding = decoder.decode(code.messages_without(gone))
            assert np.abs(decoding.weights[0] @ rows[decoding.messages] - 1).max() <= 1e-11
        bound = code.structure.amplification_bound
        assert bound is not None
        assert bound * np.finfo(np.float32).eps / 2 <= 1e-4  # of float32 messages


def test_a_float32_message_costs_what_is_stated() -> None:
    random = np.random.default_rng(0)
    held: list[list[int]] = [[] for _ in range(20)]
    for task in range(60):  # as a distributed file system does: three replicas of each block, anywhere
        for worker in random.permutation(20)[:3]:
            held[worker].append(task)
    code = placed(held, 2)
    gradients = random.standard_normal((60, 50))
    sent, total = (code.encoding @ gradients).astype(np.float32), gradients.sum(axis=0)
    decoder, worst = make_decoder(code), 0.0
    for gone in combinations(range(20), 2):
        decoding = decoder.decode(code.messages_without(gone))
        found = decoding.weights[0] @ sent[decoding.messages].astype(float)
        worst = max(worst, float(np.linalg.norm(found - total) / np.linalg.norm(total)))
    assert worst <= 1e-4


def test_the_best_of_several_draws_is_kept() -> None:
    held = [[0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1]]
    one, several = placed(held, 2, draws=1), placed(held, 2)
    assert several.structure.amplification < one.structure.amplification
    assert placed(held, 2, seed=1).structure.amplification != several.structure.amplification


def test_more_draws_than_anybody_waits_for_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="draws must be at most 10000"):
        placed([[0], [0]], 1, draws=10**30)


def test_without_stragglers_a_task_of_one_holder_is_sent_as_it_is() -> None:
    code = placed([[1], [0, 2]], 0)
    assert code.encoding.toarray() == pytest.approx(np.array([[0, 1, 0], [1, 0, 1]]))


def test_a_worker_may_hold_nothing_and_a_scheme_may_name_the_placement() -> None:
    text = "custom(code='placed(held=[[0, 1], [1, 0], []], stragglers=1)', wait='decodable()')"
    scheme = parse_scheme(text, 3)
    assert scheme.code.loads.tolist() == [2, 2, 0]
    assert codes.build("placed", **scheme.code.parameters).encoding.toarray() == pytest.approx(
        scheme.code.encoding.toarray()
    )


@pytest.mark.parametrize(
    ("held", "stragglers", "message"),
    [
        (
            [[0, 1], [1, 2], [2]],
            1,
            "every task on 2 workers to tolerate 1 straggler, but only worker 0 holds task 0. Put it on more workers",
        ),
        ([[0, 1], [0, 1], [0]], 2, "but only workers 0, 1 hold task 1. Put it on more workers, or use stragglers=1"),
        ([[0, 1], [2, 0]], 1, r"holds task 1, and 1 task more has too few. Put"),
        ([[0, 2], [0, 2]], 1, "but no worker holds task 1. Put it on some worker."),
        ([[0], [10**12]], 0, "but no worker holds task 1, and 999,999,999,998 tasks more have too few. Put it on some"),
        ([[0, 0]], 0, r"held\[0\] must name no task twice"),
        ([[-1]], 0, r"held\[0\] must name tasks by numbers from 0 on"),
        ([[0.5]], 0, r"held\[0\] must be a list of whole numbers"),
        ([], 0, "held must name, for each worker, the tasks that it holds"),
        ([[], []], 0, "held must name, for each worker, the tasks that it holds"),
        (4, 0, r"held must name, for each worker, the tasks that it holds, got 4; such as \[\[0, 1\], \[1, 0\]\]"),
        ([[0, 1], 0], 0, "held must name, for each worker, the tasks that it holds"),
        ([[0], [0]], 2, "stragglers must be"),
    ],
)
def test_bad_placements_are_named(held: Any, stragglers: int, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        placed(held, stragglers)


def test_counts_that_no_code_has_are_refused_before_anything_is_tried() -> None:
    with pytest.raises(InvalidArgument, match="draws must be at most 10000, but it is 1000000000000"):
        placed([[0, 1], [1, 0]], 1, draws=10**12)
    with pytest.raises(InvalidArgument, match="stragglers must be at most 1"):
        codes.build("placed", held=[[0, 1], [1, 0]], stragglers=10**12)
