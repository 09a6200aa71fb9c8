"""float32 as bfloat16, of which NumPy knows nothing, so that it travels as bits."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array


def _torch() -> Any:
    """Return PyTorch, which is faster at it; None in a process that does without, but has what JAX brings."""
    return sys.modules.get("torch")


def _bfloat16() -> Any:
    return import_module("ml_dtypes").bfloat16


def narrowed(vector: Array) -> Array:
    """Return numbers as the bits of bfloat16; NaN and infinity stay what they are."""
    if torch := _torch():
        return torch.from_numpy(vector).to(torch.bfloat16).view(torch.int16).numpy()
    bits: Any = vector.astype(_bfloat16()).view(np.int16)
    return bits


def widened(bits: Array, like: Array) -> Array:
    """Return the numbers that bits of bfloat16 are, of the type of another vector."""
    if torch := _torch():
        return torch.from_numpy(bits).view(torch.bfloat16).to(torch.float32).numpy().astype(like.dtype)
    return bits.view(_bfloat16()).astype(like.dtype)
