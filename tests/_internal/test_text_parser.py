"""Texts of configurations are read without executing them, and what is wrong with one is said."""

from __future__ import annotations

import math

import pytest

from erasurehead._internal.text_parser import read
from erasurehead.errors import InvalidArgument, invalid


def point(x: float, y: float = 0.0) -> tuple[float, float]:
    """Make the value that these tests read."""
    if x < 0:
        raise invalid("x", "must be at least 0", x)
    return x, y


def several(*items: tuple[float, float]) -> tuple[float, float]:
    """Add values up."""
    return sum(item[0] for item in items), sum(item[1] for item in items)


def add(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Join two values."""
    return several(one, other)


def parse(text: str) -> tuple[float, float]:
    return read(text, "place", tuple, {"point": point, "several": several}, {"+": add})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("point(1)", (1, 0.0)),
        (" point(1, y=-2.5) ", (1, -2.5)),
        ("point(y=inf, x=0)", (0, math.inf)),
        ("point(1) + point(2, 3)", (3, 3.0)),
        ("several(point(1), point(2) + point(3))", (6, 0.0)),
        ("several()", (0, 0)),
        ("point(true) + point(2, false)", (3, 0.0)),
    ],
)
def test_calls_arguments_nesting_and_operators(text: str, value: tuple[float, float]) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("point(-1)", "x must be at least 0"),
        ("pint(1)", r"did you mean point\(x, y=0.0\)\? Known are point, several, joined by \+"),
        ("gaussian(1)", "; known are"),
        ("point(z=1)", r"must be written point\(x, y=0.0\), which has no 'z', but it is 'point\(z=1\)'\.$"),
        ("point()", "missing a required argument: 'x'"),
        ("point(**{})", r"must not use \*\*"),
        ("point(x=1, x=2)", r"^place must give 'x' to point once, got 'point\(x=1, x=2\)'\.$"),
        ("point(1) * point(2)", "must not use this operator"),
        ("point(1) + 2", r"calls on both sides of \+"),
        ("point('a')", "right types"),
        ("7", "must be a call"),
        ("point(1).x", "must not contain"),
        ("[point(1) for _ in 'ab']", "must not contain"),
        ("(lambda: 1)()", "must not contain"),
        ("point(1", r"^place must close its bracket '\(', got 'point\(1'; a '\)' is missing\.$"),
        ("several(point(1), [2)", "must be calls joined by operators"),
        ("point([1", r"must close its bracket '\['"),
        ("point('(')", "right types"),
        ("point(1))", "must be calls joined by operators"),
        ("(" * 5000, "must be calls joined by operators"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        parse(text)
