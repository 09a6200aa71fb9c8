"""float32 as bfloat16, of which NumPy knows nothing, so that it travels as bits."""

from __future__ import annotations

from typing import Any, cast

from erasurehead._internal.arrays import Array


def narrowed(vector: Array) -> Array:
    """Return numbers as the bits of bfloat16; NaN and infinity stay what they are."""
    import torch

    return cast("Any", torch).from_numpy(vector).to(torch.bfloat16).view(torch.int16).numpy()


def widened(bits: Array, like: Array) -> Array:
    """Return the numbers that bits of bfloat16 are, of the type of another vector."""
    import torch

    return cast("Any", torch).from_numpy(bits).view(torch.bfloat16).to(torch.float32).numpy().astype(like.dtype)
