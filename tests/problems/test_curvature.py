"""The bound on the curvature along each parameter: what a dense computation gives, and coded as gradients are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from erasurehead import codes, schemes
from erasurehead._internal.partition import split_samples
from erasurehead.datasets import read, shard
from erasurehead.delays import Exponential
from erasurehead.engines import Order, ProcessEngine, VirtualEngine
from erasurehead.optimizers import Answer, Optimizer, QuasiNewton
from erasurehead.problems import (
    LeastSquares,
    LogisticRegression,
    Problem,
    ShardedProblem,
    SoftmaxRegression,
)
from erasurehead.problems._network import TwoLayerNetwork
from erasurehead.training import train
from erasurehead.training._programs import build_programs

from ..arrays import Array
from .test_sharded import in_memory

N = 48
WEIGHTS = np.random.default_rng(6).integers(0, 4, N).astype(float)
FACTORS = {"logistic": 0.25, "squares": 2.0, "classes": 0.5}
"""The largest second derivatives of the losses in a margin."""


def design(form: str) -> Any:
    rng = np.random.default_rng(5)
    if form == "dense":
        return rng.standard_normal((N, 7)) * 10.0 ** np.arange(-3, 4)
    there = rng.random((N, 20)) < 0.2
    there[:, 3] = False  # a column that no sample touches
    return sparse.csr_array(there * (1.0 if form == "pattern" else rng.standard_normal(there.shape)))


def problem(loss: str, form: str, weighted: bool = False) -> Any:
    rng = np.random.default_rng(6)
    X, values = design(form), rng.standard_normal(N)
    weights = WEIGHTS if weighted else None
    if loss == "logistic":
        return LogisticRegression(X, np.sign(values), l2=0.1, sample_weight=weights)
    if loss == "squares":
        return LeastSquares(X, values, l2=0.1, sample_weight=weights)
    return SoftmaxRegression(X, np.digitize(values, [-0.4, 0.4]).astype(float), l2=0.1, sample_weight=weights)


def dense(loss: str, X: Any, coefficients: Array, tasks: list[slice], weights: Array) -> tuple[Array, float]:
    """The same by its definition."""
    rows = np.asarray(X.todense() if sparse.issparse(X) else X)
    shares = np.zeros(len(rows))
    for coefficient, task in zip(coefficients, tasks, strict=True):
        shares[task] = coefficient * weights[task] / weights.sum()
    outputs = 3 if loss == "classes" else 1
    return np.tile(FACTORS[loss] * shares @ rows**2, outputs), float(shares @ np.count_nonzero(rows, axis=1))


def spread(found: Array, held: Any, one: Problem) -> Array:
    whole = np.zeros(one.n_parameters)
    whole[slice(None) if held.support is None else held.support] = found
    return whole


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse", "pattern"])
@pytest.mark.parametrize("loss", FACTORS)
@given(st.lists(st.sampled_from([-1.5, 0.0, 1.0, 2.0]), min_size=3, max_size=3))
def test_it_is_what_a_dense_computation_gives(loss: str, form: str, weighted: bool, coefficients: list[float]) -> None:
    one = problem(loss, form, weighted)
    tasks = [slice(0, 10), slice(10, 24), slice(30, N)]
    held = one.shard(tasks)
    out = np.full(one.n_parameters if held.support is None else len(held.support), np.nan)
    entries = held.curvature(np.array(coefficients), out)
    weights = WEIGHTS if weighted else np.ones(N)
    expected, mean = dense(loss, design(form), np.array(coefficients), tasks, weights)
    np.testing.assert_allclose(spread(out, held, one), expected, rtol=1e-12, atol=1e-15)
    assert entries == pytest.approx(mean, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("form", ["dense", "sparse", "pattern"])
@pytest.mark.parametrize("loss", FACTORS)
def test_no_second_derivative_along_a_parameter_is_above_it(loss: str, form: str) -> None:
    one = problem(loss, form)
    whole = one.shard([slice(0, N)])
    out = np.empty(one.n_parameters if whole.support is None else len(whole.support))
    whole.curvature(np.ones(1), out)
    bound = spread(out, whole, one)
    rng = np.random.default_rng(1)
    for scale in (0.0, 1.0):
        x = scale * rng.standard_normal(one.n_parameters)
        for parameter in range(0, one.n_parameters, 3):
            move = np.zeros(one.n_parameters)
            move[parameter] = 1e-5 / max(1e-3, np.sqrt(bound[parameter]))
            length = move[parameter]
            bend = (one.gradient(x + move) - one.gradient(x - move))[parameter] / (2.0 * length)
            assert bend <= bound[parameter] * (1.0 + 1e-4) + 1e-8


@pytest.mark.parametrize("form", ["dense", "sparse", "pattern"])
def test_shards_of_a_folder_give_the_same(tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, N)
    if form == "dense":
        np.save(tmp_path / "y.npy", y)
        np.save(tmp_path / "rows.npy", rng.standard_normal((N, 5)))
        path, options = tmp_path / "rows.npy", {"target": "y.npy"}
    else:
        path, options = tmp_path / "rows.svm", {}
        dump_svmlight_file(design(form), y, str(path), zero_based=True)
    data = read(path, **options)  # type: ignore[arg-type]
    folder = shard(path, 4, tmp_path / "shards", **options)  # type: ignore[arg-type]
    whole, stored = in_memory(data), ShardedProblem(folder, l2=0.01)
    assert whole.curved
    assert stored.curved
    tasks = split_samples(whole.n_samples, 4)
    coefficients, found = np.array([1.0, -2.0]), []
    for one in (whole, stored):
        held = one.shard([tasks[0], tasks[2]])
        out = np.empty(one.n_parameters if held.support is None else len(held.support))
        entries = held.curvature(coefficients, out)
        found.append((entries, spread(out, held, one)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-12, atol=1e-15)


class Asking(Optimizer):
    """Asks for curvatures each time, and keeps what it is told."""

    kinds = ("curvature",)

    def __init__(self, x: Array) -> None:
        super().__init__(x)
        self.told: list[tuple[Array, float | None, Array, float, bool]] = []

    def ask(self) -> Order:
        return Order(step=self.step, points=(self.x,), kind="curvature")

    def tell(self, answer: Answer) -> None:
        self.step += 1
        assert answer.estimate is not None
        assert answer.curvature is not None
        self.told.append((answer.estimate.copy(), answer.value, *answer.curvature, answer.exact))


CODES = {
    "uncoded": codes.uncoded(8),
    "repetition": codes.fractional_repetition(8, 2),
    "cyclic": codes.cyclic_repetition(8, stragglers=2),
    "nested": codes.build("nested", n_workers=8, stragglers=2),
    "several messages": codes.build("multi_message", n_workers=8, load=2),
    "pieces": codes.build("communication_efficient_groups", n_workers=8, load=4, n_pieces=2),
}


@pytest.mark.parametrize("form", ["dense", "sparse", "pattern"])
@pytest.mark.parametrize("name", CODES)
def test_coded_and_decoded_it_is_the_plain_sum(name: str, form: str) -> None:
    one, code = problem("logistic", form), CODES[name]
    optimizer = Asking(np.linspace(-0.5, 0.5, one.n_parameters))
    scheme = schemes.custom(code, "decodable()")
    run = train(one, scheme, optimizer, VirtualEngine(Exponential(mean=0.5, seed=1)), 3, evaluate_every=0)
    expected, mean = dense("logistic", design(form), np.ones(1), [slice(0, N)], np.ones(N))
    x = optimizer.x
    for gradient, value, curvature, entries, exact in optimizer.told:
        np.testing.assert_allclose(curvature, expected, rtol=1e-8, atol=1e-9)
        assert entries == pytest.approx(mean, rel=1e-8)
        np.testing.assert_allclose(gradient, one.gradient(x) + one.penalty_gradient(x), rtol=1e-8, atol=1e-9)
        assert value == pytest.approx(one.objective(x), rel=1e-8)
        assert exact
    assert [row.kind for row in run.steps] == ["curvature"] * 3
    assert all(row.loss == pytest.approx(one.objective(x), rel=1e-8) for row in run.steps)


def test_a_message_with_curvature_is_twice_as_long_and_twice_the_work() -> None:
    one = problem("logistic", "pattern")
    plain, _ = build_programs(CODES["repetition"], one)
    programs, _ = build_programs(CODES["repetition"], one, curvature=True)
    for program, before in zip(programs, plain, strict=True):
        (gradient,) = program.remaining(Order(0, (one.initial(),)), ())
        (both,) = program.remaining(Order(0, (one.initial(),), kind="curvature"), ())
        assert [gradient] == list(before.message_specs)
        assert (both.length, both.work, both.vectors) == (2 * gradient.length, 2.0 * gradient.work, 2)
        assert program.message_specs == [both]  # the greatest, which engines keep room for


@pytest.mark.parametrize("wire", ["cast('float32')", "dithered(127)"])
def test_each_half_of_a_message_crosses_by_itself(wire: str) -> None:
    """A gradient that is small beside the curvature keeps its digits, and the objective all of them."""
    one = LeastSquares(1e3 * np.random.default_rng(0).standard_normal((N, 7)), np.full(N, 1e-6), l2=0.0)
    optimizer = Asking(one.initial())
    train(one, schemes.exact(8, load=2), optimizer, VirtualEngine(), 1, evaluate_every=0, wire=wire)
    ((gradient, value, curvature, _, _),) = optimizer.told
    exact, bounds = one.gradient(one.initial()), one.curvature()[0]
    assert np.abs(gradient - exact).max() <= 0.1 * np.abs(exact).max()
    assert np.abs(curvature - bounds).max() <= 0.1 * bounds.max()
    assert value == pytest.approx(one.objective(one.initial()), rel=1e-15)


@pytest.mark.processes
def test_real_workers_send_it_like_virtual_ones() -> None:
    one, told = problem("logistic", "sparse"), []
    for engine in (VirtualEngine(), ProcessEngine()):
        optimizer = QuasiNewton(one.initial())
        run = train(one, schemes.exact(2, load=2), optimizer, engine, 4, evaluate_every=0)
        told.append(([row.loss for row in run.steps], [row.received for row in run.steps], run.x.tobytes()))
    (losses, received, x), (other_losses, _, other_x) = told
    assert losses == other_losses
    assert x == other_x
    assert received[0] >= 2 * received[1]


def test_problems_that_know_of_none_say_so() -> None:
    network = TwoLayerNetwork(np.ones((4, 2)), np.array([0.0, 1.0, 0.0, 1.0]), hidden=2)
    assert not network.curved
    out = np.full(network.n_parameters, np.nan)
    assert network.shard([slice(0, 4)]).curvature(np.ones(1), out) == 0.0
    assert not out.any()
