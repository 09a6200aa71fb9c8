"""A small file of data, and how commands are typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..typed import Finished

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


Typed = Callable[..., Finished]

SMALL = (
    "--categorical",
    "--preset",
    "paper",
    "--engine",
    "virtual",
    "--workers",
    6,
    "--steps",
    12,
    "--delays",
    "exponential(mean=0.5)",
)
"""Options of a quick run on the shop's data, which takes all its steps."""
