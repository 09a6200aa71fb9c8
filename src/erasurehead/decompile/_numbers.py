"""How numbers and dtypes are written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from erasurehead.decompile._program import Literal


def float_text(value: Any, dtype: Any, module: str) -> str:
    """Return a real number as the shortest text that reads back as the same number of that dtype."""
    number = float(value)
    if math.isnan(number):
        return f"{module}.nan"
    if math.isinf(number):
        return f"{module}.inf" if number > 0 else f"-{module}.inf"
    kind = np.dtype(dtype)
    short = str(np.asarray(value, kind)[()]) if kind.name in ("float16", "float32") else repr(number)
    try:
        same = np.asarray(float(short), kind)[()] == value
    except ValueError:
        same = False
    text = repr(float(short)) if same else repr(number)
    return text if any(c in text for c in ".en") else f"{text}.0"


def bare_text(literal: Literal, module: str) -> str:
    """Return a literal as one of Python's numbers."""
    value, kind = literal.value, literal.type.kind
    if kind == "b":
        return str(bool(value))
    if kind in "iu":
        return str(int(value))
    if kind == "c":
        number = complex(value)
        if math.isfinite(number.real) and math.isfinite(number.imag):
            real, imag = float_text(number.real, np.float64, module), float_text(number.imag, np.float64, module)
            return f"complex({real}, {imag})"
        return f"complex({_plain(number.real)}, {_plain(number.imag)})"
    return float_text(value, literal.type.dtype, module)


def _plain(number: float) -> str:
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def ordinary(name: str) -> bool:
    """Return whether numpy has a dtype of its own."""
    return name in (
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    )


def jax_dtype(name: str) -> str:
    """Return how a dtype is written with `jax.numpy`."""
    return "jnp.bool_" if name == "bool" else f"jnp.{name}"


def numpy_dtype(name: str) -> str:
    """Return how a dtype is written with numpy, or with ml_dtypes."""
    if name == "key":
        return "np.uint64"
    return "np.bool_" if name == "bool" else f"np.{name}" if ordinary(name) else f"ml_dtypes.{name}"
