"""The race of the schemes on the Amazon data, as `erasurehead compare` prints it, on the virtual clock.

First with the settings of the paper, and then to the optimum, beside the default. Workers' computing takes no time
there. It needs the real data: set ERASUREHEAD_DATA to their folder.

    python benchmarks/race.py --out docs/images    with the pictures of the documentation
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import report

SCHEMES = ("uncoded", "exact(load=3)", "erasurehead(load=3, wait_for=11)", "adaptive")
RACES = {
    "paper": ("--steps", "60", "--delays", "exponential(mean=0.3, seed=0)"),
    "to the optimum": ("--data", "amazon", *(word for scheme in SCHEMES for word in ("-s", scheme))),
}
PICTURES = {"paper": "comparison.png", "to the optimum": "gap.png"}
COLUMNS = {
    "seconds_per_step": "seconds a step",
    "seconds_to_target": "seconds to AUC 0.84",
    "speed_up": "speed-up",
    "residual": "residual in tasks",
    "arrivals": "waited for",
    "final": "final AUC",
}


def race(name: str, out: Path | None) -> dict[str, Any]:
    """Run a command, and return what it has written; its picture is put into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "erasurehead", "compare", *RACES[name], "--target", "auc=0.84"]
        command += ["--engine", "virtual", "--out", f"{folder}/race"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        if out is not None:
            shutil.copy(Path(folder) / "race" / "figures" / PICTURES[name], out)
        return json.loads((Path(folder) / "race" / "comparison.json").read_text())


def main() -> None:
    """Race, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for the pictures")
    out = parser.parse_args().out
    found: dict[str, float] = {}
    for name in RACES:
        made = race(name, out)
        for row in made["schemes"]:
            title = f"{name}, {row['scheme']}"
            found |= {f"{title}: {said}": row[key] for key, said in COLUMNS.items() if row[key] is not None}
            found[f"{title}: megabytes a step"] = row["received"] / 1e6
            found[f"{title}: per cent left out"] = 100.0 * row["left_out"]
        for scheme, gaps in made["seconds_to_gap"].items():
            found |= {f"{name}, {scheme}: seconds to gap {gap}": float(at or "inf") for gap, at in gaps.items()}
    report("race", found, {})


if __name__ == "__main__":
    main()
