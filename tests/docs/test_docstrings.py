"""How docstrings become reStructuredText: what is meant as text stays text."""

from __future__ import annotations

import importlib

import pytest

from .pages import DOCS

pytest.importorskip("sphinx")


def readable(text: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "extensions"))
        module = importlib.import_module("docstrings")
    return "\n".join(module.readable(text.splitlines())).strip()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Return a * b * c, joined by | and &.", r"Return a \* b \* c, joined by \| and &."),
        ("Shape `(*, 3)` and `a | b`, *never* more.", "Shape `(*, 3)` and `a | b`, *never* more."),
        ("Guarantees: exact if\n    nobody is late.", "**Guarantees:** exact if nobody is late."),
        ("Returns:\n    What there is. After Ctrl-C: less.", ":returns: What there is. After Ctrl-C: less."),
        ("Arguments:\n    x: a model\n        of floats.", "Arguments:\n    x: a model\n        of floats."),
        (
            "Lead.\n\n    `one` (str): the first\n        of them;\n    `two` (str): the second.",
            "Lead.\n\n    | `one` (str): the first of them;\n    | `two` (str): the second.",
        ),
        ("As code::\n\n    a * b\n      c | d", "As code::\n\n    a * b\n      c | d"),
        (">>> 2 * 3\n6", ">>> 2 * 3\n6"),
    ],
)
def test_readable(written: str, meant: str) -> None:
    assert readable(written) == meant


def test_sections_without_an_empty_line_between_them_are_told_apart() -> None:
    text = "Guarantees: none.\nChoose it: always.\nRaises:\n    ValueError: never."
    assert readable(text) == "**Guarantees:** none.\n\n**Choose it:** always.\n\nRaises:\n    ValueError: never."
