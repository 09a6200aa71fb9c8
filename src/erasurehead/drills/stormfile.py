"""Storms as TOML files, so that one that found something can be kept: a table `[[fault]]` for each fault."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from erasurehead.config.toml import read_tables, to_toml
from erasurehead.drills.storm import Fault, Storm
from erasurehead.errors import InvalidArgument
from erasurehead.records.durable import write_whole

_KEYS = tuple(field.name for field in fields(Fault))


def write_storm(storm: Storm, path: str | os.PathLike[str]) -> None:
    """Write a storm to a TOML file."""
    text = "\n".join(f"[[fault]]\n{to_toml(fault.as_dict())}" for fault in storm.faults)
    write_whole(Path(path), [text.encode()])


def read_storm(path: str | os.PathLike[str]) -> Storm:
    """Read a storm from a TOML file, as `write_storm` makes it.

    Raises:
        InvalidArgument: if it cannot be read, or holds something that is no fault, saying which.
    """
    tables = read_tables(path, "storm file")
    rows = tables.pop("fault", [])
    if tables or not isinstance(rows, list):
        raise InvalidArgument(f"The storm file {str(path)!r} must hold tables [[fault]], and nothing else.")
    found = cast("list[Any]", rows)
    return Storm(tuple(_fault(row, f"{path}, fault {number}") for number, row in enumerate(found, start=1)))


def _fault(row: Any, where: str) -> Fault:
    if not isinstance(row, Mapping):
        raise InvalidArgument(f"{where}: must be a table with the keys {', '.join(_KEYS)}.")
    given = dict(cast("Mapping[str, Any]", row))
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise InvalidArgument(f"{where}: there is no key {unknown[0]!r}; the keys are {', '.join(_KEYS)}.")
    for key in ("kind", "at"):
        if key not in given:
            raise InvalidArgument(f"{where}: the key {key!r} is missing.")
    try:
        return Fault(**given)
    except InvalidArgument as error:
        raise InvalidArgument(f"{where}: {error}") from None
