from __future__ import annotations

import numpy as np
from hypothesis import assume, given, strategies as st

from erasurehead.datasets._published.skew import by_rank, exact_counts, scaled


@given(st.integers(1, 3000), st.integers(1, 200), st.integers(1, 3000), st.floats(0.5, 6))
def test_counts_add_up_and_leave_no_value_out(total: int, size: int, top: int, power: float) -> None:
    assume(size <= total)
    counts = exact_counts(total, size, min(top, total), power)
    assert counts.sum() == total
    assert len(counts) == size
    assert counts.min() >= 1


def test_the_commonest_value_comes_about_as_often_as_wanted() -> None:
    for total, size, top, power in ((21_613, 13, 9824, 3.0), (21_613, 9782, 358, 0.8), (495_141, 5760, 900, 4.0)):
        counts = exact_counts(total, size, top, power)
        assert abs(int(counts.max()) - top) <= 0.05 * top
        assert (np.diff(counts) <= 1).all()


def test_rows_are_cut_into_values_by_their_score() -> None:
    assert by_rank(np.array([0.3, -1.0, 2.0, 0.1]), np.array([1, 2, 1])).tolist() == [1, 0, 2, 1]


def test_parts_have_fewer_values_but_wholes_all_of_them() -> None:
    assert scaled(7518, 839, 32_769, 32_769) == (7518, 839)
    assert scaled(7518, 839, 327, 32_769) == (163, 8)
    assert scaled(2, 1, 500, 32_769) == (2, 1)
