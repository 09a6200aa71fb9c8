"""Each formula of the ErasureHead paper against derived values and against simulation, to within its standard error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import problems
from erasurehead.codes import fractional_repetition
from erasurehead.decoding import make_decoder
from erasurehead.errors import InvalidArgument
from erasurehead.planning import Constants
from erasurehead.planning._constants import estimate_constants
from erasurehead.planning._convergence import lemma1
from erasurehead.planning._step_times import (
    additive,
    all_groups,
    first_arrivals,
    first_or_all_groups,
    harmonic,
    minimum_mean,
    order_statistic,
)

from .formulas import formulas

TRIALS = 40_000


def close(samples: np.ndarray, expected: float, errors: float = 4.0) -> bool:
    """Whether a mean of samples agrees with its expectation to within its standard error."""
    error = samples.std(ddof=1) / math.sqrt(len(samples))
    return abs(float(samples.mean()) - expected) <= errors * error + 1e-12


def heard(n: int, waited: int, replicas: int, trials: int = TRIALS) -> np.ndarray:
    """Which groups are heard if random workers answer, shape (trials, groups)."""
    order = np.random.default_rng(0).random((trials, n)).argsort(axis=1)[:, :waited] // replicas
    present = np.zeros((trials, n // replicas), dtype=bool)
    present[np.arange(trials)[:, None], order] = True
    return present


def exponentials(n: int, trials: int = TRIALS, seed: int = 1) -> np.ndarray:
    """Standard exponential times, sorted by nothing, shape (trials, n)."""
    return np.random.default_rng(seed).exponential(size=(trials, n))


class TestErasures:
    @pytest.mark.parametrize(
        ("n", "c", "r", "p", "both"),
        [
            (30, 3, 15, 0.11206896551724138, 0.00842911877394636),
            (30, 5, 15, 0.0210727969348659, 9.995002498750625e-05),
            (24, 4, 12, 0.046583850931677016, 0.0006730380939561179),
            (12, 2, 6, 0.22727272727272727, 0.030303030303030304),
        ],
    )
    def test_lemma2_derived_values(self, n: int, c: int, r: int, p: float, both: float) -> None:
        erasures = formulas.Erasures(n, c, r)
        assert erasures.p == pytest.approx(p, rel=1e-12)
        assert 2 * erasures.p - erasures.q == pytest.approx(both, rel=1e-9)
        assert erasures.p <= erasures.q <= 2 * erasures.p

    @pytest.mark.parametrize(("n", "c", "r"), [(30, 3, 11), (12, 2, 6), (20, 5, 4)])
    def test_lemma2_and_the_number_of_missing_groups_against_simulation(self, n: int, c: int, r: int) -> None:
        present = heard(n, r, c)
        erasures = formulas.Erasures(n, c, r)
        one, two = formulas.moments(erasures)
        assert close(present[:, 0].astype(float), one)
        assert close((present[:, 0] & present[:, -1]).astype(float), two)
        missing = (~present).sum(axis=1)
        law = formulas.missing_groups(erasures)
        for count, probability in enumerate(law):
            error = math.sqrt(probability * (1.0 - probability) / TRIALS)
            assert abs((missing == count).mean() - probability) <= 4.5 * error + 1e-12, count
        assert close(c * missing.astype(float), formulas.mean_residual(erasures, n))

    @given(l=st.integers(1, 6), groups=st.integers(1, 12), share=st.floats(0, 1))
    def test_the_distribution_agrees_with_its_own_moments(self, l: int, groups: int, share: float) -> None:  # noqa: E741 - the paper's letter
        erasures = formulas.Erasures(l * groups, l, round(share * l * groups))
        law = formulas.missing_groups(erasures)
        missing = np.arange(groups + 1)
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
        assert (law >= 0).all()
        assert law @ missing == pytest.approx(groups * erasures.p, abs=1e-9)
        pairs = groups * (groups - 1) * (2 * erasures.p - erasures.q)
        assert law @ (missing * (missing - 1)) == pytest.approx(pairs, abs=1e-9)
        assert erasures.complete == pytest.approx(law[0], abs=1e-12)
        assert erasures.p <= formulas.lemma5(erasures) + 1e-15  # Lemma 5

    def test_a_thousand_workers_lose_no_digits(self) -> None:
        law = formulas.missing_groups(formulas.Erasures(1000, 4, 400))
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
        assert law.min() >= 0.0

    def test_the_decoder_leaves_the_residual_that_is_predicted(self) -> None:
        decoder = make_decoder(fractional_repetition(12, 3))
        rng = np.random.default_rng(3)
        residuals = np.array([decoder.residual(rng.permutation(12)[:5].tolist()) for _ in range(4000)])
        assert close(residuals, formulas.mean_residual(formulas.Erasures(12, 3, 5), 12))

    def test_lemma3_and_lemma4_against_simulation(self) -> None:
        rng = np.random.default_rng(5)
        groups = rng.standard_normal((10, 4))
        erasures = formulas.Erasures(30, 3, 11)
        estimates = heard(30, 11, 3).astype(float) @ groups
        factor, second = formulas.lemma3(erasures, groups / 30)
        full = groups.sum(axis=0) / 30
        for coordinate in range(4):
            assert close(estimates[:, coordinate] / 30, factor * full[coordinate])
        assert close((estimates**2).sum(axis=1) / 900, second)
        sigma = float(np.linalg.norm(groups, axis=1).max()) / 3
        assert second <= formulas.lemma4(erasures, float(np.linalg.norm(full)), sigma, 30) + 1e-12

    @pytest.mark.parametrize(
        ("n", "replicas", "waited", "said"),
        [(10, 3, 5, "must divide the number of workers, 10"), (10, 2, 11, "at most 10"), (10, 0, 1, "at least 1")],
    )
    def test_wrong_numbers_are_refused(self, n: int, replicas: int, waited: int, said: str) -> None:
        with pytest.raises(InvalidArgument, match=said):
            formulas.Erasures(n, replicas, waited)


class TestStepTimes:
    def test_harmonic_numbers_join_smoothly(self) -> None:
        assert harmonic(0) == 0.0
        assert harmonic(4) == pytest.approx(25 / 12)
        assert harmonic(1000) == pytest.approx(harmonic(999) + 1e-3, abs=1e-15)

    @pytest.mark.parametrize(("n", "position"), [(30, 1), (30, 11), (30, 30)])
    def test_lemma6_against_simulation(self, n: int, position: int) -> None:
        times = np.sort(exponentials(n), axis=1)[:, position - 1]
        assert close(0.5 * times, order_statistic(n, position, 0.5))

    def test_lemma7_against_simulation(self) -> None:
        assert close(2.0 * exponentials(5).min(axis=1), minimum_mean(5, 2.0))

    @pytest.mark.parametrize(
        ("n", "c", "r", "rate", "gd", "exact", "printed", "approximate", "mds"),
        [
            (30, 3, 15, 1.0, 0.16649957103, 0.19763227513, 0.17205512659, 0.16767581377, 0.34949871309),
            (30, 5, 15, 1.0, 0.16649957103, 0.24833333333, 0.22372179325, 0.27945968962, 0.48527563293),
            (24, 4, 12, 0.5, 0.35632984815, 0.37083333333, 0.30771873704, 0.39091583318, 0.81420828147),
            (12, 2, 6, 2.0, 0.21263377826, 0.26875, 0.23346711159, 0.22110088985, 0.34193422418),
        ],
    )
    def test_lemma8_derived_values(
        self,
        n: int,
        c: int,
        r: int,
        rate: float,
        gd: float,
        exact: float,
        printed: float,
        approximate: float,
        mds: float,
    ) -> None:
        times = formulas.lemma8(n, c, r, rate)
        assert times.uncoded == pytest.approx(gd, abs=1e-8)
        assert times.exact == pytest.approx(exact, abs=1e-8)
        assert times.exact_as_printed == pytest.approx(printed, abs=1e-8)
        assert times.approximate == pytest.approx(approximate, abs=1e-8)
        assert formulas.any_but(formulas.scaled(n, c, rate), n, c - 1) == pytest.approx(mds, abs=1e-8)

    @pytest.mark.parametrize(("n", "c", "r"), [(30, 3, 15), (30, 3, 20), (30, 5, 15), (12, 2, 6)])
    def test_lemma8_against_simulation_and_the_printed_formula_is_wrong(self, n: int, c: int, r: int) -> None:
        law = formulas.scaled(n, c, 1.0)
        times = law.shift + law.mean * exponentials(n)
        groups = times.reshape(-1, n // c, c).min(axis=2)
        waited = np.sort(times, axis=1)[:, r - 1]
        expected = formulas.lemma8(n, c, r, 1.0)
        assert close(groups.max(axis=1), expected.exact)
        assert not close(groups.max(axis=1), expected.exact_as_printed)
        assert close(waited, expected.approximate)
        assert close(np.minimum(waited, groups.max(axis=1)), expected.joint)
        some = np.sort(groups, axis=1)[:, n // c - 3]
        assert close(some, all_groups(law, n, c, n // c - 2))

    def test_both_laws_can_rank_in_opposite_orders(self) -> None:
        """n = 30, c = 3; scaled with lambda = 1, additive with mean 0.5 s and 0.01 s a task."""
        theory = formulas.lemma8(30, 3, 15, 1.0)
        assert theory.uncoded < theory.exact
        law = additive(3, 0.01, 2.0)
        assert first_arrivals(additive(1, 0.01, 2.0), 30, 30) == pytest.approx(2.007, abs=1e-3)
        assert all_groups(law, 30, 3) == pytest.approx(0.518, abs=1e-3)
        assert first_arrivals(law, 30, 15) == pytest.approx(0.368, abs=1e-3)
        assert formulas.any_but(law, 30, 2) == pytest.approx(1.277, abs=1e-3)

    def test_joint_rule_of_the_worked_example(self) -> None:
        assert first_or_all_groups(formulas.scaled(30, 3, 1.0), 30, 3, 15) == pytest.approx(0.1661, abs=2e-4)
        assert formulas.Erasures(30, 3, 15).complete == pytest.approx(0.2177, abs=1e-4)
        assert formulas.Erasures(30, 3, 20).complete == pytest.approx(0.72, abs=1e-3)
        assert formulas.Erasures(30, 5, 15).complete == pytest.approx(0.875, abs=1e-3)

    def test_wrong_numbers_are_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="shift must be at least 0"):
            additive(3, -1.0, 2.0)
        with pytest.raises(InvalidArgument, match="at most 30"):
            formulas.lemma8(30, 3, 31, 1.0)
        for call in (
            lambda: formulas.lemma8(30, 3, 15, 0.0),
            lambda: additive(3, 0.1, 0),
            lambda: formulas.scaled(30, 3, math.nan),
            lambda: formulas.predicted_times(CONSTANTS, 30, 3, 15, 0.0, 1.0),
        ):
            with pytest.raises(InvalidArgument, match="rate must be greater than 0 and finite"):
                call()
        with pytest.raises(InvalidArgument, match="n_tasks must be at least 1"):
            formulas.scaled(0, 1, 1.0)
        with pytest.raises(InvalidArgument, match="stragglers must be at least 0"):
            formulas.any_but(formulas.scaled(30, 3, 1.0), 30, -1)

    def test_whole_numbers_may_be_floats(self) -> None:
        assert order_statistic(3.0, 2.0) == order_statistic(3, 2)  # pyright: ignore[reportArgumentType]


CONSTANTS = Constants(mu=0.1, beta=1.0, sigma=2.0, gap=5.0)


class TestConvergence:
    def test_the_floor_of_theorem1_is_where_its_recursion_settles(self) -> None:
        """One step: gap <- (1 - (1-p) kappa) gap + (q-p) c sigma^2 / (2 beta n)."""
        erasures = formulas.Erasures(30, 3, 15)
        gap = 0.0
        for _ in range(1000):
            gap = (1.0 - (1.0 - erasures.p) * 0.1) * gap + (erasures.q - erasures.p) * 3 * 4.0 / (2.0 * 1.0 * 30)
        assert formulas.theorem1(CONSTANTS, erasures, 30).floor == pytest.approx(gap, rel=1e-9)

    @pytest.mark.parametrize("r", [11, 20])
    def test_theorem2_is_no_tighter_than_theorem1(self, r: int) -> None:
        loose = formulas.theorem2(CONSTANTS, 30, 3, r)
        tight = formulas.theorem1(CONSTANTS, formulas.Erasures(30, 3, r), 30)
        assert tight.floor <= loose.floor
        assert tight.factor <= loose.factor + 1e-12

    def test_steps_to_is_where_the_bound_is_reached(self) -> None:
        bound = formulas.theorem1(CONSTANTS, formulas.Erasures(30, 3, 15), 30)
        steps = bound.steps_to(2.0 * bound.floor)
        assert bound.after(math.ceil(steps)) <= 2.0 * bound.floor < bound.after(math.floor(steps))
        assert bound.steps_to(bound.floor) == math.inf
        assert bound.steps_to(100.0) == 0.0
        assert lemma1(CONSTANTS).floor == 0.0

    def test_theorem1_bounds_real_descent(self) -> None:
        """Quadratics with different minima, sigma taken along the path: the mean of many runs stays below the bound."""
        rng = np.random.default_rng(0)
        n, c, r, runs, steps = 12, 3, 5, 400, 60
        curvature = np.array([1.0, 0.1])
        centres = rng.standard_normal((n, 2))
        minimum = 0.5 * (((centres.mean(axis=0) - centres) ** 2) @ curvature).mean()
        x = np.tile(centres.mean(axis=0) + 3.0, (runs, 1))
        erasures = formulas.Erasures(n, c, r)
        present = heard(n, r, c, runs * steps).reshape(steps, runs, n // c)
        rate = 1.0 - erasures.p
        sigma, gaps = 0.0, []
        for chosen in present:
            gradients = (x[:, None, :] - centres) * curvature
            sigma = max(sigma, float(np.linalg.norm(gradients, axis=2).max()))
            gaps.append(0.5 * (((x[:, None, :] - centres) ** 2) @ curvature).mean(axis=1) - minimum)
            weights = np.repeat(chosen, c, axis=1) / (n * (1.0 - erasures.p))
            x = x - rate * np.einsum("rn,rnd->rd", weights, gradients)
        constants = Constants(0.1, 1.0, sigma, float(gaps[0][0]))
        bound = formulas.theorem1(constants, erasures, n)
        means = np.array([gap.mean() for gap in gaps])
        assert all(mean <= bound.after(step) for step, mean in enumerate(means))
        assert means[-1] < 0.5 * means[0]

    def test_theorem3_is_an_upper_bound_on_the_predicted_times(self) -> None:
        quiet = Constants(mu=0.1, beta=1.0, sigma=0.1, gap=5.0)
        for n, c, r in ((30, 3, 15), (30, 5, 20), (60, 4, 30), (60, 2, 45)):
            epsilon = max(0.01, 1.01 * formulas.theorem3(quiet, n, c, r, 1.0).least_epsilon)
            bounds = formulas.theorem3(quiet, n, c, r, epsilon)
            times = formulas.predicted_times(quiet, n, c, r, 1.0 / c, epsilon)
            whole = 1.05  # bounds do not round steps up
            assert times.uncoded <= bounds.uncoded * whole
            assert times.exact <= bounds.exact * whole
            assert times.approximate <= bounds.approximate * whole
            assert times.joint <= times.approximate
            assert bounds.exact_as_printed < bounds.exact

    def test_the_printed_exact_bound_of_theorem3_is_violated(self) -> None:
        """With H_(n/c) close to log(n/c) + 1 - a group for each worker pair, few groups - the printed bound fails."""
        n, c = 30, 30
        bounds = formulas.theorem3(CONSTANTS, n, c, 15, 1.0)
        steps = lemma1(CONSTANTS).steps_to(1.0)
        real = steps * formulas.lemma8(n, c, 15, 1.0 / c).exact
        assert bounds.exact_as_printed < real <= bounds.exact * 1.0000001

    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda: Constants(0.0, 1.0, 1.0, 1.0), "mu must be greater than 0"),
            (lambda: Constants(2.0, 1.0, 1.0, 1.0), "beta must be at least mu, 2"),
            (lambda: formulas.theorem2(CONSTANTS, 30, 1, 11), "c must be at least n ln 2 / r"),
            (lambda: formulas.theorem2(CONSTANTS, 30, 3, 0), "r must be at least 1"),
            (lambda: formulas.theorem2(CONSTANTS, 30, 31, 11), "c must be at most 30"),
            (lambda: formulas.theorem3(CONSTANTS, 30, 0, 11, 1.0), "c must be at least 1"),
            (
                lambda: formulas.lemma3(formulas.Erasures(6, 2, 3), np.ones(3)),
                "group_gradients must have a row for each of 3 groups",
            ),
            (lambda: formulas.theorem1(CONSTANTS, formulas.Erasures(30, 3, 0), 30), "waited must be at least 1"),
            (lambda: formulas.theorem3(CONSTANTS, 30, 3, 30, 1.0), "r must be at most 29"),
            (lambda: formulas.theorem3(CONSTANTS, 30, 3, 15, 9.0), "smaller than the gap, 5"),
        ],
    )
    def test_wrong_numbers_are_refused(self, make: object, said: str) -> None:
        with pytest.raises(InvalidArgument, match=said):
            make()  # pyright: ignore

    def test_the_fastest_and_the_slowest_contraction(self) -> None:
        """A step along a perfectly conditioned objective reaches the optimum; curvatures may differ by 1e17, too."""
        perfect, flat = Constants(1.0, 1.0, 1.0, 1.0), Constants(1e-17, 1.0, 0.0, 1.0)
        times = formulas.theorem3(perfect, 100, 100, 99, 0.5)
        assert times.approximate == pytest.approx((100**2 * math.log(100) + 100**2 + 100) / 100)
        assert lemma1(flat).steps_to(0.5) == math.inf
        assert lemma1(perfect).steps_to(0.5) == 1.0


class TestEstimatedConstants:
    def test_least_squares_has_the_curvatures_of_its_matrix(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((300, 5))
        y = x @ rng.standard_normal(5) + 0.1 * rng.standard_normal(300)
        problem = problems.LeastSquares(x, y, l2=0.01)
        found = estimate_constants(problem, 30, steps=200, power_steps=60)
        step = 1e-3
        hessian = np.array(
            [(problem.gradient(step * axis) - problem.gradient(-step * axis)) / (2 * step) for axis in np.eye(5)]
        ) + 0.02 * np.eye(5)
        eigenvalues = np.linalg.eigvalsh(hessian)
        assert found.beta == pytest.approx(eigenvalues[-1], rel=0.02)
        assert eigenvalues[0] * 0.999 <= found.mu <= eigenvalues[-1]
        assert found.mu == pytest.approx(eigenvalues[0], rel=0.3)
        start = problem.objective(np.zeros(5))
        best = problem.objective(np.linalg.solve(hessian, -problem.gradient(np.zeros(5))))
        assert found.gap == pytest.approx(start - best, rel=1e-6)

    def test_sigma_is_the_longest_task_gradient(self) -> None:
        rng = np.random.default_rng(1)
        x = rng.standard_normal((60, 3))
        y = np.sign(x[:, 0] + 0.3 * rng.standard_normal(60))
        problem = problems.LogisticRegression(x, y, l2=0.05)
        found = estimate_constants(problem, 6)
        at_zero = [np.linalg.norm(x[low : low + 10].T @ (-0.5 * y[low : low + 10])) / 10 for low in range(0, 60, 10)]
        assert found.sigma >= max(at_zero) - 1e-9
        assert found.mu >= 0.1
        bound = lemma1(found)
        assert bound.steps_to(0.01 * found.gap) < 500
