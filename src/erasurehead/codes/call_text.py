"""A constructor's call as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

_LONGEST = 60


def call_text(name: object, parameters: Mapping[str, object]) -> str:
    """Return a call with its parameters; long values are abbreviated, and described codes are nested calls.

    >>> call_text("refine", {"code": {"name": "uncoded", "n_workers": 2}, "n_tasks": 4})
    'refine(code=uncoded(n_workers=2), n_tasks=4)'
    """
    return f"{name}({', '.join(f'{key}={_value_text(value)}' for key, value in parameters.items())})"


def _value_text(value: object) -> str:
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, object]", value)
        if "name" in inner:
            return call_text(inner["name"], {key: inner[key] for key in inner if key != "name"})
    text = f"{value!r}"
    return text if len(text) <= _LONGEST else "..."
