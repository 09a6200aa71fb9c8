"""float32 as bfloat16, of which NumPy knows nothing: the upper half of the bits, rounded to the nearest even number."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from erasurehead._internal.arrays import Array

_PIECE = 1 << 16  # elements: what is in between stays in the cache


def narrowed(vector: Array) -> Array:
    """Return numbers as the bits of bfloat16; NaN and infinity stay what they are."""
    own = cast("Any", vector).astype(np.float32, copy=False)
    bits, out = own.view(np.uint32), np.empty(len(own), np.uint16)
    for begin in range(0, len(bits), _PIECE):
        piece = slice(begin, begin + _PIECE)
        out[piece] = (bits[piece] + ((bits[piece] >> 16 & 1) + 0x7FFF)) >> 16
        out[piece][np.isnan(own[piece])] = 0x7FC0
    return cast("Array", out)


def widened(bits: Array, out: Array) -> Array:
    """Write the numbers that bits of bfloat16 are into a vector, and return it."""
    wide = cast("Any", bits).astype(np.uint32)
    np.left_shift(wide, 16, out=wide)
    out[:] = wide.view(np.float32)
    return out
