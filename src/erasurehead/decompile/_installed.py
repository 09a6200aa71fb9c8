"""The JAX that is installed, if any."""

from __future__ import annotations

import importlib
from typing import Any

from erasurehead.errors import MissingExtra


def jax_module() -> Any:
    """Return JAX, or raise MissingExtra if it is not installed."""
    try:
        return importlib.import_module("jax")
    except ImportError as error:
        raise MissingExtra(
            "The decompiler needs JAX, which is not installed; install it with: pip install 'erasurehead[jax]'."
        ) from error
