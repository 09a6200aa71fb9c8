"""Outer steps (`every=`): ranks with samples of one kind each, some of them slow; and lines of 20 Mbit/s.

All on the virtual clock.

*Sorted*: eight ranks, MNIST sorted by class, an eighth each; two ranks take four times as long for a step as the
others, a second. Who reaches a training loss of 0.25 within 1,500 seconds? All make steps of SGD with the same rate,
and DiLoCo has the outer rate and momentum of its paper, as ours.

*Lines*: ranks with a line of 20 Mbit/s each way, a model of 10 million parameters, 0.1 s of computing a step, and
`every=50`. `DistributedDataParallel` sends and gets 2 (n - 1) / n models a step (a ring): computed, not run. What is
trained has 51,000 parameters, and lines that are slower by as much, which takes ours the same seconds. Losses are those
of AdamW after the same samples.

*Coded*: ten ranks whose steps have the gradients of the same batches as those of `DistributedDataParallel`, by exact
codes: how many steps they make while that makes one, under the laws of `networks.py`; every sample costs computing, and
a late rank leaves a step that the others have made (`team.backward`). No machine could make more: beside it is that of
ranks which all begin each step at once, with the same delays.

    python benchmarks/networks_outer.py             all, five seeds: about ten minutes of one core
    python benchmarks/networks_outer.py --seeds 1
    python benchmarks/networks_outer.py --only sorted
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, cross_entropy

import erasurehead.torch as eht
import networks_races as races
from common import report
from erasurehead.delays import Exponential
from erasurehead.schemes import parse_scheme

# Sorted

RANKS, EVERY, BATCH, RATE = 8, 20, 32, 0.1
SLOW = (4.0, 4.0, *(1.0,) * (RANKS - 2))
LOSS, LIMIT, MEASURED = 0.25, 1_500.0, 15.0


@dataclass(frozen=True, eq=False)
class Sorted:
    """Samples sorted by class, a part of them on each rank.

    Arguments:
        x, y: the samples.
        seed: of first weights, of which samples a step has, and of delays.
    """

    x: torch.Tensor
    y: torch.Tensor
    seed: int

    def model(self) -> nn.Module:
        """Return the network with its first weights."""
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            return nn.Sequential(nn.Linear(self.x.shape[1], 32), nn.ReLU(), nn.Linear(32, 10))

    def loss(self, model: nn.Module) -> float:
        """Return the loss over all samples."""
        with torch.no_grad():
            return float(cross_entropy(model(self.x), self.y))

    def backward(self, model: nn.Module, rank: int, drawn: np.random.Generator) -> None:
        """Compute the gradient of a rank's next step."""
        parts = torch.tensor_split(torch.argsort(self.y, stable=True), RANKS)
        own = parts[rank][torch.from_numpy(drawn.integers(0, len(parts[rank]), BATCH))]
        cross_entropy(model(self.x[own]), self.y[own]).backward()

    def generators(self) -> list[np.random.Generator]:
        """Return what each rank draws its samples with."""
        return [np.random.default_rng((self.seed, rank)) for rank in range(RANKS)]

    @property
    def delays(self) -> Exponential:
        """Return the delay of each step."""
        return Exponential(mean=0.1, seed=self.seed)

    def steps(self, count: int) -> np.ndarray:
        """Return the seconds of each rank's steps, shape (count, ranks)."""
        return np.array(SLOW) + self.delays.rows(0, count, RANKS)


def sorted_mnist(seed: int) -> Sorted:
    """Return 1,500 images of MNIST of 7 x 7 pixels."""
    x, y, _, _ = races.mnist(races.folder() / "mnist")
    small = avg_pool2d(x, 4)[:1_500].reshape(1_500, -1)
    return Sorted((small - small.mean(0)) / small.std(), y[:1_500], seed)


def team(task: Sorted, **options: object) -> float:
    """Return when a team reaches the loss; inf if it does not."""
    found, measured = math.inf, 0.0

    def main() -> None:
        nonlocal found, measured
        own = eht.join()
        model = task.model()
        optimizer = own.optimizer(torch.optim.SGD(model.parameters(), RATE), model, **options)
        drawn = task.generators()[own.rank]
        while math.isinf(found) and own.seconds < LIMIT:
            optimizer.zero_grad()
            task.backward(model, own.rank, drawn)
            optimizer.step()
            if own.first and own.seconds > measured + MEASURED:
                measured = own.seconds
                found = measured if task.loss(own.model()) <= LOSS else math.inf

    eht.simulate(main, RANKS, delays=task.delays, seconds_per_sample=[each / BATCH for each in SLOW])
    return found


