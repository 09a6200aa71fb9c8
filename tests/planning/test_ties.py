"""Messages that arrive at the same moment: the planner breaks ties as the engine does."""

from __future__ import annotations

import pytest

from erasurehead import codes, decoding, schemes
from erasurehead.delays import parse
from erasurehead.planning._carry_over import by_event
from erasurehead.planning._simulation import Timing, simulate
from erasurehead.schemes import wait_rules

from ..delays.test_ties import TYING, trained


@pytest.mark.slow
@pytest.mark.parametrize("name", TYING)
@pytest.mark.parametrize("rule", ["first(3)", "first(3) | decodable()", "residual_below(3)", "deadline(0.5)"])
def test_the_planner_breaks_ties_as_the_engine_does(name: str, rule: str) -> None:
    delays = TYING[name] or parse("none()")
    for code in (
        codes.uncoded(8),
        codes.fractional_repetition(8, 2),
        codes.build("cyclic_mds", n_workers=8, stragglers=3),
    ):
        scheme = schemes.custom(code, rule)
        run = trained(scheme, delays, 30, seed=5)
        found = simulate(Timing(scheme.decoder, scheme.rule, delays, seed=5), 30)
        assert found.arrived.tolist() == [row.arrived for row in run.steps]
        assert found.residual == pytest.approx([row.residual for row in run.steps], abs=1e-9)
        assert found.seconds == pytest.approx([row.waited for row in run.steps])
        walked = by_event(Timing(scheme.decoder, scheme.rule, delays, 0.0, first_step=0, late="preempt", seed=5), 30)
        assert walked.arrived.tolist() == found.arrived.tolist()


def test_several_messages_of_a_worker_come_one_after_the_other() -> None:
    code = codes.build("multi_message", n_workers=8, load=3)
    rule, decoder = wait_rules.parse("residual_below(2)"), decoding.make_decoder(code)
    found = simulate(Timing(decoder, rule, parse("none()"), seed=2), 50)
    walked = by_event(Timing(decoder, rule, parse("none()"), 0.0, first_step=0, late="preempt", seed=2), 50)
    assert found.arrived.tolist() == walked.arrived.tolist()
    assert found.residual == pytest.approx(walked.residual)
