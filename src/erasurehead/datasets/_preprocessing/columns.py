"""How the columns of a user's table are read: as numbers, or as categories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias
from unicodedata import normalize

import numpy as np

from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._readers.csv import Kind
from erasurehead.datasets._readers.fields import not_a_number
from erasurehead.datasets._readers.index_columns import index_columns, nameless_behind
from erasurehead.datasets._readers.mixed_columns import Tally
from erasurehead.datasets._readers.names import as_option, listed
from erasurehead.datasets._readers.table import Table, TextColumn, are_numbers
from erasurehead.errors import DataError, UndeclaredText, invalid

DateOrder: TypeAlias = Literal["day-first", "month-first"]
DATE_ORDERS: tuple[DateOrder, ...] = ("day-first", "month-first")
"""How dates such as `03/04/2024` may be written."""

HINT = "; name the column in one_hot (--one-hot), or use categorical (--categorical), if its values are categories"
"""Advice about a text in a column of numbers."""


@dataclass(frozen=True)
class Columns:
    """How the columns of a table are read.

    Arguments:
        one_hot: columns to one-hot encode (each distinct value becomes a column), or `"all"`.
        categorical: whether columns of texts are one-hot encoded without being named, instead of being refused. A
            column holds texts if its first value that is not missing is not a number. Truth values (`true`, `False`)
            alone are numbers, 1 for true, like those of Parquet files and frames.
        interactions: combinations of columns, each a sequence of names, whose distinct combinations become columns.
        standardize: whether columns of numbers are shifted and scaled to mean 0 and standard deviation 1 over the
            training rows; without it gradient descent needs a step size that fits the largest of them.
        drop: columns to leave out.
        ordinal: columns of texts with an order, each as `"size=small<medium<large"`: they become 0, 1, 2, ...
        count: columns of which each value becomes how often it occurs.
        text: columns of which the words become columns.
        dates: how dates are written in columns in which none of them tells; None to refuse these.
    """

    one_hot: Sequence[str] | Literal["all"] = ()
    categorical: bool = False
    interactions: Sequence[Sequence[str]] = ()
    standardize: bool = True
    drop: Sequence[str] = ()
    ordinal: Sequence[str] = ()
    count: Sequence[str] = ()
    text: Sequence[str] = ()
    dates: DateOrder | None = None

    def __post_init__(self) -> None:
        """Know columns by their texts: those of a frame may be called 0, 1, ..."""
        for argument in ("one_hot", "drop", "ordinal", "count", "text"):
            object.__setattr__(self, argument, _texts(getattr(self, argument)))
        object.__setattr__(self, "interactions", [_texts(group) for group in self.interactions])

    def is_named(self, name: str) -> bool:
        """Return whether a column is one-hot encoded whatever it holds."""
        return self.one_hot == "all" or name in self.one_hot

    @cached_property
    def orders(self) -> dict[str, tuple[str, ...]]:
        """The texts of each column with an order, from the least to the greatest."""
        pairs = (text.partition("=") for text in self.ordinal)
        return {name.strip(): tuple(part.strip() for part in texts.split("<")) for name, _, texts in pairs}

    @cached_property
    def made(self) -> frozenset[str]:
        """Columns of texts that are named, from which others are made."""
        return frozenset((*self.orders, *self.count, *self.text))

    def has_words(self, name: str) -> bool:
        """Return whether the words of a column become columns."""
        return name in frozenset(self.text)

    def is_decided(self, name: str) -> bool:
        """Return whether the user said what a column holds."""
        return self.is_named(name) or name in self.made or name in self.combined

    @cached_property
    def combined(self) -> frozenset[str]:
        """Columns that are part of some combination."""
        return frozenset(name for group in self.interactions for name in group)


def _texts(names: Sequence[str]) -> Sequence[str]:
    return names if isinstance(names, str) else [str(name) for name in names]


@dataclass(frozen=True)
class Choice:
    """Which columns of a table are read.

    Attributes:
        names: all columns.
        label: the column of the labels.
        columns: what the user said about them, with their names as the source spells them.
        read: all columns that are read, including the label, in order.
        left_out: columns that are not read: those to drop, a frame's index, and last ones without a name.
    """

    names: tuple[str, ...]
    label: str
    columns: Columns
    read: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def exact(self) -> tuple[str, ...]:
        """The columns that are texts because they are named, so that their values must not be rounded."""
        columns = self.columns
        return tuple(
            name for name in self.read if name != self.label and (columns.is_named(name) or name in columns.made)
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about columns that are left out without being asked for."""
        others = [name for name in self.left_out if name not in self.columns.drop]
        index = [name for name in others if name in index_columns(self.names)]
        nameless = [name for name in others if name not in index]
        notes = [f"left out as an index: {', '.join(map(repr, index))}"] if index else []
        if nameless:
            notes.append(f"left out, as there is no name above: {', '.join(map(repr, nameless))}")
        return tuple(notes)


