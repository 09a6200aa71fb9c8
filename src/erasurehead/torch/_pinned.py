"""Memory that ranks share, pinned: where a GPU reaches it by itself, it crosses several times as fast."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from erasurehead._internal.arrays import Array
from erasurehead.torch._endpoints._mapped import Mapped

_PORTABLE = 1  # of CUDA: pinned for all GPUs

_lock = threading.Lock()


def pinned(vector: Array, device: torch.device) -> Array:
    """Return a vector as a GPU is to see it: where it lies, pinned if that is in memory of ranks, and can be."""
    memory = Mapped.of(vector)
    if memory is None or not len(vector) or device.type != "cuda":
        return vector
    shared = memory.shared
    with _lock:
        if shared.pinned is None:
            shared.pinned = _pin(shared, device)
    if not shared.pinned:
        return vector
    offset = int(vector.__array_interface__["data"][0]) - memory.address
    return np.frombuffer(shared, vector.dtype, len(vector), offset)


def _pin(memory: Mapped, device: torch.device) -> bool:
    cuda: Any = torch.cuda
    begin, process = memory.address, os.getpid()
    with torch.cuda.device(device):
        if int(cuda.cudart().cudaHostRegister(begin, len(memory), _PORTABLE)):
            with suppress(RuntimeError):  # else the next kernel would be told of that error
                torch.ones(1, device=device)
            return False

    def release() -> None:
        if os.getpid() == process:  # a forked one has no GPU
            with suppress(Exception), torch.cuda.device(device):  # at the end of Python, there may be none any more
                cuda.cudart().cudaHostUnregister(begin)

    memory.release = release
    return True
