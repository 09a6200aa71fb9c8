"""The optimizer that finds its steps itself: it ends at the optimum, and never in infinity or in a silent stall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from scipy.optimize import minimize

from erasurehead import codes, schemes
from erasurehead.delays import Exponential, parse
from erasurehead.engines import VirtualEngine
from erasurehead.errors import Diverged, InvalidArgument
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import Nesterov, Optimizer, QuasiNewton
from erasurehead.optimizers._base import Answer
from erasurehead.problems import (
    ElasticNet,
    LeastSquares,
    LogisticRegression,
    Problem,
    Shard,
    SoftmaxRegression,
)
from erasurehead.problems._network import TwoLayerNetwork
from erasurehead.training import Callback, Resumption, Run, train

from ..arrays import Array

N = 240
WORKERS = 6


def numbers(rng: np.random.Generator) -> Array:
    return rng.standard_normal((N, 5))


def ranges(rng: np.random.Generator) -> Array:
    return numbers(rng) * 10.0 ** np.array([-6.0, -3.0, 0.0, 3.0, 6.0])


def onehot(rng: np.random.Generator) -> Any:
    columns = np.minimum(rng.geometric(0.15, (N, 3)) - 1, 19) + 20 * np.arange(3)
    return sparse.csr_array((np.ones(3 * N), columns.ravel(), np.arange(0, 3 * N + 1, 3)), shape=(N, 60))


def few(rng: np.random.Generator) -> Any:
    X = sparse.random_array((N, 30), density=0.1, rng=rng, data_sampler=lambda size: rng.standard_normal(size))
    return sparse.csr_array(X)


DESIGNS: Mapping[str, Callable[[np.random.Generator], Any]] = {
    "dense": numbers,
    "columns of very different ranges": ranges,
    "one-hot": onehot,
    "sparse": few,
}
LOSSES = ("logistic", "squares", "large targets", "three classes")


@cache
def problem(loss: str, design: str, l2: float = 1.0 / N) -> Any:
    rng = np.random.default_rng(7)
    X = DESIGNS[design](rng)
    scale = np.sqrt(np.asarray((X**2).mean(axis=0)).ravel() + 1e-300)
    margins = X @ (rng.standard_normal(X.shape[1]) / scale) / 2.0
    noisy = margins + rng.standard_normal(N)
    if loss == "logistic":
        return LogisticRegression(X, np.where(noisy > 0.0, 1.0, -1.0), l2=l2)
    if loss == "three classes":
        return SoftmaxRegression(X, np.digitize(noisy, [-0.7, 0.7]).astype(float), l2=l2)
    return LeastSquares(X, noisy * (1e7 if loss == "large targets" else 1.0), l2=l2)


def fit(problem: Problem, steps: int = 1000, scheme: schemes.Scheme | None = None, **others: Any) -> Run:
    # Late work of one round is carried on, so that all gradients are whole: test_few_arrivals has those that are not.
    engine = others.pop("engine", None) or VirtualEngine(Exponential(mean=0.5, seed=3), late="drop(1)")
    optimizer = others.pop("optimizer", None) or QuasiNewton(problem.initial())
    return train(problem, scheme or schemes.adaptive(WORKERS), optimizer, engine, steps, evaluate_every=0, **others)


def least(problem: Problem) -> float:
    """The minimum by SciPy, in variables in which the curvature bound of each parameter is 1: else it finds none."""
    whole = problem.shard([slice(0, problem.n_samples)])
    diagonal, x0 = np.zeros(problem.n_parameters), problem.initial()
    held = slice(None) if whole.support is None else whole.support
    there = diagonal[held].copy()
    whole.curvature(np.ones(1), there)
    diagonal[held] = there
    scale = 1.0 / np.sqrt(diagonal + problem.penalty_gradient(np.ones(len(x0))) + 1e-300)

    def both(z: Array) -> tuple[float, Array]:
        x = scale * z
        return problem.objective(x), scale * (problem.gradient(x) + problem.penalty_gradient(x))

    z, options = x0 / scale, {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 30}
    found = [float(problem.objective(x0))]
    for _ in range(2):  # from where it stopped, without its memory
        done: Any = minimize(both, z, jac=True, method="L-BFGS-B", options=options)
        z = done.x
        found.append(float(done.fun))
    return min(found)


def accepted(run: Run) -> Array:
    return np.array([row.loss for row in run.steps if row.loss is not None and not row.rejected])


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("loss", LOSSES)
def test_it_ends_by_itself_at_the_optimum(loss: str, design: str) -> None:
    one = problem(loss, design)
    run = fit(one)
    assert run.ended == "converged"
    assert run.objective is not None
    best, first = least(one), one.objective(one.initial())
    assert run.objective - best <= 1e-10 * first
    assert run.objective == pytest.approx(one.objective(run.x), rel=1e-13)
    losses = accepted(run)
    assert np.all(np.diff(losses) <= 1e-13 * np.abs(losses[:-1]))
    assert run.rise is None
    assert run.steps[0].kind == "curvature"
    assert run.steps[0].stepped
    assert run.steps[0].loss == pytest.approx(first, rel=1e-12)
    assert {row.kind for row in run.steps[1:]} <= {"gradient", "curvature"}


def test_points_that_were_only_tried_are_no_rise_and_no_model() -> None:
    """A loss that is far more curved elsewhere: whole steps overshoot."""
    run = fit(Steep(), steps=60)
    rejected = [row for row in run.steps if row.rejected]
    assert rejected
    assert run.rise is None
    assert run.ended == "converged"
    short = [fit(Steep(), steps=steps) for steps in range(1, 12)]
    assert any(one.steps[-1].rejected for one in short)
    objectives = np.array([one.objective for one in short])
    assert np.all(np.diff(objectives) <= 1e-15)  # two sums of the same numbers
    assert all(one.final is not None and not one.final.worse for one in short)


@pytest.mark.parametrize("kind", ["curved", "steep"])
@given(st.integers(1, 14))
@settings(max_examples=14)
def test_a_run_ends_with_the_better_of_the_newest_point_and_the_one_before(kind: str, steps: int) -> None:
    one = problem("logistic", "one-hot") if kind == "curved" else Steep()
    models: list[Array] = []

    class Watch(Callback):
        def on_step_end(self, row: Any, x: Array) -> None:
            models.append(x)
            if row.rejected:
                assert x is optimizer.known

    optimizer = QuasiNewton(one.initial())
    run = train(
        one,
        schemes.adaptive(WORKERS),
        optimizer,
        VirtualEngine(),
        steps,
        [Watch()],
        until="objective < 0",
        tolerance=None,
    )
    assert [measured.value for measured in run.measured] == [one.objective(x) for x in models]
    ends = [one.objective(optimizer.known), one.objective(optimizer.best)]
    assert run.objective in ends
    assert run.objective <= min(ends) + 1e-12 * abs(min(ends))  # less of a difference is rounding
    assert one.objective(run.x) == run.objective
    assert models[-1] is optimizer.best
    if kind == "curved":  # the first step has moved, and this is not known to be good before the second has come
        assert one.objective(models[0]) < one.objective(one.initial())


def test_a_target_that_the_newest_point_reaches_ends_the_run_with_it() -> None:
    one = problem("logistic", "one-hot")
    first = fit(one, 1)
    assert first.objective is not None
    run = fit(one, until=f"objective < {first.objective * 1.0001}")
    assert (run.ended, len(run.steps)) == ("until", 1)
    assert run.objective == first.objective
    assert run.evaluations == []


def test_a_newest_point_that_is_worse_is_not_what_a_run_ends_with() -> None:
    worse = 0
    for steps in range(1, 20):
        optimizer = QuasiNewton(Steep(factor=20.0).initial())
        run = fit(Steep(factor=20.0), steps, optimizer=optimizer, engine=VirtualEngine(parse("none()")))
        assert run.objective is not None
        assert run.objective <= min(accepted(run)) * (1.0 + 1e-12)
        if Steep(factor=20.0).objective(optimizer.best) > run.objective:
            worse += 1
    assert worse


class Steep(Problem):
    """The mean of exp(a . x - 5) + exp(-b . x): it overflows at what a first step without curvature may try."""

    n_samples, l2 = 60, 0.0

    def __init__(self, factor: float = 4.0) -> None:
        self.rows = factor * np.random.default_rng(0).standard_normal((self.n_samples, 4))
        self.n_parameters = 4

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return SteepShard(self.rows, tasks, self.n_samples)

    def metrics(self, x: Array) -> dict[str, float]:
        return {}

    def loss(self, x: Array) -> float:
        with np.errstate(over="ignore"):
            return float(np.mean(np.exp(self.rows @ x - 5.0) + np.exp(-(self.rows @ x))))

    def gradient(self, x: Array) -> Array:
        out = np.empty(4)
        self.shard([slice(0, self.n_samples)]).combine(x, np.ones(1), 0, out)
        return out


class SteepShard(Shard):
    support = None

    def __init__(self, rows: Array, tasks: Sequence[slice], n_samples: int) -> None:
        self.rows, self.tasks, self.n_samples, self.n_tasks = rows, tasks, n_samples, len(tasks)

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        out[:], total = 0.0, 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for factor, task in zip(coefficients, self.tasks, strict=True):
                if factor:
                    up, down = np.exp(self.rows[task] @ local - 5.0), np.exp(-(self.rows[task] @ local))
                    out += factor * ((up - down) @ self.rows[task]) / self.n_samples
                    total += factor * float((up + down).sum()) / self.n_samples
        return total


def test_a_point_at_which_the_objective_overflows_is_no_divergence() -> None:
    steep = Steep(factor=2000.0)  # the first step is of length 1: exp of thousands
    run = fit(steep, steps=300, engine=VirtualEngine(parse("none()")))
    assert any(row.rejected and row.loss is None for row in run.steps)
    assert run.ended == "converged"
    assert run.final is not None
    assert run.final.gradient_left < 1e-5
    assert run.rise is None


def test_a_first_model_at_which_it_overflows_is_one() -> None:
    steep = Steep(factor=2000.0)
    with pytest.raises(Diverged, match=r"not finite.*the cause is the first model, the data or the problem"):
        fit(steep, optimizer=QuasiNewton(np.ones(4)), engine=VirtualEngine(parse("none()")))


@pytest.mark.parametrize("optimizer", [QuasiNewton, lambda x: Nesterov(x, 0.1)])
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_a_first_model_whose_penalty_alone_overflows_is_one_too(
    optimizer: Callable[[Array], Optimizer], late: Any
) -> None:
    """Gradients are finite there: 2e197 for the penalty, and at most 1 for the loss."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    one = LogisticRegression(X, np.sign(X[:, 0]), l2=1e-3)
    with pytest.raises(Diverged, match="the objective is not finite"), np.errstate(over="ignore"):
        train(one, schemes.adaptive(6), optimizer(np.full(3, 1e200)), VirtualEngine(Exponential(0.1, seed=0), late), 50)


