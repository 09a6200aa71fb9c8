"""The random generators that a process has: PyTorch's, NumPy's and Python's, put down and taken up together."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import numpy as np
import torch

States: TypeAlias = Mapping[str, Any]


def states() -> States:
    """Return the states of all generators."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return {"torch": torch.get_rng_state(), "cuda": cuda, "numpy": np.random.get_state(), "python": random.getstate()}  # noqa: NPY002


def restore(before: States) -> None:
    """Go on from such states; those of GPUs are left out where there are other ones now."""
    torch.set_rng_state(before["torch"])
    if before["cuda"] and torch.cuda.is_available() and len(before["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(before["cuda"])
    np.random.set_state(before["numpy"])  # noqa: NPY002
    random.setstate(before["python"])


def begin(seed: int) -> None:
    """Let all generators begin with a seed."""
    cast("Any", torch).manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


def number_in(before: States) -> int:
    """Return a number that the states of PyTorch's generator give."""
    return int(cast("Any", np.random.SeedSequence(before["torch"].tolist())).generate_state(1)[0])
