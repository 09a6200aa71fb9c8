"""What sharding costs, against reading the same file into memory; what a worker's loading costs, against bare reading.

- A CSV file of numbers and categories: cut into shards with a random split (rows counted, encoding fitted, rows encoded
  and sorted, checksums) over `read` of the same file, which holds all of it.
- One task's file: read, checked and made ready to compute over reading its bytes and taking their SHA-256.
- What crosses to a worker of an exact code, with supports, over the bytes of its data.
- Memory at its peak: sharding over `read`, each in a process of its own, for a dense matrix of 128 MB.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import interleave, ratio, report
from erasurehead._internal.partition import split_samples
from erasurehead.codes import fractional_repetition
from erasurehead.datasets import read, shard
from erasurehead.problems import ShardedProblem
from erasurehead.problems._stored import StoredShard
from erasurehead.training._programs import build_programs

ROWS, TASKS = 100_000, 30
ONE_HOT = ("shop", "town")
TARGETS = {
    "shard_over_read": "<= 4",
    "load_over_bytes": "<= 4",
    "sent_over_data": "<= 0.1",
    "peak_over_read": "<= 0.25",
}

_PEAK = """
import sys
from erasurehead.datasets import read
from erasurehead.datasets._base import split_rows
from erasurehead.datasets import shard

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])

split_rows(100, 0.2)
before = peak()
read(sys.argv[1]) if sys.argv[2] == "read" else shard(sys.argv[1], 30, sys.argv[2])
print(peak() - before)
"""


def write_table(path: Path) -> Path:
    """Write a CSV file of two columns of categories, six of numbers, and labels."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(ROWS, 6))
    shops, towns, labels = rng.integers(0, 5_000, ROWS), rng.integers(0, 50, ROWS), rng.integers(0, 2, ROWS)
    with path.open("w") as file:
        file.write("shop,town,a,b,c,d,e,f,bought\n")
        for shop, town, row, label in zip(shops, towns, numbers.tolist(), labels, strict=True):
            file.write(f"{shop},town{town},{','.join(f'{number:.4f}' for number in row)},{label}\n")
    return path


def peak(path: Path, what: str) -> int:
    """Return the kilobytes by which reading or sharding a file raises a process's memory."""
    found = subprocess.run([sys.executable, "-c", _PEAK, str(path), what], capture_output=True, text=True, check=True)
    return int(found.stdout)


def main() -> None:
    """Measure and report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_table(folder / "shop.csv")

        def sharding() -> None:
            shutil.rmtree(folder / "shards", ignore_errors=True)
            shard(path, TASKS, folder / "shards", one_hot=ONE_HOT)

        first = interleave({"shard": sharding, "read": lambda: read(path, one_hot=ONE_HOT)}, repetitions=3)
        problem = ShardedProblem(folder / "shards")
        held = problem.shard([split_samples(problem.n_samples, TASKS)[0]])
        file = folder / "shards" / "task-00000.safetensors"
        second = interleave(
            {
                "load": lambda: _loaded(held, file),
                "bytes": lambda: hashlib.sha256(file.read_bytes()).digest(),
            },
            repetitions=15,
        )
        programs, _ = build_programs(fractional_repetition(TASKS, 3), problem)
        sizes = [file.bytes for file in problem.folder.manifest.tasks]
        np.save(folder / "dense.npy", np.random.default_rng(0).normal(size=(160_000, 100)))
        ratios = {
            "shard_over_read": ratio(first, "shard", "read"),
            "load_over_bytes": ratio(second, "load", "bytes"),
            "sent_over_data": len(pickle.dumps(programs[0])) / sum(sizes[:3]),
            "peak_over_read": peak(folder / "dense.npy", str(folder / "dense")) / peak(folder / "dense.npy", "read"),
        }
        megabytes = path.stat().st_size / 1e6
        print(
            f"{megabytes:.0f} MB of CSV: {megabytes / min(first['shard']):.1f} MB/s; a task {sizes[0] / 1e6:.2f} MB, "
            f"ready in {1e3 * min(second['load']):.1f} ms"
        )
        report("shard", ratios, TARGETS)


def _loaded(held: StoredShard, file: Path) -> None:
    file.touch()  # as if it were read for the first time: the checksum is taken anew
    held._held = None
    held.held()


if __name__ == "__main__":
    main()
