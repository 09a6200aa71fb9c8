"""Shards: their losses and gradients add up to the whole, on the columns that they touch, and survive the journey."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead._internal.partition import split_samples
from erasurehead.errors import InvalidArgument
from erasurehead.problems import LogisticRegression, Shard
from erasurehead.problems._blocks import MOST_ROWS
from erasurehead.problems._linear import LinearProblem
from erasurehead.problems._shards import LinearShard, parameters_of

from .oracles import FORMS, KINDS, Case, case_of, cases, gradients, losses


def combined(problem: LinearProblem, shard: Shard, x: np.ndarray, coefficients: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the shard's combined gradient put in place, and its combined loss."""
    places = np.arange(problem.n_parameters) if shard.support is None else shard.support
    local = np.full(len(places), np.nan)
    loss = shard.combine(x[places], coefficients, 0, local)
    whole = np.zeros(problem.n_parameters)
    whole[places] = local
    return whole, loss


@given(cases(), st.data())
def test_a_shard_combines_the_gradients_and_losses_of_its_tasks(case: Case, data: st.DataObject) -> None:
    problem = case.problem()
    n_tasks = data.draw(st.integers(1, problem.n_samples))
    tasks = split_samples(problem.n_samples, n_tasks)
    held = data.draw(st.permutations(range(n_tasks)))[: data.draw(st.integers(1, n_tasks))]
    coefficients = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, -2.5, 0.3]), min_size=n_tasks)))[: len(held)]
    shard = problem.shard([tasks[task] for task in held])
    assert shard.n_tasks == len(held)
    gradient, loss = combined(problem, shard, case.x, coefficients)
    slopes, values = (part(case.kind, case.dense, case.y, case.x) for part in (gradients, losses))
    pairs = list(zip(coefficients, held, strict=True))
    expected = sum(c * slopes[tasks[task]].sum(axis=0) for c, task in pairs) / problem.n_samples
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12)
    assert loss == pytest.approx(sum(c * values[tasks[task]].sum() for c, task in pairs) / problem.n_samples, rel=1e-10)