def choose_columns(names: Sequence[str], target: str | None, columns: Columns, source: str) -> Choice:
    """Return which columns of a table are read, and which one holds the labels.

    A frame's index is left out unless an argument names it, and so are last columns without a name.

    Arguments:
        names: names of all columns.
        target: name of the column of the labels; None for the last column that is not left out.
        columns: how the others are read.
        source: what the table comes from, for messages.

    Raises:
        InvalidArgument: if an argument names a column that does not exist, or that another argument uses differently.
        DataError: if there is nothing left to learn from.
    """
    target, columns = _spelled(names, target, columns)
    named = _checked(names, target, columns, source)
    unasked = (*index_columns(names), *nameless_behind(names))
    out = {*columns.drop, *(name for name in unasked if name not in named)}
    read = tuple(name for name in names if name not in out)
    label = target if target is not None else read[-1] if read else ""
    for argument in _NAMING:
        if label in _named_by(columns, argument):
            raise invalid(argument, "must not name the column of the labels", label)
    if len(read) < 2:
        left = f", when {', '.join(sorted(out))} {'is' if len(out) == 1 else 'are'} left out" if out else ""
        content = f"one column only, {read[0]!r}" if read else "no columns"
        raise DataError(f"{source} has {content}{left}; there must be a target and at least one other.")
    return Choice(tuple(names), label, columns, read, tuple(name for name in names if name in out))


def _spelled(names: Sequence[str], target: str | None, columns: Columns) -> tuple[str | None, Columns]:
    """Return what the user named, as the source spells it: letters with accents can be written in two ways."""
    spellings = {normalize("NFC", name): name for name in names}

    def spelled(name: str) -> str:
        return name if name in names else spellings.get(normalize("NFC", name), name)

    def all_of(group: Sequence[str]) -> Sequence[str]:
        return group if isinstance(group, str) else tuple(map(spelled, group))

    return None if target is None else spelled(target), replace(
        columns,
        drop=all_of(columns.drop),
        one_hot=all_of(columns.one_hot),
        count=all_of(columns.count),
        text=all_of(columns.text),
        interactions=[all_of(group) for group in columns.interactions],
    )


def _checked(names: Sequence[str], target: str | None, columns: Columns, source: str) -> set[str]:
    """Return the columns that the arguments name, except for those to drop."""
    if isinstance(columns.one_hot, str) and columns.one_hot != "all":
        raise invalid("one_hot", 'must be a list of column names, or "all"', columns.one_hot)
    if isinstance(columns.drop, str):
        raise invalid("drop", "must be a list of column names", columns.drop)
    if columns.dates not in (None, *DATE_ORDERS):
        raise invalid("dates", f"must be {' or '.join(DATE_ORDERS)}", columns.dates)
    for text in columns.ordinal:
        order = text.partition("=")[2].split("<")
        if len({part.strip() for part in order} - {""}) < max(2, len(order)):
            rule = "must name a column, and its texts from the least to the greatest"
            raise invalid("ordinal", rule, text, "write size=small<medium<large")
    for group in columns.interactions:
        if isinstance(group, str) or len(set(group)) != len(group) or len(group) < 2:
            raise invalid("interactions", "must combine two or more different columns each", group)
    wanted = [] if target is None else [("target", target)]
    wanted += [(argument, name) for argument in _NAMING for name in _named_by(columns, argument)]
    for argument, name in [*wanted, *(("drop", name) for name in columns.drop)]:
        if name not in names:
            raise invalid(argument, f"must name columns of {source}", name, f"they are {listed(names[:30])}")
    for argument, name in wanted:
        if name in columns.drop:
            role = "the column of the labels" if argument == "target" else f"a column that {argument} names"
            raise invalid("drop", f"must not name {role}", name)
    for argument, name in wanted:
        others = [other for other, same in wanted if same == name and other not in (argument, "target")]
        if name in columns.made and others and argument != "target":
            raise invalid(argument, f"must not name a column that {others[0]} names", name)
    return {name for _, name in wanted}


