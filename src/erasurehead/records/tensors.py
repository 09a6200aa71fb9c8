"""Models on disk: safetensors, which hold numbers and nothing that could be executed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead.arrays import Array
from erasurehead.errors import DataError

_NAME = "x"


def save_model(path: Path, x: Array) -> None:
    """Write a model, shape (n_parameters,), to a file, as the tensor `x`; the file is there whole or not at all."""
    scratch = path.with_name(f".{path.name}.new")
    _library().save_file({_NAME: np.ascontiguousarray(x)}, scratch, metadata={"format": "erasurehead-model"})
    scratch.replace(path)


def load_model(path: Path) -> Array:
    """Read a model.

    Raises:
        DataError: if the file is not one that `save_model` wrote.
    """
    try:
        return np.asarray(_library().load_file(path)[_NAME], dtype=np.float64)
    except Exception as error:  # the library has an exception of its own that is no OSError, and KeyErrors
        raise DataError(f"{path} is not a model that erasurehead wrote ({error}).") from None


def _library() -> Any:
    # Its annotations are partial: it is Any from here on, and nothing but this module touches it.
    return importlib.import_module("safetensors.numpy")
