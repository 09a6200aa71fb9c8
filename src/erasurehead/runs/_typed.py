"""What is read from a run folder, which may be anybody's: its values are checked against the types that they are for.

A checksum tells damage, but not what somebody else has written, and sealed.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from erasurehead._internal.documents import Entries, PlainData
from erasurehead.errors import DataError, shown

_T = TypeVar("_T")
_Maker = Callable[[Any], Any]

_WHOLE = 2**63
"""Whole numbers are smaller, as in arrays."""


class _Misfit(Exception):
    """A value is not of its type.

    Arguments:
        rule: what it must be.
        value: what came.

    Attributes:
        keys: where it is, from the inside.
    """

    def __init__(self, rule: str, value: object) -> None:
        super().__init__(rule)
        self.rule = rule
        self.value = value
        self.keys: list[str] = []

    def __str__(self) -> str:
        name = ".".join(reversed(self.keys)) or "it"
        return f"{name} must be {self.rule}, but it is {shown(self.value)}"


def row_maker(kind: type[_T], path: Path) -> Callable[[int, Entries], _T]:
    """Return a function that makes a row of the data of a line, given the number of the line.

    It raises `DataError` where a field is missing, or not of its type. Keys of later versions are ignored.
    """
    make = _maker(kind)

    def make_row(number: int, row: Entries) -> _T:
        try:
            return make(row)
        except KeyError as error:
            raise DataError(f"{path}, line {number}: without {error} it is not a run's record.") from None
        except _Misfit as error:
            raise DataError(f"{path}, line {number}: {error}.") from None

    return make_row


def of_type(kind: type[_T], data: object, path: Path) -> _T:
    """Return plain data from a file as a dataclass or a typed dict.

    Numbers that are not finite, which JSON does not have, are null there and become NaN.

    Arguments:
        kind: the type; a key that it does not know is left out of a dataclass, and kept in a typed dict.
        data: the data.
        path: of the file, for errors.

    Raises:
        DataError: if a value is missing, or not of its type.
    """
    try:
        return _maker(kind)(data)
    except KeyError as error:
        raise DataError(f"{path} lacks {error}: it is not what a run wrote.") from None
    except _Misfit as error:
        raise DataError(f"{path}: {error}.") from None


@cache
def _maker(kind: Any) -> _Maker:
    """Return a function that makes a type of plain data; it raises `_Misfit`, or `KeyError` if something is missing."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _maker(inside[1])
    if origin is Literal:
        return _maker(str)
    if origin in (Union, types.UnionType):
        return _or_none(_maker(next(one for one in inside if one is not types.NoneType)))
    if origin in (list, Sequence):
        return _list_of(_maker(inside[0]))
    if origin is tuple:
        return _tuple_of([_maker(one) for one in inside])
    if origin in (dict, Mapping):
        return _mapping_of(_maker(inside[1]))
    if is_typeddict(kind):
        return _typed_dict(kind)
    if is_dataclass(kind):
        return _dataclass(cast("type", kind))
    return {float: _number, int: _whole, str: _text, bool: _truth}.get(kind, _any)


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if value is None:
        return float("nan")
    if type(value) is not int:
        raise _Misfit("a number", value)
    return value if -_WHOLE < value < _WHOLE else float(value)


def _whole(value: Any) -> int:
    if type(value) is not int or not -_WHOLE < value < _WHOLE:
        raise _Misfit("a whole number of at most 18 digits", value)
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Misfit("a text", value)
    return value


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise _Misfit("true or false", value)
    return value


def _or_none(one: _Maker) -> _Maker:
    return lambda value: None if value is None else one(value)


def _list_of(item: _Maker) -> _Maker:
    def make(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _Misfit("a list", value)
        items: list[Any] = []
        try:
            for one in cast("list[Any]", value):
                items.append(item(one))
        except _Misfit as misfit:
            misfit.keys.append(str(len(items)))
            raise
        return items

    return make


def _tuple_of(items: Sequence[_Maker]) -> _Maker:
    def make(value: Any) -> tuple[Any, ...]:
        parts = cast("list[Any]", value) if isinstance(value, list) else []
        if len(parts) != len(items):
            raise _Misfit(f"a list of {len(items)}", cast("Any", value))
        return tuple(item(one) for item, one in zip(items, parts, strict=True))

    return make


def _mapping_of(item: _Maker) -> _Maker:
    return lambda value: _each((key, item, one) for key, one in _object(value).items())


def _typed_dict(kind: Any) -> _Maker:
    makers = {name: _maker(one) for name, one in get_type_hints(kind, include_extras=True).items()}
    return lambda value: _each((key, makers.get(key, _any), one) for key, one in _object(value).items())


def _dataclass(kind: type) -> _Maker:
    hints = get_type_hints(kind, include_extras=True)
    makers = {field.name: _maker(hints[field.name]) for field in fields(kind)}
    needed = [field.name for field in fields(kind) if field.default is field.default_factory is MISSING]

    def make(value: Any) -> Any:
        entries = _object(value)
        for name in needed:
            if name not in entries:
                raise KeyError(name)
        return kind(**_each((name, makers[name], one) for name, one in entries.items() if name in makers))

    return make


def _each(entries: Iterable[tuple[Any, _Maker, Any]]) -> dict[Any, Any]:
    """Return what is made of entries, each a key with what makes it and what it is made of."""
    results: dict[Any, Any] = {}
    key = None
    try:
        for key, make, value in entries:
            results[key] = make(value)
    except _Misfit as misfit:
        misfit.keys.append(str(key))
        raise
    return results


def _any(value: Any) -> Any:
    return value


def _object(value: Any) -> PlainData:
    if not isinstance(value, dict):
        raise _Misfit("an object with keys", value)
    return cast("dict[str, Any]", value)
