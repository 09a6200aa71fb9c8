"""The primitives of JAX in a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def primitives_of(jaxpr: Any) -> Iterator[str]:
    """Yield the names of all primitives in a jaxpr and in those within it."""
    for equation in jaxpr.eqns:
        yield str(equation.primitive.name)
        values: list[Any] = [*equation.params.values()]  # JAX's own way to those within is not in all of its versions
        for value in values:
            held: Any = value if isinstance(value, tuple) else (value,)
            for inner in (getattr(one, "jaxpr", one) for one in held):
                if hasattr(inner, "eqns"):
                    yield from primitives_of(inner)
