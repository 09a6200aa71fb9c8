"""Losses in JAX as problems: against gradients by hand, whatever the dtype, and what is refused beforehand."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from typing import Any

import cloudpickle
import numpy as np
import pytest

from erasurehead import codes, problems, schemes, train
from erasurehead.delays import Exponential
from erasurehead.engines import Order, VirtualEngine
from erasurehead.errors import InvalidArgument, MissingExtra
from erasurehead.optimizers import QuasiNewton
from erasurehead.problems import _jax_problem
from erasurehead.problems._mini_batches import draw_batch
from erasurehead.training._programs import build_programs

from ..bounded import PATIENCE

jax = pytest.importorskip("jax", reason="problems.jax needs JAX: pip install 'erasurehead[jax]'")
jnp = jax.numpy

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((41, 3)), np.sign(RNG.standard_normal(41))
W = np.array([0.3, -0.2, 0.1])
WHOLE = slice(0, 41)


def logistic(w: Any, batch: Any) -> Any:
    return jnp.mean(jnp.logaddexp(0.0, -batch["y"] * (batch["x"] @ w)))


def by_hand(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    margins = y * (x @ w)
    return float(np.logaddexp(0.0, -margins).mean()), -x.T @ (y / (1.0 + np.exp(margins))) / len(y)


def problem(**options: Any) -> _jax_problem.JaxProblem:
    return problems.jax(logistic, W, {"x": X, "y": Y}, **options)


@pytest.mark.slow
def test_float64_is_computed_in_float64_whatever_jax_does_by_default() -> None:
    assert not jax.config.jax_enable_x64
    loss, gradient = by_hand(W, X, Y)
    made = problem()
    np.testing.assert_array_equal(made.initial(), W)
    assert made.loss(W) == pytest.approx(loss, rel=1e-14)
    np.testing.assert_allclose(made.gradient(W), gradient, rtol=1e-13)
    assert not jax.config.jax_enable_x64


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "precision"), [("float32", 1e-6), ("bfloat16", 2e-2), ("float16", 3e-3)])
def test_models_of_narrower_dtypes_compute_in_them(dtype: str, precision: float) -> None:
    seen: list[str] = []

    def loss(w: Any, batch: Any) -> Any:
        seen.append(str(w.dtype))
        return logistic(w, batch)

    made = problems.jax(loss, jnp.asarray(W, dtype), {"x": jnp.asarray(X, dtype), "y": jnp.asarray(Y, dtype)})
    seen.clear()  # whether it is a mean is found out in float32
    np.testing.assert_allclose(made.gradient(made.initial()), by_hand(W, X, Y)[1], atol=precision)
    assert set(seen) == {dtype}
    assert made.gradient(made.initial()).dtype == np.float64


@pytest.mark.slow
def test_the_sum_of_the_tasks_is_the_gradient_and_what_remains_is_that_of_the_rest() -> None:
    made, tasks = problem(), [slice(0, 13), slice(13, 27), slice(27, 41)]
    out = np.empty(3)
    loss = made.shard(tasks).combine(W, np.ones(3), 0, out)
    assert loss == pytest.approx(made.loss(W), rel=1e-13)
    np.testing.assert_allclose(out, made.gradient(W), rtol=1e-12)
    (left,) = made.exact([W], [tasks[1]])
    kept = np.r_[0:13, 27:41]
    assert left.n_samples == 27
    assert left.loss == pytest.approx(by_hand(W, X[kept], Y[kept])[0], rel=1e-13)
    np.testing.assert_allclose(left.gradient, by_hand(W, X[kept], Y[kept])[1], rtol=1e-12)


@pytest.mark.slow
def test_the_default_solver_takes_a_loss_on_all_its_data_to_a_minimum() -> None:
    """Rosenbrock's valley, which a method of gradients goes along for thousands of steps."""

    def valley(x: Any, batch: Any) -> Any:
        return (batch * ((1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2)).mean()

    made = problems.jax(valley, np.array([-1.2, 1.0]), np.ones(24))
    assert not made.stochastic
    assert problems.jax(valley, np.array([-1.2, 1.0]), np.ones(24), batch_size=3).stochastic
    run = train(made, schemes.adaptive(4), QuasiNewton(made.initial()), VirtualEngine(Exponential(0.5, seed=0)), 300)
    assert run.ended == "converged"
    np.testing.assert_allclose(run.x, 1.0, rtol=1e-5)


@pytest.mark.slow
def test_mini_batches_come_from_seed_task_and_step_and_replicas_agree() -> None:
    made = problem(batch_size=4, seed=7)

    def send(tasks: list[slice], coefficients: list[float], step: int, of: Any = made) -> bytes:
        out = np.empty(3)
        loss = pickle.loads(pickle.dumps(of.shard(tasks))).combine(W, np.array(coefficients), step, out)
        return out.tobytes() + np.float64(loss).tobytes()

    alone = send([slice(10, 20)], [1.0], 3)
    assert send([slice(0, 10), slice(10, 20)], [0.0, 1.0], 3) == alone  # whoever holds what besides
    assert send([slice(10, 20)], [1.0], 4) != alone
    assert send([slice(11, 20)], [1.0], 3) != alone
    assert send([slice(10, 20)], [1.0], 3, problem(batch_size=4, seed=8)) != alone
    chosen = 10 + draw_batch(7, slice(10, 20), 3, 4)
    expected = by_hand(W, X[chosen], Y[chosen])[1] * 10 / 41
    np.testing.assert_allclose(np.frombuffer(alone)[:3], expected, rtol=1e-12)


def test_the_mean_over_mini_batches_is_the_gradient_of_the_task() -> None:
    pairs = list(itertools.combinations(range(4), 2))
    counts = dict.fromkeys(pairs, 0)
    for step in range(1200):
        counts[tuple(draw_batch(1, slice(4, 8), step, 2).tolist())] += 1  # pyright: ignore[reportArgumentType]
    assert all(140 < count < 260 for count in counts.values())  # 200 each, and 13 the standard deviation


@pytest.mark.slow
def test_a_batch_of_a_whole_task_is_the_task_to_the_bit() -> None:
    all_of_it, some = np.empty(3), np.empty(3)
    problem().shard([slice(0, 20)]).combine(W, np.ones(1), 5, all_of_it)
    problem(batch_size=20).shard([slice(0, 20)]).combine(W, np.ones(1), 5, some)
    assert all_of_it.tobytes() == some.tobytes()


@pytest.mark.slow
def test_programs_travel_with_losses_that_only_this_process_knows() -> None:
    shift = 0.5
    made = problems.jax(lambda w, batch: jnp.mean((batch @ w - shift) ** 2), np.zeros(3), X)
    programs, _ = build_programs(codes.build("binary_repetition", n_workers=4, stragglers=2), made)
    assert programs[0].nbytes > 0  # counted by the plain pickle
    copy = pickle.loads(cloudpickle.dumps(programs[0]))
    (spec,) = copy.message_specs
    here, there = np.empty(spec.length), np.empty(spec.length)
    for program, out in ((programs[0], here), (copy, there)):
        program.compute(spec, program.take(Order(0, (W,))), out)
    assert here.tobytes() == there.tobytes()


@pytest.mark.slow
def test_parameters_come_back_in_the_form_that_they_were_given_in_and_metrics_see_them() -> None:
    def loss(p: Any, batch: Any) -> Any:
        return jnp.mean((batch @ p["layers"][0][0] + p["b"]) ** 2)

    parameters = {"b": np.zeros((), "f4"), "layers": [(np.ones(3, "f4"),)]}
    made = problems.jax(loss, parameters, X, test=X[:5], metrics=lambda p, test: {"b": p["b"] + 1, "rows": len(test)})
    found = made.parameters(made.initial())
    assert jax.tree.structure(found) == jax.tree.structure(parameters)
    assert found["layers"][0][0].dtype == np.float32
    assert made.metrics(made.initial()) == {"b": 1.0, "rows": 5.0}
    assert problems.jax(loss, parameters, X, test=X).metrics(made.initial())["loss"] == pytest.approx(
        made.loss(made.initial()), rel=1e-6
    )
    assert problem().metrics(W) == {}


def quiet(w: Any, batch: Any) -> Any:
    return jnp.mean(batch["x"] @ w)


def masked(w: Any, batch: Any, of: Any = lambda total, weight: (total, weight)) -> Any:
    mask = (batch["x"][:, 0] > 0.5) + 0.25
    return of(jnp.sum(mask * jnp.logaddexp(0.0, -batch["y"] * (batch["x"] @ w))), jnp.sum(mask))


@pytest.mark.parametrize("options", [{}, {"batch_size": 13, "worker_backend": "numpy"}], ids=["jax", "numpy"])
@pytest.mark.slow
def test_sums_with_their_weights_are_minimised_as_their_quotient(options: dict[str, Any]) -> None:
    rows = {"x": X[:39], "y": Y[:39]}
    if options:
        made = problems.jax(masked, W, rows, **options)
        options["hashes"] = [source.hash for source in made.sources.values()]
    made = problems.jax(masked, W, rows, test={"x": X[:5], "y": Y[:5]}, **options)
    with jax.enable_x64(True):
        quotient = jax.value_and_grad(lambda w, batch: masked(w, batch, jnp.divide))
        loss, gradient = quotient(jnp.asarray(W), rows)
        tested = masked(jnp.asarray(W), {"x": X[:5], "y": Y[:5]}, jnp.divide)
    out, tasks = np.empty(3), [slice(0, 13), slice(13, 26), slice(26, 39)]
    shard = pickle.loads(pickle.dumps(made.shard(tasks)))
    assert shard.combine(W, np.ones(3), 0, out) == pytest.approx(float(loss), rel=1e-12)
    np.testing.assert_allclose(out, gradient, rtol=1e-10)
    assert made.loss(W) == pytest.approx(float(loss), rel=1e-12)
    assert made.metrics(W)["loss"] == pytest.approx(float(tested), rel=1e-12)


BAD = [
    ("a loss that is no function", {"loss": 3}, "loss must be a function of parameters and a batch"),
    ("a loss for each sample", {"loss": lambda w, b: b["x"] @ w}, r"must return one number.*.an array"),
    ("a loss and more", {"loss": lambda w, b: (quiet(w, b), 1)}, "what loss returns .* or return the mean alone"),
    ("three", {"loss": lambda w, b: (quiet(w, b), 1, 2)}, "must return one number, or a sum and its weight.*'tuple'"),
    ("masks", {"loss": lambda w, b: masked(w, b, jnp.divide)}, r"must be a mean .*return .*\(sum, weight\)"),
    (
        "masks in bfloat16",
        {"parameters": jnp.asarray(W, "bfloat16"), "loss": lambda w, b: masked(w, b, jnp.divide)},
        r"must be a mean .*return .*\(sum, weight\)",
    ),
    ("a pair with a gradient", {"loss": masked, "gradient": "edited.py"}, "gradient must be left out"),
    ("a sum", {"loss": lambda w, b: jnp.sum((b["x"] @ w) ** 2)}, "must be a mean over the samples .* not the sum"),
    ("whole numbers", {"loss": lambda w, b: jnp.int32(1)}, "must return a real number.*'one of int32'"),
    ("NaN", {"loss": lambda w, b: jnp.log(-1.0 - quiet(w, b) ** 2)}, "must be finite at the first parameters"),
    ("a loss that fails", {"loss": lambda w, b: b["z"]}, r"fails at the first parameters.*KeyError: 'z'"),
    ("shapes that differ", {"parameters": np.zeros(4)}, "fails at the first parameters.*TypeError"),
    ("a number", {"parameters": 0.5}, r"parameters must be an array.*0.5; write numbers as jnp.asarray"),
    ("a text", {"parameters": {"w": W, "k": "a"}}, r"parameters\['k'\] must be an array"),
    ("whole parameters", {"parameters": np.arange(3)}, "must be an array of real numbers, which training moves"),
    ("no parameters", {"parameters": {}}, "parameters must hold at least one array"),
    ("infinite parameters", {"parameters": np.array([0.0, np.inf, 0.0])}, "parameters must be finite"),
    ("lengths that differ", {"data": {"x": X, "y": Y[:5]}}, "must be 41, as in data.*.*5"),
    ("no data", {"data": {}}, "data must hold at least one array"),
    ("no samples", {"data": {"x": X[:0], "y": Y[:0]}}, "data must hold at least one sample"),
    ("a scalar among data", {"data": {"x": X, "y": 1.0}}, r"data\['y'\] must be an array with the samples along"),
    ("texts among data", {"data": {"x": X, "y": np.array(["a"] * 41)}}, r"data\['y'\] must be an array of numbers"),
    ("masked data", {"data": {"x": np.ma.masked_less(X, 0), "y": Y}}, "must have no masked values"),
    ("an overflow", {"parameters": W.astype("f4"), "data": {"x": X * 1e300, "y": Y}}, r"must fit into float32"),
    ("large", {"parameters": W.astype("f4"), "data": {"x": X, "id": np.full(41, 2**40)}}, r"must fit into int32"),
    ("no batch", {"batch_size": 0}, "batch_size must be at least 1"),
    ("too large a batch", {"batch_size": 42}, "batch_size must be at most 41"),
    ("a negative seed", {"seed": -1}, "seed must be at least 0"),
    ("a negative penalty", {"l2": -1.0}, "l2 must be a finite number of at least 0"),
    ("other test samples", {"test": {"x": X[:, :2], "y": Y}}, "test must hold arrays like those of data"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("options", "said"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, Any], said: str) -> None:
    given = {"loss": logistic, "parameters": W, "data": {"x": X, "y": Y}, **options}
    with pytest.raises(InvalidArgument, match=said):
        problems.jax(given.pop("loss"), given.pop("parameters"), given.pop("data"), **given)


def test_metrics_that_are_none_are_refused() -> None:
    made = problem(test={"x": X, "y": Y}, metrics=lambda p, test: 0.5)
    with pytest.raises(InvalidArgument, match="metrics must return a dict of numbers by name"):
        made.metrics(W)


def test_without_jax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtra, match=r"pip install 'erasurehead\[jax\]'"):
        problem()


@pytest.mark.slow
def test_problems_load_neither_jax_nor_pytorch() -> None:
    code = "import sys, erasurehead.problems; assert not {'jax', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
