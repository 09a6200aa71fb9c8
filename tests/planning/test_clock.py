"""Delays along the clock are simulated step by step, as an engine meets them."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead import delays, schemes
from erasurehead.engines import VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent
from erasurehead.planning import forecast
from erasurehead.planning._carry_over import simulate_with_memory
from erasurehead.planning._simulation import Timing, simulate
from erasurehead.testing._problems import Quadratic
from erasurehead.training import train

from ..delays.test_clock import TEXTS


@pytest.mark.parametrize("text", TEXTS)
def test_what_follows_the_clock_is_not_simulated_all_at_once(text: str) -> None:
    scheme = schemes.uncoded(6)
    with pytest.raises(InvalidArgument, match="along the clock"):
        simulate(Timing(scheme.decoder, scheme.rule, delays.parse(text)), 4)


def test_planning_simulates_what_follows_the_clock_step_by_step() -> None:
    model = delays.parse("stalls(5.0, 2.0, seed=3)") + delays.Exponential(0.1, seed=4)
    scheme = schemes.erasurehead(6, 2, 3)
    problem = Quadratic.random(12, 3, seed=1)
    run = train(problem, scheme, GradientDescent(np.zeros(3), 0.01), VirtualEngine(model), 50, evaluate_every=0)
    found = simulate_with_memory(Timing(scheme.decoder, scheme.rule, model, late="preempt"), 50)
    assert found.seconds.tolist() == [row.waited for row in run.steps]
    assert forecast("erasurehead(load=2, wait_for=3)", 6, model).seconds_per_step > 0


def test_a_forecast_meets_enough_stalls_to_say_what_they_cost() -> None:
    model = delays.parse("stalls(20, 3)")
    found = forecast("uncoded()", 8, model, 0.1)
    long = forecast("uncoded()", 8, model, 0.1, steps=4000).seconds_per_step
    assert found.seconds_per_step == pytest.approx(long, rel=0.25)
    assert abs(found.seconds_per_step - long) < 3.0 * found.error
