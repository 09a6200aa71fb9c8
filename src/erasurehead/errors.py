"""The library's errors, with messages that a user can act on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from operator import index
from typing import Any, Final, SupportsFloat, SupportsIndex


class _Unsaid:
    """The type of `UNSAID`."""

    def __reduce__(self) -> str:
        return "UNSAID"  # a singleton in each process

    def __repr__(self) -> str:
        return "UNSAID"


UNSAID: Final = _Unsaid()
"""Stands for the value where an error does not show it."""

_MOST = 10_000_000  # workers or tasks: a thousand times as many as have been tried
_LONGEST = 300  # most characters of a value that an error shows

_ACTIONS = tuple(f"must be {done} " for done in ("given", "left out", "named", "stated", "drawn", "reached"))
"""Rules about what is done with an argument, and not about its value."""


class ErasureHeadError(Exception):
    """Every error that this library raises on purpose; the command line prints it without a traceback."""


class InvalidArgument(ErasureHeadError, ValueError):
    """An argument breaks a rule: the message names it, the rule, the value that came and what would work.

    Code in which the argument has another name, such as the command line, translates `argument` and need not parse the
    message.

    Arguments:
        argument: name of the argument as the user wrote it; where several contradict each other, the first of them.
        rule: what must hold, beginning with a verb: `"must be at least 1"`.
        value: the value given; `UNSAID` if none is to be shown.
        hint: what would work, as a sentence without a full stop; left out if empty.
        within: the arguments whose values contain this one, with their values, outermost first; such as the text of a
            scheme.
        place: where the argument stands, such as `"run.toml, line 7"`.
        typed: what the user typed, if `value` is a part of it or was made from it; left out if empty.
        sentence: the whole message, where it reads better than one joined from the other fields, which are set all the
            same.
    """

    def __init__(
        self,
        argument: str,
        rule: str,
        value: object = UNSAID,
        hint: str = "",
        within: tuple[tuple[str, object], ...] = (),
        place: str = "",
        typed: str = "",
        sentence: str = "",
    ) -> None:
        super().__init__(argument, rule, value, hint, within, place, typed, sentence)
        self.argument, self.rule, self.value, self.hint = argument, rule, value, hint
        self.within, self.place, self.typed = within, place, typed
        self.sentence = sentence

    def __str__(self) -> str:
        around = "".join(f"{argument} {shown(value)}: " for argument, value in self.within)
        around = f"{self.place and f'{self.place}: '}{around}"
        if self.sentence:
            return f"{around}{self.sentence.removesuffix('.')}."
        typed = f" (in {self.typed})" if self.typed else ""
        reads = self.rule.startswith(("must be ", "must lie ")) and not self.rule.startswith(_ACTIONS)
        joint = "but it is" if reads else "got"
        came = "" if self.value is UNSAID or self.value is None else f", {joint} {shown(self.value)}{typed}"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{around}{self.argument} {self.rule}{came}{hint}."

    @property
    def subject(self) -> str:
        """The argument that the caller gave: the outermost one."""
        return self.within[0][0] if self.within else self.argument

    def inside(self, argument: str, value: object) -> InvalidArgument:
        """Return the same error for an argument that is part of the value of another one."""
        if self.subject == argument:
            return self
        return self.but(within=((argument, value), *self.within))

    def about(self, argument: str) -> InvalidArgument:
        """Return the same error under the name by which the user knows its subject."""
        if self.within:
            return self.but(within=((argument, self.within[0][1]), *self.within[1:]))
        return self.but(argument=argument)

    def but(self, **fields: Any) -> InvalidArgument:
        """Return the same error with other fields."""
        names = ("argument", "rule", "value", "hint", "within", "place", "typed", "sentence")
        return InvalidArgument(**{name: getattr(self, name) for name in names} | fields)


class DataError(ErasureHeadError, ValueError):
    """A data file or array cannot be used: the message says where (file, line, column) and why."""


class UndeclaredText(DataError):
    """A column holds texts, and nothing says what is to become of them."""


class NoFile(DataError):
    """A file does not exist.

    Arguments:
        path: the path as the user wrote it.
        hint: what would work, as a sentence without a full stop; left out if empty.
    """

    def __init__(self, path: str, hint: str = "") -> None:
        super().__init__(path, hint)
        self.path, self.hint = path, hint

    def __str__(self) -> str:
        return f"There is no file {self.path!r}{f'; {self.hint}' if self.hint else ''}."


class Unreachable(ErasureHeadError, RuntimeError):
    """The wait rule can no longer be met: too many workers have died, or their messages were refused."""


class Diverged(ErasureHeadError, ArithmeticError):
    """The gradient estimate is not finite, and no single worker is to blame: the step size is probably too large."""


class EngineError(ErasureHeadError, RuntimeError):
    """The engine cannot start, or has lost its connection to the workers."""


class NothingUnderWay(EngineError):
    """Waiting would never end: every worker is idle or has died, so that no message can come."""


class RecordsError(ErasureHeadError, OSError):
    """Records or checkpoints cannot be written: the message says which file, and why."""


class MissingExtra(ErasureHeadError, ImportError):
    """An optional dependency is needed for this: the message says which extra to install."""


def invalid(argument: str, rule: str, value: object, instead: str = "") -> InvalidArgument:
    """Return the error for an argument that breaks a rule, worded as all such errors of the library are.

    Arguments:
        argument: name of the argument as the user wrote it.
        rule: what must hold, beginning with a verb: `"must be at least 1"`.
        value: the value given.
        instead: what would work, as a sentence without a full stop; left out if empty.
    """
    return InvalidArgument(argument, rule, value, instead)


def unreadable(path: object, error: OSError) -> DataError:
    """Return the error that says which file cannot be read, and why."""
    return DataError(f"{path} cannot be read: {error.strerror or error}.")


def shown(value: Any) -> str:
    """Return a value as errors show it: NumPy scalars as plain numbers, long values shortened, tables by their shape.

    >>> len(shown("x" * 400)), shown("x" * 400)[-8:]
    (300, "xxxx...'")
    """
    text = repr(value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value)
    if hasattr(value, "columns") and hasattr(value, "shape"):
        return f"a {type(value).__name__} of shape {value.shape}"
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 4]}...{text[-1]}"


def first_line(error: Exception) -> str:
    """Return what an error of other people's code is, in one line that an error of ours can quote."""
    return f"{type(error).__name__}: {error}".strip().split("\n", 1)[0][:_LONGEST].rstrip(".")


