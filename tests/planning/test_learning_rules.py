"""A rule that learns is simulated step by step, as it learns in a run."""

from __future__ import annotations

import pytest

from erasurehead import codes, schemes
from erasurehead.delays import Exponential
from erasurehead.errors import InvalidArgument
from erasurehead.planning._carry_over import simulate_with_memory
from erasurehead.planning._simulation import Timing, simulate

from ..training.test_state_of_runs import Momentum, Patience, go


def test_a_rule_that_learns_is_simulated_step_by_step() -> None:
    scheme = schemes.custom(codes.uncoded(6), Patience(), Momentum())
    run, _ = go(scheme, 15)
    with pytest.raises(InvalidArgument, match="simulate_with_memory"):
        simulate(Timing(scheme.decoder, scheme.rule, Exponential(0.5, seed=3)), 15)
    found = simulate_with_memory(Timing(scheme.decoder, scheme.rule, Exponential(0.5, seed=3)), 15)
    assert found.seconds.tolist() == [row.waited for row in run.steps]
