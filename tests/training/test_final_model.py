"""What the final model is worth, from the data themselves; and runs that end worse than they began."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression as Peer, Ridge

from erasurehead import optimizers, schemes
from erasurehead.delays import Exponential
from erasurehead.engines import VirtualEngine
from erasurehead.errors import Diverged, InvalidArgument
from erasurehead.optimizers import Answer
from erasurehead.problems import LeastSquares, LogisticRegression, SoftmaxRegression
from erasurehead.training import Callback, Run, StepRow, train
from erasurehead.training._evaluation import lowest
from erasurehead.training._result import Evaluation, FinalModel

from ..arrays import Array

BUNCH = load_breast_cancer()
X = np.c_[(BUNCH.data - BUNCH.data.mean(axis=0)) / BUNCH.data.std(axis=0), np.ones(len(BUNCH.data))]
Y = 2.0 * BUNCH.target - 1.0
PROBLEM = LogisticRegression(X, Y, l2=1 / len(X), intercept=-1)
RATE = 0.25  # one over the curvature


def trained(steps: int, scheme: schemes.Scheme | None = None, rate: float = RATE, seed: int = 0) -> Run:
    optimizer = optimizers.Nesterov(PROBLEM.initial(), rate, restart=True)
    chosen = scheme or schemes.erasurehead(8, 3, 3)
    return train(PROBLEM, chosen, optimizer, VirtualEngine(seed=seed), steps, evaluate_every=0)


def test_the_objective_is_that_of_the_problem() -> None:
    run = trained(40)
    assert run.final is not None
    assert run.objective == run.final.objective == pytest.approx(PROBLEM.objective(run.x), rel=1e-12)
    assert run.final.first_objective == pytest.approx(PROBLEM.objective(PROBLEM.initial()), rel=1e-12)
    gradient = PROBLEM.gradient(run.x) + PROBLEM.penalty_gradient(run.x)
    assert run.final.gradient_norm == pytest.approx(np.linalg.norm(gradient), rel=1e-9)
    assert run.final.share == 1.0
    assert run.final.column_scales == pytest.approx((1.0, 1.0))


def test_the_final_model_is_the_same_in_whatever_order_the_rows_are_added_up() -> None:
    """Close to the optimum the objectives of two models differ less than by the order of their sums."""
    rng = np.random.default_rng(0)
    orders = [np.arange(len(X)), *(rng.permutation(len(X)) for _ in range(9))]
    problems = [LogisticRegression(X[order], Y[order], l2=1 / len(X), intercept=-1) for order in orders]
    first = PROBLEM.initial()
    best = train(PROBLEM, schemes.uncoded(2), optimizers.QuasiNewton(first), VirtualEngine(), 500).x
    for size in (1e-10, 1e-9):
        models = [best, best + size * rng.normal(size=len(best))]
        assert {int(lowest(problem, first, models)[0] is models[0]) for problem in problems} == {1}
    worse = best + 1e-3 * rng.normal(size=len(best))
    assert all(lowest(problem, first, [worse, best])[0] is best for problem in problems)


class Told(Callback):
    """Keeps the metrics that it is told, and how many steps were recorded by then."""

    def __init__(self) -> None:
        self.told: list[tuple[Evaluation, int]] = []
        self.steps = 0

    def on_step_end(self, row: StepRow, x: np.ndarray) -> None:
        self.steps = row.step + 1

    def on_metrics(self, evaluation: Evaluation) -> None:
        self.told.append((evaluation, self.steps))


def test_metrics_come_while_training_where_a_callback_wants_them_and_the_run_is_the_same() -> None:
    problem = LogisticRegression(X, Y, l2=1 / len(X), intercept=-1, test=(X[::3], Y[::3]))

    def run(*callbacks: Callback) -> Run:
        optimizer = optimizers.Nesterov(problem.initial(), RATE)
        engine = VirtualEngine(Exponential(mean=0.1, seed=0))
        return train(problem, schemes.erasurehead(8, 3, 3), optimizer, engine, 7, callbacks, evaluate_every=2)

    callback = Told()
    told, after = run(callback), run()
    assert [evaluation for evaluation, _ in callback.told] == after.evaluations[1:] == told.evaluations[1:]
    assert [steps - evaluation.step for evaluation, steps in callback.told] == [-1, -1, -1, -1]
    assert told.seconds == after.seconds
    assert (told.x == after.x).all()


def test_it_costs_no_time_of_the_run() -> None:
    engine = VirtualEngine(Exponential(mean=0.1, seed=0))
    run = train(PROBLEM, schemes.uncoded(8), optimizers.GradientDescent(PROBLEM.initial(), RATE), engine, 5)
    assert run.seconds == run.steps[-1].end == engine.now()


@pytest.mark.parametrize("problem", [PROBLEM, LeastSquares(X, Y, l2=0.1)])
def test_parts_of_the_data_make_the_whole(problem: LogisticRegression) -> None:
    n, points = problem.n_samples, [np.full(problem.n_parameters, 0.1), np.zeros(problem.n_parameters)]
    cut, others = [slice(5, 9), slice(20, n)], [slice(0, 5), slice(9, 20)]
    kept, rest = problem.exact(points, cut), problem.exact(points, others)
    for one, other, whole, x in zip(kept, rest, problem.exact(points), points, strict=True):
        assert one.n_samples + other.n_samples == whole.n_samples == n
        loss = (one.loss * one.n_samples + other.loss * other.n_samples) / n
        assert loss == pytest.approx(whole.loss, rel=1e-12)
        assert whole.loss == pytest.approx(problem.loss(x), rel=1e-12)
        gradient = (one.gradient * one.n_samples + other.gradient * other.n_samples) / n
        assert gradient == pytest.approx(problem.gradient(x), rel=1e-9, abs=1e-12)
    assert problem.exact(points, [slice(0, n)])[0].n_samples == 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [schemes.erasurehead(8, 3, 3), schemes.ignore_stragglers(8, 3), schemes.uncoded(8)])
@pytest.mark.parametrize("seed", [1])
def test_more_steps_make_the_default_no_worse(scheme: schemes.Scheme, seed: int) -> None:
    best = PROBLEM.objective(trained(600, schemes.uncoded(1)).x)
    ends = [float(trained(steps, scheme, seed=seed).objective or np.inf) - best for steps in (30, 100, 300)]
    assert (np.diff(ends) <= 2e-4).all(), ends
    assert ends[-1] < 1e-3


def test_without_restarts_nesterov_is_as_published() -> None:
    plain = optimizers.Nesterov(np.zeros(2), 0.1)
    x = u = np.zeros(2)
    rng = np.random.default_rng(0)
    for step in range(30):
        gradient = rng.standard_normal(2)
        theta = 2.0 / (step + 2.0)
        following = (1.0 - theta) * x + theta * u - 0.1 * gradient
        u = x + (following - x) / theta
        x = following
        plain.tell(Answer(gradient))
        assert (plain.x == x).all()


@pytest.mark.parametrize("rate", [3.0, 30.0, 100.0, 1e6])
def test_a_step_size_that_is_too_large_ends_in_an_error_or_in_a_good_model(rate: float) -> None:
    optimizer = optimizers.Nesterov(PROBLEM.initial(), rate)
    said, run = "", None
    try:
        run = train(PROBLEM, schemes.uncoded(8), optimizer, VirtualEngine(), 60, evaluate_every=0)
    except Diverged as error:
        said = str(error)
    assert "step size" in said or (run is not None and float(run.objective or np.inf) < 0.693)
    assert run is None or np.mean(run.losses[-6:]) < 0.77


def told(losses: np.ndarray) -> Run:
    """Return a run whose steps report such losses, each estimated from a half of the data."""
    rows = [replace(SOME_ROW, step=step, loss=float(loss)) for step, loss in enumerate(losses)]
    return Run("some", "virtual", np.zeros(1), rows)


SOME_ROW = StepRow(
    step=0,
    round=0,
    kind="gradient",
    begin=0.0,
    waited=0.0,
    end=0.0,
    arrived=1,
    used=[0],
    missing=[],
    dead=[],
    residual=1.0,
    coverage=0.5,
    stepped=True,
    loss=0.0,
    gradient_norm=1.0,
    received=8,
)


def test_a_loss_that_rises_again_is_noticed_and_one_that_only_trembles_is_not() -> None:
    steps = np.arange(400)
    trembling = 0.05 * np.random.default_rng(0).standard_normal(400)
    falling = 0.4 + 0.3 * np.exp(-steps / 30)
    assert told(falling + trembling).rise is None
    rising = falling + np.maximum(0.0, steps - 150) * 5e-4  # still far below where it began
    rise = told(rising + trembling).rise
    assert rise is not None
    assert 100 < rise.step < 200
    assert rise.best < rise.last < 0.7
    assert not rise.exact
    runaway = told(np.where(steps < 300, falling, np.inf)).rise
    assert runaway is not None
    assert (runaway.step, runaway.last) == (299, np.inf)


# --- the penalty ----------------------------------------------------------------------------------------------------


def _minimum(problem: LogisticRegression | LeastSquares | SoftmaxRegression) -> np.ndarray:
    from scipy.optimize import minimize

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        return problem.objective(x), problem.gradient(x) + problem.penalty_gradient(x)

    return minimize(both, problem.initial(), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15}).x


def test_the_penalty_is_scikit_learns_in_the_terms_that_the_docs_state() -> None:
    n, l2 = len(X), 0.02
    logistic = _minimum(LogisticRegression(X, Y, l2=l2, intercept=-1))
    peer = Peer(C=1 / (2 * n * l2), tol=1e-10, max_iter=5000).fit(X[:, :-1], Y)
    assert logistic == pytest.approx(np.r_[peer.coef_[0], peer.intercept_], abs=2e-4)
    targets = 5.0 + X[:, 0] * 3.0 + BUNCH.data[:, 3] / 100
    squares = _minimum(LeastSquares(X, targets, l2=l2, intercept=len(X[0]) - 1))
    ridge = Ridge(alpha=n * l2, tol=1e-10).fit(X[:, :-1], targets)
    assert squares == pytest.approx(np.r_[ridge.coef_, ridge.intercept_], abs=2e-4)
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    softmax = _minimum(SoftmaxRegression(X, classes, l2=l2, intercept=-1)).reshape(3, -1)
    peer = Peer(C=1 / (2 * n * l2), tol=1e-10, max_iter=5000).fit(X[:, :-1], classes)
    assert softmax[:, :-1] == pytest.approx(peer.coef_, abs=2e-3)


def test_without_a_name_the_penalty_holds_for_every_column() -> None:
    x = np.arange(1.0, X.shape[1] + 1)
    plain, free = (LogisticRegression(X, Y, l2=0.5, intercept=column) for column in (None, 2))
    assert plain.penalty(x) == pytest.approx(0.5 * float(x @ x))
    assert free.penalty(x) == pytest.approx(0.5 * (float(x @ x) - 9.0))
    assert free.penalty_gradient(x)[2] == 0.0
    assert (np.delete(free.penalty_gradient(x), 2) == np.delete(x, 2)).all()
    with pytest.raises(InvalidArgument, match="intercept must be at most 30"):
        LogisticRegression(X, Y, intercept=31)


def test_estimates_from_other_parts_of_the_data_are_no_rise_unless_the_models_say_so() -> None:
    steps = np.arange(400)
    rising = np.where(steps < 300, 0.4, 0.6)  # but from other messages
    rows = [
        replace(SOME_ROW, step=step, loss=float(loss), used=[0] if step < 300 else [1])
        for step, loss in enumerate(rising)
    ]
    run = Run("some", "virtual", np.zeros(1), rows)
    assert run.rise is None
    worse = FinalModel(0.6, 0.7, 1.0, 0.1, 1.0, before_rise=(200, 0.4))
    risen = replace_final(run, worse).rise
    assert risen is not None
    assert (risen.best, risen.step, risen.last, risen.exact) == (0.4, 200, 0.6, True)
    assert replace_final(run, replace(worse, before_rise=(200, 0.6))).rise is None
    assert replace_final(run, replace(worse, before_rise=None)).rise is None


def replace_final(run: Run, final: FinalModel) -> Run:
    return Run(run.scheme, run.engine, run.x, run.steps, final=final)


class _Turns(optimizers.Schedule):
    """Step sizes that descend for a while, and climb then."""

    def __init__(self, back: float) -> None:
        self.back = back

    def __call__(self, step: int) -> float:
        return RATE if step < 60 else -self.back


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "back"), [(schemes.ignore_stragglers(8, 3), 0.02), (schemes.uncoded(8), 0.031)])
def test_a_run_that_has_truly_risen_is_told_whatever_parts_its_steps_saw(scheme: schemes.Scheme, back: float) -> None:
    optimizer = optimizers.GradientDescent(PROBLEM.initial(), _Turns(back))
    run = train(PROBLEM, scheme, optimizer, VirtualEngine(Exponential(mean=0.1, seed=1)), 500, evaluate_every=5)
    assert run.final is not None
    assert not run.final.worse
    assert run.rise is not None
    assert run.rise.exact
    assert 60 <= run.rise.step <= 120
    assert run.rise.best + 0.05 < run.rise.last <= run.final.objective * (1.0 + 1e-9)


def twins(apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Return samples of which four columns are others but for a little, which is what there is to be learnt."""
    rng = np.random.default_rng(4)
    samples, others = rng.standard_normal((300, 8)), rng.standard_normal((300, 4))
    return np.c_[samples, samples[:, :4] + apart * others], samples[:, 0] + others[:, 0] + rng.standard_normal(300)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [0.0, 1e-4, 1e-6, 1e-8, 1e-10])
