"""What theory says of averaging, on problems whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.consensus import train
from erasurehead.consensus._shares import LocalGradients, dirichlet
from erasurehead.problems import LeastSquares, LogisticRegression, SoftmaxRegression
from erasurehead.problems._network import TwoLayerNetwork


class NoisyQuadratic(LeastSquares):
    """`x^2 / 2`, whose samples have gradients of unit noise."""

    def __init__(self, n_samples: int, seed: int = 0) -> None:
        super().__init__(np.ones((n_samples, 1)), np.zeros(n_samples))
        self._rng = np.random.default_rng(seed)

    def sample_gradients(self, models: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return models + self._rng.standard_normal(models.shape)

    def initial(self) -> np.ndarray:
        return np.ones(1)  # from which the mean over time is not taken

    def objective(self, x: np.ndarray) -> float:
        return float(x[0] ** 2)  # whose mean over time is the variance of the mean model

    def metrics(self, x: np.ndarray) -> dict[str, float]:
        return {}


@pytest.mark.slow
@pytest.mark.parametrize(("n_peers", "variance"), [(2, 0.0131), (4, 0.0064), (8, 0.0031)])
def test_the_variance_of_the_mean_falls_as_one_over_the_number_of_peers(n_peers: int, variance: float) -> None:
    steps = 1_500
    done = train(
        NoisyQuadratic(n_peers),
        "ring()",
        "full()",
        peers=n_peers,
        rate=0.05,
        batch=1,
        steps=steps,  # type: ignore[arg-type]
        delays="exponential(mean=1.0)",
        records=False,
    )
    measured = np.mean([row.objective for row in done.means[200:]])
    assert measured == pytest.approx(0.05 / ((2 - 0.05) * n_peers), rel=0.25)
    assert variance == pytest.approx(0.05 / ((2 - 0.05) * n_peers), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["full()", "static(wait_for=1)", "dynamic()", "local()"])
def test_gradient_tracking_reaches_the_optimum_where_plain_averaging_does_not(
    squares: LeastSquares, policy: str
) -> None:
    shares = np.array_split(np.argsort(squares.labels), 6)  # as uneven as can be
    best = np.linalg.lstsq(squares._design.matrix, squares.labels, rcond=None)[0]
    away: dict[str, float] = {}
    for algorithm in ("sgd()", "gradient_tracking()"):
        done = train(
            squares,
            "ring()",
            policy,
            peers=6,
            rate=0.05,
            algorithm=algorithm,
            split=shares,
            steps=500,
            delays="exponential(mean=1.0)",
            evaluate_every=500,
            records=False,
        )
        away[algorithm] = float(np.linalg.norm(done.x - best))
    assert away["gradient_tracking()"] < 1e-6
    assert away["sgd()"] > 1e-3


@pytest.mark.parametrize("batch", [None, 7])
def test_the_mean_of_the_peers_objectives_is_that_of_all_data(problem: LogisticRegression, batch: int | None) -> None:
    shares = dirichlet(alpha=0.5, seed=1).shares(problem, 6)
    assert len(np.unique(np.concatenate(shares))) == problem.n_samples
    local = LocalGradients(problem, shares, None)
    x = np.random.default_rng(0).standard_normal(problem.n_parameters)
    every = local.gradients(range(6), np.tile(x, (6, 1)), [0] * 6)
    whole = problem.gradient(x) + problem.penalty_gradient(x)
    np.testing.assert_allclose(every.mean(axis=0), whole, atol=1e-12)
    drawn = LocalGradients(problem, shares, batch, seed=3)
    together = drawn.gradients(range(6), np.tile(x, (6, 1)), list(range(6)))
    for peer in range(6):  # to the bit, whoever else is computed beside it
        assert (drawn.gradients([peer], x[None], [peer])[0] == together[peer]).all()


@pytest.mark.slow
def test_batches_are_unbiased(problem: LogisticRegression) -> None:
    local = LocalGradients(problem, (np.arange(400),), 16)
    x = np.full(problem.n_parameters, 0.3)
    mean = np.mean([local.gradients([0], x[None], [step])[0] for step in range(2_000)], axis=0)
    whole = problem.gradient(x) + problem.penalty_gradient(x)
    np.testing.assert_allclose(mean, whole, atol=0.02)


def test_sparse_designs_give_the_gradients_of_dense_ones() -> None:
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 8)) * (rng.random((50, 8)) < 0.3)
    y = rng.integers(0, 3, 50)
    rows, models = rng.integers(0, 50, (4, 9)), rng.standard_normal((4, 24))
    dense, thin = (SoftmaxRegression(design, y, n_classes=3) for design in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense.sample_gradients(models, rows), thin.sample_gradients(models, rows), atol=1e-12)


def test_the_two_layer_network_differentiates_its_loss() -> None:
    rng = np.random.default_rng(0)
    problem = TwoLayerNetwork(rng.standard_normal((30, 5)), rng.integers(0, 3, 30), hidden=4, l2=1e-3)
    x = problem.initial() + 0.1 * rng.standard_normal(problem.n_parameters)
    gradient = problem.gradient(x)
    for place in range(problem.n_parameters):
        step = np.zeros_like(x)
        step[place] = 1e-6
        slope = (problem.loss(x + step) - problem.loss(x - step)) / 2e-6
        assert slope == pytest.approx(gradient[place], abs=1e-6)
    shard, out = problem.shard([slice(0, 10), slice(10, 30)]), np.empty_like(x)
    loss = shard.combine(x, np.ones(2), 0, out)
    assert loss == pytest.approx(problem.loss(x))
    np.testing.assert_allclose(out, gradient, atol=1e-12)
    np.testing.assert_allclose(problem.sample_gradients(x[None], np.arange(30)[None])[0], gradient, atol=1e-12)


@pytest.mark.slow
def test_the_network_learns_without_a_coordinator() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)  # which no linear model tells apart
    problem = TwoLayerNetwork(X, y, hidden=16, test=(X, y))
    done = train(
        problem,
        "ring()",
        "dynamic()",
        peers=4,
        rate=0.3,
        batch=16,
        steps=300,
        evaluate_every=300,
        delays="exponential(mean=1.0)",
        records=False,
    )
    assert done.means[-1].metrics["accuracy"] > 0.9
