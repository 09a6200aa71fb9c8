"""The figures of the page of assumptions, and that each of its guarantees says what it assumes."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from erasurehead import codes, schemes

from .pages import DOCS

TEXT = (DOCS / "assumptions.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in TEXT.split("\n## ")[1:]}


@pytest.mark.parametrize("name", SECTIONS)
def test_each_guarantee_says_what_it_assumes(name: str) -> None:
    assert "*Guarantee*" in SECTIONS[name]
    assert "*Assumes*" in SECTIONS[name]


AMPLIFIED = {
    "`cyclic_mds` reaches 1.1e9 with 12 stragglers of 61 workers": (
        lambda: codes.build("cyclic_mds", n_workers=61, stragglers=12),
        1.1e9,
    ),
    "`cyclic_repetition` 1.2e7 with 5 of 30": (lambda: codes.cyclic_repetition(30, 5), 1.2e7),
    "`reed_solomon` stays below 10 up to a load of a fifth of 300 workers": (
        lambda: codes.build("reed_solomon", n_workers=300, load=60),
        10.0,
    ),
}


@pytest.mark.parametrize("said", AMPLIFIED)
def test_amplifications_are_those_of_the_codes(said: str) -> None:
    assert said in re.sub(r"\s+", " ", TEXT)
    build, stated = AMPLIFIED[said]
    found = build().structure.amplification
    assert found is not None
    if "below" in said:
        assert found < stated
    else:
        assert f"{found:.1e}" == f"{stated:.1e}" or f"{found:.0e}" == f"{stated:.0e}"


def test_coverage_is_unbiased_for_pooled_counts_together_and_not_for_each() -> None:
    assert "estimates from 2 groups count tasks 0.7% to 3.5% too often" in TEXT
    code = codes.fractional_repetition(10, load=3)
    presence = schemes.erasurehead(10, load=3, wait_for=3, rescale="coverage").aggregation.presence
    counted: dict[int, list[np.ndarray]] = {}
    for first in combinations(range(10), 3):
        there = np.unique(code.groups[list(first)])
        weights = np.zeros(4)
        weights[there] = 1.0 / presence[len(there)][there]
        counted.setdefault(len(there), []).append(weights)
    np.testing.assert_allclose(np.mean(counted[3], axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.mean(counted[1] + counted[2], axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.mean(counted[2], axis=0) - 1.0, [0.0065, 0.0065, 0.0345, 0.0345], atol=5e-5)
