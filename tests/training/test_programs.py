"""What workers send decodes to the full gradient and loss, for every shape of code, with and without supports."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead import codes, decoding
from erasurehead.codes import GradientCode
from erasurehead.engines import Order
from erasurehead.errors import InvalidArgument
from erasurehead.testing._problems import Quadratic
from erasurehead.training._programs import build_programs


def decoded(code: GradientCode, problem: Quadratic, x: np.ndarray, alive: list[int]) -> np.ndarray:
    """Return gradient and loss as decoded from the messages of some workers."""
    programs, layout = build_programs(code, problem)
    order = Order(0, (x,), round=0)
    vectors: dict[int, np.ndarray] = {}
    for worker in alive:
        taken = programs[worker].take(order)
        done = []
        while remaining := programs[worker].remaining(order, done):
            out = np.full(remaining[0].length, np.nan)
            programs[worker].compute(remaining[0], taken, out)
            assert layout.length(remaining[0].message) == remaining[0].length
            vectors[remaining[0].message] = out
            done.append(remaining[0])
    outcome = decoding.make_decoder(code).decode(sorted(vectors))
    return layout.decode(outcome, [vectors[int(message)] for message in outcome.messages])


def parity_groups(groups: int) -> GradientCode:
    """Three workers a group, two pieces, one parity piece: any two of a group suffice (SCHEMES 9b)."""
    generator = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    n = 3 * groups
    encoding = np.zeros((n, 2 * n))
    for group, worker in itertools.product(range(groups), range(3)):
        for task in range(3 * group, 3 * group + 3):
            encoding[3 * group + worker, 2 * task : 2 * task + 2] = generator[worker]
    owner = np.arange(n)
    return GradientCode("parity", {}, sparse.csr_array(encoding), owner, n, n, 2, owner // 3, tolerance=1)


def cyclic_pieces() -> GradientCode:
    """Ye and Abbe's code for 5 workers, load 3, 1 straggler, 2 pieces, from a Gaussian matrix (SCHEMES 9a)."""
    n, d, m = 5, 3, 2
    rng = np.random.default_rng(3)
    v = rng.standard_normal((n - d + m, n))
    columns = []
    for task in range(n):
        outside = [worker for worker in range(n) if worker not in [(task - t) % n for t in range(d)]]
        a = v[:, outside].T
        columns.append(np.vstack([np.eye(m), -np.linalg.solve(a[:, m:], a[:, :m])]))
    encoding = v.T @ np.hstack(columns)
    encoding[np.abs(encoding) < 1e-9] = 0.0
    return GradientCode("pieces", {}, sparse.csr_array(encoding), np.arange(n), n, n, m, tolerance=1)


def two_messages() -> GradientCode:
    """Three workers, each with an exclusive task first and a pair shared with the next second."""
    rows = [(0, [0]), (1, [1]), (2, [2]), (0, [3]), (1, [3]), (2, [4, 5]), (0, [4, 5])]
    encoding = np.zeros((len(rows), 6))
    for row, (_, tasks) in enumerate(rows):
        encoding[row, tasks] = 1.0
    return GradientCode("two", {}, sparse.csr_array(encoding), np.array([w for w, _ in rows]), 3, 6)


CODES = {
    "uncoded": codes.uncoded(6),
    "uncoded, more tasks": codes.uncoded(4, n_tasks=12),
    "repetition": codes.fractional_repetition(6, 3),
    "unequal groups": codes.fractional_repetition(7, 3, n_tasks=9),
    "cyclic": codes.cyclic_repetition(6, 2, seed=1),
    "group pieces": parity_groups(2),
    "cyclic pieces": cyclic_pieces(),
    "two messages": two_messages(),
}


@pytest.mark.parametrize("sparse_shards", [False, True])
@pytest.mark.parametrize("name", CODES)
def test_every_tolerated_set_of_stragglers_gives_the_full_gradient_and_loss(name: str, sparse_shards: bool) -> None:
    code = CODES[name]
    problem = Quadratic.random(29, 11, seed=2, density=0.3, sparse=sparse_shards)
    x = np.random.default_rng(5).standard_normal(11)
    expected = np.append(problem.gradient(x), problem.loss(x))
    for gone in itertools.combinations(range(code.n_workers), code.tolerance or 0):
        alive = [worker for worker in range(code.n_workers) if worker not in gone]
        np.testing.assert_allclose(decoded(code, problem, x, alive), expected, rtol=1e-9, atol=1e-10)


