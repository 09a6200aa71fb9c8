"""The only module that imports numba. That takes half a second: import compiling modules only where needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

# numba has no type stubs: it is Any from here on, and no other module touches it.
_numba: Any = importlib.import_module("numba")

Function = TypeVar("Function", bound=Callable[..., Any])
Args = ParamSpec("Args")
Result = TypeVar("Result")

ir: Any = importlib.import_module("llvmlite.ir")
instructions: Any = importlib.import_module("numba.extending").intrinsic
"""Make a function of compiled code from one that builds its instructions."""

FLOAT: Any = _numba.types.float64
NOTHING: Any = _numba.types.void


def reads(dtype: str, dimensions: int = 1) -> Any:
    """Return the type of a C-contiguous array that is only read; read-only arrays are accepted too.

    Arguments:
        dtype: type of the elements, as numpy names it.
        dimensions: number of dimensions of the array.
    """
    return _numba.types.Array(getattr(_numba.types, dtype), dimensions, "C", readonly=True)


def writes(dtype: str) -> Any:
    """Return the type of a C-contiguous vector that is written to."""
    return _numba.types.Array(getattr(_numba.types, dtype), 1, "C")


def compiled(result: Any, *arguments: Any) -> Callable[[Function], Function]:
    """Compile a function for one list of argument types when its module is imported; the machine code is kept on disk.

    It is never compiled for other types: a call with other types raises `TypeError`, so that no worker spends a second
    on compiling in the middle of a step. The function runs on one thread and without the interpreter's lock.
    """

    def decorate(function: Function) -> Function:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        signature = result(*arguments)
        try:
            return _numba.njit(signature, cache=True, **options)(function)
        except RuntimeError:
            # numba has no folder to write its cache to: each process then compiles for itself.
            return _numba.njit(signature, **options)(function)

    return decorate


def compiled_when_called(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """Return the function as machine code, compiled at its first call, for the types that it then has.

    The machine code is kept on disk where that is possible. Meant for code of the coordinator, which can spare a
    second.
    """
    try:
        return cast("Callable[Args, Result]", _numba.njit(cache=True)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return cast("Callable[Args, Result]", _numba.njit(function))