_NAMING = ("one_hot", "interactions", "ordinal", "count", "text")
"""Arguments that name columns other than that of the labels."""


def _named_by(columns: Columns, argument: str) -> list[str]:
    if argument == "interactions":
        return [name for group in columns.interactions for name in group]
    if argument == "ordinal":
        return list(columns.orders)
    named = getattr(columns, argument)
    return [] if named == "all" else list(named)


def csv_kinds(choice: Choice, texts: Collection[str]) -> Callable[[str], Kind | None]:
    """Return how each column of a CSV file is read; None for columns that are not.

    Arguments:
        choice: the columns.
        texts: those whose first values are texts that become something else than categories, such as dates.
    """
    columns = choice.columns
    categories = {*(choice.read if columns.one_hot == "all" else columns.one_hot), *columns.made, *texts}
    combined = columns.combined

    def kind(name: str) -> Kind | None:
        if name not in choice.read:
            return None
        if name == choice.label:
            return "label"
        if name in categories:
            return "text"
        if columns.categorical or name in combined:
            return "auto"
        return "number"

    return kind


def tallies_of(names: Iterable[str], columns: Columns) -> dict[str, Tally]:
    """Return a tally for each column of which the values decide what it holds."""
    return {name: Tally() for name in names if not (columns.is_named(name) or name in columns.made)}


def features(table: Table, label: str, columns: Columns) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the columns of numbers and the groups of one-hot columns, in the order of the file.

    Arguments:
        table: the columns.
        label: the column of the labels.
        columns: what the user said about them.

    Raises:
        DataError: if a column holds texts and was not declared to hold categories; the message says where.
    """
    numeric: list[str] = []
    one_hot: list[tuple[str, ...]] = []
    for name, column in table.columns.items():
        if name == label or columns.has_words(name):
            continue
        if columns.is_named(name) or (name in table.categories and not column.missing().all()):
            one_hot.append((name,))
        elif isinstance(column, TextColumn) and not are_numbers(column):
            if not columns.categorical:
                _refuse_text(table, name, column)
            one_hot.append((name,))
        else:
            numeric.append(name)
    return numeric, [*one_hot, *(tuple(group) for group in columns.interactions)]


def typed_notes(names: Sequence[str], target: Target) -> list[str]:
    """Return notes about columns of numbers that a Parquet file or a frame holds as texts.

    Arguments:
        names: the columns.
        target: how labels become numbers.
    """
    fact = "is of a type of texts, but holds numbers only, which count as such in every format"
    remedy = "if they are categories, name it in one_hot (--one-hot {})"
    columns = [f"column {name!r} {fact}; {remedy.format(as_option(name))}" for name in names if name != target.name]
    classes = "; if they name classes, train with softmax (task, --loss softmax)" if target.classes is None else ""
    return [*columns, *(f"the label {name!r} {fact}{classes}" for name in names if name == target.name)]


def _refuse_text(table: Table, name: str, column: TextColumn) -> None:
    row = int(np.argmax((column.codes >= 0) & np.isnan(column.numbers())))
    fault = not_a_number(f"{column.values[column.codes[row]]}", HINT)
    raise UndeclaredText(f"{table.place(row)}, column {name!r}: {fault}.")