def test_without_curvature_it_is_plain_lbfgs() -> None:
    run = fit(Steep(factor=1.0))
    assert {row.kind for row in run.steps} == {"gradient"}
    assert run.ended == "converged"
    found: Any = minimize(Steep(1.0).loss, np.zeros(4), jac=Steep(1.0).gradient, options={"gtol": 1e-10})
    assert run.objective == pytest.approx(float(found.fun), rel=1e-10)


def test_squares_that_overflow_on_their_way_are_done_without() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3)) * 1e20  # whose squares are none of float32
    one = LogisticRegression(X, np.sign(rng.standard_normal(N)))
    run = fit(one, steps=20, wire="cast('float32')")
    assert run.steps[0].rejected
    assert run.final is not None
    assert run.final.objective <= run.final.first_objective


class States(Callback):
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def on_state(self, step: int, state: Any) -> None:
        self.kept.append(state())


COARSE = ["cast('float16')", "cast('bfloat16')", "dithered(32767)", "dithered(127)", "dithered(1)"]


@pytest.mark.parametrize("wire", COARSE, ids=str)
@pytest.mark.parametrize("design", ["dense", "columns of very different ranges"])
def test_no_wire_is_too_coarse_for_the_optimum(design: str, wire: str) -> None:
    one = problem("logistic", design)
    run = fit(one, wire=wire)
    assert run.ended == "converged"
    assert run.objective is not None
    assert run.objective - least(one) <= 1e-8 * one.objective(one.initial())
    assert "precise" in [row.decision["act"] for row in run.steps]


