"""What drills of tests train on, and how their coordinators are started where the start is not what is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead.drills._supervisor import CommandResult

from ..forks import Forked


def small_table(folder: Path) -> str:
    """Write a table of 180 samples, and return its path: so few that no rank and no actor loads machine code."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((180, 6))
    labels = np.sign(features @ rng.standard_normal(6) + 0.5 * rng.standard_normal(180))
    path = folder / "small.csv"
    rows = [",".join(f"{value:.6g}" for value in [*row, label]) for row, label in zip(features, labels, strict=True)]
    path.write_text("\n".join(["a,b,c,d,e,f,label", *rows]) + "\n")
    return str(path)


def tables(workers: int = 30, engine: str = "virtual", *, scheme: str = "", **keys: str) -> dict[str, Any]:
    """Return tables of a run file of a drill.

    Arguments:
        workers, engine, scheme: what they are; the usual scheme by default.
        keys: others: `source`, `delays`, `records`, `on_suspicion`.
    """
    sections = {"source": "data", "delays": "delays", "on_suspicion": "faults", "records": "run"}
    out: dict[str, Any] = {"run": {"workers": workers, "engine": engine}, **({"scheme": scheme} if scheme else {})}
    for key, value in keys.items():
        out.setdefault(sections[key], {})["model" if key == "delays" else key] = value
    return out


_COORDINATOR = """
import sys
from pathlib import Path
from erasurehead.drills._coordinator import main
exec({!r})
main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
"""


def forked(command: Sequence[str], limit: float, sabotage: str = "pass") -> CommandResult:
    """Play a coordinator's command as `supervisor.run_command` does, in a forked process.

    Arguments:
        command: that is not run, but for the words after its module.
        limit: seconds that it may take.
        sabotage: a statement that comes before the faulty run.
    """
    words = command[command.index("erasurehead.drills._coordinator") + 1 :]
    process = Forked(_COORDINATOR.format(sabotage if words[1] == "faulty" else "pass"), *words)
    _, said = process.communicate(limit)
    return CommandResult(process.returncode, said, (), ())
