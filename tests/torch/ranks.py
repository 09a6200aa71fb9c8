"""Four ranks that train with `DistributedDataParallel`, one of them slow: run by `test_ddp.py`, each finding a line."""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.multiprocessing.spawn import start_processes

import erasurehead.torch as eht
from erasurehead.errors import InvalidArgument

N_RANKS, SLOW, STEPS, CALM = 4, 2, 16, 10
SECONDS = 0.03


class Sleeping(torch.autograd.Function):
    """Does nothing to its input, and takes its time when gradients go back through it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        time.sleep(ctx.seconds)
        return grads[0], None


def trained(
    rank: int, stage: str, measured: bool, inner: Any = None, group: Any = None
) -> tuple[list[float], int | None, Any]:
    """Return the model after training, the steps for which a rank had been slow when it was named, and who is late."""
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 2)), process_group=group
    )
    times = eht.measure(model, inner) if measured else None
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    generator = torch.Generator().manual_seed(rank)
    named: int | None = None

    def batches() -> Any:
        for step in range(STEPS):
            if stage == "data" and rank == SLOW and step >= CALM:
                time.sleep(2 * SECONDS)
            yield step, torch.randn(8, 20, generator=generator)

    for step, x in times.loading(batches()) if times is not None and stage else batches():
        late = rank == SLOW and step >= CALM
        optimizer.zero_grad()
        output = Sleeping.apply(model(x), SECONDS * (3 if late and stage != "data" else 1))
        nn.functional.cross_entropy(output, torch.randint(0, 2, (8,), generator=generator)).backward()
        optimizer.step()
        if times is not None and named is None and times.late:
            named = step - CALM + 1
    weights = [float(weight) for parameter in model.parameters() for weight in parameter.flatten()]
    return weights, named, None if times is None else times.late


def main(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=N_RANKS)
    plain = trained(rank, "", measured=False)[0]
    weights, named, late = trained(rank, "", measured=True)
    found = {"same": weights == plain, "named": named, "late": [[one.rank, one.stage] for one in late]}
    halved, _, _ = trained(rank, "", measured=True, inner=fp16_compress_hook)
    found["inner"] = 0.0 < max(abs(a - b) for a, b in zip(halved, plain, strict=True)) < 1e-2
    _, found["named, data"], late = trained(rank, "data", measured=True)
    found["late, data"] = [[one.rank, one.stage] for one in late]
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    plain, weights = (trained(rank, "", measured=one, group=pairs[rank % 2])[0] for one in (False, True))
    found["same, pairs"] = weights == plain
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    eht.measure(model)
    try:
        eht.measure(model)
    except InvalidArgument as error:
        found["twice"] = str(error)
    with open(f"{folder}/{rank}.json", "w", encoding="utf-8") as file:
        json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    importlib.import_module("torch._dynamo")  # once, for the optimizers of all ranks
    start_processes(main, (sys.argv[1],), N_RANKS, start_method="fork")
