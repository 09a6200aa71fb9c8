"""The simulator stops when a real run stops, whatever its block, and agrees with theory to within its error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import delays, engines, optimizers, problems, schemes, training
from erasurehead.codes import GradientCode, cyclic_repetition, fractional_repetition, uncoded
from erasurehead.decoding import make_decoder
from erasurehead.delays import Delays
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.planning import plan
from erasurehead.planning._arrivals import ArrivalTimes
from erasurehead.planning._carry_over import simulate_with_memory
from erasurehead.planning._forecasts import forecast
from erasurehead.planning._simulation import Simulation, Timing, residuals_at, simulate, stop_times
from erasurehead.planning._step_times import additive, all_groups, first_arrivals, first_or_all_groups
from erasurehead.schemes import parse_scheme, wait_rules
from erasurehead.schemes.wait_rules import WaitRule

from .formulas import formulas

EXPONENTIAL = delays.Exponential(0.5, seed=3)


def error_of(simulated: Simulation) -> float:
    """Return the standard error of the mean seconds of a step."""
    return float(simulated.seconds.std(ddof=1) / np.sqrt(len(simulated.seconds)))


def two_messages(n_workers: int) -> GradientCode:
    """Each worker sends its own task, then the sum of its own and its neighbour's."""
    encoding = np.zeros((2 * n_workers, n_workers))
    for worker in range(n_workers):
        encoding[2 * worker, worker] = 1.0
        encoding[2 * worker + 1, [worker, (worker + 1) % n_workers]] = 1.0
    owner = np.repeat(np.arange(n_workers), 2)
    return GradientCode(
        name="two", parameters={}, encoding=encoding, owner=owner, n_workers=n_workers, n_tasks=n_workers
    )  # pyright: ignore


CODES = {
    "uncoded": uncoded(12),
    "repetition": fractional_repetition(12, 3),
    "cyclic": cyclic_repetition(12, 2),
    "two messages": two_messages(12),
}
RULES = {
    "first": wait_rules.first(7),
    "joint": wait_rules.first(9) | wait_rules.decodable(),
    "decodable": wait_rules.decodable(),
    "residual": wait_rules.parse("residual_below(3.0)"),
    "deadline": wait_rules.parse("deadline(0.4)") | wait_rules.decodable(),
    "both": wait_rules.first(3) & wait_rules.parse("deadline(0.2)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("code", sorted(CODES))
def test_a_virtual_run_stops_when_the_simulation_says_and_with_the_same_residual(code: str, rule: str) -> None:
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.standard_normal((24, 2)), rng.standard_normal(24))
    model = EXPONENTIAL + delays.parse("late((3,), by=0.1)")
    scheme = schemes.custom(CODES[code], RULES[rule])
    engine = engines.VirtualEngine(model, seconds_per_task=0.05)
    run = training.train(problem, scheme, optimizers.GradientDescent(problem.initial(), 0.01), engine, steps=20)
    simulated = simulate(Timing(scheme.decoder, RULES[rule], model, 0.05), 20)
    np.testing.assert_allclose([row.waited for row in run.steps], simulated.seconds, rtol=1e-9)
    np.testing.assert_allclose([row.residual for row in run.steps], simulated.residual, atol=1e-8)
    assert [row.arrived for row in run.steps] == simulated.arrived.tolist()


@pytest.mark.slow
@settings(max_examples=30)
@given(
    code=st.sampled_from(sorted(CODES)),
    rule=st.sampled_from(sorted(RULES)),
    block=st.integers(1, 40),
    first=st.integers(0, 2000),
    model=st.sampled_from(
        [
            EXPONENTIAL,
            delays.parse(f"markov(0.1, 0.2, none(), {EXPONENTIAL}, seed=1)"),
            delays.Bootstrap(np.arange(1.0, 61.0).reshape(5, 12), block=3),
            delays.parse("late((0, 5))"),
        ]
    ),
)
def test_the_outcome_does_not_depend_on_the_block(code: str, rule: str, block: int, first: int, model: Delays) -> None:
    decoder = make_decoder(CODES[code])
    one = simulate(Timing(decoder, RULES[rule], model, first_step=first), 30, block=block)
    other = simulate(Timing(decoder, RULES[rule], model, first_step=first), 30)
    for field in ("seconds", "residual", "arrived"):
        assert (getattr(one, field) == getattr(other, field)).all()
    assert (stop_times(Timing(decoder, RULES[rule], model, first_step=first), 30) == one.seconds).all()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (wait_rules.decodable(), all_groups(additive(3, 0.01, 2.0), 30, 3)),
        (wait_rules.first(11), first_arrivals(additive(3, 0.01, 2.0), 30, 11)),
        (wait_rules.first(30), first_arrivals(additive(3, 0.01, 2.0), 30, 30)),
        (wait_rules.first(15) | wait_rules.decodable(), first_or_all_groups(additive(3, 0.01, 2.0), 30, 3, 15)),
    ],
    ids=str,
)
def test_the_additive_law_agrees_with_theory(rule: WaitRule, expected: float) -> None:
    decoder = make_decoder(fractional_repetition(30, 3))
    result = simulate(Timing(decoder, rule, EXPONENTIAL, 0.01), 20_000)
    assert abs(result.seconds_per_step - expected) < 4.0 * error_of(result)
    assert result.met == 1.0


