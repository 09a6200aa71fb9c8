"""Fault drills at full size: 30 workers in a fault schedule for ten minutes of virtual time, and two of real time.

Beside each faulty run stands its baseline: same data, delays, first model and number of steps. The schedule
kills, stops, slows, cuts off and corrupts workers, fills the disk and kills the coordinator; `broken` counts the
guarantees that did not hold. What time the faults cost depends on what is injected: with `report`, a step that needs a
stopped worker waits for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import report
from erasurehead.drills._drill import Drill
from erasurehead.drills._report import verdict_line
from erasurehead.drills._verdicts import Findings

REPLACING = {"faults": {"on_suspicion": "replace"}}
REAL = {"run": {"engine": "processes"}, "delays": {"model": "exponential(mean=0.3, seed=0)"}}


def drilled(name: str, tables: Mapping[str, Any], seconds: float) -> Findings:
    """Run a drill in a folder of its own, and print its verdicts."""
    with tempfile.TemporaryDirectory(prefix="erasurehead-bench-") as folder:
        found = Drill(tables, seconds, out=Path(folder) / "drill").run()
    print(f"{name}: {len(found.faults)} faults in {found.steps} steps")
    for one in found.faults:
        noticed = "" if one.after is None else f", noticed {one.after:.3g} s after"
        print(f"  {one.fault.at:8.2f} s  {one.fault}{noticed}; {one.effect}")
    for verdict in found.verdicts:
        print(f"  {verdict_line(verdict)}")
    return found


def ratio(found: Findings, figure: str) -> float:
    """Return a figure of the faulty run over that of the baseline one."""
    baseline, faulty = found.baseline.outcome, found.faulty.outcome
    assert baseline is not None, found.baseline.failure
    assert faulty is not None, found.faulty.failure
    return faulty[figure] / baseline[figure]


def main() -> None:
    """Measure and report."""
    ratios: dict[str, float] = {}
    for name, tables, seconds in (("virtual", {}, 600.0), ("replacing", REPLACING, 600.0), ("processes", REAL, 120.0)):
        found = drilled(name, tables, seconds)
        ratios[f"{name}_broken"] = sum(verdict.kept is False for verdict in found.verdicts)
        ratios[f"{name}_faulty_over_baseline_seconds"] = ratio(found, "seconds")
        ratios[f"{name}_faulty_over_baseline_loss"] = ratio(found, "loss")
        ratios[f"{name}_faulty_over_baseline_bytes"] = ratio(found, "received")
        delays = [one.after for one in found.faults if one.fault.kind == "kill" and one.after is not None]
        ratios[f"{name}_longest_until_a_death_is_known"] = max(delays, default=0.0)
    targets = {key: "<= 0" for key in ratios if key.endswith("_broken")}
    targets |= {key: "<= 1.0" for key in ratios if key.endswith("_known")}
    report("drill", ratios, targets)


if __name__ == "__main__":
    main()
