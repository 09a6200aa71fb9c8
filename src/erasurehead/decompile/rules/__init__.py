"""How programs are written: the rules of each primitive for JAX and for numpy, grouped by family."""

from __future__ import annotations

from erasurehead.decompile.rules import control as control
from erasurehead.decompile.rules import elementwise as elementwise
from erasurehead.decompile.rules import indexing as indexing
from erasurehead.decompile.rules import linear as linear
from erasurehead.decompile.rules import products as products
from erasurehead.decompile.rules import randomness as randomness
from erasurehead.decompile.rules import reductions as reductions
from erasurehead.decompile.rules import shaping as shaping
from erasurehead.decompile.rules.base import JAX, NUMPY

BACKENDS = {"jax": JAX, "numpy": NUMPY}
