"""One JSON object a line: written so that what is there stays readable whatever happens next."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from erasurehead.errors import DataError
from erasurehead.storage import Folder

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def to_line(data: Mapping[str, Any]) -> str:
    """Return data as one line of JSON; numbers that are not finite, which JSON does not know, become null."""
    try:
        return _encode(data) + "\n"
    except ValueError:
        return _encode(_finite(data)) + "\n"


def to_text(data: Any) -> str:
    """Return data as JSON for people: indented, with numbers that are not finite as null."""
    return json.dumps(_finite(data), allow_nan=False, indent=2, ensure_ascii=False) + "\n"


def read_lines(path: Path, size: int | None = None) -> list[dict[str, Any]]:
    """Read the objects of a file, without a last line that was cut off in the middle.

    Arguments:
        path: of the file, which is no link.
        size: bytes from its beginning that are to be read; None for all.

    Returns:
        The objects; none if there is no such file.

    Raises:
        DataError: if a line before the last is damaged.
    """
    try:
        with Folder.open(path.parent) as folder:
            data = folder.read(path.name, size)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    return lines_in(data, path)


def lines_in(data: bytes, path: Path) -> list[dict[str, Any]]:
    """Return the objects in the bytes of a file; arguments and errors as for `read_lines`."""
    lines = data.decode(errors="replace").split("\n")
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last newline was not finished
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: not JSON ({error.msg}).") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: must be an object with keys, but it is {line[:40]!r}.")
        found.append(cast("dict[str, Any]", row))
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
