"""State that is declared: a class names the attributes that belong to a run, and saving and resuming follow."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np

from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.ours import ours
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.errors import UNSAID, invalid

_MAP, _SET, _FROZEN, _TUPLE = "map", "set", "frozenset", "tuple"

_PLAIN = frozenset((int, float, str, bool, type(None)))
"""Nearly all that states hold: what is asked of others would be most of the time that a state takes."""


class Resumable:
    """Something that a resumed run continues: its state are the attributes that it names.

    These may hold texts, numbers, None, arrays, `records`, and mappings, sets, tuples and lists of these, or another
    resumable object, which is restored where it is. The object that is restored shows what each must be: what was saved
    is refused if it is of another kind, but for attributes that are None, or were when they were saved. Arrays that
    are not empty must have the same shape, tuples the same kinds of items; a whole number may have become a float, and
    floats may be longer or shorter.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ()
    """Names of attributes, beside those that the base classes name; a state leaves out underscores before them."""

    records: ClassVar[tuple[type, ...]] = ()
    """Dataclasses and named tuples whose instances are in these attributes."""

    def state(self) -> PlainData:
        """Return everything that `restore` needs to continue bit for bit, as plain data.

        Raises:
            InvalidArgument: if an attribute holds a dataclass or a named tuple that `records` does not name.
        """
        names = checkpointed_names(type(self))
        return {name.lstrip("_"): to_plain(getattr(self, name), self.records) for name in names}

    def restore(self, state: Entries) -> None:
        """Continue from what `state` returned.

        Raises:
            Unfit: if an attribute was of another kind; other errors of `NOT_SEALED`, if it is no such state at all.
        """
        for name in checkpointed_names(type(self)):
            key, present = name.lstrip("_"), getattr(self, name)
            if isinstance(present, Resumable) and state[key] is not None:
                present.restore(state[key])
            else:
                setattr(self, name, as_present(key, from_plain(state[key], self.records), present))


@cache
def checkpointed_names(kind: type) -> tuple[str, ...]:
    """Return the names of the attributes that a class and its bases declare, each once."""
    return tuple(dict.fromkeys(name for base in kind.__mro__[::-1] for name in vars(base).get("checkpointed", ())))


def check_declared(part: Resumable, before: Mapping[str, bytes]) -> None:
    """Raise if steps have changed what no state holds, so that a resumed run would begin with what it was at first.

    Arguments:
        part: an object.
        before: what `undeclared` returned of it when the run began.

    Raises:
        InvalidArgument: if so; the error names the class and the attribute.
    """
    for name, value in undeclared(part).items():
        if before.get(name) != value:
            rule = f"must name {name!r}, which steps change, for a resumed run to continue with it"
            hint = f"write checkpointed = ({name!r},), or `state` and `restore` for what that cannot hold"
            raise invalid(f"checkpointed of {type(part).__name__}", rule, UNSAID, hint)


def undeclared(part: Resumable) -> Mapping[str, bytes]:
    """Return what the attributes hold that code of users' own names, and `checkpointed` does not.

    What is of the library's classes need not be saved where it is not, such as whether a point was `rejected`.
    """
    kind = type(part)
    own = [one for base in kind.__mro__ if not ours(base) for one in vars(base).values() if hasattr(one, "__code__")]
    if kind.state is not Resumable.state:
        return {}
    named = {name for one in own for name in one.__code__.co_names} - {"rejected", *checkpointed_names(kind)}
    return {name: _bits(value) for name, value in vars(part).items() if name in named}


