"""How programs are written with JAX: one rule a primitive, by family."""

from __future__ import annotations

from erasurehead.decompile.jax_rules import (  # noqa: F401  (they enter their rules)
    calls,
    control,
    elementwise,
    indexing,
    linear,
    products,
    randomness,
    reductions,
    shaping,
)
from erasurehead.decompile.jax_rules.base import JAX as JAX
