"""Repeats timing-dependent tests with longer delays if they fail, so that they do not depend on the machine."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

GRID = 0.1
"""Seconds between two injected delays in the first attempt."""

PACES = (1.0, 5.0, 25.0)
"""Factors of the delays in successive attempts."""


def at_some_pace(test: Callable[..., None]) -> Callable[..., None]:
    """Repeat a timing-dependent test with longer delays if it fails; it must pass in one of the attempts.

    Real workers arrive in the order of their delays only if these differ by more than the noise of the machine, which
    has no known bound. A correct engine passes as soon as they do, and an incorrect one never passes. A test that hangs
    is not repeated.

    Arguments:
        test: a test with an argument `pace`, the factor of its delays. If it takes `tmp_path`, each attempt has an
            empty folder of its own there.
    """

    @functools.wraps(test)
    def paced(*args: Any, **kwargs: Any) -> None:
        def attempt(pace: float) -> None:
            own = dict(kwargs)
            if "tmp_path" in own:
                own["tmp_path"] /= f"pace-{pace:g}"
                own["tmp_path"].mkdir()
            test(*args, **own, pace=pace)

        for pace in PACES[:-1]:
            try:
                return attempt(pace)
            except AssertionError:
                continue
        return attempt(PACES[-1])

    signature = inspect.signature(test)
    fixtures = [parameter for name, parameter in signature.parameters.items() if name != "pace"]
    vars(paced)["__signature__"] = signature.replace(parameters=fixtures)  # from which pytest takes the fixtures
    return paced
