"""How programs are written with JAX: one rule per primitive, grouped by family."""

from __future__ import annotations

from erasurehead.decompile.jax_rules import calls as calls
from erasurehead.decompile.jax_rules import control as control
from erasurehead.decompile.jax_rules import elementwise as elementwise
from erasurehead.decompile.jax_rules import indexing as indexing
from erasurehead.decompile.jax_rules import linear as linear
from erasurehead.decompile.jax_rules import products as products
from erasurehead.decompile.jax_rules import randomness as randomness
from erasurehead.decompile.jax_rules import reductions as reductions
from erasurehead.decompile.jax_rules import shaping as shaping
from erasurehead.decompile.jax_rules.base import JAX as JAX