def test_missing_groups_leave_the_sum_of_the_others() -> None:
    problem = Quadratic.random(12, 5, seed=0)
    x = np.ones(5)
    total = decoded(codes.fractional_repetition(6, 3), problem, x, [4])
    half = Quadratic(problem.rows[6:], problem.centres[6:])
    np.testing.assert_allclose(total[:-1], half.gradient(x) / 2)
    np.testing.assert_allclose(total[-1], half.loss(x) / 2)


def test_workers_of_equal_tasks_share_their_shard_and_say_that_their_messages_are_equal() -> None:
    programs, _ = build_programs(codes.fractional_repetition(6, 3), Quadratic.random(12, 5))
    assert programs[0].shards[0] is programs[2].shards[0]
    assert programs[0].shards[0] is not programs[3].shards[0]
    contents = [program.message_specs[0].content for program in programs]
    assert contents == [contents[0]] * 3 + [contents[3]] * 3
    assert contents[0] != contents[3]


def test_messages_over_disjoint_tasks_have_shards_of_their_own() -> None:
    programs, _ = build_programs(two_messages(), Quadratic.random(12, 30, density=0.05, sparse=True))
    assert len(programs[0].shards) == 3
    assert {spec.work for spec in programs[0].message_specs} == {1.0, 2.0}


def test_pieces_make_messages_that_many_times_shorter() -> None:
    problem = Quadratic.random(12, 21)
    _, layout = build_programs(parity_groups(2), problem)
    assert layout.length(0) == 11  # 21 parameters and the loss, in two pieces


def test_several_points_are_combined_with_their_coefficients() -> None:
    problem = Quadratic.random(12, 5)
    programs, layout = build_programs(codes.uncoded(3), problem, max_points=2)
    a, b = np.ones(5), np.arange(5.0)
    order = Order(0, (a, b), round=0, coefficients=(1.0, -1.0))
    vectors = []
    for program in programs:
        out = np.empty(6)
        program.compute(program.message_specs[0], program.take(order), out)
        vectors.append(out)
    outcome = decoding.make_decoder(codes.uncoded(3)).decode([0, 1, 2])
    np.testing.assert_allclose(layout.decode(outcome, vectors)[:-1], problem.gradient(a) - problem.gradient(b))


@given(st.permutations(range(6)))
def test_the_sum_does_not_depend_on_the_order_of_arrival(order: list[int]) -> None:
    code = codes.fractional_repetition(6, 2)
    problem = Quadratic.random(13, 4, seed=1)
    x = np.linspace(0, 1, 4)
    reference = decoded(code, problem, x, [0, 1, 2, 3, 4, 5])
    assert decoded(code, problem, x, order).tobytes() == reference.tobytes()


def test_more_tasks_than_samples_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"n_tasks must be at most the number of training samples \(5\)"):
        build_programs(codes.uncoded(6), Quadratic.random(5, 3))


@pytest.mark.parametrize("name", CODES)
def test_coverage_is_the_mean_of_alpha_where_the_target_is_one(name: str) -> None:
    code = CODES[name]
    for messages in ([0], list(range(code.n_messages // 2)), list(range(code.n_messages))):
        outcome = decoding.make_decoder(code).decode(messages)
        assert outcome.coverage == pytest.approx(outcome.alpha[code.target > 0].mean())


def test_messages_that_share_no_task_with_others_keep_a_support_of_their_own() -> None:
    """Replicas of task 0 lie on the same support, whatever else their workers send, and can be compared."""
    rows = np.zeros((6, 6))
    for message, tasks in enumerate([[0], [1, 2], [2, 3], [0], [4, 5], [5, 1]]):
        rows[message, tasks] = 1.0
    code = GradientCode("replicas", {}, sparse.csr_array(rows), np.repeat([0, 1], 3), 2, 6)
    problem = Quadratic(np.eye(6), np.arange(6.0), sparse=True)
    programs, layout = build_programs(code, problem)
    first, second = programs[0].message_specs[0], programs[1].message_specs[0]
    assert first.content == second.content
    for spec in (first, second):
        positions = layout.positions[spec.message]
        assert positions is not None
        assert positions.tolist() == [[0, 6]]  # the one parameter that task 0 touches, and the loss
    for program in programs:  # those that share tasks share a shard
        assert [shard.n_tasks for shard in program.shards] == [1, 3]


def test_tasks_that_touch_the_whole_model_share_one_copy_of_it() -> None:
    code = codes.build("multi_message", n_workers=4, load=3)
    programs, _ = build_programs(code, Quadratic.random(16, 5, seed=0))
    x = np.ones(5)
    copies = [local for (parts, *_), *_ in [programs[0].take(Order(0, (x,), round=0))] for local in parts[0]]
    assert len(copies) == 3
    assert len({id(local) for local in copies}) == 1
    assert not np.shares_memory(copies[0], x)
    assert not copies[0].flags.writeable
