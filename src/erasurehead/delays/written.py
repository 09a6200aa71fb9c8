"""How a delay model is written in a run file: its name, then its arguments."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def written(name: str, model: DataclassInstance) -> str:
    """Return `name(argument=value, ...)` for a dataclass, without arguments at their defaults (but with the seed)."""
    shown = [
        f"{item.name}={_value(getattr(model, item.name))}"
        for item in fields(model)
        if item.name == "seed" or item.default is MISSING or getattr(model, item.name) != item.default
    ]
    return f"{name}({', '.join(shown)})"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value(item) for item in cast('tuple[object, ...]', value))}]"
    return str(value) if hasattr(value, "rows") else repr(value)