@pytest.mark.parametrize("wire", COARSE, ids=str)
def test_no_wire_ends_a_run_before_the_optimum_whatever_its_numbers_are_in(wire: str) -> None:
    """Gradients of 1e-12 are 0 in float16, and those of 1e12 infinite."""
    rng = np.random.default_rng(5)
    X = numbers(rng)
    y = X @ rng.standard_normal(5) + rng.standard_normal(N)
    for unit in (1e-12, 1e12):
        run = fit(LeastSquares(X, unit * y, l2=0.01), wire=wire)
        assert run.ended == "converged"
        assert run.objective == pytest.approx(unit**2 * least(LeastSquares(X, y, l2=0.01)), rel=1e-8)


def test_a_run_that_asks_precisely_goes_on_from_any_step_to_the_bit() -> None:
    one, states = problem("logistic", "columns of very different ranges"), States()

    def go(resume: Resumption | None = None, callbacks: Sequence[Callback] = ()) -> Run:
        return fit(one, wire="dithered(127)", resume=resume, callbacks=callbacks)

    whole = go(callbacks=[states])
    asked = [row.decision["act"] for row in whole.steps].index("precise")
    for cut in (asked, asked + 1, asked + 2, len(whole.steps) - 1):
        rest = go(Resumption(state=states.kept[cut], steps=whole.steps[:cut], arrivals=[]))
        assert rest.x.tobytes() == whole.x.tobytes()
        assert [row.decision for row in rest.steps] == [row.decision for row in whole.steps]


