"""Values from a JSON file, each checked when it is used, as files may be damaged or untrusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from erasurehead._internal.documents import Entries
from erasurehead.errors import DataError, real, shown

Rule: TypeAlias = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words and as a check."""


def _list_of(words: str, each: Callable[[Any], bool]) -> Rule:
    return words, lambda value: isinstance(value, list) and all(map(each, cast("list[Any]", value)))


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(real(value))


NUMBER: Rule = ("a finite number", lambda value: math.isfinite(real(value)))
POSITIVE: Rule = ("a number above 0", lambda value: 0.0 < real(value) < math.inf)
COUNT: Rule = ("a whole number of at least 0", lambda value: type(value) is int and value >= 0)
FLAG: Rule = ("true or false", lambda value: isinstance(value, bool))
TEXT: Rule = ("a text", lambda value: isinstance(value, str))
TEXTS = _list_of("a list of texts", lambda value: isinstance(value, str))
NUMBERS = _list_of("a list of finite numbers", _is_finite)
WHOLE_NUMBERS = _list_of("a list of whole numbers", lambda value: isinstance(value, int) and _is_finite(value))
LIST = _list_of("a list", lambda value: True)
OBJECT: Rule = ("an object", lambda value: isinstance(value, Mapping))


def one_of(*values: str) -> Rule:
    """Return the rule that a value is one of some texts."""
    return f"one of {', '.join(values)}", values.__contains__


class Facts:
    """JSON data of an encoding, whose values are checked when they are used.

    Arguments:
        data: an object of the file.
        where: where it is in the file, for messages.

    Raises:
        DataError: if it is no object.
    """

    def __init__(self, data: Any, where: str) -> None:
        self.data: Entries = _checked(data, OBJECT, where)
        self._where = where

    def get(self, key: str, rule: Rule) -> Any:
        """Return a value.

        Raises:
            DataError: if it is missing, or not as the rule says.
        """
        if key not in self.data:
            raise DataError(f"The encoding is damaged: {self.place(key)} is missing.")
        return _checked(self.data[key], rule, self.place(key))

    def find(self, key: str, rule: Rule) -> Any:
        """Return a value, or None if it is missing or null."""
        return None if self.data.get(key) is None else self.get(key, rule)

    def inner(self, key: str) -> Facts:
        """Return the object under a key."""
        return Facts(self.get(key, OBJECT), self.place(key))

    def place(self, key: str) -> str:
        """Return where a value is in the file."""
        return f"{self._where}.{key}" if self._where else key


def _checked(value: Any, rule: Rule, where: str) -> Any:
    words, holds = rule
    if not holds(value):
        raise DataError(f"The encoding is damaged: {where} must be {words}, but it is {shown(value)}.")
    return value
