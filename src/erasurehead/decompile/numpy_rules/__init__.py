"""How programs are written with numpy: one rule per primitive, grouped by family."""

from __future__ import annotations

from erasurehead.decompile.numpy_rules import control as control
from erasurehead.decompile.numpy_rules import elementwise as elementwise
from erasurehead.decompile.numpy_rules import indexing as indexing
from erasurehead.decompile.numpy_rules import linear as linear
from erasurehead.decompile.numpy_rules import products as products
from erasurehead.decompile.numpy_rules import randomness as randomness
from erasurehead.decompile.numpy_rules import reductions as reductions
from erasurehead.decompile.numpy_rules import shaping as shaping
from erasurehead.decompile.numpy_rules.base import NUMPY as NUMPY
