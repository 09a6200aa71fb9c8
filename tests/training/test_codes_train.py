"""Every family of the catalogue trains, and the exact ones end where uncoded gradient descent ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from erasurehead import codes, delays, engines, optimizers, schemes
from erasurehead.decoding import _rounding
from erasurehead.schemes import Scheme
from erasurehead.schemes._aggregation import rescaling
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Run, train

from ..arrays import Array
from ..decoding.prescribed import FixedWeights

STEPS, RATE = 25, 0.2
FAMILIES = codes.catalogue()
TOLERANT = [family for family in FAMILIES if family.example_code.tolerance]
PROMISING = [family for family in FAMILIES if family.example_code.tolerance is not None]


def name_of(family: Any) -> str:
    return family.name


def problem_for(code: codes.GradientCode) -> Quadratic:
    """A problem whose parameters do not divide into pieces, nor samples into tasks, without a remainder."""
    return Quadratic.random(3 * code.n_tasks + 25, 7, seed=1, l2=0.01)


def run(scheme: Scheme, problem: Quadratic, late: Array | None = None) -> Run:
    """Train under random delays; workers in `late` never answer in any step."""
    seconds = delays.Exponential(mean=0.5, seed=3)
    model = seconds if late is None else seconds + delays.Fixed((tuple(np.where(late, np.inf, 0.0).tolist()),))
    optimizer = optimizers.GradientDescent(problem.initial(), RATE)
    return train(problem, scheme, optimizer, engines.VirtualEngine(model), STEPS, evaluate_every=0)


def descent(problem: Quadratic) -> Array:
    """The model of gradient descent on one machine, without any of our loops."""
    x = problem.initial()
    for _ in range(STEPS):
        x = x - RATE * (problem.gradient(x) + problem.penalty_gradient(x))
    return x


def allowed(code: codes.GradientCode) -> float:
    """The relative error that rounding may cause: what the code amplifies, over all steps."""
    return 1e-9 * max(1.0, _rounding.conditioning(code, samples=20).amplification)


@pytest.mark.slow
@pytest.mark.parametrize("family", PROMISING, ids=name_of)
def test_waiting_until_it_decodes_gives_the_model_of_gradient_descent(family: Any) -> None:
    code = family.example_code
    problem = problem_for(code)
    done = run(schemes.custom(code, "decodable()"), problem)
    expected = descent(problem)
    assert np.abs(done.x - expected).max() <= allowed(code) * np.abs(expected).max()
    assert all(row.stepped and row.residual <= 1e-12 * code.n_tasks for row in done.steps)


@pytest.mark.slow
@pytest.mark.parametrize("family", TOLERANT, ids=name_of)
def test_as_many_silent_workers_as_it_tolerates_change_nothing(family: Any) -> None:
    code = family.example_code
    assert code.tolerance is not None
    silent = np.zeros(code.n_workers, dtype=bool)
    silent[np.random.default_rng(5).permutation(code.n_workers)[: code.tolerance]] = True
    problem = problem_for(code)
    done = run(schemes.custom(code, "decodable()"), problem, silent)
    expected = descent(problem)
    assert np.abs(done.x - expected).max() <= allowed(code) * np.abs(expected).max()
    assert not {row.worker for row in done.arrivals if not row.censored} & set(np.flatnonzero(silent).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=name_of)
def test_three_quarters_of_the_workers_are_enough_to_come_closer_to_the_minimum(family: Any) -> None:
    code = family.example_code
    problem = problem_for(code)
    rule = f"first({max(1, 3 * code.n_workers // 4)}) | decodable()"
    done = run(schemes.custom(code, rule), problem)
    begin = problem.objective(problem.initial())
    best = problem.objective(np.linalg.lstsq(*normal_equations(problem))[0])
    assert problem.objective(done.x) - best < 0.2 * (begin - best)
    if code.n_messages == code.n_workers:  # with several messages a worker there are more delays to wait for
        assert done.seconds < run(schemes.uncoded(code.n_workers), problem).seconds


def normal_equations(problem: Quadratic) -> tuple[Array, Array]:
    """The linear system of the minimum."""
    n, size = problem.rows.shape
    return problem.rows.T @ problem.rows / n + 2 * problem.l2 * np.eye(size), problem.rows.T @ problem.centres / n


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=name_of)
def test_a_residual_that_can_be_borne_ends_the_waiting(family: Any) -> None:
    code = family.example_code
    bearable = 0.25 * code.n_tasks
    done = run(schemes.custom(code, f"residual_below({bearable})"), problem_for(code))
    assert all(row.stepped and row.residual <= bearable for row in done.steps)


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f.example_code.structure.decoder == "fixed_weights"], ids=name_of
)
def test_fixed_weights_train_without_any_decoding(family: Any) -> None:
    code = family.example_code
    problem = problem_for(code)
    decoder = FixedWeights(code)
    scheme = schemes.custom(code, f"first({code.n_workers - 1})", decoder=decoder)
    done = run(scheme, problem)
    assert problem.objective(done.x) < problem.objective(problem.initial())


def test_rescaled_by_coverage_a_code_that_shrinks_the_gradient_steps_as_far_as_without_stragglers() -> None:
    """Block designs decode to a shrunk gradient (SCHEMES: c r (n - s) is less than b); coverage makes up for it."""
    code = codes.build("projective_plane", order=3)
    problem = problem_for(code)
    plain = run(schemes.custom(code, "first(9)"), problem)
    scaled = run(schemes.custom(code, "first(9)", rescaling("coverage", code, 9)), problem)
    assert all(row.coverage < 1 for row in plain.steps)
    assert problem.objective(scaled.x) < problem.objective(plain.x)
