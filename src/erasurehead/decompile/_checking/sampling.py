"""Fresh inputs of the same shapes and dtypes as the examples."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from erasurehead.decompile._checking.compare import is_float
from erasurehead.decompile._installed import jax_module


def around(example: Any, random: np.random.Generator, draw: int) -> Any:
    """Return an array around an example.

    Real numbers keep their signs in odd draws (times `exp` of normal numbers) and lose them in even ones (plus normal
    numbers of the example's scale); integers lie within the example's range; keys are fresh keys.
    """
    if isinstance(example, bool):
        return bool(random.integers(2))
    if isinstance(example, int):
        return example
    if isinstance(example, float):
        return float(_real(np.asarray(example), random, draw))
    if isinstance(example, complex):
        return complex(_complex(np.asarray(example), random, draw))
    if str(example.dtype).startswith("key<"):
        jax = jax_module()

        words: Any = jax.random.key_data(example)
        fresh = np.asarray(random.integers(0, 2**32, size=tuple(words.shape)), np.uint32)
        return jax.random.wrap_key_data(
            fresh,
            impl=str(jax.random.key_impl(example)),
        )
    array: Any = np.asarray(example)
    kind = "f" if array.dtype.kind == "V" or "float" in array.dtype.name else array.dtype.kind
    if array.size == 0:
        return array
    if kind == "b":
        return np.asarray(random.integers(0, 2, size=tuple(array.shape)), bool)
    if kind in "iu":
        low, high = int(array.min()), int(array.max())
        span = random.random(tuple(array.shape)) * (high - low + 1)
        return (low + np.minimum(np.floor(span), high - low)).astype(array.dtype) if high > low else array
    if kind == "c":
        return _complex(array, random, draw).astype(array.dtype)
    with np.errstate(over="ignore"):
        return _real(array.astype(np.float64), random, draw).astype(array.dtype)


def extreme(examples: Sequence[Any], random: np.random.Generator, draw: int) -> list[Any]:
    """Return fresh arguments with infinities, NaN, signed zeros, subnormal numbers and the ends of integers in them.

    Even draws have one of them in a single array; odd ones all of them, as far as there is room, in each.
    """
    jax = jax_module()
    leaves, tree = jax.tree.flatten(list(examples))
    fresh: list[Any] = [around(leaf, random, draw) for leaf in leaves]
    places = [i for i, leaf in enumerate(fresh) if _specials(leaf) and np.size(leaf)]
    chosen = places if draw % 2 or not places else [places[int(random.integers(len(places)))]]
    for i in chosen:
        array, specials = np.array(fresh[i]), _specials(fresh[i])
        count = min(array.size, max(len(specials), array.size // 5)) if draw % 2 else 1
        first = draw // 2 * count if draw % 2 else draw // 2 % min(3, len(specials))
        hit = random.permutation(array.size)[:count]
        array.flat[hit] = [specials[(first + j) % len(specials)] for j in range(count)]
        fresh[i] = float(array) if isinstance(fresh[i], float) else array
    return jax.tree.unflatten(tree, fresh)


def _specials(leaf: Any) -> list[Any]:
    """Return the numbers of a leaf's dtype where arithmetic is another; none where there are none."""
    if isinstance(leaf, bool | int | complex) or str(getattr(leaf, "dtype", "")).startswith("key<"):
        return []
    dtype = np.asarray(leaf).dtype
    if dtype.kind in "iu":
        return [np.iinfo(dtype).min, np.iinfo(dtype).max]
    if not is_float(np.asarray(leaf)) or dtype.kind == "c":
        return []
    ml_dtypes: Any = importlib.import_module("ml_dtypes")
    tiny = float(ml_dtypes.finfo(dtype).tiny)
    return [np.nan, np.inf, -np.inf, 0.0, -0.0, tiny / 4, -tiny / 2]


def _real(array: Any, random: np.random.Generator, draw: int) -> Any:
    numbers = np.asarray(array, np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    scale = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 1.0
    scale = scale if np.isfinite(scale) and scale > 0 else 1.0
    noise = random.normal(size=np.shape(array))
    if draw % 2:
        return np.where(array == 0, 0.1 * scale * noise, array * np.exp(0.2 * noise))
    return array + 0.3 * scale * noise


def _complex(array: Any, random: np.random.Generator, draw: int) -> Any:
    return _real(array.real, random, draw) + 1j * _real(array.imag, random, draw)
