"""What a rank's message costs that combines the gradients of c tasks: `team.backward`, over one plain backward pass.

The message is the vector that goes out, coefficients and copy included; the plain pass ends with the gradients. Both
are of the same samples, 64 a task, in turn, in CPU seconds of one thread, and medians are compared. *Joined* is one
forward pass for all tasks, *separate* one for each, as the module draws random numbers (dropout, which the plain pass
has, too).

    python benchmarks/networks_backward.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import erasurehead.torch as eht
from common import report
from erasurehead.torch import _generators

REPETITIONS, WARM, TASK = 60, 15, 64
LOADS = (2, 3, 5)
JOINED, SEPARATE = 1.1, 1.5


def convolutions(*more: nn.Module) -> nn.Module:
    """Return a network of 30,000 parameters for 14 x 14 pixels."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), *more, nn.Linear(128, 180), nn.ReLU(), nn.Linear(180, 10)),
    )


def dense(*more: nn.Module) -> nn.Module:
    """Return a network of 1.9 million parameters for 28 x 28 pixels."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), *more, nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    )


class _Done(Exception):
    """Ends a simulation."""


def measured(make: Callable[..., nn.Module], width: int, load: int, drops: bool) -> float:
    """Return the median of CPU seconds of a message over that of a plain pass."""
    spent: dict[str, list[float]] = {}
    ranks = 2 * load + 1
    x, y = torch.randn(ranks * TASK, 1, width, width), torch.randint(0, 10, (ranks * TASK,))

    def main() -> None:
        team = eht.join()
        model = make(*(nn.Dropout(0.1),) * drops)
        inner = torch.optim.SGD(model.parameters(), 0.1)
        scheme = f"exact(load={load}, code='cyclic')"
        optimizer = team.optimizer(inner, model, every="gradient", scheme=scheme)
        batch = next(iter(team.batches(torch.utils.data.TensorDataset(x, y), batch_size=len(x))))
        meeting: Any = team._meeting
        begun = meeting.batch

        def plain() -> None:
            cross_entropy(model(batch[0]), batch[1]).backward()

        def message() -> None:
            team.backward(lambda given: cross_entropy(model(given[0]), given[1], reduction="none"), batch)
            meeting._flat.gradients(meeting._sent[meeting._gradient], meeting._sent[meeting._present])
            meeting._complete()

        for repetition in range(REPETITIONS + WARM):
            for work in (plain, message)[:: 1 if repetition % 2 else -1]:
                optimizer.zero_grad()
                meeting.batch = replace(begun)
                _generators.restore(begun.ready)
                begin = time.process_time()
                work()
                if repetition >= WARM:
                    spent.setdefault(work.__name__, []).append(time.process_time() - begin)
        raise _Done

    try:
        eht.simulate(main, ranks)
    except _Done:
        return statistics.median(spent["message"]) / statistics.median(spent["plain"])
    raise AssertionError


def main() -> None:
    torch.set_num_threads(1)
    rows: dict[str, float] = {}
    for name, make, width in (("CNN 30k", convolutions, 14), ("MLP 1.9M", dense, 28)):
        for drops, forwards in ((False, "joined"), (True, "separate")):
            for load in LOADS:
                rows[f"{name}, {load} tasks, {forwards}: CPU over a plain pass"] = measured(make, width, load, drops)
    targets = {key: f"<= {SEPARATE if 'separate' in key else JOINED}" for key in rows}
    report("networks_backward", rows, targets)


if __name__ == "__main__":
    main()
