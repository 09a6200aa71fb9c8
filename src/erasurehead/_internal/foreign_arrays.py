"""Arrays from outside the library: checks of what compiled code must not be given."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray


def masked_place(given: Any) -> list[int] | None:
    """Return the place of the first masked value of an array; None if there is none."""
    if not isinstance(given, np.ma.MaskedArray):
        return None
    masked = np.argwhere(np.ma.getmaskarray(given))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return [int(place) for place in masked[0]] if len(masked) else None


def as_array(given: Any) -> NDArray[Any] | None:
    """Return what was given as a numpy array; None for lists whose rows differ in length."""
    try:
        return np.asarray(given)
    except ValueError:
        return None


def fault_of_sparse(given: Any) -> str:
    """Return what is wrong with the indices of a sparse matrix, as a clause; empty if all are in range.

    scipy does not check them, and its compiled loops read and write wherever they point.
    """
    n_rows, n_columns = (int(length) for length in given.shape)
    if given.format == "coo":
        return _fault_of_places(given.row, n_rows, "row") or _fault_of_places(given.col, n_columns, "column")
    if given.format not in ("csr", "csc", "bsr"):
        return ""  # scipy has checked the indices of the other formats
    by_column = given.format == "csc"
    height, width = (n_columns, n_rows) if by_column else (n_rows, n_columns)
    if given.format == "bsr":
        height, width = height // given.blocksize[0], width // given.blocksize[1]
    ends: Any = given.indptr
    ascending = len(ends) == height + 1 and ends[0] == 0 and bool((np.diff(ends) >= 0).all())
    if not (ascending and ends[-1] <= min(len(given.indices), len(given.data))):
        return "its pointers (indptr) do not go with its entries"
    return _fault_of_places(given.indices[: int(ends[-1])], width, "row" if by_column else "column")


def _fault_of_places(places: Any, length: int, what: str) -> str:
    wrong = np.flatnonzero((places < 0) | (places >= length))
    if not len(wrong):
        return ""
    return f"entry {wrong[0]} is in {what} {places[wrong[0]]}, but {what}s go from 0 to {length - 1}"


def owned(array: NDArray[Any], given: Any) -> NDArray[Any]:
    """Return an array that nobody else can change: a copy, unless none is needed.

    Arguments:
        array: made from `given`, and may share its memory.
        given: what the user passed.
    """
    if not isinstance(given, np.ndarray):
        return array
    mine = cast("NDArray[Any]", given)
    if not np.may_share_memory(array, mine) or _frozen(mine):
        return array
    return array.copy()


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only, so that it needs no copy."""
    array.flags.writeable = False
    return array


def _frozen(array: NDArray[Any]) -> bool:
    """Return whether nobody can write to an array: neither through it nor through what it is a view of."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None or isinstance(array, np.memmap)
