"""JSON with a checksum of itself, which detects any change of its content."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Generator
from typing import Any, NoReturn

from erasurehead._internal.documents import BeyondLimits, from_json
from erasurehead.errors import DataError, ErasureHeadError


def sealed(kind: str, version: int, key: str, body: Any) -> bytes:
    """Return plain data as the bytes of a sealed file.

    Arguments:
        kind: kind of the file, written as its `format`.
        version: version of that format.
        key: key of the data.
        body: the data; all numbers must be finite.
    """
    text = _text(body)
    return f'{{"format":"{kind}","version":{version},"sha256":"{_digest(text)}",\n"{key}":{text}}}\n'.encode()


def unsealed(data: bytes, kind: str, version: int, key: str, path: object) -> Any:
    """Return the data in the bytes of a file that `sealed` made.

    Raises:
        DataError: if they have another version of the format.
        ValueError, LookupError, TypeError, RecursionError: if they are something else, or damaged.
    """
    document: Any = from_json(data, parse_constant=_no_number)
    if document["format"] != kind:
        raise Unfit(f"its format is {document['format']!r}")
    if document["version"] != version:
        raise DataError(
            f"{path} has version {document['version']!r} of the format, of which this version of erasurehead"
            f" reads {version}; go on with the version that wrote it."
        )
    body = document[key]
    if _digest(_text(body)) != document["sha256"]:
        raise Unfit("its checksum is not that of what it holds")
    return body


class Unfit(ValueError):
    """Content that is not what it should be, as a clause for people."""


NOT_SEALED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions of reading something else as sealed data, or of using it."""


@contextlib.contextmanager
def unusable(sentence: str) -> Generator[None]:
    """Refuse in a sentence what this block cannot use: content that is sealed, and fits nothing nevertheless.

    Arguments:
        sentence: what it is, and what cannot be done with it, without a full stop.

    Raises:
        DataError: for whatever `NOT_SEALED` stands for, but for errors that are sentences already.
    """
    try:
        yield
    except (AssertionError, *NOT_SEALED) as error:
        if isinstance(error, ErasureHeadError):
            raise
        raise DataError(f"{sentence} ({why(error)}).") from error


def why(error: Exception) -> str:
    """Return an error of `NOT_SEALED` as a clause; one that only Python's own words tell of, in general ones."""
    if isinstance(error, KeyError):
        return f"there is no {error}"
    if isinstance(error, ErasureHeadError | Unfit | BeyondLimits | json.JSONDecodeError | UnicodeError):
        return str(error).removesuffix(".")
    return "an entry is not what it should be"


def _text(body: Any) -> str:
    return json.dumps(body, allow_nan=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _no_number(text: str) -> NoReturn:
    raise Unfit(f"{text} is no number")
