"""Two results, side by side: structure first, then shapes and dtypes, then values."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._trace import children, step_text


def leaves(result: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the arrays in a result with their paths; named tuples count as tuples, random keys as their words."""
    if hasattr(result, "_fields"):
        result = tuple(result)
    parts = children(result)
    if parts is None:
        return [(path, result)]
    return [leaf for key, child in parts for leaf in leaves(child, path + step_text(key, result))]


def structure(result: Any) -> Any:
    """Return the pytree structure of a result, in which named tuples count as tuples."""
    jax = jax_module()

    def tuples(node: Any) -> Any:
        node = tuple(node) if hasattr(node, "_fields") else node
        if jax.tree_util.all_leaves([node]):
            return 0

        def below(x: Any) -> bool:
            return x is not node

        inner, tree = jax.tree.flatten(node, is_leaf=below)
        return jax.tree.unflatten(tree, list(map(tuples, inner)))

    return jax.tree.structure(tuples(result))


def array_of(value: Any) -> Any:
    """Return a value as a numpy array."""
    if str(getattr(value, "dtype", "")).startswith("key<"):
        jax = jax_module()

        return np.asarray(jax.random.key_data(value))
    return np.asarray(value)


def is_float(array: Any) -> bool:
    """Return whether an array holds real or complex numbers."""
    return array.dtype.kind in "fc" or "float" in array.dtype.name


def parts(array: Any) -> list[Any]:
    """Return real and imaginary part of complex numbers, or the one part of real ones."""
    return [array.real, array.imag] if array.dtype.kind == "c" else [array]


def ulps(a: Any, b: Any) -> Any:
    """Return how many floating-point numbers lie between the elements of two arrays; two NaN are the same."""
    far = np.zeros(a.shape)
    for x, y in zip(parts(a), parts(b), strict=True):
        size = x.dtype.itemsize
        i, j = (
            np.ascontiguousarray(v).view(f"i{size}").astype(object if size == 8 else np.int64).reshape(x.shape)
            for v in (x, y)
        )
        lowest = -(2 ** (8 * size - 1))
        i, j = np.where(i < 0, lowest - i, i), np.where(j < 0, lowest - j, j)
        both = np.isnan(x.astype(np.float64)) & np.isnan(y.astype(np.float64))
        signs = np.signbit(x.astype(np.float64)) != np.signbit(y.astype(np.float64))
        distance = np.abs(i - j).astype(np.float64) + (signs & (x == 0) & (y == 0))
        far = np.maximum(far, np.where(both, 0.0, distance))
    return far
