"""What a team is saved as: one file of safetensors, which holds numbers and a description, and nothing that is run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from erasurehead._internal.atomic_files import write_whole
from erasurehead.errors import DataError, NoFile, invalid

FORMAT, VERSION = "erasurehead-team", 1

_TENSOR, _MAP, _TUPLE = "tensor", "map", "tuple"

Kind = Literal["pt", "np"]
"""What tensors are, as safetensors calls it: those of PyTorch, or arrays of NumPy."""

_TRAINED_BY = {"pt": "PyTorch", "np": "JAX"}


def write(path: Path, state: Mapping[str, Any], kind: Kind = "pt") -> None:
    """Write a tree of tensors and plain data to a file, atomically.

    Raises:
        InvalidArgument: if something in it is neither.
        RecordsError: if the file cannot be written.
    """
    write_whole(path, [encoded(state, kind)])


def encoded(state: Mapping[str, Any], kind: Kind | None = None) -> bytes:
    """Return a tree of tensors and plain data as a file's bytes; of PyTorch's kind if there is a tensor of it.

    Raises:
        InvalidArgument: if something in it is neither.
    """
    tensors: dict[str, Any] = {}
    seen: dict[Any, str] = {}
    tree = {name: _plain(value, name, tensors, seen) for name, value in state.items()}
    about = {"format": FORMAT, "version": str(VERSION), "state": json.dumps(tree)}
    if kind is None:
        kind = "pt" if any(map(_of_torch, tensors.values())) else "np"
    for name, one in tensors.items():
        if _of_torch(one) != (kind == "pt"):
            tensors[name] = one.numpy() if kind == "np" else sys.modules["torch"].from_numpy(one)
    if kind == "np":
        about["tensors"] = kind
    return _library(kind).save(tensors, about)


def decoded(data: bytes) -> dict[str, Any]:
    """Return what was encoded, by another rank of the same team."""
    begin = 8 + int.from_bytes(data[:8], "little")
    about = json.loads(data[8:begin])["__metadata__"]
    return _back({_MAP: list(json.loads(about["state"]).items())}, _library(about.get("tensors", "pt")).load(data))


def read(path: Path, kind: Kind = "pt") -> dict[str, Any]:
    """Return what was written to a file.

    Raises:
        DataError: if there is no such file, or it is not one that this version can read.
    """
    try:
        with import_module("safetensors").safe_open(str(path), kind) as file:
            about: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
    except FileNotFoundError:
        raise NoFile(str(path)) from None
    except Exception as error:  # safetensors raises an exception of its own
        raise DataError(f"{path} is no file that Team.save wrote ({error}).") from None
    if about.get("format") != FORMAT:
        raise DataError(f"{path} is a file of tensors, but none that Team.save wrote.")
    if about.get("version") != str(VERSION):
        raise DataError(
            f"{path} was written in version {about.get('version')} of the format; "
            f"this erasurehead reads version {VERSION}."
        )
    if (written := about.get("tensors", "pt")) != kind:
        raise DataError(
            f"{path} was saved by a team that trains with {_TRAINED_BY.get(written, written)}, and this one trains "
            f"with {_TRAINED_BY[kind]}."
        )
    try:
        tree = json.loads(about["state"])
        return {name: _back(value, tensors) for name, value in tree.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {type(error).__name__} {error} in its description.") from None


def _library(kind: Kind) -> Any:
    return import_module("safetensors.torch" if kind == "pt" else "safetensors.numpy")


def _of_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")  # without which nothing is a tensor of it
    return torch is not None and isinstance(value, torch.Tensor)


def _plain(value: Any, where: str, tensors: dict[str, Any], seen: dict[Any, str]) -> Any:
    """Return plain data for JSON, with tensors set aside, each once however often it is shared."""
    if _of_torch(value):
        own = value.detach()
        key = own.data_ptr(), own.dtype, tuple(own.shape), own.stride(), own.device
        if not own.numel() or key not in seen:
            seen[key] = where
            tensors[where] = own.cpu().contiguous().clone()
        return {_TENSOR: seen[key] if own.numel() else where}
    if isinstance(value, np.ndarray):
        tensors[where] = np.array(cast("Any", value))
        return {_TENSOR: where, "numpy": True}
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | np.floating | np.integer):
        number: Any = value.item() if isinstance(value, np.generic) else value
        return number if math.isfinite(number) else {"float": str(number)}
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value).items()
        return {_MAP: [[_key(key, where), _plain(one, f"{where}.{key}", tensors, seen)] for key, one in entries]}
    if isinstance(value, list | tuple):
        items = [_plain(one, f"{where}.{n}", tensors, seen) for n, one in enumerate(cast("list[Any]", value))]
        return items if isinstance(value, list) else {_TUPLE: items}
    raise invalid(
        where,
        "must be made of tensors, numbers, texts, lists and mappings, to be saved",
        f"{type(value).__name__}",
        "leave it out of state_dict, and set it anew before loading",
    )


def _key(key: Any, where: str) -> Any:
    if isinstance(key, str | int):
        return key
    raise invalid(f"a key in {where}", "must be a text or a whole number, to be saved", type(key).__name__)


def _back(value: Any, tensors: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_back(one, tensors) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    tree = cast("dict[str, Any]", value)
    if _TENSOR in tree:
        tensor = tensors[tree[_TENSOR]]
        return tensor.numpy() if "numpy" in tree and _of_torch(tensor) else tensor
    if _MAP in tree:
        return {key: _back(one, tensors) for key, one in tree[_MAP]}
    if _TUPLE in tree:
        return tuple(_back(one, tensors) for one in tree[_TUPLE])
    return float(tree["float"])


def check_fits(own: Mapping[str, Any], saved: Mapping[str, Any], path: Path, what: str) -> None:
    """Check that saved tensors are of the names, shapes and types of others.

    Raises:
        DataError: if not, with the first that is another one.
    """
    for name in own:
        if name not in saved:
            raise DataError(f"{path} has no {name!r}, which this {what} has.")
        if _shape(own[name]) != _shape(saved[name]):
            raise DataError(f"{name!r} of the {what} is {_shape(own[name])} here, and {_shape(saved[name])} in {path}.")
    for name in saved:
        if name not in own:
            raise DataError(f"{path} has {name!r}, which this {what} has not.")


def _shape(value: Any) -> str:
    if not (_of_torch(value) or isinstance(value, np.ndarray)):
        return type(value).__name__
    tensor = cast("Any", value)
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def check_groups(own: list[dict[str, Any]], saved: list[dict[str, Any]], path: Path) -> None:
    """Check that an optimizer's parameter groups are as large as those that were saved.

    Raises:
        DataError: if not.
    """
    sizes = [[len(group["params"]) for group in groups] for groups in (own, saved)]
    if sizes[0] != sizes[1]:
        raise DataError(
            f"The optimizer has {sizes[0]} parameters in its groups, and that which was saved in {path} has {sizes[1]}."
        )