def test_columns_that_say_nearly_the_same_are_not_taken_for_a_minimum(apart: float) -> None:
    """It was said to have converged, at twice the loss of the minimum: sums of squares hide what is left."""
    samples, targets = twins(apart)
    problem = LeastSquares(samples, targets)
    optimizer = optimizers.QuasiNewton(problem.initial())
    run = train(problem, schemes.adaptive(6, load=1), optimizer, VirtualEngine(), 2000, evaluate_every=0)
    least = problem.objective(np.linalg.lstsq(samples, targets, rcond=1e-13)[0])
    assert run.ended == ("steps" if apart == 1e-10 else "converged")
    assert run.final is not None
    assert run.final.collinear == (problem.objective(run.x) > 1.0001 * least)
    assert (run.final.unseen_gain is None) == (apart >= 1e-4)


def powers(degree: int, far: float) -> np.ndarray:
    return np.vander(np.linspace(far - 1.0, far + 1.0, 80), degree, increasing=True)


def hilbert(n_samples: int, n_columns: int) -> np.ndarray:
    return 1.0 / (1.0 + np.add.outer(np.arange(float(n_samples)), np.arange(float(n_columns))))


def nearly_equal(n_columns: int, apart: float) -> np.ndarray:
    rng = np.random.default_rng(n_columns)
    return np.cumsum(np.c_[rng.standard_normal((80, 1)), apart * rng.standard_normal((80, n_columns - 1))], axis=1)


