"""A rank that compiles something small, and writes what it has compiled in two halves, which another one may read."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path

import jax.numpy as jnp

SECOND = 1.0  # for which it gives the others a chance to look

write, read = Path.write_bytes, Path.read_bytes
folder, rank = Path(sys.argv[1]), os.environ["RANK"]


def halves(path: Path, data: bytes) -> int:
    if path.name.endswith("-cache"):
        write(path, data[: len(data) // 2])
        (folder / "half").touch()
        until = time.monotonic() + SECOND
        while not (folder / "seen").exists() and time.monotonic() < until:
            time.sleep(0.01)
    return write(path, data)


def seen(path: Path) -> bytes:
    found = read(path)
    if path.name.endswith("-cache"):
        (folder / "seen").touch()
    return found


Path.write_bytes, Path.read_bytes = halves, seen
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    while rank != "0" and not (folder / "half").exists():
        time.sleep(0.01)
    total = float(jnp.full((3, 5), 2.0).sum())
os.write(1, (json.dumps({"total": total, "told": [str(one.message) for one in told]}) + "\n").encode())
