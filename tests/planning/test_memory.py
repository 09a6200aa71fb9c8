"""Steps with memory are those of the virtual engine, and differ from memoryless ones as the published figures do."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, problems, schemes, training
from erasurehead.codes import cyclic_repetition, fractional_repetition
from erasurehead.decoding import make_decoder
from erasurehead.planning._carry_over import by_event, simulate_with_memory
from erasurehead.planning._simulation import Timing, simulate
from erasurehead.schemes import wait_rules

EXPONENTIAL = delays.Exponential(0.5, seed=2)


@pytest.mark.parametrize("code", [fractional_repetition(12, 3), cyclic_repetition(12, 2)], ids=lambda code: code.name)
def test_dropped_late_work_is_the_memoryless_simulation(code: object) -> None:
    decoder = make_decoder(code)  # pyright: ignore
    rule = wait_rules.first(5) | wait_rules.decodable()
    one = by_event(Timing(decoder, rule, EXPONENTIAL, 0.02, first_step=7, late="preempt", seed=0), 40)
    other = simulate(Timing(decoder, rule, EXPONENTIAL, 0.02, first_step=7), 40)
    np.testing.assert_allclose(one.seconds, other.seconds, rtol=1e-9)
    np.testing.assert_allclose(one.residual, other.residual, atol=1e-9)
    assert one.arrived.tolist() == other.arrived.tolist()


def test_carried_work_is_what_a_virtual_run_does() -> None:
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.standard_normal((24, 2)), rng.standard_normal(24))
    scheme = schemes.erasurehead(12, load=3, wait_for=5)
    engine = engines.VirtualEngine(EXPONENTIAL, "carry", 0.02)
    run = training.train(problem, scheme, optimizers.GradientDescent(problem.initial(), 0.01), engine, steps=50)
    simulated = simulate_with_memory(Timing(scheme.decoder, scheme.rule, EXPONENTIAL, 0.02), 50)
    np.testing.assert_allclose([row.waited for row in run.steps], simulated.seconds, rtol=1e-9)
    assert [row.residual for row in run.steps] == simulated.residual.tolist()


@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize("text", ["compute_once(load=3)", "adaptive(load=2, multi_message=True)"])
@pytest.mark.parametrize(
    "model", [EXPONENTIAL, delays.parse("stalls(5, 2, seed=3) + exponential(0.1, seed=4)")], ids=str
)
def test_several_messages_of_a_worker_are_simulated_as_by_an_engine(text: str, model: delays.Delays, late: str) -> None:
    scheme = schemes.parse_scheme(text, 12)
    timing = Timing.of(scheme, model, 0.05, late=late)
    at_once, one_by_one = simulate_with_memory(timing, 60), by_event(timing, 60)
    np.testing.assert_allclose(at_once.seconds, one_by_one.seconds, rtol=1e-9)
    np.testing.assert_allclose(at_once.residual, one_by_one.residual, atol=1e-9)
    assert at_once.arrived.tolist() == one_by_one.arrived.tolist()


def test_the_measured_ratios_of_both_kinds() -> None:
    """First 11 of 30, mean step over mean delay: 0.45 where late work is dropped, 0.89 where it is carried on."""
    decoder = make_decoder(fractional_repetition(30, 1))
    dropped = simulate(Timing(decoder, wait_rules.first(11), EXPONENTIAL), 2000)
    carried = simulate_with_memory(Timing(decoder, wait_rules.first(11), EXPONENTIAL), 400)
    assert dropped.seconds_per_step / 0.5 == pytest.approx(0.45, abs=0.02)
    assert carried.seconds_per_step / 0.5 == pytest.approx(0.89, abs=0.06)


def test_workers_that_never_come_back_end_it() -> None:
    decoder = make_decoder(fractional_repetition(6, 2))
    dead = delays.Fixed(((0.1,) * 6, (0.1, 0.1) + (np.inf,) * 4))
    met = simulate_with_memory(Timing(decoder, wait_rules.first(2), dead), 4)
    assert met.met == 1.0
    found = simulate_with_memory(Timing(decoder, wait_rules.first(2) | wait_rules.parse("deadline(0.5)"), dead), 3)
    assert found.seconds.tolist() == pytest.approx([0.1, 0.1, 0.1])


def test_when_nobody_is_left_who_could_answer_the_rest_is_never() -> None:
    decoder = make_decoder(fractional_repetition(6, 2))
    dead = delays.Fixed(((0.1,) * 6, (0.1, 0.1) + (np.inf,) * 4))
    found = simulate_with_memory(Timing(decoder, wait_rules.first(3), dead), 4)
    assert found.seconds.tolist() == [pytest.approx(0.1), np.inf, np.inf, np.inf]
    assert found.met == 0.25
