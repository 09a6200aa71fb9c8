"""Where few arrivals go wrong: rows in order, a machine that is slow for good, and both at once.

`adaptive`, with nothing set, beside the paper's own setting: when each comes to each level, on the engine's virtual
clock and by the rules of `target_cells.py`, and how near the optimum it comes at all. It needs the real data: set
ERASUREHEAD_DATA to their folder.

    python benchmarks/hard_cases.py                       all rows, two seeds
    python benchmarks/hard_cases.py --only kc_housing     rows with this in their names
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from common import report
from erasurehead import delays
from target_cells import (
    DATA,
    LATE,
    LEVELS,
    MEAN,
    SORTED,
    WORKERS,
    Reached,
    law,
    of_adaptive,
    of_paper,
)

MOST_SECONDS = 60.0  # of the clock, for the paper's setting


@dataclass(frozen=True)
class Case:
    """What makes it hard: the order of the rows, and by seed the delays."""

    in_order: bool
    delays: Callable[[int], delays.Delays]


def _one_slow(seed: int) -> delays.Delays:
    return delays.parse(f"scaled(exponential({MEAN}, seed={seed}), {[20.0] + [1.0] * (WORKERS - 1)})")


CASES: Mapping[str, Case] = {
    "rows in order": Case(True, lambda seed: law("exponential", seed)),
    "one 20x slower": Case(False, _one_slow),
    "both": Case(True, _one_slow),
}


def _row(cell: str, data: str, late: str, case: Case, seeds: range) -> dict[str, float]:
    """Print a row, and return the share of seeds that came to 1e-3, the runs that diverged, and who was sooner."""
    whole = SORTED + data if case.in_order else data
    ours = [of_adaptive(whole, late, case.delays(seed)) for seed in seeds]
    paper = [of_paper(whole, late, case.delays(seed), MOST_SECONDS) for seed in seeds]
    print(f"{cell}: adaptive {_said(ours)}; the paper's setting {_said(paper)}", flush=True)
    found = {
        f"{cell}: adaptive to 1e-3": statistics.mean("1e-3" in one.times for one in ours),
        f"{cell}: adaptive diverged": float(sum(one.diverged for one in ours)),
    }
    for level in LEVELS:
        if all(level in one.times for one in (*ours, *paper)):
            pairs = zip(paper, ours, strict=True)
            found[f"{cell}: paper {level}"] = statistics.median(a.times[level] / b.times[level] for a, b in pairs)
    return found


def _said(runs: list[Reached]) -> str:
    said: list[str] = []
    for level in LEVELS:
        times = [one.times[level] for one in runs if level in one.times]
        if times:
            few = f" ({len(times)} of {len(runs)} seeds)" if len(times) < len(runs) else ""
            said.append(f"{level} {statistics.median(times):.2f} s{few}")
    least = max(one.best for one in runs)
    diverged = sum(one.diverged for one in runs)
    return ", ".join([*said, f"least gap {least:.1e}", *([f"{diverged} diverged"] if diverged else [])])


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="rows with this in their names")
    parser.add_argument("--seeds", type=int, default=2)
    chosen = parser.parse_args()
    found: dict[str, float] = {}
    for data, (name, case), late in itertools.product(DATA, CASES.items(), LATE):
        cell = f"{data}, {name}, {late}"
        if chosen.only in cell:
            found |= _row(cell, data, late, case, range(chosen.seeds))
    targets = {key: ">= 1" for key in found if key.endswith("to 1e-3")}
    targets |= {key: "<= 0" for key in found if key.endswith("diverged")}
    report("hard_cases", found, targets)


if __name__ == "__main__":
    main()
