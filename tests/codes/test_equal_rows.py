"""Equal rows, against the plain way: a dictionary of bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead.codes import _equal_rows as equal_rows
from erasurehead.codes._equal_rows import first_equal_row


def by_dictionary(dense: np.ndarray) -> list[int]:
    seen: dict[bytes, int] = {}
    return [seen.setdefault(row.tobytes(), index) for index, row in enumerate(dense)]


MATRICES = st.integers(0, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5]), min_size=width, max_size=width), max_size=30
    )
)


@given(MATRICES)
def test_agrees_with_a_dictionary(rows: list[list[float]]) -> None:
    dense = np.array(rows).reshape(len(rows), -1 if rows and rows[0] else 0)
    assert first_equal_row(sparse.csr_array(dense)).tolist() == by_dictionary(dense)


@given(MATRICES)
def test_clashing_fingerprints_cost_time_only(rows: list[list[float]]) -> None:
    dense = np.array(rows).reshape(len(rows), -1 if rows and rows[0] else 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal_rows, "_fingerprints", lambda matrix: np.zeros(matrix.shape[0], dtype=np.int64))
        assert first_equal_row(sparse.csr_array(dense)).tolist() == by_dictionary(dense)
