from __future__ import annotations

import math
import statistics
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.datasets._preprocessing.moments import Moments

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
TAME = st.floats(-1e100, 1e100)


def moments(*blocks: list[float]) -> Moments:
    made = Moments()
    for block in blocks:
        made.add(np.array(block, dtype=np.float64))
    return made


@given(st.lists(FINITE, min_size=1, max_size=40))
def test_the_mean_is_the_exact_one_rounded_once(values: list[float]) -> None:
    exact = sum(map(Fraction, values), Fraction()) / len(values)
    assert moments(values).mean == float(exact)


@given(st.lists(TAME, min_size=1, max_size=40))
def test_the_deviation_is_that_of_exact_arithmetic(values: list[float]) -> None:
    exact = statistics.pvariance(list(map(Fraction, values)))
    found = moments(values).deviation
    assert found == math.sqrt(float(exact)) or float(exact) < 1e-290  # where a float64 is rounded to fewer digits
    with localcontext(prec=60):
        wanted = (Decimal(exact.numerator) / Decimal(exact.denominator)).sqrt()
    assert found == pytest.approx(float(wanted), rel=1e-15, abs=5e-324)


@given(st.lists(TAME, min_size=1, max_size=40), st.integers(0, 40))
def test_order_and_blocks_change_no_bit(values: list[float], cut: int) -> None:
    whole = moments(values)
    shuffled = [values[place] for place in np.random.default_rng(cut).permutation(len(values))]
    parts = moments(shuffled[:cut], [], shuffled[cut:])
    assert (parts.mean, parts.deviation, parts.largest, parts.count) == (
        whole.mean,
        whole.deviation,
        whole.largest,
        whole.count,
    )


@pytest.mark.slow
def test_many_numbers_are_as_numpy_has_them() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, (1 << 20) + 77)
    made = moments(values.tolist())
    assert made.mean == pytest.approx(values.mean(), rel=1e-12)
    assert made.deviation == pytest.approx(values.std(), rel=1e-12)


@pytest.mark.parametrize("size", [1e-160, 1e-200, 1e-310])
def test_numbers_too_small_to_be_squared_have_a_deviation(size: float) -> None:
    assert moments([size, -size]).deviation == size
    assert moments([size, size]).deviation == 0.0


def test_a_variance_beyond_float64_is_infinite() -> None:
    assert moments([1e200, -1e200]).deviation == math.inf
    assert moments([1.5e308, 1.5e308]).mean == 1.5e308
