"""Labels: what a model predicts, and how the values of a file become numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from erasurehead._internal.arrays import BoolArray, IntArray
from erasurehead._internal.storage.sealed import Unfit
from erasurehead._internal.typed import POSITIVE, one_of
from erasurehead.datasets._encoded import TASKS, Labels, Task
from erasurehead.datasets._preprocessing.vocabulary import (
    Codes,
    NumberVocabulary,
    Vocabulary,
    vocabulary_of,
)
from erasurehead.datasets._readers.fields import plain
from erasurehead.datasets._readers.table import Column, NumberColumn, Place, TextColumn
from erasurehead.errors import DataError, check_choice, some

MOST_CLASSES = 20
"""Integers with more distinct values than this count as quantities unless the task is given."""
_MOST_SAID = 5
"""Number of classes that are named where something is to be said of some."""

_FILL = "; leave that row out, or fill it in"
_MARKS = " (texts such as None and NA count as missing; in a CSV file, --missing '' makes values of them)"
_OTHER = "; or name another column to predict (--label)"


@dataclass(frozen=True, eq=False)
class Target:
    """How labels become numbers.

    Arguments:
        name: the column's name; empty if labels have none (LIBSVM, arrays).
        task: `logistic`: the classes become -1 and 1; `softmax`: 0, 1, ...; `least_squares`: `value / unit`.
        classes: the classes in ascending order; None for least squares.
        unit: divisor of a least-squares target.
        others: what to do with rows whose label is not one of the classes: `refuse` them, or `drop` them.
        aliases: other names of the column.
    """

    name: str
    task: Annotated[Task, one_of(*TASKS)]
    classes: Vocabulary | None = None
    unit: Annotated[float, POSITIVE] = 1.0
    others: Annotated[Literal["refuse", "drop"], one_of("refuse", "drop")] = "refuse"
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.task == "logistic" and self.classes is not None and self.classes.size != 2:
            raise Unfit(f"labels of two kinds have two classes, but there are {self.classes.size}")

    @property
    def names(self) -> tuple[str, ...]:
        """All names that the column may have."""
        return (self.name, *self.aliases)

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for least squares."""
        return 0 if self.classes is None else self.classes.size

    def meaning(self, most: int | None = None) -> str:
        """Return the meaning of the labels, for people.

        Arguments:
            most: number of classes that are listed; None for all.
        """
        if self.classes is None:
            return f"{self.name or 'target'} in units of {self.unit:g}" if self.unit != 1 else self.name or "target"
        names = self.classes.labels()
        if self.task == "logistic":
            return f"-1 is {names[0]}, +1 is {names[1]}"
        meanings = [f"{code} is {name}" for code, name in enumerate(names)]
        if most is not None and len(meanings) > most:
            meanings[most - 1 : -1] = ["..."]
        return ", ".join(meanings)

    def note(self, task: Task | None) -> str:
        """Return what the labels mean and, where their task was guessed, how to have a quantity in place of classes.

        Arguments:
            task: the task that was asked for; None if it was chosen from the labels.
        """
        if self.classes is None:  # whatever the loss that is trained
            return f"{self._label}: a number{f' in units of {self.unit:g}' if self.unit != 1 else ''}"
        text = f"{self._label}: {self.task}, {self.meaning(MOST_CLASSES)}"
        if task is not None or not isinstance(self.classes, NumberVocabulary) or self.classes.size > MOST_CLASSES:
            return text  # more classes than that are so by their type
        if self.classes.size == 2 and np.diff(self.classes.values)[0] in (1.0, 2.0):
            return text  # 0 and 1, 1 and 2, -1 and 1
        return (
            f"{text}; numbers of at most {MOST_CLASSES} different values count as classes: for a quantity, train with "
            "least_squares (task, --loss least_squares)"
        )

    def apply(self, column: Column, place: Place) -> tuple[Labels, IntArray]:
        """Return the labels of the kept rows, and which rows these are.

        Arguments:
            column: the raw labels.
            place: returns where a row is in the file, for messages.

        Raises:
            DataError: if a label is missing, not a number (least squares), or not one of the classes.
        """
        _refuse(column.missing(), lambda row: f"{place(row)}: the {self._label} is missing{_FILL}.")
        if self.classes is None:
            values = column.numbers()
            _refuse(
                np.isnan(values),
                lambda row: f"{place(row)}: the {self._label}, {_written(column, row)!r}, is not a number.",
            )
            return values / self.unit, np.arange(len(values))
        codes = self.classes.codes(column)
        if self.others == "refuse":
            names = ", ".join(self.classes.labels()[:10])
            rule = f"the {self._label} must be one of the classes {names}, but it is"
            _refuse(codes < 0, lambda row: f"{place(row)}: {rule} {_written(column, row)!r}.")
        kept = np.flatnonzero(codes >= 0)
        classes = codes[kept].astype(np.int64)
        return (classes if self.task == "softmax" else np.where(classes == 1, 1.0, -1.0)), kept

    def moved_note(self, moved: Codes | IntArray, n_train: int, source: str) -> tuple[str, ...]:
        """Return a note about classes of which the random split had no row for training, so that one was moved.

        Arguments:
            moved: the codes of these classes.
            n_train: number of training rows, with those that were moved.
            source: where the rows are from, for messages.

        Raises:
            DataError: if the labels are not classes but identifiers.
        """
        if self.classes is None or not len(moved):
            return ()
        if self.n_classes > max(MOST_CLASSES, (n_train - len(moved)) // 2):
            raise DataError(
                f"{source}: The {self._label} has {self.n_classes:,} different values, almost one a row, as "
                f"identifiers do; name the column to predict{' (--label)' if self.name else ''}."
            )
        names = self.classes.labels()
        shown = some([repr(names[int(code)]) for code in moved], _MOST_SAID)
        one = len(moved) == 1
        return (
            f"the {self._label}: all rows of class{'' if one else 'es'} {shown} would be for testing; "
            f"{'its first one is' if one else 'the first one of each is'} for training",
        )

    @property
    def _label(self) -> str:
        return _label(self.name)


def check_task(task: str | None) -> None:
    """Raise if a task does not exist.

    Arguments:
        task: what to train; None to choose it from the labels.

    Raises:
        InvalidArgument: if there is no such task; the error names those that exist.
    """
    if task is not None:
        check_choice("task", task, TASKS)


def fit_target(column: Column, name: str, task: Task | None, place: Place) -> Target:
    """Return how the labels of a column become numbers.

    Without a task, two distinct values are two classes; texts, or integers with at most 20 distinct values, are the
    classes of softmax regression; other numbers are a target of least squares. Numbers of which some begin with a zero
    are texts, unless there are more than 20 of them.

    Arguments:
        column: the raw labels of all rows.
        name: the column's name, may be empty.
        task: what to train; None to choose it from the labels.
        place: returns where a row is in the file, for messages.

    Raises:
        InvalidArgument: if there is no such task.
        DataError: if a label is missing, all labels are the same, there are more than two classes for logistic
            regression, or texts for least squares.
    """
    check_task(task)
    label, other = f"the {_label(name)}", _OTHER if name else ""
    check_all_there(column, name, place)
    if task == "least_squares":
        return quantity(column, name, place)
    if isinstance(column, TextColumn) and task is None:
        numbers = column.numbers()
        if np.isfinite(numbers).all() and len(np.unique(numbers)) > MOST_CLASSES:
            column = NumberColumn(numbers)  # too many for codes: quantities that are written with zeros before them
    if isinstance(column, NumberColumn) and column.rounded and task is None:
        task = _guess(column, NumberVocabulary(np.unique(column.values)))
        if task == "least_squares":
            return Target(name, task)
    try:
        classes = vocabulary_of(column)
    except DataError as error:
        raise DataError(
            f"{place(0)}: {label}: {error}; if they name classes, write a letter before the digits; if they are "
            "quantities, train with least_squares (task, --loss least_squares)."
        ) from None
    if classes.size == 1:
        only = classes.labels()[0]
        raise DataError(f"{place(0)}: {label} is {only!r}, as in every row; there must be two classes{other}.")
    if task is None:
        task = _guess(column, classes)
    if task == "least_squares":
        return Target(name, task)
    if task == "logistic" and classes.size > 2:
        shown = ", ".join(classes.labels()[:6])
        raise DataError(
            f"Logistic regression needs two classes, but {label} has {classes.size}"
            f" ({shown}{', ...' * (classes.size > 6)}); use softmax, or least_squares for quantities."
        )
    return Target(name, task, classes)


def quantity(column: Column, name: str, place: Place) -> Target:
    """Return a target of least squares, because that was asked for.

    Arguments:
        column: the raw labels.
        name: the column's name, may be empty.
        place: returns where a row is in the file, for messages.

    Raises:
        DataError: if a label is missing or not a number.
    """
    target = Target(name, "least_squares")
    try:
        target.apply(column, place)
    except DataError as error:
        instead = f"; leave the loss out (task, --loss) if it names classes{_OTHER if name else ''}"
        raise DataError(f"{str(error)[:-1]}{instead}.") from None
    return target


def check_all_there(column: Column, name: str, place: Place) -> None:
    """Raise if a label is missing.

    Arguments:
        column: the raw labels.
        name: the column's name, may be empty.
        place: returns where a row is in the file, for the message.

    Raises:
        DataError: that says where.
    """
    other = _OTHER if name else ""
    _refuse(column.missing(), lambda row: f"{place(row)}: the {_label(name)} is missing{_MARKS}{_FILL}{other}.")


def _label(name: str) -> str:
    return f"label {name!r}" if name else "label"


def _guess(column: Column, classes: Vocabulary) -> Task:
    if classes.size == 2:
        return "logistic"
    if isinstance(column, NumberColumn):
        values = column.values
        if classes.size > MOST_CLASSES or not bool((values == np.trunc(values)).all()):
            return "least_squares"
    return "softmax"


def _written(column: Column, row: int) -> str:
    """Return the value of a row as a text."""
    if isinstance(column, NumberColumn):
        return plain(float(column.values[row]))
    return column.values[int(column.codes[row])]


def _refuse(wrong: BoolArray, message: Place) -> None:
    if wrong.any():
        raise DataError(message(int(np.argmax(wrong))))
