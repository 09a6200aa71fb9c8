"""Equal units divided by speed: nobody could be through earlier, and what is no speed is refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead._internal.shares import check_speeds, parts
from erasurehead.errors import InvalidArgument

speeds_drawn = st.lists(st.floats(0.05, 50.0), min_size=1, max_size=12)


@given(speeds_drawn, st.integers(0, 500), st.integers(0, 3))
def test_units_are_divided_so_that_nobody_could_be_through_earlier(true: list[float], total: int, least: int) -> None:
    if total < least * len(true):
        with pytest.raises(InvalidArgument, match="total must be at least"):
            parts(total, true, least)
        return
    counts = parts(total, true, least)
    assert counts.sum() == total
    assert counts.min(initial=total) >= least
    # taking one from who is last and giving it to anybody makes that one as late
    ends = counts / np.array(true)
    last = int(np.argmax(np.where(counts > least, ends, -1.0)))
    if counts[last] > least:
        assert ((counts + 1) / np.array(true) >= ends[last] * (1 - 1e-12)).sum() >= len(true)


def test_what_is_no_speed_is_refused_by_name() -> None:
    for speeds, what in (([1.0], "one number for each of 2"), ([1.0, 0.0], r"speeds\[1\]"), ([1.0, np.inf], r"\[1\]")):
        with pytest.raises(InvalidArgument, match=what):
            check_speeds(speeds, 2)
