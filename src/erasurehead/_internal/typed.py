"""Plain data from files that may be anybody's, checked against the types that they are for; and the way back.

A checksum tells damage, but not what somebody else has written, and sealed.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from erasurehead._internal.arrays import AnyArray, IntArray
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.errors import DataError, real, shown

_T = TypeVar("_T")
_Maker = Callable[[Any], Any]

_WHOLE = 2**63
"""Whole numbers are smaller, as in arrays."""

KEY = "key"
"""In the metadata of a field of a dataclass: its key in files, where that is another than its name."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Rule:
    """What a value must be, and what is made of it: `Annotated[float, FINITE]` is a float under this rule.

    Arguments:
        words: what it must be, in words.
        holds: whether a value is so.
        make: makes of it what it stands for.
    """

    words: str
    holds: Callable[[Any], bool]
    make: _Maker = _same


FINITE = Rule("a finite number", lambda value: math.isfinite(real(value)), float)
POSITIVE = Rule("a number above 0", lambda value: 0.0 < real(value) < math.inf, float)
COUNT = Rule("a whole number of at least 0", lambda value: type(value) is int and value >= 0)


def one_of(*values: str) -> Rule:
    """Return the rule that a value is one of some texts."""
    return Rule(f"one of {', '.join(values)}", values.__contains__)


def list_of(words: str, each: Callable[[Any], bool], make: _Maker) -> Rule:
    """Return the rule that a value is a list.

    Arguments:
        words: what its items must be, in words.
        each: whether an item is so.
        make: makes of the list what it stands for.
    """
    return Rule(
        f"a list of {words}", lambda value: isinstance(value, list) and all(map(each, cast("list[Any]", value))), make
    )


def differences(ascending: IntArray) -> list[int]:
    """Return ascending integers as the first one and the differences between them, which is short in JSON.

    >>> differences(np.array([100000, 100001, 100005]))
    [100000, 1, 4]
    """
    return np.diff(ascending, prepend=0).tolist()


def from_differences(steps: Sequence[int]) -> IntArray:
    """Invert `differences`."""
    return np.cumsum(np.array(steps, dtype=np.int64))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(real(value))


NUMBERS = list_of("finite numbers", _is_number, lambda numbers: np.array(numbers, dtype=np.float64))
STEPS = list_of("whole numbers", lambda step: isinstance(step, int) and _is_number(step), from_differences)
"""Ascending whole numbers, as `differences` returns them."""


class Misfit(Unfit):
    """A value is not of its type, or missing.

    Arguments:
        value: what came.
        rule: what it must be; empty if it is missing.

    Attributes:
        keys: where it is, from the inside.
    """

    def __init__(self, value: object, rule: str, *keys: str) -> None:
        super().__init__(rule)
        self.value, self.rule, self.keys = value, rule, [*keys]

    def __str__(self) -> str:
        name = ".".join(reversed(self.keys)) or "it"
        return f"{name} must be {self.rule}, but it is {shown(self.value)}" if self.rule else f"{name} is missing"


def row_maker(kind: type[_T], path: Path) -> Callable[[int, Entries], _T]:
    """Return a function that makes a row of the data of a line, given the number of the line.

    It raises `DataError` where a field is missing, or not of its type. Keys of later versions are ignored.
    """
    make = maker(kind)

    def make_row(number: int, row: Entries) -> _T:
        try:
            return make(row)
        except Misfit as error:
            why = f": {error}" if error.rule else f": without {error.keys[0]!r} it is not a run's record"
            raise DataError(f"{path}, line {number}{why}.") from None

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
        return maker(kind)(data)
    except Misfit as error:
        why = f": {error}" if error.rule else f" lacks {error.keys[0]!r}: it is not what a run wrote"
        raise DataError(f"{path}{why}.") from None


def written(value: Any) -> Any:
    """Return a value as plain data, of which `maker` makes it again.

    Of a dataclass, these are the fields that are not as by default; of whole numbers in an array, `differences`.
    """
    if hasattr(value, "as_plain"):
        return value.as_plain()
    if is_dataclass(value):
        entries = [(one, getattr(value, one.name)) for one in fields(value)]
        return {_key(one): written(item) for one, item in entries if _is_array(item) or item != one.default}
    if _is_array(value):
        return value.tolist() if value.dtype.kind == "f" else differences(value)
    if isinstance(value, Mapping):
        return {str(key): written(item) for key, item in cast("Entries", value).items()}
    return [written(item) for item in cast("Sequence[Any]", value)] if isinstance(value, tuple | list) else value


def _is_array(value: object) -> TypeGuard[AnyArray]:
    return isinstance(value, np.ndarray)


