"""Run every benchmark, and write the table `benchmarks/RESULTS.md` with the commit and the machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from common import verdict

HERE = Path(__file__).resolve().parent
HELPERS = {"common", "amazon", "idle", "run_all"}


def machine() -> str:
    """Return what the figures were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next(
            (line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), model
        )
    return f"{os.cpu_count()} x {model}, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def commit() -> str:
    """Return the commit that was measured, marked if the tree had changes."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "--short=10", "HEAD") + (
        " with uncommitted changes" if git("status", "--porcelain") else ""
    )


def measure(name: str) -> tuple[list[str], float]:
    """Run one benchmark, show its output, and return its rows of the table and its seconds."""
    print(f"\n== {name}", flush=True)
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-u", str(HERE / f"{name}.py")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line
    seconds = time.perf_counter() - begin
    if process.wait() != 0:
        return [f"| {name} | - | failed with status {process.returncode} | | |"], seconds
    found = json.loads(last)
    rows = []
    for key, value in found["ratios"].items():
        target = found["targets"].get(key, "")
        rows.append(f"| {name} | {key} | {value:.3g} | {target} | {verdict(value, target) if target else ''} |")
    return rows, seconds


def main() -> None:
    """Run what was asked for, by default everything."""
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(known)}; all by default")
    names = parser.parse_args().names or known
    for name in names:
        if name not in known:
            parser.error(f"there is no benchmark {name!r}; known are {', '.join(known)}")
    head = commit()
    lines: list[str] = []
    for name in names:
        rows, seconds = measure(name)
        lines += rows
        print(f"({seconds:.0f} s)")
    if names != known:
        return
    (HERE / "RESULTS.md").write_text(
        "# Benchmarks\n\n"
        "Ratios of two sides measured in one run, in turn; medians. Made by `make bench`; absolute figures are in its "
        f"output.\n\nCommit {head}; {machine()}.\n\n"
        "| benchmark | ratio | value | target | |\n|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()
