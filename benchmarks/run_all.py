"""Run every benchmark, and write what it came to into `benchmarks/measured/`, with date, commit and machine.

RESULTS.md and the figures of README and docs are drawn from there, at once.

python benchmarks/run_all.py                         all of them
python benchmarks/run_all.py decode simulate         some
python benchmarks/run_all.py consensus --cost        one, with options of its own: rows beside those without
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import commit
from figures import Run, draw, enter

HERE = Path(__file__).resolve().parent
HELPERS = {
    "common",
    "figures",
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
    head, failed = commit(), list[str]()
    for name in names:
        found = measure(name, options)
        if found is None:
            failed.append(name)
            continue
        if "skipped" in found:
            print(f"skipped: {found['skipped']}. What was measured before stays.")
            continue
        command = shlex.join(["python", f"benchmarks/{name}.py", *options])
        since, date = found.get("since", (head, time.strftime("%Y-%m-%d")))
        file = found["benchmark"].replace(" ", "_")
        on = ", ".join(filter(None, (found["ratios"].get("card"), machine())))
        enter(Run(file, command, since, date, on, found["ratios"], found["targets"]))
        for sentence in draw():  # at once: whoever ends it early keeps what was measured
            print(sentence)
    if failed:
        sys.exit(f"failed, and what was measured before stays: {', '.join(failed)}")


if __name__ == "__main__":
    main()
