"""The figures of the page of assumptions, and that each of its guarantees says what it assumes."""

from __future__ import annotations

import re

import pytest

from erasurehead import codes

from .pages import DOCS

TEXT = (DOCS / "assumptions.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in TEXT.split("\n## ")[1:]}


@pytest.mark.parametrize("name", SECTIONS)
def test_each_guarantee_says_what_it_assumes(name: str) -> None:
    assert "*Guarantee*" in SECTIONS[name]
    assert "*Assumes*" in SECTIONS[name]


AMPLIFIED = {
    "`cyclic_mds` reaches 1.1e9 with 12 stragglers of 61 workers": (lambda: codes.cyclic_mds(61, 12), 1.1e9),
    "`cyclic_repetition` 2e5 with 10 of 300": (lambda: codes.cyclic_repetition(300, 10), 2e5),
    "`reed_solomon` stays below 10 up to a load of a fifth of 300 workers": (lambda: codes.reed_solomon(300, 60), 10.0),
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
