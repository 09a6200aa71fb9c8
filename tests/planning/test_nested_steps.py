"""Steps with nested codes: as planned, and as soon over as with the best plain code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes, planning, schemes
from erasurehead.delays import parse
from erasurehead.engines import VirtualEngine
from erasurehead.errors import NothingUnderWay
from erasurehead.planning._carry_over import simulate_with_memory
from erasurehead.planning._settings import default_settings
from erasurehead.planning._simulation import Timing, simulate
from erasurehead.schemes import Scheme

from ..training.test_nested import Given, go


def fixed(n_workers: int, level: int) -> Scheme:
    """Return the plain code of a level."""
    return schemes.custom(codes.build("nested", n_workers=n_workers, stragglers=level).inner[level], "decodable()")


@pytest.mark.slow
@settings(deadline=None)
@given(
    start=st.lists(st.sampled_from([0.0, 0.3, 0.7, 1.9, 4.2, 8.8, np.inf]), min_size=4, max_size=9),
    load=st.integers(1, 4),
    each=st.sampled_from([0.11, 1.01]),
)
def test_a_step_is_exact_as_soon_as_the_best_fixed_code_would_be(start: list[float], load: int, each: float) -> None:
    n, delays = len(start), Given(tuple(start), each)
    scheme, plain = schemes.nested(n, load), [fixed(n, level) for level in range(load)]
    ends = [simulate(Timing(one.decoder, one.rule, delays), 1).seconds[0] for one in plain]
    assert simulate(Timing(scheme.decoder, scheme.rule, delays), 3).seconds.tolist() == pytest.approx([min(ends)] * 3)
    assert min(ends) <= min(sorted(start)[n - 1 - level] + each * (level + 1) for level in range(load)) * (1 + 1e-9)
    if min(ends) == np.inf:
        with pytest.raises(NothingUnderWay, match=r"decodable\(\) goes on waiting"):
            go(VirtualEngine(delays), scheme)
        return
    run = go(VirtualEngine(delays), scheme)
    np.testing.assert_allclose(run.x, go(VirtualEngine(), schemes.uncoded(n)).x, rtol=1e-8)
    for row in run.steps:
        assert row.waited == pytest.approx(min(ends))
        assert row.residual < 1e-9
        assert ends[row.decision["tolerance"]] == pytest.approx(min(ends))
        assert len(row.used) <= n - row.decision["tolerance"]


@pytest.mark.parametrize("late", ["preempt", "carry", "drop(1)"])
def test_a_plan_takes_the_time_of_the_run(late: Any) -> None:
    scheme, delays = schemes.nested(8, load=4), "exponential(0.5, seed=3)"
    run = go(VirtualEngine(delays, late, seconds_per_task=0.1), scheme, 12)
    timing = Timing.of(scheme, parse(delays), 0.1, late=late)
    planned = simulate_with_memory(timing, 12)
    assert planned.seconds.tolist() == pytest.approx([row.waited for row in run.steps])
    if late == "preempt":
        assert simulate(timing, 12).seconds.tolist() == pytest.approx([row.waited for row in run.steps])


def test_nested_codes_are_tried_where_workers_do_not_answer_in_some_steps() -> None:
    failing = parse("bimodal(0.1, exponential(0.5), late([0, 1, 2, 3, 4, 5, 6, 7]))")
    tried = default_settings(8, 4, failing)
    assert {f"nested(load={load})" for load in (2, 3, 4)} < set(tried)
    assert not any("nested" in one for one in default_settings(8, 4, parse("exponential(0.5)")))
    assert planning.forecast("nested(load=4)", 8, parse("exponential(0.5)")).seconds_per_step > 0.0
