"""Wait rules as people write them: none of them hangs an engine whose clock stands still until something happens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes, schemes
from erasurehead.decoding import Decoder
from erasurehead.delays import Exponential, Fixed
from erasurehead.engines import VirtualEngine
from erasurehead.errors import EngineError, InvalidArgument
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import LeastSquares
from erasurehead.schemes.wait_rules import Verdict, View, WaitRule
from erasurehead.training import Run, train

from ...arrays import Array

RNG = np.random.default_rng(0)
PROBLEM = LeastSquares(RNG.standard_normal((24, 3)), RNG.standard_normal(24))


@dataclass(frozen=True)
class Own(WaitRule):
    """A rule made of two functions."""

    stop: Callable[[View], bool]
    again: Callable[[View], float | None] = lambda view: None

    def verdict(self, view: View) -> Verdict:
        return Verdict.STOP if self.stop(view) else Verdict.WAIT

    def wake(self, view: View) -> float | None:
        return self.again(view)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        raise NotImplementedError

    def __str__(self) -> str:
        return "my_own_rule()"


def trained(
    rule: WaitRule, engine: VirtualEngine | None = None, steps: int = 30, fault_policy: FaultPolicy | None = None
) -> Run:
    scheme = schemes.custom(codes.uncoded(6), rule)
    engine = engine or VirtualEngine(Exponential(mean=0.1, seed=1))
    return train(PROBLEM, scheme, GradientDescent(np.zeros(3), 0.01), engine, steps, fault_policy=fault_policy)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.floats(1e-3, 50.0), st.booleans(), st.floats(0.0, 2.0))
def test_a_rule_that_stops_at_its_own_wake_up_stops(seconds: float, strictly: bool, computing: float) -> None:
    def stop(view: View) -> bool:
        return view.elapsed > seconds if strictly else view.elapsed >= seconds

    engine = VirtualEngine(Exponential(mean=0.1, seed=1), seconds_per_task=computing)
    run = trained(Own(stop, lambda view: seconds), engine)
    assert len(run.steps) == 30
    for row in run.steps:
        assert row.waited >= seconds
        assert row.waited == pytest.approx(max(seconds, row.waited if row.arrived < 6 else seconds), rel=1e-9)


@pytest.mark.parametrize("wake", ["soon", math.nan, [1.0]])
def test_a_wake_up_that_is_no_number_of_seconds_is_named(wake: Any) -> None:
    with pytest.raises(
        InvalidArgument, match=r"wake\(view\) of the wait rule my_own_rule\(\) must be a number of seconds"
    ):
        trained(Own(lambda view: False, lambda view: wake))


@pytest.mark.parametrize("wake", [-1.0, 0.0, 1e-12, 0.05, math.inf, None])
def test_a_wake_up_in_the_past_waits_for_the_next_arrival(wake: float | None) -> None:
    run = trained(Own(lambda view: len(view.arrived) >= 4, lambda view: wake))
    assert [row.arrived for row in run.steps] == [4] * 30


def test_a_rule_that_asks_for_the_next_bit_of_time_goes_on_with_the_next_arrival() -> None:
    rule = Own(lambda view: len(view.arrived) >= 4, lambda view: math.nextafter(view.elapsed, math.inf))
    engine = VirtualEngine(Fixed(((1.0, 2.0, 3.0, 4.0, 5.0, 6.0),)))
    engine._clock = 1e6
    assert [row.arrived for row in trained(rule, engine, steps=5).steps] == [4] * 5


@pytest.mark.parametrize("wake", [None, 0.0, -3.0, 0.2, math.inf])
def test_a_rule_that_never_stops_is_named(wake: float | None) -> None:
    with pytest.raises(EngineError, match=r"step 0: the wait rule my_own_rule\(\) goes on waiting"):
        trained(Own(lambda view: False, lambda view: wake))


def test_a_rule_that_waits_for_more_than_can_come_does_what_the_user_wants_then() -> None:
    rule = Own(lambda view: len(view.arrived) >= 6)
    engine = VirtualEngine(Exponential(mean=0.1, seed=1))
    engine.kill(2, at=0.15)
    run = trained(rule, engine, fault_policy=FaultPolicy(on_death="leave", on_loss="go_on"))
    assert len(run.steps) == 30
    assert run.steps[-1].arrived == 5


def test_a_wake_up_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"wake\(view\) of the wait rule my_own_rule\(\).*must be a number"):
        trained(Own(lambda view: False, lambda view: math.nan))
