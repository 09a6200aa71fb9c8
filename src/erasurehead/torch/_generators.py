"""The random generators that a process has: NumPy's, Python's and PyTorch's, put down and taken up together."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias, cast

import numpy as np

States: TypeAlias = Mapping[str, Any]


def _torch() -> Any:
    """Return PyTorch; None as long as nobody has imported it, and its generators have drawn nothing."""
    return sys.modules.get("torch")


def states() -> States:
    """Return the states of all generators."""
    own: dict[str, Any] = {"numpy": np.random.get_state(), "python": random.getstate()}  # noqa: NPY002
    if torch := _torch():
        cuda: list[Any] = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        own |= {"torch": torch.get_rng_state(), "cuda": cuda}
    return own


def restore(before: States) -> None:
    """Go on from such states; those of GPUs are left out where there are other ones now."""
    if (torch := _torch()) and "torch" in before:
        torch.set_rng_state(torch.as_tensor(before["torch"]))
        if before["cuda"] and torch.cuda.is_available() and len(before["cuda"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all([torch.as_tensor(one) for one in before["cuda"]])
    np.random.set_state(before["numpy"])  # noqa: NPY002
    random.setstate(before["python"])


@cache
def _alone(torch: Any) -> bool:
    """Whether there is no accelerator, whose generators PyTorch seeds, too: without any it takes long over that."""
    return not any(each.is_available() for each in (torch.cuda, torch.backends.mps, torch.xpu))


def begin(seed: int) -> None:
    """Let all generators begin with a seed."""
    if torch := _torch():
        (torch.default_generator if _alone(torch) else torch).manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


def same(one: States, other: States) -> bool:
    """Return whether no generator has drawn anything from one moment to another."""
    rest, others = ((each["numpy"][2:], each["numpy"][1].tobytes(), each["python"]) for each in (one, other))
    tensors, later = (
        [each[key] for key in ("torch",) if key in each] + [*each.get("cuda", ())] for each in (one, other)
    )
    alike = rest == others and len(tensors) == len(later)  # of GPUs, there are none before their first use
    return alike and all(before.equal(after) for before, after in zip(tensors, later, strict=True))


def number_in(before: States) -> int:
    """Return a number that the states of PyTorch's generator give, or NumPy's if there is none."""
    drawn = before["torch"] if "torch" in before else before["numpy"][1]
    return int(cast("Any", np.random.SeedSequence(drawn.tolist())).generate_state(1)[0])
