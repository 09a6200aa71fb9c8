"""What late workers do: plans and simulations take the steps of training."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from erasurehead import schemes
from erasurehead.decoding import make_decoder
from erasurehead.delays import Exponential
from erasurehead.engines import VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent
from erasurehead.planning import plan
from erasurehead.planning._carry_over import simulate_with_memory
from erasurehead.planning._simulation import Timing
from erasurehead.planning._trials import simulated_steps
from erasurehead.schemes import wait_rules
from erasurehead.testing._problems import Quadratic
from erasurehead.training import train


def test_plans_and_simulations_take_the_steps_of_training() -> None:
    problem, delays, late = Quadratic.random(24, 6, seed=4), Exponential(0.5, seed=3), "drop(1)"
    scheme = schemes.custom(schemes.uncoded(6).code, "first(2)")
    run = train(problem, scheme, GradientDescent(np.zeros(6), 0.01), VirtualEngine(delays, late), 20)
    waited = [row.waited for row in run.steps]
    found = simulate_with_memory(Timing(make_decoder(scheme.code), wait_rules.first(2), delays, late=late), 20)
    assert found.seconds.tolist() == waited
    assert simulated_steps(scheme, delays, 0.0, late, 0, 20).seconds.tolist() == waited
    made = plan(delays, 6, 0.01, ["ignore_stragglers(wait_for=2)"], steps=64, late=late)
    kept = plan(delays, 6, 0.01, ["ignore_stragglers(wait_for=2)"], steps=64, late="carry")
    assert made.late == late
    assert made.best.seconds_per_step < kept.best.seconds_per_step
    with pytest.raises(InvalidArgument, match="late must be 'preempt'"):
        plan(delays, 6, 0.01, late="drop(x)")


@pytest.mark.parametrize("late", ["preempt", "carry", "drop(1)"])
def test_plans_know_of_orders_that_end_when_a_newer_one_is_out(late: Literal["preempt", "carry", "drop(1)"]) -> None:
    problem, delays = Quadratic.random(24, 6, seed=4), Exponential(0.5, seed=3)
    scheme = schemes.rennala(4, 5, messages=4)
    run = train(problem, scheme, GradientDescent(np.zeros(6), 0.01), VirtualEngine(delays, late), 20)
    planned = simulated_steps(scheme, delays, 0.0, late, 0, 20).seconds
    np.testing.assert_allclose(planned, [row.waited for row in run.steps], rtol=1e-12)