@pytest.mark.slow
def test_a_network_falls_to_where_the_gradient_vanishes() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4))
    network = TwoLayerNetwork(X, (X[:, 0] * X[:, 1] > 0.0).astype(float), hidden=5, l2=0.01)
    run = fit(network, steps=200)
    assert run.final is not None
    assert run.final.objective < 0.75 * run.final.first_objective
    assert run.final.gradient_left < 0.02
    losses = accepted(run)
    assert np.all(np.diff(losses) <= 1e-13 * np.abs(losses[:-1]))


@pytest.mark.slow
@given(st.integers(0, 30), st.sampled_from(["float64", "float32"]))
def test_it_goes_on_from_any_step_to_the_bit(step: int, dtype: str) -> None:
    one: Problem = problem("logistic", "one-hot") if step % 2 else Steep()
    states: list[Mapping[str, Any]] = []

    class Keep(Callback):
        def on_state(self, step: int, state: Callable[[], Mapping[str, Any]]) -> None:
            states.append(state())

    x = one.initial().astype(dtype)
    whole = fit(one, steps=40, optimizer=QuasiNewton(x), callbacks=[Keep()])
    at = min(step, len(states) - 2)  # the last is of a run that is over
    resume = Resumption(states[at], whole.steps[:at], whole.arrivals)
    again = fit(one, steps=40, optimizer=QuasiNewton(x), resume=resume)
    assert again.x.tobytes() == whole.x.tobytes()
    assert [row.as_dict() for row in again.steps] == [row.as_dict() for row in whole.steps]
    assert again.ended == whole.ended


