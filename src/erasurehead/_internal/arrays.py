"""Names for the types of arrays used throughout the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from erasurehead.errors import MissingExtra, invalid

if TYPE_CHECKING:
    from scipy import sparse

    SparseMatrix: TypeAlias = sparse.csr_array[np.float64, tuple[int, int]]

Array: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
ShortIntArray: TypeAlias = NDArray[np.int32]
AnyArray: TypeAlias = NDArray[Any]
Places: TypeAlias = NDArray[np.int32]
"""Indices into a vector of parameters, 32 bits wide: reading them is much of what supports cost."""

MOST_PLACES = 2**31
"""The most elements that such indices can address: a float64 vector of 17 gigabytes."""

Tree: TypeAlias = "Mapping[str, Tree] | Sequence[Tree] | NDArray[Any] | str | int | float | bool | None"
"""The state of something, as plain data: what checkpoints hold."""


_ROW = 1 << 13  # elements: BLAS multiplies so few in one thread


def squared_norm(vector: Array) -> float:
    """Return the sum of squares, in one thread: those of BLAS would wait for busy cores."""
    return product(vector, vector)


def product(one: Array, other: Array) -> float:
    """Return the inner product, in one thread as in `squared_norm`: its bits do not depend on the number of threads."""
    return float(np.einsum("i,i->", one, other))


def shortened(vector: Array, dtype: str) -> Array:
    """Return a vector in a type of number, if that is a shorter one than its own."""
    if dtype_of(dtype).itemsize >= vector.itemsize:
        return vector
    with np.errstate(over="ignore"):
        return vector.astype(dtype_of(dtype))


def finite(vector: Array) -> bool:
    """Return whether all elements are finite. They are if their sum is, or that of their squares.

    BLAS adds up squares, row by row in one thread, in an eighth of the time.
    """
    rest = len(vector) % _ROW if vector.ndim == 1 and vector.dtype.char in "fd" else vector.size
    with np.errstate(over="ignore", invalid="ignore"):
        total = vector[len(vector) - rest :].sum()
        if rest < vector.size:
            rows = vector[: len(vector) - rest].reshape(-1, 1, _ROW)
            total += np.matmul(rows, rows.swapaxes(1, 2)).sum()
        return bool(np.isfinite(total)) or bool(np.isfinite(vector).all())


def real_numbers(argument: str, values: object) -> Array:
    """Return a user's value as an array of float64, not necessarily a new one.

    Raises:
        InvalidArgument: if it does not hold real numbers that float64 can hold, or its rows differ in length.
    """
    try:
        if np.iscomplexobj(cast("Any", values)):
            raise TypeError
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise invalid(argument, "must be numbers, in rows of equal length", values) from None


def whole_numbers(argument: str, values: object) -> IntArray:
    """Return a user's value, which may hold such floats as 2.0, as a new array of one dimension.

    Raises:
        InvalidArgument: if it has another shape, or holds anything but whole numbers.
    """
    value: Any = values
    if isinstance(values, np.ndarray) and value.dtype.kind in "iu" and value.ndim == 1:
        return value.astype(np.int64)  # nothing to examine, however many there are
    given = real_numbers(argument, value)
    whole = given.astype(np.int64) if np.isfinite(given).all() and (np.abs(given) < 2**53).all() else None
    if whole is None or given.ndim != 1 or (whole != given).any():
        raise invalid(argument, "must be a list of whole numbers", value)
    return whole


def check_among(argument: str, numbers: IntArray, count: int, rule: str = "must be among") -> None:
    """Raise unless all of some whole numbers are in 0..count-1."""
    for number in (numbers.min(initial=0), numbers.max(initial=0)):
        if not 0 <= number < count:
            raise invalid(argument, f"{rule} 0..{count - 1}", int(number))


def inverses(lengths: Array) -> Array:
    """Return one over each number, and 0 for those that are not above 0."""
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


@cache
def dtype_of(name: str) -> np.dtype[Any]:
    """Return a type of elements by its name; `"bfloat16"` and similar types need the package ml_dtypes.

    Raises:
        MissingExtra: if it may be one of these, and the package is not installed.
        InvalidArgument: if there is no such type.
    """
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        own = import_module("ml_dtypes")  # registers its types with numpy
        return np.dtype(getattr(own, name))
    except ImportError:
        if "float" in name:
            raise MissingExtra(
                f"numpy has no type {name!r}, and ml_dtypes, which may have it, is not installed: pip install "
                "ml_dtypes, or carry its bits as 'uint16'."
            ) from None
    except (AttributeError, TypeError):
        pass
    raise invalid("dtype", "must be a type of numpy's or of ml_dtypes'", name, "use float32 or float64")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name under which `dtype_of` finds a type: numpy names types that are not its own as raw bytes."""
    return dtype.name if dtype.kind == "V" else dtype.str
