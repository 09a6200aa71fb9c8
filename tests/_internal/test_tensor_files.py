"""Files of tensors: what the library of the format reads of them is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.tensor_files import load_tensors, model_bytes, model_in, save_tensors
from erasurehead._internal.tensor_format import DTYPES
from erasurehead.errors import DataError, InvalidArgument

ANY = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda name: arrays.arrays(name, arrays.array_shapes(min_dims=0, min_side=0))
)


@given(st.dictionaries(st.integers(0, 1000), ANY))
def test_every_bit_comes_back(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[int, np.ndarray[Any, Any]]
) -> None:
    with Folder.open(tmp_path_factory.mktemp("tensors")) as folder:
        found = load_tensors(folder, "file", save_tensors(folder, "file", tensors))
        library = safetensors.numpy.load((folder.path / "file").read_bytes())
    assert found.keys() == tensors.keys()
    for number, array in tensors.items():
        for one in (found[number], library[str(number)]):
            assert (one.dtype, one.shape) == (array.dtype, array.shape)
            assert one.tobytes() == array.tobytes()


def test_arrays_in_any_order_of_memory_and_bytes_come_back(tmp_path: Path) -> None:
    whole = np.arange(24.0).reshape(4, 6)
    tensors = {0: whole.T, 1: whole[::2, ::-1], 2: whole.astype(">f8"), 3: np.broadcast_to(1.5, (3, 2))}
    with Folder.open(tmp_path) as folder:
        found = load_tensors(folder, "file", save_tensors(folder, "file", tensors))
    for number, array in tensors.items():
        assert found[number].tolist() == array.tolist()


def test_a_model_comes_back_and_what_is_none_is_a_sentence() -> None:
    assert model_in(model_bytes(np.array([0.1, -0.0])), "model").tobytes() == np.array([0.1, -0.0]).tobytes()
    theirs = safetensors.numpy.save({"y": np.zeros(2)})
    for data in (b"\x80\x04pickle", theirs, theirs[:-1]):
        with pytest.raises(DataError, match="model is not a model that erasurehead wrote"):
            model_in(data, "model")


def test_numbers_that_cannot_be_stored_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder, pytest.raises(InvalidArgument, match="an array of a state must be of bool"):
        save_tensors(folder, "file", {0: np.zeros(2), 1: np.zeros(2, dtype=complex)})
    assert not (tmp_path / "file").exists()
