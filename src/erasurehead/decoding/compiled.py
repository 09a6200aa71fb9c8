"""The one place that touches numba here: its decorator, with types that a checker can follow."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

Args = ParamSpec("Args")
Result = TypeVar("Result")


def compiled(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """Return the function as machine code, compiled at its first call and kept on disk where that is possible.

    Importing numba takes half a second, so modules that use this are imported by the functions that need them.
    """
    jit: Any = import_module("numba").njit
    try:
        return cast("Callable[Args, Result]", jit(cache=True)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return cast("Callable[Args, Result]", jit(function))
