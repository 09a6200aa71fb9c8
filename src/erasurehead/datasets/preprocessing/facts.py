"""Values from a JSON file, each checked when it is used, as files may be damaged or untrusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from erasurehead.errors import DataError, real, shown


class Facts:
    """JSON data of an encoding, whose values are checked when they are used.

    Arguments:
        data: an object of the file.
        where: where it is in the file, for messages.
    """

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, Mapping):
            raise DataError(f"The encoding is damaged: {where} must be an object, but it is {shown(data)}.")
        self.data = cast("Mapping[str, Any]", data)
        self.where = where

    def number(self, key: str) -> float:
        """Return a finite number."""
        value = self._there(key)
        if not math.isfinite(real(value)):
            raise self._wrong(key, "a finite number")
        return float(value)

    def count(self, key: str) -> int:
        """Return a whole number of at least 0."""
        value = self._there(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(key, "a whole number of at least 0")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self._there(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def text(self, key: str) -> str:
        """Return a text."""
        value = self._there(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        values = self.items(key)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(key, "a list of texts")
        return tuple(values)

    def numbers(self, key: str, whole: bool = False) -> list[Any]:
        """Return a list of finite numbers, which must be integers if `whole`."""
        values = self.items(key)
        kinds = int if whole else (int, float)
        if not all(isinstance(value, kinds) and math.isfinite(real(value)) for value in values):
            raise self._wrong(key, f"a list of {'whole' if whole else 'finite'} numbers")
        return values

    def items(self, key: str) -> list[Any]:
        """Return a list."""
        value = self._there(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return cast("list[Any]", value)

    def has(self, key: str) -> bool:
        """Return whether a key exists and is not null."""
        return self.data.get(key) is not None

    def inner(self, key: str) -> Facts:
        """Return the object under a key."""
        return Facts(self._there(key), f"{self.where}.{key}" if self.where else key)

    def _there(self, key: str) -> Any:
        if key not in self.data:
            raise DataError(f"The encoding is damaged: {self._name(key)} is missing.")
        return self.data[key]

    def _name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def _wrong(self, key: str, rule: str) -> DataError:
        return DataError(
            f"The encoding is damaged: {self._name(key)} must be {rule}, but it is {shown(self.data[key])}."
        )
