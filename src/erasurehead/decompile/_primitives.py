"""The primitives of JAX in a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast


def primitives_of(jaxpr: Any) -> Iterator[str]:
    """Yield the names of all primitives in a jaxpr and in those within it."""
    for equation in jaxpr.eqns:
        yield str(equation.primitive.name)
        for value in equation.params.values():  # JAX's own way to those within is not in all of its versions
            held: list[Any] = [value] if not isinstance(value, tuple) else [*cast("tuple[Any, ...]", value)]
            for inner in (getattr(one, "jaxpr", one) for one in held):
                if hasattr(inner, "eqns"):
                    yield from primitives_of(inner)
