"""No setting is made up for more workers than there can be."""

from __future__ import annotations

import pytest

from erasurehead import planning
from erasurehead.delays import Bootstrap, parse
from erasurehead.errors import InvalidArgument
from erasurehead.planning import _settings
from erasurehead.planning._explanations import explain
from erasurehead.planning._planner import Plan


def test_settings_for_too_many_workers_are_refused() -> None:
    for call in (lambda: _settings.default_settings(10**12), lambda: _settings.usual_setting(10**30)):
        with pytest.raises(InvalidArgument, match="n_workers must be at most 10000000"):
            call()


def planned(delays: str) -> Plan:
    """Rank the settings for four workers whose optimizer is not that of `adaptive`."""
    drawn = parse(delays)
    return planning.plan(drawn, n_workers=4, settings=_settings.default_settings(4, 10, drawn))


def test_shares_by_speed_are_proposed_where_machines_differ_and_time_grows_with_the_work() -> None:
    machines = "shifted_exponential(0.5, 0.05, scale_with_load=True)"
    found = planned(f"scaled({machines}, factors=[2, 1, 1, 1])")
    assert found.best.setting == "uncoded(speeds=[1, 2, 2, 2])"
    told = " ".join(explain(found).split())
    assert "Redundancy does not pay here, but shares of the work by speed do, without a code: uncoded(" in told
    for alike in (machines, "exponential(0.1, scale_with_load=True)"):
        assert not any("speeds" in text for text in _settings.default_settings(12, 3, parse(alike)))
    differ = parse("per_worker(models=[none(), exponential(0.5)])")
    assert not any("speeds" in text for text in _settings.default_settings(2, 2, differ))  # it does not grow


def test_no_shares_by_speed_are_proposed_where_machines_are_slow_for_a_while_only() -> None:
    usual, slow = (f"shifted_exponential({seconds}, 0.05, scale_with_load=True)" for seconds in (1, 5))
    recorded = parse(f"markov(0.02, 0.1, {usual}, {slow}, seed=1)").rows(0, 200, 12)
    proposed = _settings.default_settings(12, 3, Bootstrap(recorded, block=17, scale_with_load=True))
    assert "compute_once(load=3)" in proposed
    assert not any("speeds" in text for text in proposed)


@pytest.mark.slow
def test_tasks_computed_once_are_proposed_where_machines_are_slow_for_a_while() -> None:
    usual, slow = (f"shifted_exponential({time}, {time / 10}, scale_with_load=True)" for time in (0.5, 2.5))
    found = planned(f"markov(0.002, 0.01, {usual}, {slow})")
    assert found.best.setting.startswith("compute_once(")
