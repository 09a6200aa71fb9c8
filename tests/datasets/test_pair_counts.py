from __future__ import annotations

import numpy as np
import pytest

from erasurehead.datasets._published.synthetic_amazon import count_pairs, reach_total

PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize("change", [-60, -1, 0, 1, 60])
def test_the_total_is_reached_exactly_and_no_value_gets_lost(change: int) -> None:
    rng = np.random.default_rng(1)
    codes = {"a": rng.integers(0, 40, 600), "b": rng.integers(0, 30, 600), "c": rng.integers(0, 8, 600)}
    codes["a"][:40] = np.arange(40)
    before = {name: column.copy() for name, column in codes.items()}
    total = count_pairs(codes, PAIRS) + change
    reach_total(rng, codes, "a", "b", PAIRS, total)
    assert count_pairs(codes, PAIRS) == total
    assert sum(len({*zip(codes[x].tolist(), codes[y].tolist(), strict=True)}) for x, y in PAIRS) == total
    assert set(codes["a"].tolist()) == set(range(40))
    assert np.array_equal(codes["b"], before["b"])
    assert np.array_equal(codes["c"], before["c"])
    assert np.array_equal(codes["a"], before["a"]) == (change == 0)
