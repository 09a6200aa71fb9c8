"""The mean of a delay model: its own, not that of a few draws."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from erasurehead import delays
from erasurehead.delays import _distributions, _fixed, _sometimes_slow
from erasurehead.delays._summaries import summarize_model


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ("none()", 0.0),
        ("exponential(0.5)", 0.5),
        ("shifted_exponential(0.2, 0.5)", 0.7),
        ("weibull(2.0, 1.0)", 2.0),
        ("weibull(1.0, 0.5, shift=0.5)", 2.5),
        ("pareto(1.0, 3.0)", 1.5),
        ("lognormal(1.0, 1.0)", math.exp(0.5)),
        ("bimodal(0.1, none(), exponential(5.0))", 0.5),
        ("markov(0.1, 0.3, exponential(1.0), exponential(5.0, seed=1))", 2.0),
    ],
)
def test_the_mean_is_known_and_what_the_draws_tend_to(text: str, mean: float) -> None:
    model = delays.parse(text)
    assert model.expected == pytest.approx(mean, rel=1e-12)
    assert summarize_model(model, 4, steps=10).mean == model.expected
    drawn = model.rows(0, 20_000, 8)
    assert drawn.mean() == pytest.approx(mean, rel=0.05)


def test_sums_add_up_and_what_is_not_known_is_estimated() -> None:
    assert (delays.Exponential(1.0) + delays.Exponential(2.0, seed=1)).expected == 3.0
    table = delays.Fixed(((1.0, 2.0),))
    assert table.expected is None
    assert (delays.Exponential(1.0) + table).expected is None
    assert _sometimes_slow.Bimodal(0.5, _fixed.NoDelay(), table).expected is None
    assert summarize_model(table, 2, steps=4).mean == 1.5


def test_a_mean_that_is_infinite_is_said_to_be() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert summarize_model(_distributions.Pareto(1.0, 1.0), 4, steps=10).mean == np.inf
    assert _distributions.LogNormal(1.0, 100.0).expected == np.inf
