"""What can go wrong, said in sentences that a user can act on."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import SupportsIndex


class ErasureHeadError(Exception):
    """Every error that this library raises on purpose; the command line prints it without a traceback."""


class InvalidArgument(ErasureHeadError, ValueError):
    """An argument breaks a rule: the message names it, the rule, the value that came and what would work."""


class DataError(ErasureHeadError, ValueError):
    """A data file or array cannot be used: the message says where (file, line, column) and why."""


class Unreachable(ErasureHeadError, RuntimeError):
    """The wait rule can no longer be met: too many workers have died, or their messages were refused."""


class Diverged(ErasureHeadError, ArithmeticError):
    """The gradient estimate is not finite, and no single worker is to blame: the step size is too large."""


class EngineError(ErasureHeadError, RuntimeError):
    """The engine cannot start, or lost its means to talk to the workers."""


class NothingUnderWay(EngineError):
    """Nothing can happen any more, however long is waited: every worker is done, or gone."""


class RecordsError(ErasureHeadError, OSError):
    """Records or checkpoints cannot be written (any more): the message names the file and why."""


class MissingExtra(ErasureHeadError, ImportError):
    """An optional dependency is needed for this: the message says which extra to install."""


def invalid(argument: str, rule: str, value: object, instead: str = "") -> InvalidArgument:
    """Return the error for an argument that breaks a rule, in the library's one grammar.

    Arguments:
        argument: name of the argument as the user wrote it.
        rule: what must hold, beginning with a verb: `"must be at least 1"`.
        value: what came.
        instead: what would work, as a sentence without a full stop; left out if empty.
    """
    hint = f"; {instead}" if instead else ""
    return InvalidArgument(f"{argument} {rule}, but it is {value!r}{hint}.")


def listed(numbers: Iterable[int], most: int = 12) -> str:
    """Return numbers as a list for people, ascending, in short where there are many; "none" where there are none.

    >>> listed([5, 3]), listed(range(20), most=3)
    ('3, 5', '0, 1, 2, ... (20 in all)')
    """
    every = sorted(numbers)
    text = ", ".join(map(str, every[:most]))
    return f"{text}, ... ({len(every)} in all)" if len(every) > most else text or "none"


def numbered(what: str, numbers: Iterable[int]) -> str:
    """Return what numbers are of, in the singular or the plural, and the numbers.

    >>> numbered("task", [3]), numbered("task", [3, 5])
    ('task 3', 'tasks 3, 5')
    """
    every = list(numbers)
    return f"{what}{'s' * (len(every) != 1)} {listed(every)}"


def check_count(argument: str, value: object, at_least: int = 1, at_most: int | None = None) -> int:
    """Return `value` as an int, or raise if it is not a whole number within the bounds."""
    if isinstance(value, float) and value.is_integer():
        count = int(value)
    elif isinstance(value, SupportsIndex) and not isinstance(value, bool):
        count = index(value)
    else:
        raise invalid(argument, "must be a whole number", value)
    if count < at_least:
        raise invalid(argument, f"must be at least {at_least}", value)
    if at_most is not None and count > at_most:
        raise invalid(argument, f"must be at most {at_most}", value)
    return count
