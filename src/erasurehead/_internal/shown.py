"""What shows objects to people, named by the classes of these objects as text: the one place that does so.

Whoever draws or writes an object knows its class, often from a room further down, so that the class cannot import it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def shown(module: str, name: str) -> Callable[..., Any]:
    """Return a function that shows something, which is loaded when that is looked at, and not before.

    Arguments:
        module: file of this package, such as `"reports._html"`.
        name: of the function in it.
    """
    return getattr(import_module(f"erasurehead.{module}"), name)
