"""Late ranks in a loop of PyTorch's DistributedDataParallel: whether they are named, and what measuring them costs.

Whether: on drawn times of four ranks with 5% jitter, one of them twice as slow from a drawn step on, or none; steps of
0.1 s, whose times they tell each other as `measure` does, now and then. The cost:
four processes on this machine train 0.4 million parameters, with the hook and without in turn, in blocks of 50 steps
that sleep for 20 ms in their backward pass; seconds and CPU seconds a step, of all ranks.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn

from common import report
from erasurehead.torch import LateRanks, measure
from erasurehead.torch._ddp import BETWEEN
from erasurehead.torch._late_ranks import IN_A_ROW

N_RANKS, BLOCKS, STEPS, SLEEP = 4, 20, 50, 0.02
TARGETS = {
    "named within 3 steps, of 100 slow ranks": ">= 100",
    "named in 1,000 calm steps": "<= 0",
    "seconds a step, over none": "<= 1.01",
}


def judged(seed: int, steps: int, slow: bool) -> int:
    """Return after how many slow steps the slow rank was named, 99 if it was not; or in how many steps anybody was."""
    rng, ranks = np.random.default_rng(seed), LateRanks(N_RANKS * ["here"])
    since, named = int(rng.integers(0, 60)) if slow else steps, 0
    kept: list[Any] = []
    due = IN_A_ROW
    for step in range(since + 10 if slow else steps):
        seconds = np.zeros((N_RANKS, 3))
        seconds[:, 2] = 0.1 * np.maximum(1.0 + 0.05 * rng.standard_normal(N_RANKS), 0.5)
        seconds[1, 2] *= 2.0 if step >= since else 1.0
        kept.append(seconds)
        if len(kept) == due:
            for one in kept:
                ranks.observe(one)
            kept, due = [], ranks.due(BETWEEN * N_RANKS)
        if slow and step >= since and [late.rank for late in ranks.late] == [1]:
            return step - since + 1
        named += bool(ranks.late)
    return 99 if slow else named


class Sleeping(torch.autograd.Function):
    """Does nothing to its input, and takes its time when gradients go back through it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        time.sleep(SLEEP)
        return grads[0]


def costs(rank: int, folder: str) -> None:
    """Train with the hook and without it in turn; the first rank writes both ratios."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=N_RANKS)
    sides: list[tuple[Any, Any]] = []
    for measured in (False, True):
        torch.manual_seed(0)
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10)))
        if measured:
            measure(model)
        sides.append((model, torch.optim.SGD(model.parameters(), 0.1)))
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
    ratios: list[list[float]] = []
    for block in range(BLOCKS + 1):
        spent: list[list[float]] = []
        for model, optimizer in sides:
            dist.barrier()
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(STEPS):
                optimizer.zero_grad()
                nn.functional.cross_entropy(Sleeping.apply(model(x)), y).backward()
                optimizer.step()
            cpus = torch.tensor(time.process_time() - cpu)
            dist.all_reduce(cpus)
            spent.append([time.perf_counter() - wall, float(cpus)])
        if block:
            ratios.append([with_hook / without for without, with_hook in zip(*spent, strict=True)])
    if rank == 0:
        wall, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
        Path(folder, "ratios").write_text(f"{wall} {cpu}", encoding="utf-8")
    dist.destroy_process_group()


def main() -> None:
    """Print the figures."""
    slow = [judged(seed, 0, slow=True) for seed in range(100)]
    with tempfile.TemporaryDirectory() as folder:
        spawn(costs, (folder,), N_RANKS)
        wall, cpu = map(float, Path(folder, "ratios").read_text(encoding="utf-8").split())
    ratios = {
        "named within 3 steps, of 100 slow ranks": float(sum(steps <= 3 for steps in slow)),
        "named in 1,000 calm steps": float(judged(0, 1_000, slow=False)),
        "seconds a step, over none": wall,
        "CPU seconds a step, over none": cpu,
    }
    report("late_ranks", ratios, TARGETS)


if __name__ == "__main__":
    main()