def reached(task: Sorted, models: Iterator[tuple[float, nn.Module]]) -> float:
    """Return when one of the models that a rival comes to, each with its time, reaches the loss; inf if none does."""
    measured = 0.0
    for seconds, model in models:
        if seconds > LIMIT:
            break
        if seconds > measured + MEASURED:
            measured = seconds
            if task.loss(model) <= LOSS:
                return seconds
    return math.inf


def synchronous(task: Sorted) -> Iterator[tuple[float, nn.Module]]:
    """Yield the models of `DistributedDataParallel`."""
    model, drawn, now = task.model(), task.generators(), 0.0
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    for row in task.steps(int(LIMIT)):
        optimizer.zero_grad()
        for rank in range(RANKS):
            task.backward(model, rank, drawn[rank])
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad /= RANKS
        optimizer.step()
        now += float(row.max())
        yield now, model


def diloco(task: Sorted, first: int) -> Iterator[tuple[float, nn.Module]]:
    """Yield the models of DiLoCo: rounds that end with so many ranks, where the others' work is lost."""
    whole, models, drawn = task.model(), [task.model() for _ in range(RANKS)], task.generators()
    outer = torch.optim.SGD(whole.parameters(), 0.7, 0.9, nesterov=True)
    steps, now = task.steps(int(LIMIT)), 0.0
    for row in range(0, len(steps) - EVERY, EVERY):
        ends = steps[row : row + EVERY].sum(0)
        came = np.argsort(ends)[:first]
        now += float(ends[came[-1]])
        for rank in came:
            models[rank].load_state_dict(whole.state_dict())
            inner = torch.optim.SGD(models[rank].parameters(), RATE)
            for _ in range(EVERY):
                inner.zero_grad()
                task.backward(models[rank], int(rank), drawn[rank])
                inner.step()
        for own, *theirs in zip(*(each.parameters() for each in (whole, *(models[r] for r in came))), strict=True):
            own.grad = own.detach() - torch.stack([each.detach() for each in theirs]).mean(0)
        outer.step()
        yield now, whole


METHODS: dict[str, Callable[[Sorted], float]] = {
    "ours, every=20": lambda task: team(task, every=EVERY),
    "ours, busy": team,
    "ours, first gradients": lambda task: team(task, way="first-gradients"),
    "DDP": lambda task: reached(task, synchronous(task)),
    "DiLoCo, all": lambda task: reached(task, diloco(task, RANKS)),
    "DiLoCo, first 6": lambda task: reached(task, diloco(task, 6)),
}


def sorted_rows(seeds: Sequence[int]) -> tuple[dict[str, float], dict[str, str]]:
    """Return in how many of the seeds each method reaches the loss, and when."""
    rows: dict[str, float] = {}
    for name, method in METHODS.items():
        found = sorted(method(sorted_mnist(seed)) for seed in seeds)
        rows |= {f"sorted, {name}: seconds, from": found[0], f"sorted, {name}: seconds, to": found[-1]}
        rows[f"sorted, {name}: seeds that reach the loss"] = sum(map(math.isfinite, found)) / len(found)
    return rows, {f"sorted, {next(iter(METHODS))}: seeds that reach the loss": ">= 1"}


# Lines

ROUND, STEPS, COMPUTE, MBIT, PARAMETERS = 50, 2_000, 0.1, 20.0, 10_000_000
OUTER_KIND, OUTER_RATE = "adamw", 0.002


def over_lines(task: races.Task, ranks: int, steps: int, narrow: bool, seed: int) -> tuple[float, float]:
    """Return how many times as many samples a second a team has as `DistributedDataParallel`, and its loss."""
    n_parameters = sum(parameter.numel() for parameter in task.model(seed).parameters())

    def main() -> nn.Module:
        own = eht.join()
        model = task.model(seed)
        inner = races.optimizer_of(OUTER_KIND, OUTER_RATE, model)
        optimizer = own.optimizer(inner, model, every=ROUND, bfloat16=narrow)
        for step in range(steps):
            optimizer.zero_grad()
            task.loss_of(model, task.samples(seed, own.rank, step)).backward()
            optimizer.step()
        own.close()
        return own.model()

    mbit = MBIT * n_parameters / PARAMETERS
    run = eht.simulate(main, ranks, seconds_per_sample=COMPUTE / races.BATCH, mbit=mbit)
    ring = COMPUTE + 2.0 * (ranks - 1) / ranks * 32e-6 * PARAMETERS / MBIT
    model = run.returned[run.versions[-1].gathered_by]
    assert model is not None
    since = run.versions[0].seconds  # all have the first model, which a rank has to send to all others
    made = sum(sum(version.steps.values()) for version in run.versions[1:]) / ranks
    return ring * made / (run.versions[-1].seconds - since), task.measure(model, "loss")


