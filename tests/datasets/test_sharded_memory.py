"""Sharding takes memory for a block of rows, however long the file is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ..bounded import PATIENCE

MIB = 1 << 20

SCRIPT = """
import sys
from erasurehead.datasets._readers import csv as csvfile
from erasurehead.datasets._base import split_rows
from erasurehead.datasets import shard

def peak():
    return 1024 * int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])

csvfile._CHUNK_FIELDS = 20_000  # the text of a block is then small beside the file, as it is with large files
split_rows(100, 0.2)  # what is imported once
import scipy.sparse
before = peak()
shard(sys.argv[1], 8, sys.argv[2], block=1 << 20, one_hot="all" if sys.argv[1].endswith("csv") else ())
print(peak() - before)
"""


def peak(path: Path) -> int:
    """The bytes by which sharding a file raises the memory of a process, at its peak."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of a process's memory is told by Linux only")
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(path.with_suffix(".shards"))],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
        env={**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"},  # the system gives them out in 2 MiB, if it has some at hand
    )
    return int(found.stdout)


@pytest.mark.slow
def test_a_matrix_several_times_larger_than_the_memory_that_is_used(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    rows = np.lib.format.open_memmap(path, "w+", np.float64, (160_000, 100))
    for start in range(0, len(rows), 10_000):
        rows[start : start + 10_000] = np.random.default_rng(start).normal(size=(10_000, 100))
    del rows
    assert path.stat().st_size > 120 * MIB
    assert peak(path) < 30 * MIB  # in memory it takes 375


@pytest.mark.slow
def test_four_times_as_many_rows_of_a_table_take_as_much_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    towns = np.array([f"the town of number {number} on the river" for number in range(50)])
    peaks: list[int] = []
    for n_rows in (15_000, 60_000):
        path = tmp_path / f"{n_rows}.csv"
        names = towns[rng.integers(0, 50, (n_rows, 6))]
        labels = rng.integers(0, 2, n_rows)
        lines = (f"{','.join(row)},{label}\n" for row, label in zip(names.tolist(), labels, strict=True))
        path.write_text("a,b,c,d,e,f,y\n" + "".join(lines))
        peaks.append(peak(path))
    assert path.stat().st_size > 12 * MIB
    assert peaks[1] < peaks[0] + 24 * 45_000 + 3 * MIB  # 24 bytes a row for the random split
