"""Every drawn delay model: the same numbers whatever is asked for, the law that it names, and its text."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from erasurehead import delays
from erasurehead.delays import Delays, _base, _distributions, _fixed, _sometimes_slow
from erasurehead.delays._base import Scaled

MODELS: list[Delays] = [
    delays.Exponential(mean=0.5, seed=1),
    delays.ShiftedExponential(shift=0.2, mean=0.5, seed=1),
    delays.ShiftedExponential(shift=0.2, mean=0.5, seed=1, scale_with_load=True),
    _distributions.Weibull(scale=0.5, shape=0.7, shift=0.1, seed=2),
    _distributions.Pareto(minimum=0.1, exponent=1.5, seed=3, scale_with_load=True),
    _distributions.LogNormal(median=0.3, sigma=0.8, shift=0.05, seed=4),
    _sometimes_slow.Bimodal(0.1, _fixed.NoDelay(), delays.Exponential(5.0, seed=6), seed=5),
    _sometimes_slow.MarkovModulated(
        0.02, 0.1, delays.Exponential(0.1, seed=7), delays.Exponential(2.0, seed=7), seed=8
    ),
    Scaled(delays.Exponential(0.1, seed=7), tuple(1.0 + 0.5 * (worker % 3) for worker in range(70))),
    _base.PerWorker((delays.Exponential(0.1, seed=7), _fixed.NoDelay()), tuple(worker % 2 for worker in range(70))),
    _fixed.Late((3, 7), since=5),
    delays.Exponential(0.1, seed=1) + _distributions.Weibull(0.1, 2.0, seed=2) + _fixed.Late((0,), 3.5),
    delays.Fixed(((0.1, float("inf")) * 35, (0.0, 1.0) * 35)),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_model_is_read_back_from_what_it_prints(model: Delays) -> None:
    assert delays.parse(str(model)) == model


@settings(max_examples=25)
@given(
    model=st.sampled_from(MODELS),
    first=st.integers(0, 1500),
    count=st.integers(1, 30),
    n_workers=st.integers(1, 70),
    fewer=st.integers(1, 70),
    unit=st.integers(0, 2),
)
def test_a_delay_depends_on_its_worker_step_and_unit_only(
    model: Delays, first: int, count: int, n_workers: int, fewer: int, unit: int
) -> None:
    block = model.rows(first, count, n_workers, unit, work=2.0)
    assert block.shape == (count, n_workers)
    assert (block >= 0.0).all()
    few = min(fewer, n_workers)
    step = first + count - 1
    assert (model.row(step, few, unit, work=2.0) == block[-1, :few]).all()
    assert model.seconds(few - 1, step, unit, work=2.0) == block[-1, few - 1]
    out = np.empty_like(block)
    assert model.rows(first, count, n_workers, unit, 2.0, out) is out
    assert (out == block).all()


@pytest.mark.parametrize(
    ("model", "work", "law"),
    [
        (MODELS[0], 1.0, stats.expon(scale=0.5)),
        (MODELS[0], 3.0, stats.expon(scale=0.5)),
        (MODELS[1], 3.0, stats.expon(loc=0.2, scale=0.5)),
        (MODELS[2], 3.0, stats.expon(loc=0.6, scale=1.5)),
        (MODELS[3], 3.0, stats.weibull_min(0.7, loc=0.1, scale=0.5)),
        (MODELS[4], 3.0, stats.pareto(1.5, scale=0.3)),
        (MODELS[5], 3.0, stats.lognorm(0.8, loc=0.05, scale=0.3)),
    ],
    ids=lambda value: None if hasattr(value, "cdf") else str(value),  # laws print their address, which xdist refuses
)
def test_delays_follow_the_law_they_name(model: Delays, work: float, law: stats.rv_continuous) -> None:
    values = model.rows(0, 1024, 16, work=work)
    assert stats.kstest(values.ravel(), law.cdf).pvalue > 1e-3


def test_work_may_differ_by_worker() -> None:
    model = MODELS[2]
    assert np.allclose(model.row(0, 3, work=np.array([1.0, 2.0, 3.0])), model.row(0, 3) * [1.0, 2.0, 3.0])


@pytest.mark.parametrize("model", ["weibull(1, 0.001)", "pareto(1, 0.001)", "lognormal(1, 1000)"])
def test_a_draw_beyond_all_numbers_is_no_answer_and_no_warning(model: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*has an infinite mean")
        drawn = delays.parse(model).rows(0, 200, 4)
    assert np.isinf(drawn).any()
    assert (drawn >= 0.0).all()