def listed(numbers: Iterable[int], most: int = 12) -> str:
    """Return numbers as a list for people, ascending, shortened if there are many; "none" if there are none.

    >>> listed([5, 3]), listed(range(20), most=3)
    ('3, 5', '0, 1, 2, ... (20 in all)')
    """
    every = sorted(numbers)
    text = ", ".join(map(str, every[:most]))
    return f"{text}, ... ({len(every)} in all)" if len(every) > most else text or "none"


def some(things: Sequence[object], most: int) -> str:
    """Return things as a list for people: the first ones, and how many more there are.

    >>> some("abc", 3), some("abcde", 3)
    ('a, b, c', 'a, b, c and 2 more')
    """
    rest = f" and {len(things) - most:,} more" if len(things) > most else ""
    return ", ".join(map(str, things[:most])) + rest


def counted(what: str, count: float) -> str:
    """Return a number of things as people write it, in the singular or the plural.

    Arguments:
        what: the name of one, whose plural ends in s.
        count: how many there are; a float is rounded, to at least three digits.

    >>> counted("step", 1), counted("step", 1000), counted("step", 1.0), counted("step", 1.234)
    ('1 step', '1,000 steps', '1 step', '1.23 steps')
    """
    whole = isinstance(count, SupportsIndex)
    written = f"{count:,}" if whole else f"{count:.3g}" if count < 1000.0 else f"{count:,.0f}"
    return f"{written} {what}{'' if written == '1' else 's'}"


def numbered(what: str, numbers: Iterable[int]) -> str:
    """Return a noun, in the singular or the plural, followed by its numbers.

    >>> numbered("task", [3]), numbered("task", [3, 5])
    ('task 3', 'tasks 3, 5')
    """
    every = list(numbers)
    return f"{what}{'s' * (len(every) != 1)} {listed(every)}"


def real(value: object) -> float:
    """Return a number as a float; NaN, which fails every range check, if it is not a number.

    >>> real(3), real("0.1"), real(True)
    (3.0, nan, nan)
    """
    if isinstance(value, bool) or not isinstance(value, SupportsFloat | SupportsIndex):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):  # such as an array
        return math.nan


def check_count(argument: str, value: object, at_least: int = 1, at_most: int | None = None) -> int:
    """Return `value` as an int, or raise if it is not a whole number within the bounds."""
    if isinstance(value, float) and value.is_integer():
        count = int(value)
    else:
        try:
            if isinstance(value, bool) or not isinstance(value, SupportsIndex):
                raise TypeError
            count = index(value)
        except TypeError:  # arrays of several numbers have an index by their type alone
            raise invalid(argument, "must be a whole number", value) from None
    if count < at_least:
        raise invalid(argument, f"must be at least {at_least}", value)
    if at_most is not None and count > at_most:
        raise invalid(argument, f"must be at most {at_most}", value)
    return count


def check_positive(
    argument: str, value: object, rule: str = "must be greater than 0 and finite", instead: str = ""
) -> None:
    """Raise if `value` is no finite number above 0; `rule` and `instead` as for `invalid`."""
    if not 0.0 < real(value) < math.inf:
        raise invalid(argument, rule, value, instead)


def check_not_negative(
    argument: str, value: object, rule: str = "must be at least 0 and finite", instead: str = ""
) -> None:
    """Raise if `value` is no finite number of at least 0; `rule` and `instead` as for `invalid`."""
    if not 0.0 <= real(value) < math.inf:
        raise invalid(argument, rule, value, instead)


def check_type(argument: str, value: object, kind: Any, rule: str, instead: str = "") -> None:
    """Raise if `value` is of none of the types of `kind`; `rule` and `instead` as for `invalid`."""
    if not isinstance(value, kind):
        raise invalid(argument, rule, value, instead)


def check_choice(argument: str, value: object, choices: Collection[str], instead: str = "") -> None:
    """Raise if `value` is none of some texts; `instead` as for `invalid`."""
    if not isinstance(value, str) or value not in choices:
        raise invalid(argument, f"must be one of {', '.join(choices)}", value, instead)


def check_size(argument: str, value: object, at_least: int = 1) -> int:
    """Return a number of workers or tasks as an int, or raise if it is none that an array can have.

    >>> check_size("n_workers", 10**12)
    Traceback (most recent call last):
    erasurehead.errors.InvalidArgument: n_workers must be at most 10000000, but it is 1000000000000.
    """
    return check_count(argument, value, at_least, at_most=_MOST)
