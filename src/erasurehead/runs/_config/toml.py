"""Run files: TOML in, TOML out."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from erasurehead._internal.documents import BeyondLimits, Entries, PlainData, from_toml
from erasurehead._internal.user_files import StrPath, read_text
from erasurehead.errors import InvalidArgument, invalid

_SECTION = re.compile(r"\s*+\[([^\[\]]++)\]\s*+(?:#.*)?")
_ENTRY = re.compile(r"([A-Za-z0-9_.\-\"'\s]++)=")
_QUOTES = re.compile("\"\"\"|'''")


def read_tables(path: StrPath, what: str = "run file") -> PlainData:
    """Read a TOML file.

    Arguments:
        path: of the file.
        what: kind of file, for errors.

    Raises:
        InvalidArgument: if it is missing, cannot be read, or is not TOML; the message says where.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        resume = (
            " To resume the run in it: erasurehead train --resume FOLDER. To make that run again, name the "
            "config.toml in it."
        )
        hint = resume if what == "run file" else " Name a file."
        sentence = f"The {what} {str(place)!r} is a folder.{hint}"
        raise InvalidArgument("path", "must not be a folder", str(place), sentence=sentence)
    text = read_text(place, what)
    try:
        return from_toml(text)
    except BeyondLimits as error:
        sentence = f"The {what} {str(place)!r} cannot be used: {error}."
        raise InvalidArgument("path", "must be within the limits of run files", str(place), sentence=sentence) from None
    except ValueError as error:
        data = what == "run file" and place.suffix != ".toml"
        hint = " To train on a file of data, which has all rows: erasurehead train --data FILE." if data else ""
        sentence = f"The {what} {str(place)!r} is not TOML: {error}.{hint}"
        raise InvalidArgument("path", "must be TOML", str(place), sentence=sentence) from None


def located(error: InvalidArgument, key: str, path: StrPath) -> InvalidArgument:
    """Return an error with the line of the run file that it is about, if the key is there.

    Arguments:
        error: an error without a place.
        key: the key that it is about, such as `"run.steps"`.
        path: of the run file.
    """
    if not Path(path).expanduser().is_file():  # a pipe has been read, and nobody may write to it again
        return error
    try:
        text = read_text(path, "run file")
        tables = from_toml(text)
    except ValueError:  # InvalidArgument is one
        return error
    lines = key_lines(text)
    line = next((lines[name] for name in _outwards(key) if name in lines), None)
    if line is None or error.place:
        return error
    typed: Any = tables
    for name in key.split("."):
        typed = cast("Mapping[str, Any]", typed).get(name) if isinstance(typed, Mapping) else None
    part = isinstance(typed, list) and isinstance(error.value, str) and not error.within
    return error.but(place=f"{path}, line {line}", typed=_value(typed) if part else error.typed)


@contextlib.contextmanager
def locating(path: StrPath) -> Generator[None]:
    """Make errors about a key name its line in a run file."""
    try:
        yield
    except InvalidArgument as error:
        raise located(error, error.subject, path) from None


def key_lines(text: str) -> dict[str, int]:
    """Return the line number, from 1, of each key and each section of a TOML text.

    >>> key_lines("scheme = 'uncoded'\\n[run]\\nsteps = 5\\n")
    {'scheme': 1, 'run': 2, 'run.steps': 3}
    """
    lines: dict[str, int] = {}
    section, quoted = "", False
    for number, line in enumerate(text.split("\n"), start=1):
        if not quoted:
            if heading := _SECTION.fullmatch(line.rstrip("\r")):
                section = _bare(heading[1])
                lines.setdefault(section, number)
            elif entry := _ENTRY.match(line):
                lines.setdefault(f"{section}.{_bare(entry[1])}".lstrip("."), number)
        quoted ^= len(_QUOTES.findall(line)) % 2 == 1
    return lines


def _bare(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))


def _outwards(key: str) -> list[str]:
    """Return a key and the sections around it, the key first."""
    names = key.split(".")
    return [".".join(names[:length]) for length in range(len(names), 0, -1)]


def to_toml(tables: Entries) -> str:
    """Return tables as TOML: plain values first, then one section per mapping; None is left out.

    Arguments:
        tables: plain values, lists, or tables of these, by key.

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
        # TOML escapes what JSON escapes, in the same way, and the delete character in addition.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, cast('Sequence[Any]', value)))}]"
    raise invalid("a value of a run file", "must be a text, a number, true, false or a list of them", value)
