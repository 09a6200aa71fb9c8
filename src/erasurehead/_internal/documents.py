"""TOML and JSON from files that may be anybody's: looked through before they are parsed.

A parser can be made to recurse without end, to multiply numbers of a million digits, or to take hours over one key. So
a document is scanned first, in time that grows with its length only; what is beyond the limits is none.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from string import digits
from typing import Any, TypeAlias

PlainData: TypeAlias = dict[str, Any]
"""Plain data under keys, such as JSON and TOML hold."""

Entries: TypeAlias = Mapping[str, Any]
"""The same, where they are only read."""

MOST_DEPTH = 64
"""How deep lists and tables may be nested."""

MOST_DIGITS = 300
"""Digits that a number may have; a whole number of so many still has a place in float64."""

MOST_PARTS = 16
"""Parts that a dotted key of TOML may have."""

MOST_TOML = 4 << 20
"""Bytes, or characters, that a TOML file may have."""

MOST_JSON = 1 << 30
"""Bytes, or characters, that a JSON document may have, or a line of JSON lines."""

_LONG = re.compile(rf"[+-]?(?:0[xob])?[0-9a-fA-F_]{{{MOST_DIGITS + 1}}}")
_JSON = re.compile(
    r'(?:[^][{}"0-9]++|"(?:[^"\\]++|\\.)*+"?+'
    rf"|[0-9]{{1,{MOST_DIGITS}}}+(?![0-9]))*+(?P<found>[][{{}}0-9])",
    re.DOTALL,
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TOML = re.compile(
    r'''(?P<text>"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5})?+|"(?:[^"\\\n]++|\\.)*+"?+'''
    r"""|'''(?:[^']++|'(?!''))*+(?:'{3,5})?+|'[^'\n]*+'?+)"""
    r"""|(?P<comment>\#[^\n]*+)|(?P<word>[A-Za-z0-9_+-]++)|(?P<blank>[ \t]++)|(?P<other>.)""",
    re.DOTALL,
)


class BeyondLimits(ValueError):
    """A document is nested too deep, or has a number or a key that is too long; the message says which and where."""


def from_json(data: str | bytes | bytearray, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Return what a JSON document holds.

    Arguments:
        data: the document, in UTF-8.
        parse_constant: as for `json.loads`: called with NaN and the infinities, which are no JSON.

    Raises:
        ValueError: if it is not JSON, or beyond the limits.
    """
    text = data if isinstance(data, str) else str(data, "utf-8")
    _check_length(len(text), MOST_JSON)
    if text.count("[") + text.count("{") > MOST_DEPTH or _has_long_run(text):
        _check_json(text)
    document = json.loads(text, parse_constant=parse_constant)
    if "\\u" in text and _SURROGATE.search(text):
        json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair could not be written anywhere
    return document


def from_toml(text: str) -> dict[str, Any]:
    """Return what a TOML document holds.

    Raises:
        ValueError: if it is not TOML, or beyond the limits.
    """
    _check_length(len(text), MOST_TOML)
    _check_toml(text)
    return tomllib.loads(text)


def _check_length(length: int, most: int) -> None:
    if length > most:
        raise BeyondLimits(f"it has {length:,} characters, and may have {most:,}")


def _has_long_run(text: str) -> bool:
    """Return whether there are more digits in a row than are allowed: each such row has one at some multiple of it."""
    for place in range(0, len(text), MOST_DIGITS + 1):
        if text[place] in digits:
            before, after = text[max(place - MOST_DIGITS, 0) : place], text[place : place + MOST_DIGITS + 1]
            if len(before) - len(before.rstrip(digits)) + len(after) - len(after.lstrip(digits)) > MOST_DIGITS:
                return True
    return False


def _check_json(text: str) -> None:
    depth = 0
    for token in _JSON.finditer(text):
        match token["found"]:
            case "[" | "{":
                depth += 1
                _check_depth(depth, text, token.end())
            case "]" | "}":
                depth -= 1
            case _:
                raise _long_number(text, token.end())


def _check_toml(text: str) -> None:
    depth = parts = 0
    for token in _TOML.finditer(text):
        kind, lexeme = token.lastgroup, token[0]
        if kind == "word":
            if len(lexeme) > MOST_DIGITS and _LONG.match(lexeme):
                raise _long_number(text, token.start())
        elif lexeme == ".":
            parts += 1
            if parts >= MOST_PARTS:
                raise BeyondLimits(f"a key has more than {MOST_PARTS} parts{_place(text, token.start())}")
        elif kind == "other":
            parts = 0
            if lexeme in "[{":
                depth += 1
                _check_depth(depth, text, token.start())
            elif lexeme in "]}":
                depth -= 1


def _check_depth(depth: int, text: str, place: int) -> None:
    if depth > MOST_DEPTH:
        raise BeyondLimits(f"it is nested more than {MOST_DEPTH} deep{_place(text, place)}")


def _long_number(text: str, place: int) -> BeyondLimits:
    return BeyondLimits(f"a number has more than {MOST_DIGITS} digits{_place(text, place)}")


def _place(text: str, place: int) -> str:
    line = text.count("\n", 0, place) + 1
    return f" (line {line})" if line > 1 else ""
