"""Fingerprints: equal for what is equal, whatever holds it; different where a single number differs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from erasurehead import codes
from erasurehead.errors import InvalidArgument
from erasurehead.runs import _fingerprints as fingerprints


def test_every_number_and_the_shape_count() -> None:
    X = np.arange(12.0).reshape(3, 4)
    seen = {fingerprints.of_arrays(X), fingerprints.of_arrays(X.reshape(4, 3)), fingerprints.of_arrays(X, None)}
    for place in range(12):
        other = X.copy()
        other.flat[place] += 1e-9
        seen.add(fingerprints.of_arrays(other))
    assert len(seen) == 15


def test_the_type_of_indices_does_not_count() -> None:
    X = sparse.csr_array(np.eye(5))
    other = X.copy()
    other.indices, other.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert fingerprints.of_arrays(X) == fingerprints.of_arrays(other)
    other.data[2] = 2.0
    assert fingerprints.of_arrays(X) != fingerprints.of_arrays(other)


def test_a_code_is_told_from_others_by_what_it_is_and_not_by_what_it_is_called() -> None:
    code = codes.fractional_repetition(6, 2)
    assert fingerprints.of_code(code) == fingerprints.of_code(codes.fractional_repetition(6, 2))
    names = {fingerprints.of_code(c) for c in (code, codes.cyclic_repetition(6, 1), codes.fractional_repetition(6, 3))}
    assert len(names) == 3


def test_of_many_changes_the_first_are_named() -> None:
    with pytest.raises(InvalidArgument, match="4 was 0 and is 1; and 95 more"):
        fingerprints.check_same(dict.fromkeys(map(str, range(100)), 0), dict.fromkeys(map(str, range(100)), 1))


def test_what_differs_is_named_and_what_one_side_lacks_is_not() -> None:
    before = {"scheme": "uncoded", "problem.l2": 0.1, "old": 1}
    fingerprints.check_same(before, {"scheme": "uncoded", "problem.l2": 0.1, "new": 2})
    with pytest.raises(InvalidArgument, match=r"has changed: problem.l2 was 0.1 and is 0.2; scheme was 'uncoded' and"):
        fingerprints.check_same(before, {"problem.l2": 0.2, "scheme": "exact"})
