"""Nested dicts, lists and tuples of arrays: the form of batches and parameters of the user's own functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.foreign_arrays import as_array, masked_place, owned
from erasurehead.errors import UNSAID, invalid

Nest: TypeAlias = Any
"""An array, or a nested dict, list or tuple of arrays; None holds nothing."""


def leaves(tree: Nest, path: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a tree, each with its path; dicts are sorted by key, as in JAX.

    >>> leaves({"w": 1.0, "b": [2.0, 3.0]}, "x")
    [("x['b'][0]", 2.0), ("x['b'][1]", 3.0), ("x['w']", 1.0)]
    """
    if tree is None:
        return []
    if isinstance(tree, Mapping):
        mapping = cast("Mapping[Any, Any]", tree)
        return [leaf for key in sorted(mapping, key=_order) for leaf in leaves(mapping[key], f"{path}[{key!r}]")]
    if isinstance(tree, list | tuple):
        each = cast("list[Any]", tree)
        return [leaf for place, part in enumerate(each) for leaf in leaves(part, f"{path}[{place}]")]
    return [(path, tree)]


def _order(key: Any) -> tuple[str, Any]:
    return type(key).__name__, key


def sample_count(batch: Nest) -> int:
    """Return the number of samples of a batch."""
    return len(leaves(batch)[0][1])


def mapped(function: Callable[[Any], Any], tree: Nest) -> Nest:
    """Return a tree of the same form, with a function applied to each leaf."""
    if tree is None:
        return None
    if isinstance(tree, Mapping):
        mapping = cast("Mapping[Any, Any]", tree)
        return {key: mapped(function, mapping[key]) for key in sorted(mapping, key=_order)}
    if isinstance(tree, list | tuple):
        parts = [mapped(function, part) for part in cast("list[Any]", tree)]
        if isinstance(tree, list):
            return parts
        kind: Any = type(cast("object", tree))
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    return function(tree)


def rows_of(tree: Nest, rows: Any) -> Nest:
    """Return some rows of every array of a tree.

    Arguments:
        tree: a tree of arrays that have the samples along their first axis.
        rows: a slice, which copies nothing, or an array of indices.
    """
    return mapped(lambda leaf: leaf[rows], tree)


def check_data(data: Nest, argument: str) -> tuple[Nest, int]:
    """Return copies of data as numpy arrays, and the number of samples.

    Arguments:
        data: arrays (of numpy, JAX or PyTorch) in dicts, lists and tuples; the first axis of each is that of the
            samples.
        argument: their name, for errors.

    Raises:
        InvalidArgument: if there is no array, one is not of numbers or booleans, or lengths differ.
    """
    entries = leaves(data, argument)
    if not entries:
        raise invalid(argument, "must hold at least one array", data)
    lengths = {path: _rows(leaf, path) for path, leaf in entries}
    first, n_samples = next(iter(lengths.items()))
    for path, length in lengths.items():
        if length != n_samples:
            raise invalid(
                f"the number of samples in {path}",
                f"must be {n_samples}, as in {first}",
                length,
                "the first axis of every array is the samples",
            )
    if not n_samples:
        raise invalid(argument, "must hold at least one sample", 0)
    return mapped(lambda leaf: owned(to_numpy(leaf), leaf), data), n_samples


def _rows(leaf: Any, path: str) -> int:
    place = masked_place(leaf)
    if place is not None:
        raise invalid(path, "must have no masked values", place, "fill them in (numpy.ma.filled), or leave them out")
    array = to_numpy(leaf)
    if array is None or (array.dtype.kind in "OSUMmV" and array.dtype.name not in _NARROW):
        shown = UNSAID if array is None else f"one of {array.dtype}"
        raise invalid(path, "must be an array of numbers, with the samples along its first axis", shown)
    if not array.ndim:
        raise invalid(
            path,
            "must be an array with the samples along its first axis",
            array.item(),
            "what is the same for all samples belongs into the loss, not into the data",
        )
    return len(array)


_NARROW = ("bfloat16",)  # of ml_dtypes, which numpy takes for a dtype without a kind


def to_numpy(leaf: Any) -> Any:
    """Return a leaf as an array of numpy; None if it is none."""
    if hasattr(leaf, "detach"):  # a tensor of PyTorch
        leaf = leaf.detach().cpu().numpy()
    return as_array(leaf)


def refitted(data: Nest, argument: str, dtype_of: Callable[[np.dtype[Any]], Any]) -> Nest:
    """Return data in the dtypes that a library computes in.

    Raises:
        InvalidArgument: if a number does not fit.
    """
    paths = iter([path for path, _ in leaves(data, argument)])
    return mapped(lambda leaf: _fitted(leaf, dtype_of(leaf.dtype), next(paths)), data)


def _fitted(array: NDArray[Any], dtype: Any, path: str) -> NDArray[Any]:
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        cast_array = array.astype(dtype)
        back = cast_array.astype(array.dtype)
    lost = (back != array) if array.dtype.kind in "iu" else np.isfinite(array) & ~np.isfinite(back)
    if lost.any():
        place = tuple(int(index) for index in np.argwhere(lost)[0])
        raise invalid(
            f"{path}{list(place)}",
            f"must fit into {np.dtype(dtype).name}, in which the model computes",
            array[place].item(),
            "scale it, or give the model's parameters in float64",
        )
    return cast_array