@cache
def maker(kind: Any) -> _Maker:
    """Return a function that makes a type of plain data; it raises `Misfit` where they are not of that type.

    A dataclass is made of an object with its fields, or by its `from_plain`, if it has one; of several, it is the
    first whose fields are all there.
    """
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _ruled(inside[1]) if isinstance(inside[1], Rule) else maker(inside[1])
    if origin is Literal:
        return maker(str)
    if origin in (Union, types.UnionType):
        some = [one for one in inside if one is not types.NoneType]
        make = _first_fitting(some) if is_dataclass(some[-1]) else maker(some[0])
        return _or_none(make) if types.NoneType in inside else make
    if origin in (list, Sequence):
        return _list_of(maker(inside[0]))
    if origin is tuple:
        some = _list_of(maker(inside[0]))
        return (lambda value: tuple(some(value))) if ... in inside else _tuple_of([maker(one) for one in inside])
    if origin in (dict, Mapping):
        return _mapping_of(int if inside[0] is int else _same, maker(inside[1]))
    if is_typeddict(kind):
        return _typed_dict(kind)
    if hasattr(kind, "from_plain"):
        return kind.from_plain
    if is_dataclass(kind):
        return _dataclass(cast("type", kind))
    return {float: _number, int: _whole, str: _text, bool: _truth}.get(kind, _same)


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if value is None:
        return float("nan")
    if type(value) is not int:
        raise Misfit(value, "a number")
    return value if -_WHOLE < value < _WHOLE else float(value)


def _whole(value: Any) -> int:
    if type(value) is not int or not -_WHOLE < value < _WHOLE:
        raise Misfit(value, "a whole number of at most 18 digits")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Misfit(value, "a text")
    return value


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise Misfit(value, "true or false")
    return value


def _or_none(one: _Maker) -> _Maker:
    return lambda value: None if value is None else one(value)


def _ruled(rule: Rule) -> _Maker:
    def make(value: Any) -> Any:
        if not rule.holds(value):
            raise Misfit(value, rule.words)
        return rule.make(value)

    return make


def _first_fitting(kinds: Sequence[Any]) -> _Maker:
    """Return what makes one of several dataclasses: the first whose fields are all there, or else the last."""
    needs = [(set(_needed(kind)), maker(kind)) for kind in kinds]
    return lambda value: next((make for needed, make in needs if needed <= _object(value).keys()), needs[-1][1])(value)


def _list_of(item: _Maker) -> _Maker:
    def make(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Misfit(value, "a list")
        items: list[Any] = []
        try:
            for one in cast("list[Any]", value):
                items.append(item(one))
        except Misfit as misfit:
            misfit.keys.append(str(len(items)))
            raise
        return items

    return make


def _tuple_of(items: Sequence[_Maker]) -> _Maker:
    def make(value: Any) -> tuple[Any, ...]:
        parts = cast("list[Any]", value) if isinstance(value, list) else []
        if len(parts) != len(items):
            raise Misfit(cast("Any", value), f"a list of {len(items)}")
        return tuple(item(one) for item, one in zip(items, parts, strict=True))

    return make


def _mapping_of(key: _Maker, item: _Maker) -> _Maker:
    return lambda value: _each((key(name), item, one) for name, one in _object(value).items())


def _typed_dict(kind: Any) -> _Maker:
    makers = {name: maker(one) for name, one in get_type_hints(kind, include_extras=True).items()}
    return lambda value: _each((key, makers.get(key, _same), one) for key, one in _object(value).items())


def _key(field: Field[Any]) -> str:
    return field.metadata.get(KEY, field.name)


def _needed(kind: Any) -> list[str]:
    """Return the keys that must be there."""
    return [_key(one) for one in fields(kind) if one.init and one.default is one.default_factory is MISSING]


def _dataclass(kind: type) -> _Maker:
    hints = get_type_hints(kind, include_extras=True)
    makers = {_key(field): (field.name, maker(hints[field.name])) for field in fields(kind)}
    needed = _needed(kind)

    def make(value: Any) -> Any:
        entries = _object(value)
        for name in needed:
            if name not in entries:
                raise Misfit(None, "", name)
        values = _each((key, makers[key][1], one) for key, one in entries.items() if key in makers)
        return kind(**{makers[key][0]: one for key, one in values.items()})

    return make


def _each(entries: Iterable[tuple[Any, _Maker, Any]]) -> dict[Any, Any]:
    """Return what is made of entries, each a key with what makes it and what it is made of."""
    results: dict[Any, Any] = {}
    key = None
    try:
        for key, make, value in entries:
            results[key] = make(value)
    except Misfit as misfit:
        misfit.keys.append(str(key))
        raise
    return results


def _object(value: Any) -> PlainData:
    if not isinstance(value, dict):
        raise Misfit(value, "an object with keys")
    return cast("dict[str, Any]", value)
