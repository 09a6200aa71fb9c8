"""A small file of data, and what a typed command did."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TOWNS = ("Ayr", "Ely", "Rye")


def write_shop(path: Path, n_rows: int = 240, seed: int = 0) -> Path:
    """Write a CSV file: age and income, a town, and whether they bought."""
    rng = np.random.default_rng(seed)
    lines = ["age,town,income,bought"]
    for _ in range(n_rows):
        age, town, income = rng.integers(18, 80), TOWNS[rng.integers(3)], rng.normal(30, 5)
        score = age / 40 + 0.8 * (town == "Rye") - income / 30 + rng.normal(0, 0.3)
        lines.append(f"{age},{town},{income:.2f},{'yes' if score > 0.6 else 'no'}")
    path.write_text("\n".join(lines) + "\n")
    return path


class Finished:
    """What a command did.

    Attributes:
        code: exit code.
        out: stdout.
        err: stderr.
    """

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """Stdout as JSON."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    @property
    def sentence(self) -> str:
        """The last line of stderr."""
        return self.err.rstrip("\n").rpartition("\n")[2]


Typed = Callable[..., Finished]

SMALL = (
    "--categorical", "--preset", "paper", "--engine", "virtual", "--workers", 6, "--steps", 12,
    "--delays", "exponential(mean=0.5)",
)  # fmt: skip
"""Options of a quick run on the shop's data, which takes all its steps."""