def _bits(value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:  # it may be anything, such as a function
        return b""


@cache
def _record_names(kind: Any) -> Sequence[str]:
    """Return the names of all fields of a dataclass or a named tuple; none for other kinds."""
    return [field.name for field in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields", ())


def to_plain(value: Any, records: Iterable[type] = ()) -> Any:
    """Return plain data that say what is a mapping, a set, a tuple or a record; lists and mappings are copied.

    Arguments:
        value: what is to be saved.
        records: as for `from_plain`.
    """
    kind = cast("type[Any]", type(value))
    if kind in _PLAIN:
        return value
    if isinstance(value, list | deque):
        items = cast("Iterable[Any]", value)
        return [item if type(item) in _PLAIN else to_plain(item, records) for item in items]
    if issubclass(kind, Resumable):
        return value.state()
    if names := _record_names(kind):
        if kind not in records:
            raise invalid("a state", "must name in `records` whatever dataclasses and named tuples it holds", value)
        return {kind.__name__: to_plain([getattr(value, name) for name in names], records)}
    if isinstance(value, dict):
        return {_MAP: [to_plain(list(pair), records) for pair in cast("dict[Any, Any]", value).items()]}
    if isinstance(value, frozenset | set):
        items = sorted(cast("Iterable[Any]", value), key=repr)
        return {_SET if isinstance(value, set) else _FROZEN: to_plain(items, records)}
    if isinstance(value, tuple):
        return {_TUPLE: to_plain(list(cast("Iterable[Any]", value)), records)}
    return cast("Any", value.item() if isinstance(value, np.generic) else value)


def from_plain(value: Any, records: Iterable[type] = ()) -> Any:
    """Return what `to_plain` was given; a deque is a list.

    Arguments:
        value: what it returned.
        records: the dataclasses and named tuples that may be in it.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple):
        return [from_plain(item, records) for item in cast("Iterable[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    ((kind, items),) = cast("Entries", value).items()
    if kind == _MAP:
        return {from_plain(key, records): from_plain(item, records) for key, item in items}
    inner = [from_plain(item, records) for item in items]
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](inner)
    return {record.__name__: record for record in records}[kind](*inner)


def as_present(name: str, value: Any, present: Any) -> Any:
    """Return a value that was saved as one of the kind that is there now.

    Arguments:
        name: its name in a state.
        value: what `from_plain` returned.
        present: what it replaces, which is left as it is.

    Raises:
        Unfit: if it is of another kind.
    """
    if not alike(value, present):
        begins = f"the {type(present).__name__} as which it begins; what begins as None may be of any kind"
        raise Unfit(f"{name!r} is of another kind than {begins}")
    kind = cast("type[Any]", type(present))
    if value is None or not issubclass(kind, (dict, set, frozenset, list, deque, float, np.generic)):
        return value
    if issubclass(kind, (frozenset, float, np.generic)):
        return cast("Any", type(present))(value)
    filled = copy(present)
    filled.clear()
    (filled.extend if issubclass(kind, (list, deque)) else filled.update)(value)
    return filled


def alike(value: Any, present: Any) -> bool:
    """Return whether what was saved can take the place of what is there."""
    if value is None or present is None:
        return True  # there may be one, such as a time, or not
    kind = cast("type[Any]", type(present))
    if kind in _PLAIN and type(value) is kind:
        return True
    if not isinstance(value, next((saved for kinds, saved in _SAVED_AS if issubclass(kind, kinds)), kind)):
        return False
    if issubclass(kind, np.ndarray):
        same = _kind_of(value.dtype) == _kind_of(present.dtype)
        return same and (not present.size or value.shape == present.shape)
    if issubclass(kind, tuple):
        return not present or (len(value) == len(present) and all(map(alike, value, present)))
    return isinstance(value, bool) == issubclass(kind, (bool, np.bool_))


def _kind_of(dtype: np.dtype[Any]) -> str:
    """Return the kind of elements; what is computed with short floats may have longer ones."""
    return dtype.kind.replace("V", "f")  # those of ml_dtypes have no kind of their own


_COLLECTIONS: Any = {_SET: set, _FROZEN: frozenset, _TUPLE: tuple}

_SAVED_AS: tuple[tuple[Any, Any], ...] = (
    (dict, dict),
    ((set, frozenset), (set, frozenset)),
    ((list, deque), list),
    ((float, np.floating), (int, float)),
    (np.integer, int),
    ((bool, np.bool_), bool),
    (int, (int, float)),
    (str, str),
)
