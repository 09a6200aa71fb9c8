"""What a checkpoint after every step costs: the same run of sleeping steps with it and without, in turn.

A step is about 100 ms: the virtual engine, played in real time, so that the coordinator sleeps while it waits as it
does for real workers, and its state (which the engines of real workers do not have) is saved, too. Late workers carry
on with the model that they were given, so that models of many steps ago are in flight, and belong to every checkpoint.
Both runs record their rows, and keep every model for evaluation, which checkpoints hold as well.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import interleave, ratio, report
from erasurehead import schemes, training
from erasurehead._internal.arrays import Array, Tree
from erasurehead.delays import Delays, Exponential, ShiftedExponential
from erasurehead.delays._base import PerWorker
from erasurehead.engines import Order, VirtualEngine
from erasurehead.optimizers import Nesterov
from erasurehead.problems import Problem, Shard
from erasurehead.runs import Checkpointer, Recorder, RunFolder
from erasurehead.training import Callback

N, D = 30, 241_915
STEPS, REPETITIONS = 40, 5
STEP, FAST = 0.1, 12


class Played(VirtualEngine):
    """The virtual engine in real time: an event comes when its time has come."""

    def __init__(self, delays: Delays) -> None:
        super().__init__(delays, late="carry")
        self._origin = time.perf_counter()

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        self._origin = time.perf_counter() - self.now()  # what the coordinator did until now is not made up for
        super().submit(order, workers)

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        ahead = self.now() - (time.perf_counter() - self._origin)
        if ahead > 0:
            time.sleep(ahead)
        return event


class Bowl(Problem):
    """Half the squared distance to a point: gradients that cost next to nothing."""

    n_samples, n_parameters, l2 = N, D, 0.0

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return _Slope(len(tasks))

    def loss(self, x: Array) -> float:
        return 0.5 * float((x - 1.0) @ (x - 1.0))

    def gradient(self, x: Array) -> Array:
        return x - 1.0

    def metrics(self, x: Array) -> dict[str, float]:
        return {}


class _Slope(Shard):
    def __init__(self, n_tasks: int) -> None:
        self.n_tasks, self.support = n_tasks, None

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        np.subtract(local, 1.0, out=out)
        out *= float(coefficients.sum()) / N
        return 0.0


class Seen(Callback):
    """Counts the models in flight, and the bytes on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flying: list[int] = []
        self.bytes: list[int] = []

    def on_state(self, step: int, state: Callable[[], Tree]) -> None:
        if step == STEPS - 1:
            self.flying.append(_flying(state()))
            self.bytes.append(sum(path.stat().st_size for path in self.folder.rglob("*.safetensors")))


def _flying(state: object) -> int:
    assert isinstance(state, dict)
    engine = state["engine"]
    assert isinstance(engine, dict)
    return len(engine["orders"])


def slow_and_fast() -> Delays:
    """Return delays of a tenth of a second for some workers, and of many steps for the others."""
    fast, slow = ShiftedExponential(0.7 * STEP, 0.1 * STEP, seed=0), Exponential(10 * STEP, seed=1)
    return PerWorker((fast, slow), (*(0,) * FAST, *(1,) * (N - FAST)))


def trained(place: Path, saved: list[Checkpointer], seen: list[Seen], checkpoints: bool) -> None:
    """Train once, in a folder that is removed again."""
    recorder = Recorder(RunFolder.create(place))
    watching: list[Callback] = [recorder]
    if checkpoints:
        saved.append(Checkpointer(recorder, every_steps=1, facts={"data": "none"}))
        seen.append(Seen(place))
        watching += [saved[-1], seen[-1]]
    training.train(
        Bowl(),
        schemes.ignore_stragglers(N, wait_for=FAST - 1),
        Nesterov(np.zeros(D), 0.1),
        Played(slow_and_fast()),
        STEPS,
        watching,
    )
    shutil.rmtree(place)


def main() -> None:
    """Measure and report."""
    saved: list[Checkpointer] = []
    seen: list[Seen] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        seconds = interleave(
            {
                "with": lambda: trained(place, saved, seen, True),
                "without": lambda: trained(place, saved, seen, False),
            },
            REPETITIONS,
        )
    for name, values in seconds.items():
        print(f"step {name:<39} {1e3 * statistics.median(values) / STEPS:10.2f} ms")
    print(f"{'models in flight':<44} {max(count for run in seen for count in run.flying):10}")
    print(f"{'megabytes of checkpoints':<44} {max(size for run in seen for size in run.bytes) / 1e6:10.1f}")
    print(f"{'most steps behind':<44} {max(run.most_behind for run in saved):10}")
    report(
        "checkpoint",
        {
            "step_with_over_without": ratio(seconds, "with", "without"),
            "most_steps_behind": float(max(run.most_behind for run in saved)),
        },
        {"step_with_over_without": "<= 1.10", "most_steps_behind": "<= 10"},
    )


if __name__ == "__main__":
    main()
