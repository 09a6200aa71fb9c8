"""Settings of which few steps were simulated, beside others that met the same delays for longer."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.planning import forecast, plan

FEW, MANY = "exact(load={}, code='cyclic')", "exact(load={})"


@pytest.mark.parametrize("seed", range(3))
def test_settings_whose_steps_are_the_same_are_forecast_alike_however_many_were_simulated(seed: int) -> None:
    """Both wait for the first of four workers; the one that was simulated for fewer steps was the best by chance."""
    model = delays.Exponential(0.5, seed=seed)
    found = plan(model, 4, settings=[FEW.format(4), MANY.format(4)])
    few, many = (next(item for item in found.ranked if item.setting == name.format(4)) for name in (FEW, MANY))
    assert len(few.scores) < len(many.scores)
    assert few.scores.mean() != pytest.approx(many.scores.mean(), rel=1e-3)
    assert few.seconds_per_step == pytest.approx(many.seconds_per_step, rel=1e-12)
    assert few.error == pytest.approx(many.error, rel=1e-6)
    assert not found.distinguishable(few, many)


def test_what_few_steps_are_off_by_is_told_by_settings_that_met_more_of_the_same_delays() -> None:
    """Of eight seeds together: chance leaves less than half of the error, and what is stated covers what is left."""
    before, after, stated = [], [], []
    for seed in range(8):
        model = delays.Exponential(0.5, seed=seed)
        alone = forecast(FEW.format(3), 12, model)
        beside = plan(model, 12, settings=[FEW.format(3), "ignore_stragglers(wait_for=10)"])
        item = next(item for item in beside.ranked if item.setting == FEW.format(3))
        truth = forecast(FEW.format(3), 12, delays.Exponential(0.5, seed=100), steps=4000).seconds_per_step
        before.append(alone.seconds_per_step / truth - 1.0)
        after.append(item.seconds_per_step / truth - 1.0)
        stated.append(item.error / truth)
    assert np.square(after).sum() < np.square(before).sum() / 4
    assert np.square(after).sum() < 2.0 * np.square(stated).sum()


def test_forecasts_of_one_length_stay_as_they_are() -> None:
    model = delays.Exponential(0.5, seed=0)
    found = plan(model, 12, settings=[MANY.format(3), "uncoded()", "erasurehead(load=3, wait_for=4)"])
    for item in found.ranked:
        assert item.seconds_per_step == item.scores.mean()
