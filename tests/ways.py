"""How many hand-overs a run file and a file of data take until they are a run: `python tests/ways.py [TREE ...]`.

Counts, on one `train` of a small CSV file with a run file, the calls into `runs/_config`, `datasets` and `errors`: how
many there are, of how many functions in how many files, and how often a file is entered again that had been left. With
several trees, such as those before and after a change, their counts stand side by side.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

PLACES = ("runs/_config", "datasets", "errors")
RUN_FILE = """
scheme = "uncoded"
[data]
source = "houses.csv"
target = "price"
categorical = true
[run]
engine = "in_process"
workers = 1
steps = 3
out = "run"
"""


class Ways:
    """Counts calls by the place of their function, below the package.

    Attributes:
        calls: of each function, as file and name.
        again: of each place, how often a file was entered that had been left.
    """

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.again: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._at = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take note of a call, as a profiler does."""
        _, package, inner = frame.f_code.co_filename.rpartition("/erasurehead/")
        place = next((place for place in PLACES if inner.startswith(place)), "")
        name = frame.f_code.co_name
        if event != "call" or not package or not place or name.startswith("<"):  # no lambdas, and no modules
            return
        self.calls[inner, name] += 1
        if inner != self._at:
            self.again[place] += inner in self._seen
            self._seen.add(inner)
            self._at = inner


def counted() -> dict[str, dict[str, int]]:
    """Train once with the tree on the path, and return the counts of each place."""
    from erasurehead.cli import main

    lines = [f"{40 + k % 37},{'abc'[k % 3]},{100 + 3 * (k % 37) + k % 3}" for k in range(120)]
    Path("houses.csv").write_text("\n".join(["size,town,price", *lines]) + "\n")
    Path("run.toml").write_text(RUN_FILE)
    sys.argv = ["erasurehead", "train", "run.toml", "-q"]
    ways = Ways()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        sys.setprofile(ways)
        try:
            main()
        finally:
            sys.setprofile(None)
    assert Path("run/model.safetensors").is_file()
    counts: dict[str, dict[str, int]] = {}
    for place in PLACES:
        own = {function: count for function, count in ways.calls.items() if function[0].startswith(place)}
        counts[place] = {
            "calls": sum(own.values()),
            "functions": len(own),
            "files": len({file for file, _ in own}),
            "entered again": ways.again[place],
        }
    return counts


def count(tree: Path) -> dict[str, dict[str, int]]:
    """Return the counts of a tree, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), "--count"]
        environment = os.environ | {"PYTHONPATH": str(tree.resolve() / "src")}
        done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print the counts of some trees side by side; by default those of this one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE", default=[Path(__file__).parents[1]])
    parser.add_argument("--count", action="store_true", help="print the counts of the tree on the path, as JSON")
    given = parser.parse_args()
    if given.count:
        print(json.dumps(counted()))
        return
    found = [count(tree) for tree in given.trees]
    for place in PLACES:
        for what in found[0][place]:
            print(f"{place:14}{what:16}", *(f"{one[place][what]:8,}" for one in found))


if __name__ == "__main__":
    main()