def test_the_scaled_law_and_the_residual_agree_with_theory() -> None:
    n, c, r = 30, 3, 15
    law = delays.ShiftedExponential(1.0 / n, 1.0 / n, seed=1, scale_with_load=True)
    decoder = make_decoder(fractional_repetition(n, c))
    first = simulate(Timing(decoder, wait_rules.first(r), law), 20_000)
    expected = formulas.lemma8(n, c, r, 1.0)
    assert abs(first.seconds_per_step - expected.approximate) < 4.0 * error_of(first)
    error = first.residual.std() / np.sqrt(20_000)
    assert abs(first.residual.mean() - formulas.mean_residual(formulas.Erasures(n, c, r), n)) < 4.0 * error
    assert (first.arrived == r).all()
    joint = simulate(Timing(decoder, wait_rules.first(r) | wait_rules.decodable(), law), 20_000)
    assert abs(joint.seconds_per_step - expected.joint) < 4.0 * error_of(joint)
    assert np.allclose(joint.residual, first.residual)  # stopping at all groups loses nothing
    assert joint.seconds_per_step < first.seconds_per_step


def test_what_is_never_met_is_said_and_not_averaged_away() -> None:
    decoder = make_decoder(fractional_repetition(12, 3))
    dead = EXPONENTIAL + delays.parse("late((0, 1, 2), since=5)")
    result = simulate(Timing(decoder, wait_rules.decodable(), dead), 20)
    assert result.met == 5 / 20
    assert np.isinf(result.seconds_per_step)
    assert result.residual[5:].tolist() == [3.0] * 15
    assert result.arrived[5:].tolist() == [9] * 15
    assert simulate(Timing(decoder, wait_rules.parse("deadline(5.0)"), dead), 20).met == 1.0


def test_very_many_workers() -> None:
    n = 200_000
    decoder = make_decoder(fractional_repetition(n, 5))
    result = simulate(Timing(decoder, wait_rules.parse("fraction(0.4)") | wait_rules.decodable(), EXPONENTIAL), 3)
    assert result.seconds == pytest.approx(-0.5 * np.log(0.6), rel=0.01)
    assert result.residual / n == pytest.approx(0.6**5, rel=0.05)


def test_residuals_of_the_same_arrivals_are_decoded_once_and_alike() -> None:
    decoder = make_decoder(cyclic_repetition(8, 2))
    times = np.random.default_rng(0).exponential(size=(50, 8))
    stop = np.sort(times, axis=1)[:, 4]
    expected = [decoder.residual(np.flatnonzero(row <= end).tolist()) for row, end in zip(times, stop, strict=True)]
    np.testing.assert_allclose(residuals_at(decoder, times, stop), expected, atol=1e-12)


