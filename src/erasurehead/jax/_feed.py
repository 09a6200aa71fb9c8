"""Data sets that a team's batches are made of: arrays, or items by number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.errors import first_line, invalid
from erasurehead.jax._form import jax, mapped
from erasurehead.torch._epochs import Feed, mixed


def of_arrays(data: Any) -> bool:
    """Return whether data are arrays of which each has all samples, and not samples one by one."""
    return isinstance(data, tuple | dict) or hasattr(data, "shape")


def taken(data: Any, which: Any) -> Any:
    """Return some samples, by an index that arrays take."""
    return mapped(lambda leaf: leaf[which], data)


def cut(batch: Any, counts: list[int]) -> list[Any]:
    """Return a batch cut into pieces of so many samples.

    Raises:
        InvalidArgument: if an array has others than these.
    """
    total = sum(counts)
    for path, leaf in jax.tree_util.tree_flatten_with_path(batch)[0]:
        if np.shape(leaf)[:1] not in ((), (total,)):
            raise invalid(
                f"batch{jax.tree_util.keystr(path)}",
                f"must have this rank's {total} samples along its first axis",
                f"{len(leaf)} there",
            )
    ends = np.cumsum([0, *counts]).tolist()
    return [
        mapped(lambda leaf, own=slice(*pair): leaf[own] if np.ndim(leaf) else leaf, batch) for pair in pairwise(ends)
    ]


@final
class ArrayFeed(Feed):
    """One data set of a team: arrays in a tuple or a dict, or a sequence of samples."""

    otherwise = ", or be a tuple or a dict of arrays"

    def count(self, data: Any) -> int:
        if not of_arrays(data):
            return super().count(data)
        found, _ = jax.tree_util.tree_flatten_with_path(data)
        lengths = {f"dataset{jax.tree_util.keystr(path)}": np.shape(leaf)[:1] for path, leaf in found}
        first = next(iter(lengths.values()), ())
        for name, length in lengths.items():
            if not length or length != first:
                raise invalid(
                    name,
                    f"must have as many samples as the others, {first[0] if first else 'at least one'}",
                    str(length[0] if length else "one number"),
                )
        return int(first[0]) if first else 0

    def shuffled(self, seed: int, epoch: int) -> IntArray:
        return np.random.default_rng(mixed(seed, epoch)).permutation(self.total)

    def loader(self, count: int, drop_last: bool) -> Iterator[Any]:
        for piece in self.pieces:
            if of_arrays(self.data):
                yield taken(self.data, np.asarray(piece))
            else:
                several = getattr(self.reads, "__getitems__", None)
                items = [self.data[number] for number in piece] if several is None else several(piece)
                yield _stacked(items)


def _beside(*leaves: Any) -> Any:
    return np.stack(leaves)


def _stacked(items: list[Any]) -> Any:
    """Return a batch of samples.

    Raises:
        InvalidArgument: if they are not alike.
    """
    try:
        return jax.tree.map(_beside, *items)
    except ValueError as error:
        raise invalid(
            "dataset",
            "must have samples of one structure, with arrays of the same shapes",
            f"a {type(items[0]).__name__} beside others that differ ({first_line(error)})",
            "give arrays that have all samples in a tuple or a dict: a list holds one sample after another",
        ) from None
