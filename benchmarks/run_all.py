"""Run every benchmark, and write the table `benchmarks/RESULTS.md` with the commit and the machine.

python benchmarks/run_all.py                         all of them
python benchmarks/run_all.py decode simulate         some
python benchmarks/run_all.py consensus --cost        one, with options of its own: rows beside those without
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import commit, verdict

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
HELPERS = {
    "common",
    "amazon",
    "own_data_sets",
    "rounds",
    "idle",
    "simulated_rounds",
    "truth",
    "advice",
    "run_all",
    "target_cells",
    "target_methods",
    "target_search",
    "networks_races",
    "orders_law",
}


def machine() -> str:
    """Return what the figures were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next(
            (line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), model
        )
    return f"{os.cpu_count()} x {model}, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def measure(name: str, options: Sequence[str] = ()) -> dict[str, Any] | None:
    """Run one benchmark, show its output, and return its line of JSON; None if it failed."""
    print(f"\n== {name}", flush=True)
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-u", str(HERE / f"{name}.py"), *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line
    print(f"({time.perf_counter() - begin:.0f} s)")
    return json.loads(last) if process.wait() == 0 else None


def rows_of(name: str, found: dict[str, Any] | None, head: str) -> list[str]:
    """Return the rows of the table for one benchmark."""
    if found is None:
        return [f"| {name} | - | failed | | | {head} |"]
    return [
        f"| {name} | {key} | {value:.3g} | {target} | {verdict(value, target) if target else ''} | {head} |"
        for key, value in found["ratios"].items()
        for target in [found["targets"].get(key, "")]
    ]


def write(rows: dict[str, list[str]]) -> None:
    """Put rows into the table, in place of what it has of the same benchmarks."""
    kept: dict[str, list[str]] = {}
    if RESULTS.exists():
        for line in RESULTS.read_text().splitlines():
            name = line.split("|")[1].strip() if line.startswith("| ") else ""
            if name and name != "benchmark":
                kept.setdefault(name, []).append(line)
    kept |= rows
    RESULTS.write_text(
        "# Benchmarks\n\n"
        "Ratios of two sides measured in one run, in turn; medians. Made by `make bench`, or by "
        "`python benchmarks/run_all.py NAME ...` for some of them; absolute figures are in the output.\n\n"
        f"{machine()}.\n\n"
        "| benchmark | ratio | value | target | | commit |\n|---|---|---|---|---|---|\n"
        + "\n".join(line for name in sorted(kept) for line in kept[name])
        + "\n"
    )


def main() -> None:
    """Run what was asked for, by default everything."""
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(known)}; all by default")
    given, options = parser.parse_known_args()
    names = given.names or known
    if options and len(names) > 1:
        parser.error(f"{' '.join(options)} belongs to one benchmark: name it, and no other")
    for name in names:
        if name not in known:
            parser.error(f"there is no benchmark {name!r}; known are {', '.join(known)}")
    head = commit()
    for name in names:
        found = measure(name, options)
        row = name if found is None else found["benchmark"]
        write({row: rows_of(row, found, head)})  # at once: whoever ends it early keeps what was measured


if __name__ == "__main__":
    main()
