"""Units and decimals of numbers: the same for a whole column of a table, so that it is aligned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NOTHING = "–"
"""The text of missing numbers."""

_MAX_DECIMALS = 4  # decimals
_SCIENTIFIC_FROM = 1e12
"""Numbers from here on are written in scientific notation: heavy tails have delays of 1e40 seconds."""

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


@dataclass(frozen=True)
class Unit:
    """The unit and the number of decimals of a column.

    Arguments:
        size: size of the unit, in seconds or bytes.
        name: name of the unit, such as `"ms"`.
        decimals: number of digits after the decimal point.
    """

    size: float
    name: str
    decimals: int

    def write(self, value: float | None) -> str:
        """Return the text of a number in this unit, without the name of the unit."""
        if value is None or not math.isfinite(value):
            return NOTHING
        number = value / self.size
        if abs(number) >= _SCIENTIFIC_FROM or (
            self.decimals == _MAX_DECIMALS and 0.0 < abs(number) < 0.5 * 10.0**-_MAX_DECIMALS
        ):
            return f"{number:.2e}"
        return f"{number:,.{self.decimals}f}"


def time_unit(values: Sequence[float | None]) -> Unit:
    """Return the unit for a column of seconds: that of its largest value."""
    return _unit(values, _TIMES)


def byte_unit(values: Sequence[float | None]) -> Unit:
    """Return the unit for a column of bytes: that of its largest value."""
    return _unit(values, _BYTES)


def plain_unit(values: Sequence[float | None]) -> Unit:
    """Return the unit, which is one, and the decimals for a column of numbers."""
    return _unit(values, ((1.0, ""),))


def _unit(values: Sequence[float | None], sizes: Sequence[tuple[float, str]]) -> Unit:
    finite = [abs(value) for value in values if value is not None and math.isfinite(value) and value != 0.0]
    if not finite:
        return Unit(*sizes[0], decimals=0)
    size, name = next(((size, name) for size, name in sizes if max(finite) >= size), sizes[-1])
    # Three digits of the largest number, two of the smallest, and not more than four decimals for it.
    digits = max(2 - math.floor(math.log10(max(finite) / size)), 1 - math.floor(math.log10(min(finite) / size)))
    return Unit(size, name, min(max(digits, 0), _MAX_DECIMALS))


def duration(seconds: float) -> str:
    """Return the text of a time in its two largest units.

    >>> duration(42.4), duration(754.0), duration(7_900.0), duration(200_000.0)
    ('42 s', '12 min 34 s', '2 h 11 min', '2 d 7 h')
    """
    whole = round(seconds)
    for size, unit, smaller, name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{whole} s"


def seconds_text(seconds: float) -> str:
    """Return the text of a time in a suitable unit.

    >>> seconds_text(0.0123), seconds_text(75.31)
    ('12.3 ms', '75.3 s')
    """
    if not math.isfinite(seconds):
        return "–"
    if seconds >= 1e9:
        return f"{seconds:.3g} s"
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
