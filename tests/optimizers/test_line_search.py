"""The search along a direction, by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.optimizers._line_search import LineSearch


def along(bend: float, slope: float = -1.0) -> LineSearch:
    """Return a search from 0 along one parameter, of an objective with this slope and second derivative there."""
    search = LineSearch()
    search.rest(np.zeros(1), 3.0, np.full(1, slope))
    search.aim(np.ones(1), slope)
    search.begin(1.0)
    return search


@given(st.floats(2.5, 8.0))
def test_a_rejected_step_goes_back_to_the_least_of_the_parabola(bend: float) -> None:
    search = along(bend)
    objective = 3.0 - 1.0 + bend / 2.0
    assert not search.lower(objective, -1.0 + bend, convex=True)
    assert search.shorten(objective)
    assert search.length == pytest.approx(1.0 / bend)
    at = search.length
    assert search.lower(3.0 - at + bend * at**2 / 2.0, -1.0 + bend * at, convex=True)
    assert search.ideal(np.full(1, bend * at)) == pytest.approx(at)


def test_a_step_is_shortened_by_no_less_than_half_and_no_more_than_a_tenth_until_it_gives_up() -> None:
    search = along(1.0)
    lengths = [search.length]
    while search.shorten(np.inf):
        lengths.append(search.length)
    assert len(lengths) == 9
    np.testing.assert_allclose(np.diff(np.log10(lengths)), -1.0)
    search.begin(1.0)
    assert search.shorten(3.0)  # no lower: between a tenth and a half
    assert search.length == 0.5


def test_what_is_too_close_to_compare_is_judged_by_its_slope() -> None:
    search = along(0.0, slope=-1e-16)
    assert search.lower(3.0 + 2e-13, 0.9e-16, convex=False)
    assert not search.lower(3.0 + 2e-13, 0.95e-16, convex=True)
    assert not along(0.0).lower(3.1, -1.0, convex=False)
    assert along(0.0).lower(3.1, -1.0, convex=True)  # rounding: a convex objective that falls there has fallen


def test_first_steps_get_longer_for_as_long_as_nothing_bends() -> None:
    search = along(0.0)
    assert search.straight(np.full(1, 0.005))
    assert not search.straight(np.full(1, 0.02))
    search.lengthen(straight=True, fell=False)
    assert search.stride == 1.0
    for power in range(1, 20):
        search.lengthen(straight=True, fell=True)
        assert search.stride == 10.0 ** min(power, 16)
    search.begin(0.5)
    assert search.length == 5e15
    search.lengthen(straight=False, fell=True)
    assert search.stride == 1.0


def test_a_step_that_drowns_in_rounding_is_no_point() -> None:
    search = along(0.0)
    search.rest(np.full(1, 1e20), 3.0, np.full(1, -1.0))
    assert search.point(np.dtype(float)) is None
    while search.point(np.dtype(float)) is None:
        assert search.lengthen_now()
    assert search.length == search.stride == 1e4
    search.length = 1e308
    assert not search.lengthen_now()
    assert search.length == 1e308


def test_its_state_is_restored_to_the_bit() -> None:
    search, again = along(1.0), LineSearch()
    search.lengthen(straight=True, fell=True)
    search.shorten(3.7)
    again.restore(search.state())
    assert again.promise == search.promise
    assert again.state() == search.state()
    search.end()
    again.restore(search.state())
    assert again.base is None
    assert again.direction is None
