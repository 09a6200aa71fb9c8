"""A model with its optimizer's state as bytes, for a rank that is too far behind to follow step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch.optim import Optimizer

from erasurehead._internal.arrays import Array
from erasurehead.torch._flat import Flat

_NUMBERS = {"bool": bool, "int": int, "float": float}


def packed(flat: Flat, optimizer: Optimizer) -> bytes:
    """Return the parameters and buffers, and all tensors and numbers that the optimizer keeps for parameters."""
    tensors = {"model": torch.from_numpy(flat.read(flat.room()))}  # pyright: ignore[reportUnknownMemberType]
    for index, parameter in enumerate(flat.parameters):
        for key, value in dict[str, Any](optimizer.state.get(parameter, {})).items():
            if isinstance(value, torch.Tensor):
                tensors[f"{index}.tensor.{key}"] = value.detach().cpu().contiguous().clone()
            elif type(value).__name__ in _NUMBERS:
                tensors[f"{index}.{type(value).__name__}.{key}"] = torch.tensor(float(value), dtype=torch.float64)
    return save(tensors)


def unpack(data: bytes, flat: Flat, optimizer: Optimizer) -> None:
    """Go on from what `packed` returned.

    Raises:
        SafetensorError: if the bytes are not of that form.
    """
    for name, value in load(data).items():
        if name == "model":
            flat.write(value.numpy())
            continue
        index, kind, key = name.split(".", 2)
        parameter = flat.parameters[int(index)]
        state: dict[str, Any] = optimizer.state[parameter]
        if kind != "tensor":
            state[key] = _NUMBERS[kind](value.item())
        elif isinstance(state.get(key), torch.Tensor) and state[key].shape == value.shape:
            state[key].copy_(value)
        else:
            state[key] = value.to(parameter.device if value.dim() else "cpu")


def as_vector(data: bytes, like: Array) -> Array:
    """Return bytes as a vector of a type that ranks send, with as many zeros behind them as it takes."""
    size = like.dtype.itemsize
    return np.frombuffer(data + b"\0" * (-len(data) % size), dtype=like.dtype)