def test_messages_of_one_worker_come_one_after_the_other() -> None:
    times = ArrivalTimes(two_messages(4), EXPONENTIAL, 0.1).block(0, 50)
    first = EXPONENTIAL.rows(0, 50, 4) + 0.1
    assert np.allclose(times[:, ::2], first)
    assert np.allclose(times[:, 1::2], first + EXPONENTIAL.rows(0, 50, 4, unit=1) + 0.2)


def test_wrong_arguments_are_refused() -> None:
    decoder = make_decoder(uncoded(4))
    with pytest.raises(InvalidArgument, match="at most the 4 workers"):
        simulate(Timing(decoder, wait_rules.first(5), EXPONENTIAL), 10)
    with pytest.raises(InvalidArgument, match="steps must be at least 1"):
        simulate(Timing(decoder, wait_rules.first(4), EXPONENTIAL), 0)
    with pytest.raises(InvalidArgument, match="block must be at least 1"):
        simulate(Timing(decoder, wait_rules.first(4), EXPONENTIAL), 10, block=0)
    with pytest.raises(InvalidArgument, match="seconds_per_task must be"):
        simulate(Timing(decoder, wait_rules.first(4), EXPONENTIAL, -1.0), 10)


@pytest.mark.parametrize("setting", ["ignore_stragglers(wait_for=5)", "erasurehead(load=3, wait_for=4)", "uncoded()"])
def test_messages_that_tie_come_in_the_same_order_whatever_is_simulated_at_a_time(setting: str) -> None:
    """Steps with ties were gone through one by one: a trace of whole tenths of seconds took 30 times as long."""
    scheme = parse_scheme(setting, 12)
    table = np.round(np.random.default_rng(0).exponential(0.5, (40, 12)), 1)
    ties = delays.Bootstrap(table, seed=2)
    one, many = (
        simulate(Timing(scheme.decoder, scheme.rule, ties, 0.01, first_step=7, seed=3), 60, block=block)
        for block in (1, None)
    )
    for name in ("seconds", "residual", "arrived"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))


@pytest.mark.parametrize("run", [simulate, stop_times, simulate_with_memory])
def test_more_steps_than_memory_holds_are_refused(run: Callable[..., object]) -> None:
    scheme = schemes.uncoded(2)
    with pytest.raises(DataError, match=r"^A simulation of 1,000,000,000,000 steps needs about 32,000\.0 GB of memory"):
        run(Timing.of(scheme, EXPONENTIAL, 0.0), 10**12)


@pytest.mark.slow
@pytest.mark.parametrize(("n_workers", "steps"), [(30, 10**12), (10**6, None)])
def test_plans_that_take_forever_are_refused_before_anything_is_built(n_workers: int, steps: int | None) -> None:
    with pytest.raises(DataError, match=f"for {n_workers:,} workers would take about .* simulate fewer workers"):
        plan(EXPONENTIAL, n_workers, steps=steps)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_sums_that_follow_reports_are_forecast(late: Literal["preempt", "carry"]) -> None:
    text = "compute_once(load=2, pieces=2, sums=True)"
    rng = np.random.default_rng(1)
    problem = problems.LeastSquares(rng.standard_normal((48, 3)), rng.standard_normal(48))
    optimizer = optimizers.GradientDescent(problem.initial(), 1e-3)
    engine = engines.VirtualEngine(EXPONENTIAL, late)
    run = training.train(problem, parse_scheme(text, 6), optimizer, engine, 300, evaluate_every=0, tolerance=None)
    by_task = forecast(text.replace(", sums=True", ""), 6, EXPONENTIAL, late=late).seconds_per_step
    found = forecast(text, 6, EXPONENTIAL, late=late).seconds_per_step
    taken = np.mean([row.waited for row in run.steps])
    assert taken < found < 1.2 * taken  # in which nobody repeats what is late
    assert found > 1.3 * by_task
