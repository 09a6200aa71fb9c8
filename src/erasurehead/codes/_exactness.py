"""When a code counts as exact: one threshold for all uses, and how much rounding a stated tolerance may cause."""

from __future__ import annotations

from erasurehead.errors import InvalidArgument

EXACT = 1e-12
"""A residual of at most `EXACT * n_tasks` is exact: every task is then counted once, to about one in a million."""

MOST_AMPLIFIED = 2e9
"""The largest amplification of rounding errors that a stated tolerance may cause.

Weights in float64 then count every task once to about 4e-7, so that the residual stays below `EXACT`.
"""


MOST_ELIMINATED = 5e7
"""The same for large codes without a structure, whose weights come from sparse elimination."""

MOST_SAMPLED = 5e8
"""The same for codes whose construction measures rounding by weights less sharp than those that decode."""

MOST_CHECKED = 100_000
"""Workers of codes that are drawn and then checked, by rounding or spectrum, which takes minutes for many more."""

DENSE = 1024
"""Number of messages up to which a dense decomposition is cheap: larger codes need a structure or elimination."""


class Unbearable(InvalidArgument):
    """A code was requested to tolerate more stragglers, or liars, than float64 allows."""
