"""How programs are written with numpy: one rule a primitive, by family."""

from __future__ import annotations

from erasurehead.decompile.numpy_rules import (  # noqa: F401  (they enter their rules)
    control,
    elementwise,
    indexing,
    linear,
    products,
    randomness,
    reductions,
    shaping,
)
from erasurehead.decompile.numpy_rules.base import NUMPY as NUMPY
