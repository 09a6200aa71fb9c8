"""Columns that are made from others: parts of dates, places in an order, counts of values; and the weights of words."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from zlib import crc32

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead._internal.storage.sealed import Unfit
from erasurehead._internal.typed import one_of
from erasurehead.datasets._matrices import csr
from erasurehead.datasets._preprocessing.columns import DATE_ORDERS, Columns
from erasurehead.datasets._preprocessing.design import WordBlock, Words
from erasurehead.datasets._preprocessing.vocabulary import Vocabulary
from erasurehead.datasets._readers.fields import DATED, is_short_date
from erasurehead.datasets._readers.names import as_option
from erasurehead.datasets._readers.table import Column, NumberColumn, Table, TextColumn, as_texts
from erasurehead.errors import DataError

Kind: TypeAlias = Literal["day", "month", "weekday", "hour", "ordinal", "count"]

BUCKETS = 4096
"""Columns that the words of a text are hashed to."""

_CLOCK = r"(?:[T ](\d{1,2})(:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:?\d{2}| ?[AaPp]\.?[Mm]\.?)?)?"
_DATE = re.compile(rf"(\d{{1,4}})([-/.])(\d{{1,2}})\2(\d{{1,4}}){_CLOCK}")
_IN_WORDS = re.compile(rf"(?:(\d{{1,2}})([-/ ])([A-Za-z]+)\2|([A-Za-z]+) (\d{{1,2}}),? )(\d{{4}}){_CLOCK}")
_MONTHS = "january february march april may june july august september october november december"
_COMPACT = re.compile(r"\d{8}T\d{6}")
_YEAR_FIRST, _NAMED = "year-first", "month-in-words"
_FEW, _MANY = 3, 20  # so few texts among so many different dates are mistakes, or stand for a missing value
_WORD = re.compile(r"\w\w+")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EPOCH, _DAY = datetime(1970, 1, 1), 86_400.0
_PARTS: tuple[Kind, ...] = ("day", "month", "weekday", "hour")
"""What a date becomes: the days since 1970, a number; the others are categories, where they vary."""


@dataclass(frozen=True)
class Derived:
    """A column that is made from another one.

    Arguments:
        name: its name.
        source: name of the other.
        kind: the part of a date; the place of a text in an order, from 0; or how often it occurred in training, as
            `log(1 + count)`.
        texts: the order, or the texts that occurred, ascending; empty for parts of dates.
        counts: how often they did; empty for others.
        dates: what dates begin with, or that months are words; those, and those with the year first, are known in any
            case.
    """

    name: str
    source: str
    kind: Annotated[Kind, one_of(*_PARTS, "ordinal", "count")]
    texts: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    dates: Annotated[str, one_of(*DATE_ORDERS, _YEAR_FIRST, _NAMED)] = _YEAR_FIRST

    @property
    def category(self) -> bool:
        """Whether its values are categories."""
        return self.kind in ("month", "weekday", "hour")

    def column(self, table: Table) -> Column:
        """Return the column for the rows of a table.

        Raises:
            DataError: if a text is not a date, the message says where; or there is no such column.
        """
        raw = as_texts(table.column(self.source))
        if self.kind in _PARTS:
            moments = [_moment(text, self.dates) for text in raw.values]
            wrong = {code for code, moment in enumerate(moments) if moment is None} & {*raw.codes.tolist()}
            if wrong:
                row = int(np.argmax(np.isin(raw.codes, list(wrong))))
                raise DataError(
                    f"{table.place(row)}, column {self.source!r}: {raw.values[raw.codes[row]]!r} is not a date, as "
                    "those of the training data are: write 2024-01-31, or 2024-01-31 12:00."
                )
            if self.category:
                parts = [None if moment is None else _category(moment, self.kind) for moment in moments]
                texts = sorted({part for part in parts if part is not None})
                places = [-1 if part is None else texts.index(part) for part in parts]
                return TextColumn(np.array([*places, -1], dtype=np.int32)[raw.codes], tuple(texts))
            values = [math.nan if moment is None else (moment - _EPOCH).total_seconds() / _DAY for moment in moments]
        elif self.kind == "ordinal":
            values = [self.texts.index(text) if text in self.texts else math.nan for text in raw.values]
        else:
            counts = dict(zip(self.texts, self.counts, strict=True))
            values = [math.log1p(counts.get(text, 0)) for text in raw.values]
        return NumberColumn(np.array([*values, math.nan])[raw.codes])

    def __post_init__(self) -> None:
        if self.kind == "count" and len(self.texts) != len(self.counts):
            raise Unfit("counts must have a number for each text")


def with_derived(table: Table, derived: Iterable[Derived]) -> Table:
    """Return a table in which columns stand in place of those that they are made from."""
    by_source: dict[str, list[Derived]] = {}
    for one in derived:
        by_source.setdefault(one.source, []).append(one)
    columns: dict[str, Column] = {}
    for name, column in table.columns.items():
        columns |= {one.name: one.column(table) for one in by_source[name]} if name in by_source else {name: column}
    categories = table.categories | {one.name for own in by_source.values() for one in own if one.category}
    return replace(table, columns=columns, categories=categories)


class DerivedFit:
    """Gathers, block by block, what columns can be made from those of a table.

    Arguments:
        columns: what the user said about them.
        label: the column to predict, from which none is made.
    """

    def __init__(self, columns: Columns, label: str) -> None:
        self._columns, self._label = columns, label
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in (*columns.count, *columns.text)}
        self._dates: dict[str, set[str]] = {}
        self._strays: dict[str, set[str]] = {}  # among them
        self._orders: dict[str, set[str]] = {}  # in which most of these are dates
        self._source = ""
        self._others: set[str] = set()

    def add(self, table: Table, training: IntArray | None = None) -> None:
        """Add the next rows of a table.

        Arguments:
            table: the rows.
            training: those that are for training; None for all.
        """
        for name, column in table.columns.items():
            if name in self._columns.orders:
                _check_order(table, name, self._columns.orders[name])
            elif name in self._counts:
                texts = as_texts(column if training is None else column.take(training))
                counts = zip(texts.values, texts.counts().tolist(), strict=True)
                self._counts[name].update({text: count for text, count in counts if count})
            elif name == self._label or name in self._others or self._columns.is_decided(name):
                continue
            elif isinstance(column, TextColumn) and name not in table.categories:
                self._add_dates(table, name, set(column.used()))
            elif not bool(column.missing().all()):
                self._others.add(name)

    def _add_dates(self, table: Table, name: str, texts: set[str]) -> None:
        """Add texts of a column that may hold dates, as long as no more than a few of them are none."""
        dates, strays = self._dates.setdefault(name, set()), self._strays.setdefault(name, set())
        self._source = table.source
        for text in texts - dates - strays:
            (dates if _moments(text) else strays).add(text)
            if len(strays) > _FEW:
                self._others.add(name)
                return

    def _all_dates(self, name: str) -> bool:
        """Return whether a column holds dates alone, written in the same way.

        Raises:
            DataError: if it does but for a few texts.
        """
        texts = self._dates[name]
        votes = Counter(order for text in texts for order in _moments(text))
        most = max(votes.values(), default=0)
        self._orders[name] = {order for order, count in votes.items() if count == most}
        odd = sorted(self._strays[name] | {text for text in texts if not self._orders[name] <= _moments(text).keys()})
        if odd and len(odd) <= _FEW and most >= _MANY:
            be, dates, them = ("is", "a date", "it") if len(odd) == 1 else ("are", "dates", "them")
            order = " or ".join(sorted(self._orders[name]))
            raise DataError(
                f"{self._source}, column {name!r}: {', '.join(map(repr, odd))} {be} not {dates} written as the "
                f"column's {most:,} others are ({order}); correct {them}, leave the field empty if the value is "
                f"missing (in a text table, --missing {as_option(*odd)} says so), or name the column in "
                f"one_hot (--one-hot {as_option(name)}) to make each text a category."
            )
        return not odd

    def _order(self, name: str) -> str:
        """Return how the dates of a column are written.

        Raises:
            DataError: if none of them tells, and nor does the user.
        """
        orders = sorted(self._orders[name])
        if len(orders) == 1:
            return orders[0]
        for text in sorted(self._dates[name]):
            moments = _moments(text)
            if self._columns.dates is None and len({moments[order] for order in orders}) > 1:
                first, second = (f"{moments[order]:%Y-%m-%d}" for order in orders)
                raise DataError(
                    f"{self._source}, column {name!r}: {text!r} may be {first} or {second}, and no date of the "
                    f"column tells; say which it is (--dates day-first, or --dates month-first), or name the column in "
                    f"one_hot (--one-hot {as_option(name)}) to make each date a category."
                )
        return self._columns.dates or orders[0]

    def derived(self, names: Iterable[str]) -> tuple[Derived, ...]:
        """Return the columns that are made, in the order of those that they are made from.

        Raises:
            DataError: if dates of a column may be read in two ways, or there are a few texts among them.
        """
        columns: list[Derived] = []
        for name in names:
            if name in self._columns.orders:
                columns.append(Derived(name, name, "ordinal", self._columns.orders[name]))
            elif name in self._columns.count:
                texts = sorted(self._counts[name])
                counts = tuple(self._counts[name][text] for text in texts)
                columns.append(Derived(f"{name} (count)", name, "count", tuple(texts), counts))
            elif self._dates.get(name) and name not in self._others and self._all_dates(name):
                order = self._order(name)
                moments = [_moments(text)[order] for text in self._dates[name]]
                for kind in _PARTS:
                    if kind == "day" or len({_category(moment, kind) for moment in moments}) > 1:
                        columns.append(Derived(f"{name} ({kind})", name, kind, dates=order))
        return tuple(columns)

    def words(self) -> tuple[Words, ...]:
        """Return the features of the columns of texts: `1 + log((1 + texts) / (1 + texts with such a word))`."""
        features: list[Words] = []
        for name in self._columns.text:
            seen, frequencies = np.zeros(BUCKETS), Counter[str]()
            for text, count in self._counts[name].items():
                own = {*_words(text)}
                seen[list({_bucket(word) for word in own})] += count
                frequencies.update(dict.fromkeys(own, count))
            names = {_bucket(word): word for word, _ in reversed(frequencies.most_common())}  # the commonest one stays
            weights = 1.0 + np.log((1.0 + self._counts[name].total()) / (1.0 + seen))
            features.append(Words(name, weights, tuple(names.get(place, str(place)) for place in range(BUCKETS))))
        return tuple(features)


def _check_order(table: Table, name: str, order: tuple[str, ...]) -> None:
    """Raise if a column holds a text that is not in its order.

    Raises:
        DataError: that says where.
    """
    column = as_texts(table.column(name))
    wrong = [code for code, text in enumerate(column.values) if text not in order]
    rows = np.flatnonzero(np.isin(column.codes, wrong))
    if len(rows):
        text = column.values[column.codes[rows[0]]]
        raise DataError(
            f"{table.place(int(rows[0]))}, column {name!r}: {text!r} is not in the order {'<'.join(order)}; name all "
            f"of its texts (--ordinal), or what stands for a missing value (--missing)."
        )


def derived_notes(derived: Iterable[Derived]) -> list[str]:
    """Return a note on columns of dates, of which nobody has said what they are to become."""
    parts: dict[str, list[str]] = {}
    orders: dict[str, str] = {}
    for one in derived:
        if one.kind in _PARTS:
            parts.setdefault(one.source, []).append(one.kind)
            orders[one.source] = "" if one.dates == _YEAR_FIRST else f"; written {one.dates}"
    if not parts:
        return []
    each = ", ".join(f"{name} ({', '.join(own)}{orders[name]})" for name, own in parts.items())
    return [f"dates became parts: {each}; --one-hot {as_option(*parts)} makes each date a category"]


def short_notes(vocabularies: Mapping[str, Vocabulary], columns: Columns) -> list[str]:
    """Return notes on columns of categories that look like dates or times, which nobody has said to be categories."""
    shorts = {
        name: labels[0]
        for name, vocabulary in vocabularies.items()
        if not columns.is_decided(name) and all(map(is_short_date, labels := vocabulary.labels()))
    }
    return [
        f"column {name!r} looks like dates or times, such as {text!r}, but each of its texts is a category; {DATED}, "
        f"or name the column in one_hot (--one-hot {as_option(name)}) if that is meant"
        for name, text in shorts.items()
    ]


def word_block(column: Column, feature: Words) -> WordBlock:
    """Return the words of texts: rows of length 1, or of 0 where there is none, or the text is missing."""
    texts, weights = as_texts(column), feature.weights
    rows = [Counter(_bucket(word, len(weights)) for word in _words(text)) for text in texts.values]
    ends = np.cumsum([0, *map(len, rows), 0]).astype(np.int32)
    places = np.array([place for row in rows for place in sorted(row)], dtype=np.int32)
    counts = np.array([row[place] for row in rows for place in sorted(row)], dtype=np.float64)
    data = counts * weights[places]
    lengths = np.sqrt(np.bincount(np.repeat(np.arange(len(rows) + 1), np.diff(ends)), data**2, len(rows) + 1))
    data /= np.repeat(lengths, np.diff(ends))
    return WordBlock(csr(data, places, ends, (len(rows) + 1, len(weights))), texts.codes.astype(np.int64))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _bucket(word: str, n_buckets: int = BUCKETS) -> int:
    return crc32(word.encode()) % n_buckets


def _category(moment: datetime, kind: Kind) -> str:
    """Return a part of a date that is a category."""
    return _WEEKDAYS[moment.weekday()] if kind == "weekday" else str(getattr(moment, kind))


def _moments(text: str) -> dict[str, datetime]:
    """Return the moments that a text may stand for, by what it would begin with; none if it is no date."""
    if _COMPACT.fullmatch(text):
        text = f"{text[:4]}-{text[4:6]}-{text[6:11]}:{text[11:13]}:{text[13:]}"
    if match := _DATE.fullmatch(text):
        first, _, middle, last, *clock = match.groups("")
        ways = {"day-first": (last, middle, first), "month-first": (last, first, middle)}
        ways = ways if len(first) < 4 else {_YEAR_FIRST: (first, middle, last)}
    elif match := _IN_WORDS.fullmatch(text):
        first, _, middle, word, day, year, *clock = match.groups("")
        starts = [name.startswith((middle + word).lower()) for name in _MONTHS.split()]
        is_month = len(middle + word) > 2 and any(starts)
        ways = {_NAMED: (year, str(starts.index(True) + 1), first + day)} if is_month else {}
    else:
        return {}
    hour, minutes, zone = clock
    if (half := zone.strip()[:1].lower()) in ("a", "p"):
        hour, zone = str(int(hour) % 12 + 12 * (half == "p")) if 0 < int(hour) <= 12 else "none", ""
    time = f"T{hour:0>2}{minutes}{zone}" if hour else ""
    moments: dict[str, datetime] = {}
    for order, (year, month, day) in ways.items():
        with contextlib.suppress(ValueError):
            moments[order] = datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}{time}").replace(tzinfo=None)
    return moments


def _moment(text: str, order: str) -> datetime | None:
    """Return the moment that a text is in a column of dates; None if it is none."""
    moments = _moments(text)
    return next((moments[one] for one in (order, _YEAR_FIRST, _NAMED) if one in moments), None)


def looks_like_a_date(text: str) -> bool:
    """Return whether a text is a date, such as `2024-01-31`, `2024-01-31 12:00` or `31.1.2024`."""
    return bool(_moments(text.strip()))
