"""Frames of pandas, polars, pyarrow and others as tables, without requiring any of them.

Most support the dataframe interchange protocol (https://data-apis.org/dataframe-protocol). Polars dropped it in
version 2; frames without it are read column by column, as lists.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import BoolArray
from erasurehead.datasets.readers.csv import Layout
from erasurehead.datasets.readers.table import Column, Numbers, Table, TextCoder, Texts, column_of, plain
from erasurehead.errors import DataError

_INT, _UINT, _FLOAT, _BOOL, _STRING, _CATEGORICAL = 0, 1, 2, 20, 21, 23  # kinds of the protocol
_NUMPY = {_INT: "i", _UINT: "u", _FLOAT: "f"}
_NAN, _SENTINEL, _BITS, _BYTES = 1, 2, 3, 4  # the ways in which the protocol marks missing values
_LARGE = f"it holds whole numbers beyond {2**53}, which float64 cannot represent"
_HINT = "; turn it into numbers or texts, or leave it out (drop, --drop)"


@runtime_checkable
class Frame(Protocol):
    """An object that supports the dataframe interchange protocol, such as a pandas DataFrame."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any: ...


def is_frame(source: object) -> TypeGuard[Frame]:
    """Return whether an object is a frame."""
    if isinstance(source, type):
        return False
    return _speaks(source) or all(hasattr(source, name) for name in ("__arrow_c_stream__", "columns", "__getitem__"))


def frame_layout(frame: Frame) -> Layout:
    """Return the columns of a frame. They do not include its index, which the protocol does not show.

    Raises:
        DataError: if there are none, or two have the same name.
    """
    own: Any = frame
    names = tuple(str(name) for name in (_interchange(frame).column_names() if _speaks(frame) else own.columns))
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None or not names:
        said = "no columns" if twice is None else f"two columns with the name {twice!r}"
        raise DataError(f"{frame_name(frame)} has {said}.")
    return Layout(names)


def frame_name(frame: Frame) -> str:
    """Return the name of a frame for messages, such as `"the pandas DataFrame"`."""
    kind = type(frame)
    return f"the {kind.__module__.partition('.')[0]} {kind.__name__}"


def read_frame(frame: Frame, wanted: Callable[[str], bool] = lambda name: True) -> Table:
    """Read some columns of a frame.

    Numbers and booleans become columns of numbers; texts and categories columns of texts. What the frame marks as
    missing is missing, and so are NaN and the texts that stand for a missing value in files.

    Arguments:
        frame: a frame of any library that supports the protocol.
        wanted: returns whether to read a column, by its name.

    Raises:
        DataError: if it has no rows, or a column holds something else, or a number that float64 cannot hold.
    """
    if not _speaks(frame):
        return _read_lists(frame, wanted)
    source = frame_name(frame)
    found: dict[str, list[tuple[Column, int]]] = {}
    coders: dict[str, TextCoder] = {}
    categories: set[str] = set()
    names = frame_layout(frame).names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas 3 and polars announce that the protocol will be removed
        before = 0
        for chunk in _interchange(frame).get_chunks():
            n_rows = 0
            for place, name in enumerate(names):
                column = chunk.get_column(place)
                n_rows = int(column.size())
                if not wanted(name):
                    continue
                coder = coders.setdefault(name, TextCoder())
                try:
                    read, is_category = _column(column, coder)
                except (NotImplementedError, TypeError, ValueError) as error:
                    said = str(error).rstrip(".") or type(error).__name__
                    raise DataError(f"{source}, column {name!r} cannot be read: {said}{_HINT}.") from None
                _check_finite(read, source, name, before)
                found.setdefault(name, []).append((read, n_rows))
                if is_category:
                    categories.add(name)
            before += n_rows
    if not before:
        raise DataError(f"{source} has no rows.")
    columns = {name: _joined([part for part, _ in parts], coders[name]) for name, parts in found.items()}
    return Table(
        source, columns, before, lambda row: f"{source}, row {row}", there=names, categories=frozenset(categories)
    )


def _speaks(source: object) -> bool:
    return hasattr(source, "__dataframe__")


def _read_lists(frame: Any, wanted: Callable[[str], bool]) -> Table:
    source, names = frame_name(frame), frame_layout(frame).names
    if not len(frame):
        raise DataError(f"{source} has no rows.")
    columns: dict[str, Column] = {}
    categories: set[str] = set()
    for name, known in zip(names, frame.columns, strict=True):
        if not wanted(name):
            continue
        values: list[Any] = frame[known].to_list()
        if any(isinstance(value, int) and int(float(value)) != value for value in values):
            raise DataError(f"{source}, column {name!r} cannot be read: {_LARGE}{_HINT}.")
        columns[name] = column_of(values, name, source)
        if str(frame[known].dtype).lower().startswith(("categor", "enum")):
            categories.add(name)
    return Table(
        source, columns, len(frame), lambda row: f"{source}, row {row}", there=names, categories=frozenset(categories)
    )


def _interchange(frame: Frame) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frame.__dataframe__(allow_copy=True)


