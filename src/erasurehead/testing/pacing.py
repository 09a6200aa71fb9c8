"""Tests of the order of arrivals, repeated with longer delays if they fail, so that they do not test the machine."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

GRID = 0.1
"""Seconds between two injected delays, at the first pace."""

PACES = (1.0, 5.0, 25.0)
"""Factors of the delays in successive attempts of a test of their order."""


def at_some_pace(test: Callable[..., None]) -> Callable[..., None]:
    """Repeat a test of the order of arrivals with longer delays if it fails, so that it tests only the engine.

    Between real workers the order follows from delays only where these differ by more than the machine's own noise,
    which has no known bound. A correct engine passes once they do; a wrong one passes at no pace. A test that hangs is
    not repeated.

    Arguments:
        test: a test with an argument `pace`, the factor of its delays.
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