def synchronous_loss(task: races.Task, ranks: int, steps: int, seed: int) -> float:
    """Return the loss of `DistributedDataParallel` after so many steps."""
    before, races.RANKS = races.RANKS, ranks
    try:
        for number, model in enumerate(races.ddp_steps(task, OUTER_KIND, OUTER_RATE, seed), 1):
            if number == steps:
                return task.measure(model, "loss")
    finally:
        races.RANKS = before
    raise AssertionError


def line_rows(seeds: Sequence[int]) -> tuple[dict[str, float], dict[str, str]]:
    """Return samples a second over those of `DistributedDataParallel`, and loss over its."""
    task = races.tasks()["dense"]
    rows: dict[str, float] = {}
    for ranks in (2, 4, 8):
        for narrow in (False, True):
            faster, _ = over_lines(task, ranks, 1_000, narrow, seeds[0])
            form = "bfloat16" if narrow else "float32"
            rows[f"20 Mbit/s, {ranks} ranks, {form}: samples a second over DDP"] = faster
    losses = [
        over_lines(task, 4, STEPS, narrow=True, seed=seed)[1] / synchronous_loss(task, 4, STEPS, seed) for seed in seeds
    ]
    targets = {key: ">= 20" for key in rows if "bfloat16" in key}
    loss = "20 Mbit/s, 4 ranks, bfloat16: loss over DDP's"
    rows |= {loss: statistics.median(losses), f"{loss}, from": min(losses), f"{loss}, to": max(losses)}
    return rows, targets | {loss: "<= 1.1"}


# Coded

CODED_STEPS = 100
SCHEMES = ("exact(load=2)", "exact(load=3)", "exact(load=5)")


def coded(law: races.Law, scheme: str, seed: int) -> float:
    """Return how many steps ranks make by a scheme while `DistributedDataParallel` makes one."""
    data = torch.utils.data.TensorDataset(torch.zeros(races.RANKS * races.BATCH * CODED_STEPS, 1))

    def main() -> None:
        own = eht.join()
        model = nn.Linear(1, 1)
        inner = torch.optim.SGD(model.parameters(), 0.1)
        optimizer = own.optimizer(inner, model, every="gradient", scheme=scheme)
        for (inputs,) in own.batches(data, batch_size=races.RANKS * races.BATCH):
            optimizer.zero_grad()
            own.backward(model(inputs)[:, 0])
            optimizer.step()

    run = eht.simulate(main, races.RANKS, delays=law.delays(seed), seconds_per_sample=law.seconds_per_sample())
    assert len(run.versions) == CODED_STEPS
    return races.waited(law, seed)(CODED_STEPS * races.RANKS * races.BATCH) / run.versions[-1].seconds


def possible(law: races.Law, scheme: str, seed: int) -> float:
    """Return how many steps are possible by a scheme while `DistributedDataParallel` makes one."""
    made = parse_scheme(scheme, races.RANKS)
    compute = law.compute * np.array(law.slow) * made.code.loads
    ends = made.rule.stop_times(compute + law.delays(seed).rows(0, CODED_STEPS, races.RANKS), made.decoder)
    return races.waited(law, seed)(CODED_STEPS * races.RANKS * races.BATCH) / float(ends.sum())


def coded_rows(seeds: Sequence[int]) -> tuple[dict[str, float], dict[str, str]]:
    """Return how many times as many steps a second exact codes make as `DistributedDataParallel`."""
    rows: dict[str, float] = {
        f"{name}, {scheme}: steps a second over DDP": statistics.median(coded(law, scheme, seed) for seed in seeds)
        for name, law in races.LAWS.items()
        if name != "c" or (races.folder() / "traces").is_dir()
        for scheme in SCHEMES
    }
    most = statistics.median(possible(races.LAWS["a"], "exact(load=3)", seed) for seed in seeds)
    rows["a, exact(load=3): steps a second over DDP, the most that is possible"] = most
    rows["a, exact(load=3): of what is possible"] = rows["a, exact(load=3): steps a second over DDP"] / most
    return rows, {"a, exact(load=3): of what is possible": ">= 0.99"}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", choices=("", "sorted", "lines", "coded"))
    options = parser.parse_args(given)
    torch.set_num_threads(1)
    rows: dict[str, float] = {}
    targets: dict[str, str] = {}
    for name, part in (("sorted", sorted_rows), ("lines", line_rows), ("coded", coded_rows)):
        if options.only in ("", name):
            own, wanted = part(range(1, options.seeds + 1))
            rows |= own
            targets |= wanted
    report("networks_outer", rows, targets)


if __name__ == "__main__":
    main()
