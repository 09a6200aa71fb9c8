"""What a step costs the ranks of a team on this machine, beside a plain loop and DistributedDataParallel with gloo.

python benchmarks/networks_path.py

CPU seconds of whole processes, each beside others of the same kind, in turn, block by block. `path`: 10 million float32
parameters whose gradients cost nothing, in units of a copy of all of them (40 MB) that the same process makes: what a
worker's step takes more than a plain step, and what gathering takes for each message more than that, of two ranks and
of seven: a version has costs of its own, which its messages share. Then networks of 51 thousand and 1.6 million
parameters on random batches of 64, over DistributedDataParallel's and over a plain loop's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import erasurehead.torch as eht
from common import report

BLOCKS = 5
MOST = 150.0  # seconds that ranks may take
PATH_LENGTH, PATH_STEPS = 10_000_000, 60
PATH_RANKS = {3: "gathering a message, in copies", 8: "gathering a message of seven, in copies"}
PAUSE = 0.07  # seconds after a step, times ranks: nobody is behind, as what waits is added up, and would be cheaper
STEP_RANKS = 4
WIDTHS = {"51k": 64, "1.6M": 900}
STEPS = {64: 300, 900: 60}
TARGETS = {
    "worker's path, in copies": "<= 4.0",
    **dict.fromkeys(PATH_RANKS.values(), "<= 1.0"),
    "bytes of a message, MB": "<= 40.1",
    "CPU of a step over DDP, 51k": "<= 1.15",
    "CPU of a step over DDP, 1.6M": "<= 1.15",
}


def say(**what: object) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def copies(length: int) -> float:
    """Return the CPU seconds of one copy of all parameters."""
    source, target = torch.ones(length), torch.zeros(length)
    target.copy_(source)
    begin = time.process_time()
    for _ in range(10):
        target.copy_(source)
    return (time.process_time() - begin) / 10


def path_rank() -> None:
    """Steps whose gradients are there already: what is left is the optimizer's step, and the team's."""
    torch.set_num_threads(1)
    weights = nn.Parameter(torch.zeros(PATH_LENGTH))
    weights.grad = torch.full((PATH_LENGTH,), 1e-6)
    holder = nn.Module()
    holder.weights = weights
    plain = torch.optim.SGD([weights], 0.1)
    plain.step()
    begin = time.process_time()
    for _ in range(PATH_STEPS):
        plain.step()
    without = (time.process_time() - begin) / PATH_STEPS
    copy = copies(PATH_LENGTH)
    team = eht.join()
    optimizer = team.optimizer(torch.optim.SGD([weights], 0.1), holder)
    for _ in range(5):
        optimizer.step()
        time.sleep(PAUSE * team.size)
    gathered = sum(sum(version.steps.values()) for version in team.versions)
    begin = time.process_time()
    for _ in range(PATH_STEPS):
        optimizer.step()
        time.sleep(PAUSE * team.size)
    seconds = time.process_time() - begin
    own = sum(version.steps.get(team.rank, 0) for version in team.versions)
    messages = sum(sum(version.steps.values()) for version in team.versions) - gathered - own
    say(
        rank=team.rank, seconds=seconds / PATH_STEPS, without=without, copy=copy, messages=max(messages, 0) / PATH_STEPS
    )


def step_rank(kind: str, width: int) -> None:
    """Train a network, by one of three loops."""
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    generator = torch.Generator().manual_seed(rank)
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width if width > 99 else 10))
    optimizer: Any = torch.optim.SGD(model.parameters(), 0.01, 0.9)
    if kind == "ddp":
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    elif kind == "team":
        optimizer = eht.join().optimizer(optimizer, model)
    begin = 0.0
    for step in range(STEPS[width] + 20):
        if step == 20:
            begin = time.process_time()
        inputs, labels = torch.randn(64, 784, generator=generator), torch.randint(0, 10, (64,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    say(seconds=(time.process_time() - begin) / STEPS[width])
    if kind == "ddp":
        dist.barrier()  # or whoever is through closes what another still reads from, which then waits for ever
        dist.destroy_process_group()


def ranks(n: int, *words: str) -> list[dict[str, float]]:
    """Run so many ranks of this file, and return what each has said.

    Ranks of DDP may wait for ever for one that has left, once all have said what they took: they are ended then.
    """
    command = [sys.executable, "-m", "erasurehead.torch.run", "-n", str(n), "--output", "plain", __file__, *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        said = subprocess.run(command, capture_output=True, check=True, env=environment, timeout=MOST).stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        if said.count(b"\n{") + said.startswith(b"{") < n:
            raise
    return [json.loads(line) for line in said.decode().splitlines() if line.startswith("{")]


def main() -> None:
    worker, gathering = [], {size: [] for size in PATH_RANKS}
    over = {(name, other): [] for other in ("ddp", "plain") for name in WIDTHS}
    for _ in range(BLOCKS):
        for size, found in gathering.items():
            path = {int(one["rank"]): one for one in ranks(size, "path")}
            copied = statistics.median(one["copy"] for one in path.values())
            more = {rank: (one["seconds"] - one["without"]) / copied for rank, one in path.items()}
            mean = statistics.mean(copies for rank, copies in more.items() if rank)
            if size == min(PATH_RANKS):
                worker.append(mean)
            found.append((more[0] - mean) / path[0]["messages"])
            print(f"{size} ranks: worker {mean:.1f} copies, gathering {found[-1]:.2f} copies a message", flush=True)
        for name, width in WIDTHS.items():
            sums = {
                kind: statistics.mean(one["seconds"] for one in ranks(STEP_RANKS, kind, str(width)))
                for kind in ("plain", "ddp", "team")
            }
            for other in ("ddp", "plain"):
                over[name, other].append(sums["team"] / sums[other])
            told = ", ".join(f"{kind} {1e3 * seconds:.2f}" for kind, seconds in sums.items())
            print(f"{name}: CPU ms a step: {told}", flush=True)
    ratios = {
        "worker's path, in copies": statistics.median(worker),
        **{name: statistics.median(gathering[size]) for size, name in PATH_RANKS.items()},
        "bytes of a message, MB": 4e-6 * PATH_LENGTH,
        **{
            f"CPU of a step over {'DDP' if other == 'ddp' else 'a plain one'}, {name}": statistics.median(values)
            for (name, other), values in over.items()
        },
    }
    report("networks_path", ratios, TARGETS)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        main()
    elif sys.argv[1] == "path":
        path_rank()
    else:
        step_rank(sys.argv[1], int(sys.argv[2]))
