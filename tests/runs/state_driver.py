"""Runs that keep all kinds of state, killed at random stages in forks of this process, and resumed to their end.

    python state_driver.py FOLDER SEED

Prints a line of JSON: for each kind of run how often it was killed, and every difference to the unbroken run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from erasurehead.runs import Checkpointer, replay

sys.path.insert(0, str(Path(__file__).parent))  # also where it is only looked at for examples in its documentation

import crash_driver
from kinds import KINDS, train


def run(path: Path, name: str) -> None:
    """Train in a folder, going on from its newest checkpoint if it has one."""
    kind, recorder = KINDS[name], crash_driver._recorder(path)
    delays = replay(path.parent / "asynchronous-whole") if name == "replay" else None
    watching = [recorder, Checkpointer(recorder, every_steps=1, behind=1)]
    train(kind, kind.scheme(), kind.problem(), watching, recorder.resumption, delays)


def kill_at_stages(place: Path, name: str, rng: random.Random) -> dict[str, Any]:
    """Kill a run at two of its stages or so, and go on with it; return what became of it."""
    whole, path = place / f"{name}-whole", place / name
    assert crash_driver.ended(crash_driver.forked(lambda: run(whole, name)))
    expected = crash_driver.content(whole)
    last = crash_driver.step_of(whole)
    killed: list[int] = []
    for stage in sorted(rng.sample(range(1, last), min(2, last - 1))):
        child = crash_driver.forked(lambda: run(path, name))
        crash_driver.await_step(path, stage, time.monotonic() + 300.0)
        os.kill(child, signal.SIGKILL)
        if not crash_driver.ended(child):
            killed.append(crash_driver.step_of(path))
    assert crash_driver.ended(crash_driver.forked(lambda: run(path, name)))
    return {"killed": killed, "steps": last, "wrong": crash_driver.differences(path, expected, name)}


def main() -> None:
    """Kill every kind of run."""
    place, rng = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    crash_driver.no_fsync()
    for name in ("points", "penalty", "once", "sums", "nested"):  # so that forks need not load anything
        run(place / f"warm-{name}", name)
    print(json.dumps({name: kill_at_stages(place, name, rng) for name in KINDS}))


if __name__ == "__main__":
    main()