@given(cases(), st.integers(0, 10_000))
def test_a_random_partition_adds_up_to_the_whole(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = case.problem()
    tasks = split_samples(problem.n_samples, int(rng.integers(1, problem.n_samples + 1)))
    workers = rng.integers(0, 3, len(tasks))
    parts = [
        combined(problem, problem.shard(mine), case.x, np.ones(len(mine)))
        for worker in range(3)
        if (mine := [rows for rows, owner in zip(tasks, workers, strict=True) if owner == worker])
    ]
    np.testing.assert_allclose(sum(part[0] for part in parts), problem.gradient(case.x), rtol=1e-11, atol=1e-13)
    assert sum(part[1] for part in parts) == pytest.approx(problem.loss(case.x), rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_the_support_is_ascending_and_just_what_the_gradient_touches(kind: str, form: str) -> None:
    case = case_of(kind, form, seed=3, n_rows=40, n_columns=60)
    problem = case.problem()
    tasks = [slice(0, 4), slice(20, 23)]
    support = problem.shard(tasks).support
    rows = np.concatenate([case.dense[part] for part in tasks])
    touched = np.flatnonzero(rows.any(axis=0))
    if form == "dense":
        assert support is None
        return
    n_outputs = problem.n_parameters // 60
    np.testing.assert_array_equal(support, np.concatenate([60 * output + touched for output in range(n_outputs)]))
    assert np.all(np.diff(support) > 0)


def test_parameters_are_numbered_with_32_bits_up_to_the_last_and_refused_beyond() -> None:
    most = 2**31 - 1
    assert parameters_of(np.array([0, most - 1]), 1, most).tolist() == [0, most - 1]
    assert parameters_of(np.array([2]), 3, 700_000_000).tolist() == [2, 700_000_002, 1_400_000_002]
    with pytest.raises(InvalidArgument, match=r"number of parameters must be less than 2147483648.*2147483648"):
        parameters_of(np.array([2]), 2, 2**30)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_shard_that_travelled_computes_the_same_bits(kind: str, form: str) -> None:
    case = case_of(kind, form, seed=9, n_rows=50, n_columns=30)
    problem = case.problem()
    shard = problem.shard([slice(5, 20), slice(31, 44)])
    before = pickle.dumps(shard, protocol=5)
    coefficients = np.array([0.7, -1.3])
    here, loss = combined(problem, shard, case.x, coefficients)
    assert pickle.dumps(shard, protocol=5) == before  # computing leaves nothing behind
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(shard, protocol=5, buffer_callback=buffers.append)
    # Shared memory that is mapped for reading alone gives arrays that are read-only.
    travelled = pickle.loads(packed, buffers=[memoryview(bytes(buffer)) for buffer in buffers])
    there, same = combined(problem, travelled, case.x, coefficients)
    assert here.tobytes() == there.tobytes()
    assert loss == same


def test_a_dense_shard_sends_its_own_rows_only() -> None:
    case = case_of("least_squares", "dense", seed=0, n_rows=2000, n_columns=20)
    shard = case.problem().shard([slice(0, 10)])
    assert len(pickle.dumps(shard, protocol=5)) < 10 * 21 * 8 + 2000


@pytest.mark.parametrize("form", ["dense", "ragged", "sparse"])
def test_more_rows_than_a_block_holds(form: str) -> None:
    rng = np.random.default_rng(0)
    n_rows = 2 * MOST_ROWS - 5
    dense = rng.random((n_rows, 3)) < [0.5, 0.2, 1e-5]
    dense = dense if form == "ragged" else dense * 0.5
    y = np.where(rng.random(n_rows) < 0.5, 1.0, -1.0)
    X = np.asarray(dense, dtype=np.float64) if form == "dense" else sparse.csr_array(dense, dtype=np.float64)
    problem = LogisticRegression(X, y)
    x = np.array([1.0, -2.0, 0.5])
    dense = dense.astype(np.float64)
    np.testing.assert_allclose(problem.gradient(x), gradients("logistic", dense, y, x).mean(axis=0), rtol=1e-9)
    assert problem.loss(x) == pytest.approx(losses("logistic", dense, y, x).mean(), rel=1e-10)
    tasks = [slice(0, 80_000), slice(80_000, n_rows)]
    shard = problem.shard(tasks)
    assert len(shard.pieces) == (3 if form == "dense" else 2)
    gradient, loss = combined(problem, shard, x, np.array([2.0, 0.0]))
    expected = 2 * gradients("logistic", dense, y, x)[:80_000].sum(axis=0) / n_rows
    np.testing.assert_allclose(gradient, expected, rtol=1e-9)
    assert loss == pytest.approx(2 * losses("logistic", dense, y, x)[:80_000].sum() / n_rows, rel=1e-10)


def test_a_task_left_out_does_not_spoil_the_others() -> None:
    X = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1.0]]))
    problem = LogisticRegression(X, [1.0, -1.0])
    shard = problem.shard([slice(0, 1), slice(1, 2)])
    out = np.empty(2)
    shard.combine(np.array([np.nan, 0.0]), np.array([0.0, 1.0]), 0, out)
    np.testing.assert_array_equal(out, [0.0, 0.25])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_task_that_is_asked_for_alone_is_cut_out_of_those_around_it(kind: str, form: str) -> None:
    case = case_of(kind, form, 1)
    problem = case.problem()
    tasks = split_samples(problem.n_samples, 4)
    together = problem.shard(tasks)
    for _ in range(2):  # kept since the first time
        for task, rows in enumerate(tasks):
            gradient, loss = combined(problem, together, case.x, np.eye(4)[task])
            expected, value = combined(problem, problem.shard([rows]), case.x, np.ones(1))
            np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)
            assert loss == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_sums_are_the_same_bits_when_tasks_are_cut(kind: str, form: str) -> None:
    case = case_of(kind, form, 1, n_rows=60)
    problem, fine = case.problem(), split_samples(60, 12)
    whole = problem.shard(split_samples(60, 4))
    assert isinstance(whole, LinearShard)
    cut = whole.cut([[rows.stop - rows.start for rows in fine[first : first + 3]] for first in range(0, 12, 3)])
    assert cut.n_tasks == 12
    for coefficients in (np.ones(4), np.array([1.0, 0.0, 2.0, 1.0])):
        (expected, value), (gradient, loss) = (
            combined(problem, shard, case.x, some)
            for shard, some in ((whole, coefficients), (cut, np.repeat(coefficients, 3)))
        )
        assert (gradient.tobytes(), loss) == (expected.tobytes(), value)
    for task, rows in enumerate(fine):
        gradient, loss = combined(problem, cut, case.x, np.eye(12)[task])
        expected, value = combined(problem, problem.shard([rows]), case.x, np.ones(1))
        np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)
        assert loss == pytest.approx(value, rel=1e-12)


def test_vectors_of_another_length_are_refused() -> None:
    shard = LogisticRegression(sparse.eye_array(4, format="csr"), [1, -1, 1, -1]).shard([slice(0, 2)])
    with pytest.raises(ValueError, match="cannot reshape"):
        shard.combine(np.zeros(4), np.ones(1), 0, np.empty(4))
    with pytest.raises(ValueError, match="cannot reshape"):
        shard.combine(np.zeros(2), np.ones(1), 0, np.empty(3))
