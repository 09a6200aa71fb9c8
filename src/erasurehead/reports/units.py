"""Numbers as people read them: one unit and one number of decimals for a whole column, so that it lines up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NOTHING = "–"
"""What stands where there is no number."""

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


@dataclass(frozen=True)
class Unit:
    """A unit, and the decimals that the numbers of one column need.

    Arguments:
        size: in seconds, or bytes.
        name: such as `"ms"`.
        decimals: after the point.
    """

    size: float
    name: str
    decimals: int

    def write(self, value: float | None) -> str:
        """Return a number in this unit, without its name."""
        if value is None or not math.isfinite(value):
            return NOTHING
        return f"{value / self.size:,.{self.decimals}f}"


def time_unit(values: Sequence[float | None]) -> Unit:
    """Return the unit for a column of seconds: that of its largest value."""
    return _unit(values, _TIMES)


def byte_unit(values: Sequence[float | None]) -> Unit:
    """Return the unit for a column of bytes: that of its largest value."""
    return _unit(values, _BYTES)


def plain_unit(values: Sequence[float | None]) -> Unit:
    """Return the decimals for a column of plain numbers."""
    return _unit(values, ((1.0, ""),))


def _unit(values: Sequence[float | None], sizes: Sequence[tuple[float, str]]) -> Unit:
    finite = [abs(value) for value in values if value is not None and math.isfinite(value) and value != 0.0]
    if not finite:
        return Unit(*sizes[0], decimals=0)
    size, name = next(((size, name) for size, name in sizes if max(finite) >= size), sizes[-1])
    # Three digits of the largest number, two of the smallest, and not more than four decimals for it.
    digits = max(2 - math.floor(math.log10(max(finite) / size)), 1 - math.floor(math.log10(min(finite) / size)))
    return Unit(size, name, min(max(digits, 0), 4))
