"""Run files: TOML in, TOML out."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from erasurehead.errors import InvalidArgument, invalid


def read_tables(path: str | os.PathLike[str], what: str = "run file") -> dict[str, Any]:
    """Read a TOML file.

    Arguments:
        path: of the file.
        what: it is, for errors.

    Raises:
        InvalidArgument: if it is not there, may not be read, or is not TOML; the message says where.
    """
    place = Path(path).expanduser()
    try:
        return tomllib.loads(place.read_text(encoding="utf-8"))
    except IsADirectoryError:
        resume = (
            " To go on with the run in it: erasurehead train --resume FOLDER. To make that run again, name the "
            "config.toml in it."
        )
        hint = resume if what == "run file" else " Name a file."
        raise InvalidArgument(f"The {what} {str(place)!r} is a folder.{hint}") from None
    except OSError as error:
        raise InvalidArgument(f"The {what} {str(place)!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"The {what} {str(place)!r} is not a text in UTF-8 (byte {error.start}).") from None
    except tomllib.TOMLDecodeError as error:
        data = what == "run file" and place.suffix != ".toml"
        hint = " To train on a file of data: erasurehead train --data FILE." if data else ""
        raise InvalidArgument(f"The {what} {str(place)!r} is not TOML: {error}.{hint}") from None


def to_toml(tables: Mapping[str, Any]) -> str:
    """Return tables as TOML: plain values first, then one section for each mapping; None is left out.

    >>> print(to_toml({"run": {"steps": 5, "out": None}, "scheme": "exact(load=3)"}), end="")
    scheme = "exact(load=3)"
    <BLANKLINE>
    [run]
    steps = 5
    """
    lines = [f"{key} = {_value(value)}" for key, value in tables.items() if _is_plain(value)]
    for key, value in tables.items():
        if isinstance(value, Mapping):
            section = cast("Mapping[str, Any]", value)
            lines += [
                "",
                f"[{key}]",
                *(f"{name} = {_value(item)}" for name, item in section.items() if _is_plain(item)),
            ]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_plain(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # What JSON escapes, TOML escapes in the same way, and the delete character besides.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, cast('Sequence[Any]', value)))}]"
    raise invalid("a value of a run file", "must be a text, a number, true, false or a list of them", value)
