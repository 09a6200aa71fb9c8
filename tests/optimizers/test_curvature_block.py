"""Second derivatives between columns: what workers sum, how they are coded, and what the solver makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead import codes, schemes
from erasurehead.delays import Exponential
from erasurehead.engines import Engine, Order, ProcessEngine, VirtualEngine
from erasurehead.optimizers import Optimizer, QuasiNewton
from erasurehead.optimizers._base import Answer
from erasurehead.optimizers._curvature_block import CurvatureBlock, InitialMatrix, most_numbers, spreads
from erasurehead.problems import ElasticNet, LeastSquares, LogisticRegression, Problem, SoftmaxRegression
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.schemes import Scheme
from erasurehead.training import Resumption, Run, train

from ..arrays import Array
from ..kept_states import KeptStates

FORMS: dict[str, Callable[[Array], Any]] = {
    "dense": lambda X: X,
    "sparse": lambda X: sparse.csr_array(X * 1.5),
    "ones": lambda X: sparse.csr_array((X != 0.0).astype(float)),
}


def rows(n_samples: int = 120, n_columns: int = 14) -> Array:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n_samples, n_columns)) * (rng.random((n_samples, n_columns)) < 0.4)
    X[:, 0], X[:2, 5], X[2:, 5] = 1.0, 1.0, 0.0  # a column that two rows alone have
    return X


def problem_of(loss: str, X: Any, **others: Any) -> Problem:
    z = np.asarray(X @ np.linspace(-1.0, 1.0, X.shape[1])) + np.random.default_rng(3).standard_normal(X.shape[0])
    if loss == "squares":
        return LeastSquares(X, z, **others)
    if loss == "logistic":
        return LogisticRegression(X, np.where(z > 0.0, 1.0, -1.0), **others)
    return SoftmaxRegression(X, np.digitize(z, [-0.7, 0.7]), **others)


def collinear(loss: str = "squares", n_samples: int = 900) -> Problem:
    """Columns that say nearly the same, which gradients alone are slow on."""
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    X = rng.standard_normal((n_samples, 30)) * np.geomspace(1.0, 300.0, 30) @ turn
    return problem_of(loss, X / 300.0, l2=1e-9)


def differences(problem: Problem, x: Array) -> Array:
    """Return all second derivatives of the mean loss, as differences of gradients."""
    sides = 1e-5 * np.eye(len(x))
    return np.array([(problem.gradient(x + side) - problem.gradient(x - side)) / 2e-5 for side in sides])


def filled(numbers: Array, side: int) -> list[Array]:
    """Return the matrices whose upper triangles these are, row by row."""
    found: list[Array] = []
    for one in numbers.reshape(-1, side * (side + 1) // 2):
        matrix = np.zeros((side, side))
        matrix[np.triu_indices(side)] = one
        found.append(matrix + np.triu(matrix, 1).T)
    return found


# --- what workers sum -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["squares", "logistic", "classes"])
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("columns", [[0, 1, 5, 9], list(range(14))])
@pytest.mark.parametrize("weighted", [False, True])
def test_they_are_the_second_derivatives(
    form: str, loss: str, coupled: bool, columns: list[int], weighted: bool
) -> None:
    weights = {"sample_weight": np.linspace(0.5, 2.0, 120)} if weighted else {}
    problem = problem_of(loss, FORMS[form](rows()), **weights)
    x = np.linspace(-0.5, 0.7, problem.n_parameters)
    marks = np.zeros((problem.outputs, 14))
    marks[:, columns] = np.arange(1, len(columns) + 1)
    side = len(columns) * (problem.outputs if coupled else 1)
    out = np.full((1 if coupled else problem.outputs) * side * (side + 1) // 2, np.nan)
    problem.block(x, marks.ravel(), coupled, out)
    places = np.flatnonzero(marks.ravel())
    expected = differences(problem, x)[np.ix_(places, places)]
    each = [slice(None)] if coupled else [slice(k, k + side) for k in range(0, len(places), side)]
    for found, part in zip(filled(out, side), each, strict=True):
        np.testing.assert_allclose(found, expected[part, part], rtol=1e-5, atol=1e-8)


class Asks(Optimizer):
    """Asks for one block, over and over, and keeps it."""

    kinds = ("gradient", "curvature")
    max_points = 2

    def __init__(self, problem: Problem, most: int) -> None:
        super().__init__(np.linspace(-0.3, 0.3, problem.n_parameters))
        self.marks = np.zeros((problem.outputs, 14))
        self.marks[:, :most] = np.arange(1, most + 1)
        self.numbers = problem.outputs * most * (most + 1) // 2
        self.kept: list[Answer] = []

    def ask(self) -> Order:
        note = {"curvature": False, "block": {"numbers": self.numbers, "coupled": False, "work": 2.0}}
        return Order(step=self.step, points=(self.x, self.marks.ravel()), kind="curvature", note=note)

    def tell(self, answer: Answer) -> None:
        self.kept.append(answer)
        self.step += 1


CODES: list[Scheme] = [
    schemes.uncoded(6),
    schemes.exact(6, load=3),
    schemes.custom(codes.cyclic_repetition(6, stragglers=2), "decodable()"),
    schemes.custom(codes.build("communication_efficient_groups", n_workers=6, load=3, n_pieces=2), "decodable()"),
    schemes.custom(codes.build("communication_efficient_cyclic", n_workers=6, n_pieces=2, stragglers=1), "decodable()"),
    schemes.adaptive(6, multi_message=True),
]


@pytest.mark.parametrize("scheme", CODES, ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss", ["logistic", "classes"])
def test_they_are_coded_as_gradients_are(scheme: Scheme, real: bool, loss: str) -> None:
    problem = problem_of(loss, FORMS["ones"](rows()))
    asks = Asks(problem, 7)
    engine: Engine = ProcessEngine() if real else VirtualEngine(Exponential(0.5, seed=1))
    run = train(problem, scheme, asks, engine, 2, evaluate_every=0)
    expected = np.empty(asks.numbers)
    problem.block(asks.x, asks.marks.ravel(), False, expected)
    for answer in asks.kept:
        assert answer.exact
        assert answer.curvature is None
        assert answer.estimate is not None
        np.testing.assert_allclose(answer.estimate, problem.gradient(asks.x), rtol=1e-8, atol=1e-12)
        assert answer.block is not None
        np.testing.assert_allclose(answer.block, expected, rtol=1e-8, atol=1e-12)
    assert (
        min(row.work for row in run.arrivals if not row.censored) >= 3.0
    )  # a gradient, and twice its work for the block


# --- what the solver makes of them ----------------------------------------------------------------------------------


def fit(problem: Problem, engine: Engine | None = None, steps: int = 2000, **others: Any) -> Run:
    scheme = others.pop("scheme", None) or schemes.adaptive(6)
    return train(problem, scheme, QuasiNewton(problem.initial()), engine or VirtualEngine(), steps, **others)


def without(problem: Problem) -> Problem:
    problem.outputs = 0
    return problem


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squares", "logistic", "classes"])
def test_collinear_columns_take_a_few_steps_once_they_are_known(loss: str) -> None:
    run, plain = fit(collinear(loss), evaluate_every=0), fit(without(collinear(loss)), evaluate_every=0)
    assert run.ended == "converged"
    asked = [row.step for row in run.steps if row.kind == "curvature"]
    assert asked[0] == pytest.approx(15, abs=1) or loss == "classes"  # as many gradients as it costs
    assert len(run.steps) < min(60 if loss != "classes" else 150, 0.5 * len(plain.steps))
    assert run.final is not None
    assert plain.final is not None
    assert run.final.objective <= plain.final.objective + 1e-9 * plain.final.first_objective
    assert all(row.decision["columns"] in (0, 30) for row in run.steps if "columns" in row.decision)
    assert run.steps[-2].decision["columns"] == 30


@pytest.mark.parametrize("degree", [10, 15])
def test_powers_of_a_column_end_where_direct_methods_do(degree: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.random(400)
    X, y = np.vander(x, degree, increasing=True), np.sin(12.0 * x) + 0.01 * rng.standard_normal(400)
    problem = LeastSquares(X, y)
    run = fit(problem, evaluate_every=0)
    least = problem.objective(np.linalg.lstsq(X, y, rcond=1e-15)[0])
    assert run.ended == "converged"
    assert problem.objective(run.x) <= (1.0 + 1e-6) * least
    assert len(run.steps) < 150


@pytest.mark.slow
def test_where_it_is_the_whole_hessian_workers_need_not_solve_systems() -> None:
    engine = VirtualEngine(Exponential(0.5, seed=1), "preempt", seconds_per_task=1e-5)
    run = fit(collinear(), engine, scheme=schemes.adaptive(30), evaluate_every=0)
    assert "newton" not in {row.kind for row in run.steps}
    assert run.ended == "converged"


def test_what_is_there_in_a_few_steps_never_asks() -> None:
    problem = problem_of("logistic", np.random.default_rng(0).standard_normal((300, 40)), l2=0.1)
    assert {row.kind for row in fit(problem, evaluate_every=0).steps[3:]} == {"gradient"}


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_few_arrivals_bring_it_part_by_part(late: Any) -> None:
    engine = VirtualEngine(Exponential(0.5, seed=1), late, seconds_per_task=1e-5)
    run = fit(collinear(), engine, scheme=schemes.adaptive(30), evaluate_every=0)
    early = [row for row in run.steps if row.kind == "early"]
    assert any(row.decision.get("columns") == 30 for row in early)
    assert run.ended == "converged"
    assert run.final is not None
    assert run.final.objective == pytest.approx(fit(collinear()).objective, rel=1e-9)


@pytest.mark.parametrize(
    "problem",
    [
        problem_of("squares", rows(), penalty=ElasticNet(0.01)),
        without(problem_of("squares", rows())),
        problem_of("logistic", np.eye(4)[np.arange(900) % 4]),  # samples of one entry: nothing lies between columns
    ],
    ids=["l1", "no second derivatives", "one entry"],
)
def test_where_it_says_nothing_it_is_not_asked_for(problem: Problem) -> None:
    run = fit(problem, evaluate_every=0, steps=60)
    assert not any(row.decision.get("columns") for row in run.steps)


def test_a_block_of_a_model_where_the_objective_hardly_bends_is_not_used() -> None:
    block = CurvatureBlock()
    problem = problem_of("logistic", rows())
    block.begin(problem, lossy=False)
    bound, entries = problem.curvature()
    block.choose(bound, entries)
    for x, used in ((np.full(14, 1e9), False), (np.zeros(14), True)):
        numbers = np.empty(block.numbers)
        problem.block(x, block.marks, block.coupled, numbers)
        block.take(numbers, bound, np.full(14, 0.1))
        assert block.known == used


def test_columns_that_a_part_hardly_has_bend_as_the_bound_says() -> None:
    problem = problem_of("squares", np.random.default_rng(0).standard_normal((300, 4)))
    block, bound = CurvatureBlock(), np.array([1.0, 1.0, 2.0, 4.0])
    block.begin(problem, lossy=False)
    block.choose(bound, 4.0)
    numbers = np.diag([1.0, 1.0, 2.0, 0.0])[np.triu_indices(4)]
    for share in (0.25, 1.0):
        block.take(numbers, bound, np.full(4, 1e-9), share)
        assert block.times(np.eye(4)[3])[3] == pytest.approx((1.0 - share) * 0.5 * 4.0 + 1e-9)
    np.testing.assert_allclose(block.times(np.ones(4))[:3], numbers[[0, 4, 7]] + 1e-9)


def test_its_size_is_bounded_by_the_bytes_of_gradients() -> None:
    wide = LeastSquares(sparse.random_array((50, 40_000), density=0.01, rng=1, format="csr"), np.arange(50.0))
    assert most_numbers(problem_of("squares", rows())) == 14 * 15 // 2
    assert most_numbers(wide) <= 8 * 40_001
    block = CurvatureBlock()
    block.begin(wide, lossy=False)
    block.choose(*wide.curvature())
    assert 0 < block.numbers <= most_numbers(wide)
    lossy = CurvatureBlock()
    lossy.begin(wide, lossy=True)
    assert lossy.off


def test_columns_that_hardly_vary_cost_no_pairs() -> None:
    random = np.random.default_rng(0)
    rare = (random.random((2000, 300)) < 0.05).astype(float)

    def work(filled: float) -> float:
        ones = np.hstack([random.random((2000, 60)) < filled, rare])
        problem, block = LogisticRegression(sparse.csr_array(ones), np.tile([1.0, -1.0], 1000)), CurvatureBlock()
        block.begin(problem, lossy=False)
        bound = np.empty(361)
        bound[360] = problem.shard([slice(0, 2000)]).curvature(np.ones(1), bound[:360])
        block.choose(bound[:360], bound[360])
        return block.work * bound[360]  # in entries of gradients

    assert work(0.03) < work(0.97) < 0.9 * work(0.5)


def test_the_lengths_in_it_are_those_of_its_products() -> None:
    problem = problem_of("squares", rows())
    block = CurvatureBlock()
    block.begin(problem, lossy=False)
    bound, entries = problem.curvature()
    block.choose(bound, entries)
    numbers = np.empty(block.numbers)
    problem.block(problem.initial(), block.marks, block.coupled, numbers)
    block.take(numbers, bound, np.full(14, 0.1))
    diagonals = [np.full(14, 2.0), np.linspace(1.0, 2.0, 14)]
    metrics = [InitialMatrix(one, 1.0) for one in diagonals] + [InitialMatrix(diagonals[1], 1.0, 3.0, block)]
    step, change = np.linspace(-1.0, 2.0, 14), np.cos(np.arange(14.0))
    lengths, turns = spreads(step, change, metrics)
    assert lengths == pytest.approx([step @ (one * step) for one in diagonals] + [metrics[2].bent(step)])
    assert turns == pytest.approx([change @ one.solve(change) for one in metrics])
    whole = filled(numbers, 14)[0] + 0.1 * np.eye(14)
    np.testing.assert_allclose(whole @ metrics[2].solve(change), change, rtol=1e-6, atol=1e-9)


# --- saved, resumed, replayed ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_runs_go_on_to_the_bit(late: Any) -> None:
    def engine() -> VirtualEngine:
        return VirtualEngine(Exponential(0.5, seed=1), late, seconds_per_task=1e-5)

    kept, scheme = KeptStates(3, *range(50, 1000, 50)), schemes.adaptive(30)
    whole = fit(collinear("logistic"), engine(), scheme=scheme, callbacks=[kept], evaluate_every=0)
    for step in (3, min(kept.at.keys() - {3}), max(kept.at)):
        resume = Resumption(kept.at[step], whole.steps[:step], whole.arrivals)
        again = fit(collinear("logistic"), engine(), scheme=scheme, resume=resume, evaluate_every=0)
        np.testing.assert_array_equal(again.x, whole.x)


@pytest.mark.slow
def test_a_run_that_goes_on_does_not_choose_anew_what_was_chosen() -> None:
    def engine() -> VirtualEngine:
        return VirtualEngine(Exponential(0.5, seed=1, scale_with_load=True), seconds_per_task=1e-3)

    scheme = schemes.adaptive(30)
    whole = fit(collinear("logistic"), engine(), 150, scheme=scheme, evaluate_every=0)
    columns = [row.decision.get("columns", 0) for row in whole.steps]
    begins = next(step for step, count in enumerate(columns) if count)
    kept = KeptStates(begins, begins + 1, begins + 2, begins + 7, begins + 20)
    fit(collinear("logistic"), engine(), 150, scheme=scheme, callbacks=[kept], evaluate_every=0)
    for step in kept.steps:
        resume = Resumption(kept.at[step], whole.steps[:step], whole.arrivals)
        again = fit(collinear("logistic"), engine(), 150, scheme=scheme, resume=resume, evaluate_every=0)
        np.testing.assert_array_equal(again.x, whole.x)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_where_work_takes_time_a_block_is_asked_for_once_as_much_was_spent(late: Any) -> None:
    engine = VirtualEngine(Exponential(0.5, seed=1, scale_with_load=True), late, seconds_per_task=1e-3)
    run = fit(collinear("logistic"), engine, scheme=schemes.adaptive(30), evaluate_every=0)
    early = [row for row in run.steps if row.kind == "early"]
    columns = [row.decision.get("columns", 0) for row in early]
    assert not any(columns[:20])
    assert any(columns)
    assert run.ended == "converged"


@pytest.mark.parametrize("seed", [0, 17])
def test_a_first_message_that_happened_to_be_quick_does_not_make_work_cheap(seed: int) -> None:
    """Others that sum a block may take a hundred times as long, and do nothing else where late work is carried on."""
    engine = VirtualEngine(Exponential(0.5, seed=seed, scale_with_load=True), "carry")
    run = fit(collinear("logistic"), engine, 4, scheme=schemes.adaptive(12, load=1), evaluate_every=0)
    assert max(row.work for row in run.arrivals) == 2.0


def first_columns(problem: Problem, scheme: Scheme) -> int | None:
    """Return the step from few arrivals that first uses a block, if one does, where late work is carried on."""
    engine = VirtualEngine(Exponential(0.5, seed=1, scale_with_load=True), "carry", seconds_per_task=1e-3)
    run = fit(problem, engine, 400, scheme=scheme, evaluate_every=0)
    early = [row for row in run.steps if row.kind == "early"]
    return next((row.step for row in early if row.decision.get("columns")), None)


@pytest.mark.slow
def test_a_block_is_asked_for_later_where_nobody_else_speaks_for_whom_it_keeps_busy() -> None:
    shared, single = (first_columns(collinear("logistic"), schemes.adaptive(n, load)) for n, load in ((30, 3), (10, 1)))
    assert shared is not None
    assert single is not None
    assert single > 1.5 * shared


@pytest.mark.parametrize(("places", "most"), [(20, True), (600, False)])
def test_many_parts_carry_work_on_for_a_block_of_most_of_the_curvature_alone(places: int, most: bool) -> None:
    rng = np.random.default_rng(4)
    X = sparse.csr_array((rng.random((9000, places)) < 12 / places).astype(float))
    problem = problem_of("squares", X, l2=1e-4)
    block = CurvatureBlock()
    block.begin(problem, lossy=False)
    block.choose(*problem.curvature())
    assert block.chosen
    assert block.holds_most == most
    assert (first_columns(problem, schemes.adaptive(15, load=1)) is not None) == most


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_runs_are_replayed_to_the_bit(tmp_path: Path, late: Any) -> None:
    engine, scheme = VirtualEngine(Exponential(0.5, seed=1), late, seconds_per_task=1e-5), schemes.adaptive(30)
    recorder = Recorder(RunFolder.create(tmp_path))
    run = fit(collinear(), engine, scheme=scheme, callbacks=[recorder], evaluate_every=0)
    again = fit(collinear(), VirtualEngine(replay(tmp_path)), scheme=scheme, evaluate_every=0)
    np.testing.assert_array_equal(again.x, run.x)


@pytest.mark.slow
def test_real_processes_come_to_the_same_model_as_the_clock() -> None:
    scheme = schemes.exact(6, load=3)
    real, clock = (fit(collinear(), engine, scheme=scheme, evaluate_every=0) for engine in (ProcessEngine(), None))
    assert [row.kind for row in real.steps] == [row.kind for row in clock.steps]
    assert any(row.kind == "curvature" for row in real.steps[1:])
    np.testing.assert_allclose(real.x, clock.x, rtol=1e-6)
