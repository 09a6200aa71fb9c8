"""How a user says that a text table is written, where it should not be detected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args
from unicodedata import normalize

from erasurehead.datasets._readers.delimiters import check_delimiter
from erasurehead.errors import check_choice, invalid

Quotes: TypeAlias = Literal["doubled", "backslash", "none"]
"""How a quote within a quoted field is written: `""`, or `\\"`; or quotes are letters like any others."""

Decimal: TypeAlias = Literal[".", ","]

_HEADER = {True: True, False: False, "yes": True, "no": False}


@dataclass(frozen=True)
class Dialect:
    """How a text table is written; None, or nothing, where it is detected.

    Arguments:
        delimiter: one character; a space means any number of spaces and tabs.
        header: whether the first line holds the columns' names.
        names: names of all columns, in place of those in the file.
        decimal: what stands before decimals.
        quotes: how quotes within quoted fields are written.
        missing: texts that stand for a missing value, beside the usual ones; alone if the empty text is one of them.
    """

    delimiter: str | None = None
    header: bool | None = None
    names: tuple[str, ...] = ()
    decimal: Decimal | None = None
    quotes: Quotes | None = None
    missing: tuple[str, ...] = ()


def check_dialect(
    delimiter: str | None = None,
    header: bool | str | None = None,
    names: Sequence[str] = (),
    decimal: str | None = None,
    quotes: str | None = None,
    missing: Sequence[str] = (),
) -> Dialect:
    """Return what a user says about a text table, checked.

    Raises:
        InvalidArgument: if an argument cannot be; the message says what would work.
    """
    if header is not None and header not in _HEADER:
        raise invalid("header", "must be yes or no (True or False)", header)
    if decimal is not None and decimal not in get_args(Decimal):
        raise invalid("decimal", "must be . or ,", decimal)
    if quotes is not None:
        check_choice("quotes", quotes, get_args(Quotes))
    for argument, texts in (("names", names), ("missing", missing)):
        if isinstance(texts, str):
            raise invalid(argument, "must be a list of texts", texts)
    cleaned = tuple(normalize("NFC", name).strip() for name in names)
    for place, name in enumerate(cleaned):
        if not name or name in cleaned[:place]:
            raise invalid("names", "must give each column a name of its own", list(names))
    return Dialect(
        check_delimiter(delimiter),
        None if header is None else _HEADER[header],
        cleaned,
        cast("Decimal | None", decimal),
        cast("Quotes | None", quotes),
        tuple(text.strip() for text in missing),
    )


def given(dialect: Dialect) -> tuple[str, object] | None:
    """Return the first argument that says something about a text table, with its value; None if none does."""
    for name in Dialect.__dataclass_fields__:
        if (value := getattr(dialect, name)) not in (None, ()):
            return name, value
    return None
