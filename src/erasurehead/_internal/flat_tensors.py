"""Tensors of PyTorch one after the other in a vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def cut(whole: Any, like: Iterable[Any]) -> Iterator[Any]:
    """Yield the pieces of a tensor of one dimension that hold others one after the other, as views in their shapes."""
    begin = 0
    for one in like:
        end = begin + one.numel()
        yield whole[begin:end].view(one.shape)
        begin = end
