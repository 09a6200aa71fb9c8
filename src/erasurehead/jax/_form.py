"""How the leaves of a pytree lie in one vector, and JAX itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import Any, Protocol, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import invalid

jax: Any = import_module("jax")  # which has types for little of this
jnp: Any = jax.numpy


class Transformation(Protocol):
    """What optax calls a gradient transformation."""

    @property
    def init(self) -> Callable[[Any], Any]: ...
    @property
    def update(self) -> Callable[..., tuple[Any, Any]]: ...


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """Return a pytree of which each leaf is changed."""
    return jax.tree.map(change, tree)


@final
@dataclass(frozen=True)
class PytreeForm:
    """How the leaves of a pytree lie in one vector.

    Attributes:
        tree: its structure, in JAX's terms.
        paths, shapes, dtypes: of each leaf.
    """

    tree: Any
    paths: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, params: Any) -> PytreeForm:
        """Return the form of parameters.

        Raises:
            InvalidArgument: if there are none, or a leaf cannot be trained.
        """
        found, tree = jax.tree_util.tree_flatten_with_path(params)
        leaves = {jax.tree_util.keystr(path): leaf for path, leaf in found}
        for path, leaf in leaves.items():
            kind = getattr(leaf, "dtype", type(leaf).__name__)
            if not (hasattr(leaf, "shape") and jnp.issubdtype(kind, jnp.floating)):
                raise invalid(
                    f"params{path}",
                    "must be an array of floating-point numbers",
                    str(kind),
                    "keep what is not trained in the batch, or in what the loss closes over",
                )
            devices = leaf.devices() if isinstance(leaf, jax.Array) else ()
            if len(devices) > 1:
                raise invalid(
                    f"params{path}",
                    "must be on one device",
                    f"sharded over {len(devices)}",
                    "each rank is a process of its own with a whole model",
                )
        if not leaves:
            raise invalid("params", "must have at least one array", "none")
        shapes = tuple(tuple(leaf.shape) for leaf in leaves.values())
        dtypes = (jax.dtypes.canonicalize_dtype(leaf.dtype) for leaf in leaves.values())
        return cls(tree, tuple(leaves), shapes, tuple(dtypes))

    @property
    def sizes(self) -> list[int]:
        """Number of elements of each leaf."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @property
    def wide(self) -> np.dtype[Any]:
        """The type of the vector: float64 if a leaf is, else float32."""
        return np.dtype(np.float64 if np.dtype(np.float64) in self.dtypes else np.float32)

    @cached_property
    def _places(self) -> list[tuple[slice, tuple[int, ...]]]:
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [(slice(*pair), shape) for pair, shape in zip(pairwise(ends), self.shapes, strict=True)]

    def flat_parts(self, vector: Array) -> list[Array]:
        """Return the parts of a vector that are leaves, of one dimension each."""
        return [vector[place] for place, _ in self._places]

    def parts(self, vector: Any) -> list[Any]:
        """Return the parts of a vector that are leaves: views, if it is one of NumPy."""
        return [vector[place].reshape(shape) for place, shape in self._places]

    def params(self, vector: Any) -> Any:
        """Return the parameters that lie in a vector, in a program: copies, even if there is only one."""
        every = zip(self.parts(vector), self.dtypes, strict=True)
        return jax.tree.unflatten(self.tree, [jnp.copy(part).astype(dtype) for part, dtype in every])

    def seen(self, leaves: list[Any]) -> Iterator[Array]:
        """Yield what is in arrays, each to be read at once: as long as it is had, an array cannot be given away."""
        jax.block_until_ready(leaves)
        on_host = leaves[0].device.platform == "cpu"
        each = zip(leaves, self.dtypes, strict=True)  # bfloat16 is of no kind that NumPy knows
        known: list[Any] = [leaf if dtype.kind == "f" else leaf.astype(np.float32) for leaf, dtype in each]
        for leaf in () if on_host else known:
            leaf.copy_to_host_async()  # all before the first is waited for
        look: Any = np.from_dlpack if on_host else np.asarray
        for leaf in known:
            yield look(leaf)

    def read(self, leaves: list[Any], out: Array) -> Array:
        """Copy leaves into a vector, and return it."""
        for numbers, part in zip(self.seen(leaves), self.parts(out), strict=True):
            part[...] = numbers
        return out