@pytest.mark.parametrize("kind", ["curved", "steep"])
def test_the_best_model_is_part_of_the_state(kind: str) -> None:
    one: Problem = problem("logistic", "one-hot") if kind == "curved" else Steep(factor=20.0)
    optimizer, seen = QuasiNewton(one.initial()), set[bool]()

    class Compare(Callback):
        def on_step_end(self, row: Any, x: Array) -> None:
            other = QuasiNewton(one.initial())
            other.begin(one)
            other.restore(optimizer.state())
            assert other.best.tobytes() == x.tobytes()
            assert other.known.tobytes() == optimizer.known.tobytes()
            seen.add(optimizer.best is optimizer.known)

    train(one, schemes.adaptive(WORKERS), optimizer, VirtualEngine(), 40, [Compare()])
    assert seen == ({False} if kind == "curved" else {False, True})


def test_runs_of_one_object_know_nothing_of_each_other() -> None:
    one, other = problem("logistic", "dense"), problem("squares", "dense")
    optimizer = QuasiNewton(one.initial())
    first = fit(one, optimizer=optimizer)
    optimizer.x, optimizer.step = other.initial(), 0
    optimizer.begin(other)
    second = fit(other, optimizer=QuasiNewton(other.initial()))
    optimizer.x = other.initial()
    again = fit(other, optimizer=optimizer)
    assert again.x.tobytes() == second.x.tobytes()
    assert first.x.tobytes() != second.x.tobytes()
    goes_on = fit(other, steps=again.steps[-1].step + 40, optimizer=optimizer)  # from where it had ended
    assert goes_on.objective == pytest.approx(again.objective, rel=1e-12)


@pytest.mark.slow
@given(st.lists(st.integers(-20, 20), min_size=5, max_size=5))
def test_units_of_columns_do_not_matter(powers: list[int]) -> None:
    """Columns times powers of two, without a penalty: every number is rounded in the same place."""
    rng = np.random.default_rng(3)
    X, factors = numbers(rng), 2.0 ** np.array(powers)
    y = np.where(X[:, 0] + rng.standard_normal(N) > 0.0, 1.0, -1.0)
    run, scaled = fit(LogisticRegression(X, y)), fit(LogisticRegression(X * factors, y))
    assert run.ended == "converged"
    assert scaled.objective == pytest.approx(run.objective, rel=1e-9)
    assert len(scaled.steps) <= 2 * len(run.steps) + 5


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e6, 1e12, 1e17])
@pytest.mark.parametrize("loss", ["logistic", "squares"])
def test_it_ends_at_the_optimum_however_far_away_it_begins(loss: str, size: float) -> None:
    """A logistic loss is straight out there, and its first gradients say nothing of how large they are near by."""
    one = problem(loss, "dense", 0.0)
    run = fit(one, optimizer=QuasiNewton(one.initial() + size))
    assert run.ended == "converged"
    assert run.objective == pytest.approx(fit(one).objective, rel=1e-10)


def test_a_run_from_a_first_model_that_is_too_far_away_does_not_say_that_it_has_converged() -> None:
    one = problem("logistic", "dense", 0.0)
    assert fit(one, 30, optimizer=QuasiNewton(one.initial() + 1e100)).ended == "steps"


def test_a_run_from_far_away_goes_on_from_where_its_steps_are_long_to_the_bit() -> None:
    one, states = problem("logistic", "dense", 0.0), States()
    first = one.initial() + 1e6
    whole = fit(one, 20, optimizer=QuasiNewton(first), callbacks=[states])
    resume = Resumption(states.kept[4], whole.steps[:4], whole.arrivals)
    again = fit(one, 20, optimizer=QuasiNewton(one.initial()), resume=resume)
    assert states.kept[4]["optimizer"]["search"]["stride"] > 1.0
    assert again.x.tobytes() == whole.x.tobytes()


def test_a_model_in_float32_stays_one() -> None:
    one = problem("logistic", "dense")
    run = fit(one, optimizer=QuasiNewton(one.initial().astype(np.float32)))
    assert run.x.dtype == np.float32
    assert run.ended == "converged"
    assert run.objective == pytest.approx(least(one), rel=1e-6)


