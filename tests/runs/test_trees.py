"""States become JSON and back, with every bit, and nothing else can be made of JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead._internal import state_json as trees
from erasurehead.errors import DataError, InvalidArgument

ARRAYS = [np.arange(3.0), np.zeros((2, 0)), np.array(True)]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ARRAYS)
KEYS = st.text().filter(lambda key: not key.startswith("$"))
TREES = st.recursive(LEAVES, lambda below: st.lists(below) | st.dictionaries(KEYS, below), max_leaves=20)


def there_and_back(tree: Any) -> Any:
    found: dict[int, np.ndarray[Any, Any]] = {}

    def refer(array: np.ndarray[Any, Any]) -> int:
        number = next(number for number, known in enumerate(ARRAYS) if known is array)
        found[number] = array
        return number

    return trees.decode(json.loads(json.dumps(trees.encode(tree, refer), allow_nan=False)), found)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return isinstance(b, float) and (a.hex() == b.hex() or (math.isnan(a) and math.isnan(b)))
    return a is b or (type(a) is type(b) and a == b)


@given(TREES)
def test_a_state_comes_back_as_it_was_arrays_and_all(tree: Any) -> None:
    assert same(tree, there_and_back(tree))


def test_numbers_of_numpy_become_plain_ones_and_tuples_lists() -> None:
    tree = {"a": np.float64(0.1), "b": np.int32(7), "c": np.bool_(True), "d": (1, 2)}
    assert same(there_and_back(tree), {"a": 0.1, "b": 7, "c": True, "d": [1, 2]})


@pytest.mark.parametrize("tree", [{"$tensor": 1}, {1: 2}, {"a": object()}, [b"bytes"], {"a": {1, 2}}, 1j])
def test_what_is_no_plain_data_is_refused(tree: Any) -> None:
    with pytest.raises(InvalidArgument, match="must"):
        trees.encode(tree, lambda array: 0)


def test_a_tensor_that_is_not_there_is_said() -> None:
    with pytest.raises(DataError, match="there is no tensor 3"):
        trees.decode({"x": {"$tensor": 3}}, {})
