"""The memory of a coordinator whose run has a folder, over tens of thousands of steps on the virtual clock.

Rows are in the folder, so that what grows with the steps is a few bytes a message, which say where its row is and what
it was. The first steps fill what is kept of the last few; the growth after them is divided by the steps. Beside it, for
comparison, the same without a folder, whose rows stay in memory.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from pathlib import Path

from common import report
from erasurehead import delays, engines, optimizers, schemes, training
from erasurehead.runs import Checkpointer, Recorder, RunFolder
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback

WORKERS = 6
STEPS = 30_000
SCHEMES = {
    "uncoded": lambda: schemes.uncoded(WORKERS),
    "erasurehead": lambda: schemes.erasurehead(WORKERS, load=2, wait_for=3),
    "asynchronous": lambda: schemes.asynchronous(WORKERS),
}


def resident() -> int:
    """Return the bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Memory(Callback):
    """Measures the memory after some steps."""

    def __init__(self, *steps: int) -> None:
        self.found = dict.fromkeys(steps, 0)

    def on_state(self, step: int, state: object) -> None:
        if step in self.found:
            gc.collect()
            self.found[step] = resident()


def grown(name: str, steps: int, folder: bool) -> float:
    """Return the bytes a step by which the memory grows after the first third of a run."""
    problem = Quadratic.random(24, 20, seed=1, l2=0.01)
    memory = Memory(steps // 3, steps - 1)
    with tempfile.TemporaryDirectory() as place:
        watching: list[Callback] = [memory]
        if folder:
            recorder = Recorder(RunFolder.create(Path(place) / "run"))
            watching = [recorder, Checkpointer(recorder, every_seconds=5.0), memory]
        training.train(
            problem,
            SCHEMES[name](),
            optimizers.GradientDescent(problem.initial(), 1e-6),
            engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3), "carry"),
            steps,
            watching,
            evaluate_every=0,
            tolerance=None,
        )
    first, last = memory.found
    return (memory.found[last] - memory.found[first]) / (last - first)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    steps = parser.parse_args().steps
    ratios: dict[str, float] = {}
    grown("uncoded", steps, folder=True)  # it fills what is kept of the draws of delays, which are the same for all
    for name in SCHEMES:
        ratios[f"{name}_bytes_a_step"] = grown(name, steps, folder=True)
        print(f"{name}: {ratios[f'{name}_bytes_a_step']:.0f} bytes a step over {steps:,} steps", flush=True)
    ratios["uncoded_bytes_a_step_without_folder"] = grown("uncoded", steps // 3, folder=False)
    report("soak", ratios, {f"{name}_bytes_a_step": "<= 200" for name in SCHEMES})


if __name__ == "__main__":
    main()