def _column(column: Any, coder: TextCoder) -> tuple[Column, bool]:
    """Return one chunk of a column, and whether its type is categorical."""
    kind = int(column.dtype[0])
    if kind in (_INT, _UINT, _FLOAT, _BOOL):
        return _numbers(column, kind), False
    if kind == _STRING:
        return _texts(column, coder), False
    if kind == _CATEGORICAL:
        return _coded(column, coder), True
    raise TypeError(f"its type ({column.dtype[2]}) is neither of numbers nor of texts")


def _numbers(column: Any, kind: int) -> Numbers:
    raw = _data(column)
    absent = _absent(column, raw)
    if kind in (_INT, _UINT) and raw.dtype.itemsize == 8:
        large = raw[~absent]
        if bool((large.astype(np.float64).astype(raw.dtype) != large).any()):
            raise ValueError(_LARGE)
    values = np.array(raw, dtype=np.float64)
    values[absent] = np.nan
    return Numbers(values)


def _texts(column: Any, coder: TextCoder) -> Texts:
    buffers, n_rows, offset = column.get_buffers(), int(column.size()), int(column.offset)
    if not n_rows:
        return Texts(np.zeros(0, dtype=np.int32), ())
    held, kind = buffers["offsets"]
    ends = _array(held, kind, offset + n_rows + 1)[offset:]
    data = _bytes(buffers["data"][0], int(ends[-1])).tobytes()
    absent = _absent(column, None)
    bounds = ends.tolist()
    texts = ["" if none else data[low:high].decode()
             for none, low, high in zip(absent.tolist(), bounds[:-1], bounds[1:], strict=True)]  # fmt: skip
    return Texts(np.fromiter(map(coder.__getitem__, texts), np.int32, n_rows), ())


def _coded(column: Any, coder: TextCoder) -> Texts:
    described: Mapping[str, Any] = column.describe_categorical
    if not described["is_dictionary"] or described["categories"] is None:
        raise TypeError("its categories have no names")
    labels: Any = described["categories"]
    kind = int(labels.dtype[0])
    if kind == _STRING:
        named = TextCoder()
        own = _texts(labels, named)
        texts = (*named.texts(), "")
        names: list[str] = [texts[code] for code in own.codes.tolist()]
    elif kind in (_INT, _UINT, _FLOAT, _BOOL):
        names = [plain(value) for value in _numbers(labels, kind).values.tolist()]
    else:
        raise TypeError("its categories are neither numbers nor texts")
    raw = _data(column)
    absent = _absent(column, raw)
    known = np.fromiter(map(coder.__getitem__, names), np.int32, len(names))
    codes = np.full(len(raw), -1, dtype=np.int32)
    codes[~absent] = known[raw[~absent]]
    return Texts(codes, ())


def _data(column: Any) -> NDArray[Any]:
    held, kind = column.get_buffers()["data"]
    offset, n_rows = int(column.offset), int(column.size())
    if int(kind[0]) == _BOOL and int(kind[1]) == 1:
        return _bits(held, offset, n_rows)
    return _array(held, kind, offset + n_rows)[offset:]


def _absent(column: Any, raw: NDArray[Any] | None) -> BoolArray:
    """Return which rows have no value."""
    n_rows, offset = int(column.size()), int(column.offset)
    how, value = column.describe_null
    if how == _NAN and raw is not None:
        return np.isnan(raw)
    if how == _SENTINEL and raw is not None:
        return raw == value
    if how in (_BITS, _BYTES):
        validity = column.get_buffers()["validity"]
        if validity is not None:
            held = validity[0]
            marks = _bits(held, offset, n_rows) if how == _BITS else _bytes(held, offset + n_rows)[offset:]
            return np.asarray(marks != 0) == bool(value)
    return np.zeros(n_rows, dtype=bool)


def _array(held: Any, kind: Any, count: int) -> NDArray[Any]:
    code, bits = int(kind[0]), int(kind[1])
    dtype = np.dtype(np.bool_) if code == _BOOL else np.dtype(f"{_NUMPY[code]}{bits // 8}")
    return _bytes(held, count * dtype.itemsize).view(dtype)


def _bits(held: Any, offset: int, n_rows: int) -> NDArray[np.uint8]:
    packed = _bytes(held, (offset + n_rows + 7) // 8)
    return np.unpackbits(packed, bitorder="little")[offset : offset + n_rows]


def _bytes(held: Any, count: int) -> NDArray[np.uint8]:
    """Return a copy of the first bytes of a buffer, whose lifetime is not guaranteed."""
    if not count:
        return np.zeros(0, dtype=np.uint8)
    if int(held.bufsize) < count:
        raise ValueError(f"its buffer has {held.bufsize} bytes instead of {count}")
    return np.frombuffer(ctypes.string_at(int(held.ptr), count), dtype=np.uint8)


def _check_finite(column: Column, source: str, name: str, before: int) -> None:
    if isinstance(column, Numbers) and bool(np.isinf(column.values).any()):
        row = int(np.argmax(np.isinf(column.values)))
        raise DataError(f"{source}, row {before + row}, column {name!r}: {column.values[row]} is not a finite number.")


def _joined(parts: list[Column], coder: TextCoder) -> Column:
    if isinstance(parts[0], Numbers):
        return Numbers(np.concatenate([part.values for part in parts if isinstance(part, Numbers)]))
    return Texts(np.concatenate([part.codes for part in parts if isinstance(part, Texts)]), coder.texts())
