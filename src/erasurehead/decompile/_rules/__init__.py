"""How programs are written: the rules of each primitive for JAX and for numpy, grouped by family."""

from __future__ import annotations

from erasurehead.decompile._rules import (
    control as control,
    elementwise as elementwise,
    indexing as indexing,
    linear as linear,
    products as products,
    randomness as randomness,
    reductions as reductions,
    shaping as shaping,
)
from erasurehead.decompile._rules.base import JAX, NUMPY

BACKENDS = {"jax": JAX, "numpy": NUMPY}
