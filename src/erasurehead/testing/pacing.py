"""Tests of who comes first, which judge the engine and not the machine: repeated with longer delays if they fail."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

GRID = 0.1
"""Seconds between two injected delays, at the first pace."""

PACES = (1.0, 5.0, 25.0)
"""How many times as long delays are in the attempts of a test of their order."""


def at_some_pace(test: Callable[..., None]) -> Callable[..., None]:
    """Repeat a test of who comes first with longer delays if it fails, so that it judges the engine, not the machine.

    Between real workers an order follows from delays only where these differ by more than the machine's own noise, of
    which nobody knows a bound. An engine that is right passes once they do; one that is wrong passes at no pace. What
    hangs is not tried again.

    Arguments:
        test: has an argument `pace`: how many times as long its delays are to be.
    """

    @functools.wraps(test)
    def paced(*given: Any, **named: Any) -> None:
        for pace in PACES[:-1]:
            try:
                return test(*given, pace=pace, **named)
            except AssertionError:
                continue
        return test(*given, pace=PACES[-1], **named)

    told = inspect.signature(test)
    fixtures = [parameter for name, parameter in told.parameters.items() if name != "pace"]
    vars(paced)["__signature__"] = told.replace(parameters=fixtures)  # which pytest goes by
    return paced