@pytest.mark.slow
@given(
    samples=st.one_of(
        st.builds(powers, st.integers(2, 16), st.sampled_from([0.0, 1.0, 30.0])),
        st.builds(hilbert, st.sampled_from([20, 40, 200]), st.integers(2, 20)),
        st.builds(nearly_equal, st.integers(2, 9), st.sampled_from([0.0, 1e-4, 1e-6, 1e-8, 1e-9])),
    ),
    scale=st.sampled_from([1.0, 1e-8, 1e8]),
    seed=st.integers(0, 99),
)
@example(samples=hilbert(40, 15), scale=1.0, seed=1).via("said to have converged, a hundredth above the minimum")
@example(samples=hilbert(200, 20), scale=1.0, seed=1).via("likewise")
@settings(max_examples=12, deadline=None)
def test_no_run_has_converged_that_lstsq_is_a_ten_thousandth_below(samples: Array, scale: float, seed: int) -> None:
    samples = np.c_[samples[:, :1] * scale, samples[:, 1:]]
    targets = np.random.default_rng(seed).standard_normal(len(samples))
    problem = LeastSquares(samples, targets)
    optimizer = optimizers.QuasiNewton(problem.initial())
    run = train(problem, schemes.adaptive(4, load=1), optimizer, VirtualEngine(), 300, evaluate_every=0)
    units = np.linalg.norm(samples, axis=0)
    least = problem.objective(np.linalg.lstsq(samples / units, targets)[0] / units)
    assert run.final is not None
    if run.ended == "converged" and not run.final.collinear:
        assert run.final.objective <= 1.0001 * least
