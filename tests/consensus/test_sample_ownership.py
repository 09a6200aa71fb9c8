"""Whose data are whose when peers leave and come back: the same for all, in whatever order they hear of it."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from erasurehead.consensus._graphs import parse_graph
from erasurehead.consensus._shares import SampleOwnership

SHARES = tuple(np.arange(10 * peer, 10 * peer + 10) for peer in range(5))


@pytest.mark.parametrize("gone", [{1}, {1, 2}, {0, 1, 2}, {1, 3}, {0, 1, 2, 3}])
def test_shares_depend_on_who_is_gone_and_not_on_the_order(gone: set[int]) -> None:
    found: list[list[list[int]]] = []
    for order in permutations(gone):
        ownership = SampleOwnership(parse_graph("path()", 5), SHARES, "taken over")
        for many in range(1, len(order) + 1):
            ownership.update(frozenset(order[:many]))
            assert sorted(np.concatenate(ownership.shares)) == list(range(50))
        found.append([share.tolist() for share in ownership.shares])
        assert all(not len(ownership.shares[peer]) for peer in gone)
        ownership.update(frozenset())
        assert all((now == first).all() for now, first in zip(ownership.shares, SHARES, strict=True))
    assert all(one == found[0] for one in found)


def test_what_nobody_takes_over_is_out() -> None:
    ownership = SampleOwnership(parse_graph("path()", 5), SHARES, "out")
    assert ownership.update(frozenset({2}))
    assert not ownership.update(frozenset({2}))
    assert [len(share) for share in ownership.shares] == [10, 10, 0, 10, 10]
