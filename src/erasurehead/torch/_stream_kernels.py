"""The loop of `_streams` as machine code: stores that pass the caches by, of which neither NumPy nor numba has any.

Importing this module loads numba and the machine code, or compiles it, the first time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.jit import FLOAT, NOTHING, compiled, instructions, ir, reads, writes

_LANES = 16  # elements that are stored at once: a line of the cache


def _line(_: Any, one: Any, other: Any, out: Any, odd: Any, at: Any) -> Any:
    """Build instructions that write a line of the difference, and mark in `odd` what of it is not finite."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.VectorType(context.get_value_type(out.dtype), _LANES)

        def place(number: int, offset: Any) -> Any:
            array = context.make_array(signature.args[number])(context, builder, values[number])
            return builder.bitcast(builder.gep(array.data, [offset]), kind.as_pointer())

        size, begin = out.dtype.bitwidth // 8, ir.IntType(64)(0)
        pair = [builder.load(place(number, values[4]), align=size) for number in (0, 1)]
        made = builder.fsub(*pair)
        stored = builder.store(made, place(2, values[4]), align=size * _LANES)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        nothing = builder.fmul(made, ir.Constant(kind, None))  # 0 times what is not finite is no number
        builder.store(builder.fadd(builder.load(place(3, begin), align=size), nothing), place(3, begin), align=size)
        return context.get_dummy_value()

    return NOTHING(one, other, out, odd, at), build


def _fenced(_: Any) -> Any:
    def build(context: Any, builder: Any, *_: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return NOTHING(), build


_difference = instructions(_line)
_fence = instructions(_fenced)  # or what tells others of it could come before it


@compiled(FLOAT, reads("float32"), reads("float32"), writes("float32"))
def difference(one: Array, other: Array, out: Array) -> float:
    """Write the difference of two vectors, of whole lines; return 0 if it is finite."""
    odd = np.zeros(_LANES, np.float32)
    for at in range(0, len(out), _LANES):
        _difference(one, other, out, odd, at)
    _fence()
    return odd.sum()