@pytest.mark.parametrize("wire", ["cast('float32')", pytest.param("dithered(32767)", marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_messages_in_fewer_bytes_bring_it_as_far_as_they_tell(loss: str, wire: str) -> None:
    one = problem(loss, "one-hot")
    run = fit(one, wire=wire)
    assert run.ended == "converged"
    assert run.objective is not None
    assert run.objective - least(one) <= 1e-5 * one.objective(one.initial())


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_workers_that_die_for_good_leave_steps_that_never_run_away(design: str) -> None:
    one = problem("logistic", design)
    engine = VirtualEngine(Exponential(mean=0.5, seed=3))
    for worker in (0, 1, 2):  # all that hold some tasks
        engine.kill(worker, at=1.0)
    run = fit(
        one, steps=100, engine=engine, fault_policy=FaultPolicy(on_death="leave", on_loss="go_on"), tolerance=None
    )
    assert any(row.lost for row in run.steps)
    assert run.final is not None
    assert run.final.objective < run.final.first_objective


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("loss", LOSSES)
def test_estimates_that_are_not_exact_lead_down(loss: str, design: str) -> None:
    one = problem(loss, design)
    code = codes.fractional_repetition(WORKERS, 2)
    run = fit(one, 60, schemes.custom(code, "first(3) | decodable()"))
    assert run.final is not None
    assert run.final.objective < run.final.first_objective


class Drawn(Problem):
    """Mini-batches of a linear problem: each step draws rows of each task."""

    stochastic = True

    def __init__(self, whole: Any, curved: bool, share: float) -> None:
        self.whole, self.curved, self.share = whole, curved, share
        self.n_samples, self.n_parameters = whole.n_samples, whole.n_parameters

    @property
    def regularizer(self) -> Any:
        return self.whole.regularizer

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return DrawnShard(self, tasks)

    def metrics(self, x: Array) -> dict[str, float]:
        return {}

    def loss(self, x: Array) -> float:
        return self.whole.loss(x)

    def gradient(self, x: Array) -> Array:
        return self.whole.gradient(x)


class DrawnShard(Shard):
    def __init__(self, of: Drawn, tasks: Sequence[slice]) -> None:
        self.of, self.tasks = of, tasks
        self.inner, self.n_tasks = of.whole.shard(tasks), len(tasks)

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        noise = np.random.default_rng([step, self.tasks[0].start])
        loss = self.inner.combine(local, coefficients, step, out)
        with np.errstate(over="ignore", invalid="ignore"):
            out *= 1.0 + self.of.share * noise.standard_normal(len(out))
        return loss

    @property
    def support(self) -> Any:
        return self.inner.support

    def take(self, x: Array) -> Array:
        return self.inner.take(x)

    def curvature(self, coefficients: Array, out: Array) -> float:
        return self.inner.curvature(coefficients, out)


@pytest.mark.slow
@pytest.mark.parametrize("curved", [True, False])
@given(st.sampled_from(LOSSES), st.sampled_from(sorted(DESIGNS)), st.floats(0.0, 3.0))
def test_gradients_of_samples_never_lead_to_infinity(curved: bool, loss: str, design: str, share: float) -> None:
    drawn = Drawn(problem(loss, design), curved, share)
    said = ""
    try:
        assert np.isfinite(fit(drawn, 30, schemes.uncoded(WORKERS)).x).all()
    except Diverged as error:
        said = str(error)
    # Where nothing is known of the curvature, the first step may be far too long; then the run says so.
    assert not said or (not curved and "training has made the model worse" in said)


def test_asynchronous_messages_would_mix_curvatures_with_gradients() -> None:
    one = problem("logistic", "dense")
    with pytest.raises(InvalidArgument, match=r"take schemes.adaptive .* or optimizers.GradientDescent"):
        fit(one, 10, schemes.asynchronous(WORKERS), engine=VirtualEngine(late="carry"))


def test_a_flat_problem_is_converged_at_once() -> None:
    run = fit(LeastSquares(np.ones((N, 1)), np.zeros(N)))
    assert run.ended == "converged"
    assert run.objective == 0.0


def test_a_penalty_that_does_not_say_its_subgradient_is_refused() -> None:
    class Odd(ElasticNet):
        def steepest(self, x: Array, slope: Array) -> Any:
            return None

    one = LeastSquares(numbers(np.random.default_rng(0)), np.ones(N), penalty=Odd(0.1))
    with pytest.raises(InvalidArgument, match="steepest"):
        fit(one)


def test_an_order_of_curvature_is_asked_for_once() -> None:
    one = problem("logistic", "dense")
    optimizer = QuasiNewton(one.initial())
    optimizer.begin(one)
    assert optimizer.ask().kind == "curvature"
    optimizer.tell(Answer(None))  # nothing had come
    assert optimizer.ask().kind == "curvature"
    optimizer.tell(Answer(np.ones(5), 1.0, exact=True, curvature=(np.full(5, 4.0), 5.0)))
    assert optimizer.ask().kind == "gradient"
    assert np.linalg.norm(optimizer.x) < 1.0  # a step along the scaled gradient, not one of length 1


DELAYS = st.one_of(
    st.just(parse("none()")),
    st.builds(Exponential, mean=st.floats(0.01, 10.0), seed=st.integers(0, 99)),
    st.builds("pareto({!r}, {!r}, seed={})".format, st.floats(0.01, 1.0), st.floats(1.1, 3.0), st.integers(0, 99)).map(
        parse
    ),
)


@st.composite
def data(draw: Any) -> tuple[Array, Array]:
    """Columns of any ranges, constant ones, doubles, rows of zeros, heavy rows, samples fewer than columns."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, columns = draw(st.integers(WORKERS, 24)), draw(st.integers(1, 6))
    X = rng.standard_normal((n, columns)) * 10.0 ** rng.uniform(
        *sorted(draw(st.tuples(*[st.floats(-8, 8)] * 2))), columns
    )
    if draw(st.booleans()):
        X[rng.random(X.shape) < 0.7] = 0.0
    if draw(st.booleans()):
        X[0] *= 10.0 ** draw(st.floats(0.0, 6.0))
    if draw(st.booleans()):
        X[:, -1] = X[:, 0]
    if draw(st.booleans()):
        X[:, 0] = draw(st.sampled_from([0.0, 1.0, 1e6]))
    return X, rng.standard_normal(n) * 10.0 ** draw(st.floats(-8, 8))


@pytest.mark.slow
@given(
    data(),
    st.sampled_from(["logistic", "squares", "classes"]),
    st.sampled_from([0.0, 1e-6, 1e-2, 10.0]),
    st.integers(1, 3),
    DELAYS,
    st.sampled_from(["preempt", "carry"]),
)
def test_nothing_that_a_user_can_reach_ends_in_infinity_or_in_a_silent_stall(
    xy: tuple[Array, Array], loss: str, l2: float, load: int, delays: Any, late: Any
) -> None:
    X, values = xy
    if loss == "logistic":
        one: Any = LogisticRegression(X, np.where(values > 0.0, 1.0, -1.0), l2=l2)
    elif loss == "classes":
        one = SoftmaxRegression(X, np.digitize(values, np.quantile(values, [0.3, 0.6])).astype(float), l2=l2)
    else:
        one = LeastSquares(X, values, l2=l2)
    run = fit(one, 400, schemes.adaptive(WORKERS, load=load), engine=VirtualEngine(delays, late))
    assert run.final is not None
    assert np.isfinite(run.x).all()
    assert run.final.objective <= run.final.first_objective
    if run.ended == "converged":
        gap = run.final.objective - least(one)
        assert gap <= 1e-6 * run.final.first_objective, f"{gap / run.final.first_objective:.2g} after {len(run.steps)}"
    else:  # it says that it has not
        assert run.ended == "steps"
