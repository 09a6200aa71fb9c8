"""States as JSON: arrays are replaced by references to tensors, everything else is written as it is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Tree
from erasurehead._internal.storage.sealed import unusable
from erasurehead.errors import DataError, invalid

_TENSOR, _FLOAT = "$tensor", "$float"


def encode(tree: Tree, refer: Callable[[NDArray[Any]], int]) -> Any:
    """Return a state as plain JSON data.

    Arguments:
        tree: the state; keys do not begin with a dollar sign.
        refer: returns the number that refers to an array.

    Raises:
        InvalidArgument: if something in it is not plain data.
    """
    if tree is None or isinstance(tree, bool | str):
        return tree
    if isinstance(tree, np.ndarray):
        return {_TENSOR: refer(tree)}
    if isinstance(tree, np.generic):
        return encode(cast("Any", tree).item(), refer)
    if isinstance(tree, int):
        return int(tree)
    if isinstance(tree, float):
        return float(tree) if math.isfinite(tree) else {_FLOAT: str(float(tree))}
    if isinstance(tree, Mapping):
        for key in tree:
            if not isinstance(cast("Any", key), str) or key.startswith("$"):
                raise invalid("a key of a state", "must be a text that does not begin with $", key)
        return {key: encode(value, refer) for key, value in tree.items()}
    if isinstance(cast("Any", tree), Sequence) and not isinstance(cast("Any", tree), bytes | bytearray):
        return [encode(value, refer) for value in tree]
    raise invalid("a state", "must consist of mappings, lists, texts, numbers, None and arrays", tree)


def going_on(resumed: bool = True) -> contextlib.AbstractContextManager[None]:
    """Return what refuses a saved state in a sentence where this block cannot go on from it.

    Checksums tell damage, but whoever edits a checkpoint can compute them anew, and much of a state is seen to be none
    only when it is used.

    Arguments:
        resumed: whether there is a saved state at all; if not, nothing is done.
    """
    sentence = "The checkpoint does not fit this run, which cannot go on from it"
    return unusable(sentence) if resumed else contextlib.nullcontext()


def decode(data: Any, tensors: Mapping[int, NDArray[Any]]) -> Any:
    """Return the state that `encode` wrote; equal numbers become the very same array.

    Raises:
        DataError: if it refers to a tensor that is not there.
    """
    if isinstance(data, list):
        return [decode(value, tensors) for value in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    given = cast("dict[str, Any]", data)
    if _TENSOR in given:
        if given[_TENSOR] not in tensors:
            raise DataError(f"there is no tensor {given[_TENSOR]!r}.")
        return tensors[given[_TENSOR]]
    if _FLOAT in given:
        return float(given[_FLOAT])
    return {key: decode(value, tensors) for key, value in given.items()}
