"""The primitives of JAX in a program."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any


def primitives_of(jaxpr: Any) -> Iterator[str]:
    """Yield the names of all primitives in a jaxpr and in those within it."""
    jaxprs_in_params: Callable[[Any], Any] = importlib.import_module("jax.extend.core").jaxprs_in_params
    for equation in jaxpr.eqns:
        yield str(equation.primitive.name)
        for inner in jaxprs_in_params(equation.params):
            yield from primitives_of(getattr(inner, "jaxpr", inner))
