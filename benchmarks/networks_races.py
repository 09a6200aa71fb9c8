"""What races of networks are made of: tasks, laws of delays, our ways to meet, and their rivals on the same clock.

All have the same first weights (by seed), the same samples and the same delays (both by seed, rank and the rank's
step). A rank's step takes its seconds of computing and then its delay, as in `eht.simulate`, on which ours run. Rivals
that wait for each other need no events: what they compute does not depend on the clock, and a step of theirs ends when
the last rank it waits for has ended its own. `DistributedDataParallel` gives all ranks the mean of all gradients, so
that a step of one process on all ranks' samples is the same step but for rounding (`tests/torch/test_races.py` compares
it with a run over gloo); sending takes no time, theirs or ours.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, cross_entropy

import erasurehead.torch as eht
from erasurehead.delays import Delays, Exponential, Fixed
from erasurehead.schemes import parse_scheme
from erasurehead.schemes.wait_rules import Verdict
from erasurehead.schemes.wait_rules._view import View

RANKS, BATCH = 10, 64
REACHED: tuple[Literal["accuracy", "loss"], ...] = ("accuracy", "loss")
ROWS = 4_000  # of tables of delays; steps beyond begin again at the first
BESIDE = Path(__file__).resolve().parents[1] / "../shared/data"


def folder() -> Path:
    """Return where public data are: in the folder that ERASUREHEAD_DATA names, or else beside the repository."""
    return Path(os.environ.get("ERASUREHEAD_DATA") or BESIDE)


# Tasks


@dataclass(frozen=True, eq=False)
class Task:
    """A network, its data, and what it is to reach.

    Arguments:
        name: in rows.
        make: the network.
        x, y: samples that are trained on.
        x_test, y_test: samples that accuracy is measured on.
        accuracy, loss: to be reached, the latter on some of the samples that are trained on.
        most: samples after which a run is given up.
        momentum_rates, adamw_rates: among which rivals' best is looked for.
        every: batches, of whichever ranks, after which models are measured.
        tuned_on: number of seeds, of their own, on which rivals' best is looked for.
        whole: whether both are measured to the end, for pictures, and not only until they are reached.
    """

    name: str
    make: Callable[[], nn.Module]
    x: torch.Tensor
    y: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor
    accuracy: float
    loss: float
    most: int
    momentum_rates: tuple[float, ...]
    adamw_rates: tuple[float, ...]
    every: int = 100
    tuned_on: int = 2
    whole: bool = False

    def model(self, seed: int) -> nn.Module:
        """Return the network with the first weights of a seed."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self.make()

    def samples(self, seed: int, rank: int, step: int, size: int = BATCH) -> torch.Tensor:
        """Return which samples a rank's step has."""
        return torch.from_numpy(np.random.default_rng((seed, rank, step)).integers(0, len(self.x), size))

    def loss_of(self, model: nn.Module, own: torch.Tensor) -> torch.Tensor:
        """Return the loss over some samples, to go back from."""
        return cross_entropy(model(self.x[own]), self.y[own])

    def measure(self, model: nn.Module, what: Literal["accuracy", "loss"]) -> float:
        """Return the accuracy of a model, or its loss."""
        was = model.training
        model.eval()
        with torch.no_grad():
            if what == "accuracy":
                found = float((model(self.x_test).argmax(1) == self.y_test).float().mean())
            else:
                found = float(self.loss_of(model, self.samples(5, 0, 0, 3_000)))
        model.train(was)
        return found


def dense(n_pixels: int, hidden: int = 64) -> Callable[[], nn.Module]:
    """Return how to make a network of two dense layers."""
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(n_pixels, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def convolutions(colours: int) -> Callable[[], nn.Module]:
    """Return how to make a network of two convolutions and two dense layers for 14 x 14 or 16 x 16 pixels."""
    return lambda: nn.Sequential(
        *(nn.Conv2d(colours, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def images(values: np.ndarray[Any, Any], *shape: int) -> torch.Tensor:
    """Return pixels from 0 to 255 as images of mean 0 and deviation 1."""
    pixels = torch.from_numpy(values.reshape(-1, *shape).astype(np.float32))
    return (pixels - pixels.mean()) / pixels.std()


@cache
def mnist(found: Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return MNIST: samples and classes to train on, and those to test with."""

    def read(name: str, head: int) -> np.ndarray[Any, Any]:
        return np.frombuffer(gzip.decompress((found / f"{name}-ubyte.gz").read_bytes()), np.uint8, offset=head)

    (x, y), (x_test, y_test) = (
        (
            images(read(f"{part}-images-idx3", 16), 1, 28, 28),
            torch.from_numpy(read(f"{part}-labels-idx1", 8).astype(np.int64)),
        )
        for part in ("train", "t10k")
    )
    return x, y, x_test, y_test


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return 1,797 written digits of 8 x 8 pixels that come with scikit-learn, every fifth of them to test with."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    x, y = images(found.data, 1, 8, 8), torch.from_numpy(found.target.astype(np.int64))
    test = torch.arange(len(x)) % 5 == 0
    return x[~test], y[~test], x[test], y[test]


@cache
def cifar(found: Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a batch of CIFAR-10 to train on, and what is here of its test batch."""
    (x, y), (x_test, y_test) = (
        (images(rows[:, 1:], 3, 32, 32), torch.from_numpy(rows[:, 0].astype(np.int64)))
        for name in ("data_batch_1.bin", "test_batch_first1000.bin")
        for rows in [np.frombuffer((found / name).read_bytes(), np.uint8).reshape(-1, 3073)]
    )
    return x, y, x_test, y_test


def tasks() -> dict[str, Task]:
    """Return the tasks whose data are here, by name; other digits where MNIST is not.

    Convolutions see images of half the width and height: what is raced is who waits for whom, and not the network.
    """
    momentum, adamw = (0.1, 0.05, 0.2), (0.008, 0.004, 0.016, 0.002)
    found: dict[str, Task] = {}
    if (folder() / "mnist").is_dir():
        x, y, x_test, y_test = mnist(folder() / "mnist")
        found["dense"] = Task(
            "dense", dense(784), x, y, x_test, y_test, 0.97, 0.045, 700_000, momentum, adamw, tuned_on=3
        )
        half, half_test = avg_pool2d(x, 2), avg_pool2d(x_test[:5_000], 2)
        found["convolutions"] = Task(
            "convolutions", convolutions(1), half, y, half_test, y_test[:5_000], 0.95, 0.1, 640_000, momentum, adamw
        )
    else:
        lower = (0.004, 0.002, 0.008, 0.001)
        found["dense"] = Task("digits", dense(64), *digits(), 0.95, 0.08, 300_000, momentum, lower, 20)
    if (folder() / "cifar10").is_dir():
        x, y, x_test, y_test = cifar(folder() / "cifar10")
        half, half_test = avg_pool2d(x, 2), avg_pool2d(x_test, 2)
        found["CIFAR-10"] = Task(
            "CIFAR-10", convolutions(3), half, y, half_test, y_test, 0.45, 1.25, 640_000, momentum, adamw
        )
    return found


# Laws of delays


@dataclass(frozen=True)
class Law:
    """How long a rank's step takes.

    Arguments:
        title: what it is.
        compute: seconds that a rank computes on a batch.
        delays: by seed.
    """

    title: str
    compute: float
    delays: Callable[[int], Delays]
    slow: tuple[float, ...] = field(default=(1.0,) * RANKS)

    def seconds_per_sample(self) -> list[float]:
        """Return the seconds that each rank computes on a sample."""
        return [self.compute * factor / BATCH for factor in self.slow]

    def steps(self, seed: int, first: int, count: int) -> np.ndarray[Any, Any]:
        """Return the seconds of each rank's steps, shape (count, ranks)."""
        return self.compute * np.array(self.slow) + self.delays(seed).rows(first, count, RANKS)


def exponential(seed: int) -> Delays:
    """Return delays of 0.2 s on average, some of them long."""
    return Exponential(mean=0.2, seed=seed)


@cache
def jitter(seed: int, first: float = 1.0) -> Delays:
    """Return delays that vary by 5% of 0.1 s, those of the first rank by more."""
    drawn = np.exp(0.05 * np.random.default_rng((seed, 1)).standard_normal((ROWS, RANKS))) - 0.8
    drawn[:, 0] *= first
    return Fixed(tuple(map(tuple, 0.1 * np.maximum(drawn, 0.0))))


@cache
def recorded(seed: int) -> Delays:
    """Return latencies of functions on AWS, their median 0.2 s, of ten of them from a drawn moment on."""
    path = folder() / "traces/aws_lambda/sam-gc-cnn_profile_est_desktop_long.csv.gz"
    blocks: dict[tuple[str, str], list[tuple[int, int, int, float]]] = {}
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            kept = blocks.setdefault((row["region"], row["load"]), [])
            kept.append((int(row["batch"]), int(row["round"]), int(row["worker"]), float(row["latency_s"])))
    chosen = blocks[min(blocks)]
    moments = {moment: row for row, moment in enumerate(sorted({(batch, turn) for batch, turn, _, _ in chosen}))}
    table = np.full((len(moments), 1 + max(worker for _, _, worker, _ in chosen)), np.nan)
    for batch, turn, worker, seconds in chosen:
        table[moments[batch, turn], worker] = seconds
    table = table[:, ~np.isnan(table).any(axis=0)]
    rng = np.random.default_rng(seed)
    table = np.roll(table, -int(rng.integers(len(table))), axis=0)
    table = table[:, rng.choice(table.shape[1], RANKS, replace=False)]
    return Fixed(tuple(map(tuple, 0.2 * table / np.median(table))))


LAWS = {
    "a": Law("0.02 s of computing, delays of 0.2 s on average", 0.02, exponential),
    "b": Law("0.1 s, one rank 10 times slower", 0.08, lambda seed: jitter(seed, 10.0), (10.0,) + (1.0,) * 9),
    "c": Law("0.02 s, delays recorded on AWS, their median 0.2 s", 0.02, recorded),
    "d": Law("0.1 s, no delays, 5% jitter", 0.08, jitter),
    "e": Law("0.1 s of computing, delays of 0.2 s on average", 0.1, exponential),
}


# Runs


@dataclass
class Race:
    """What one method came to: models measured on the way.

    Arguments:
        task: which.
        seconds, samples, accuracy, loss: of each measured model.
    """

    task: Task
    seconds: list[float] = field(default_factory=list[float])
    samples: list[int] = field(default_factory=list[int])
    accuracy: list[float] = field(default_factory=list[float])
    loss: list[float] = field(default_factory=list[float])

    def add(self, seconds: float, samples: int, model: nn.Module) -> None:
        """Measure a model: what is not reached yet."""
        self.seconds.append(seconds)
        self.samples.append(samples)
        for what, own in zip(REACHED, (self.accuracy, self.loss), strict=True):
            again = self.task.whole or not own or self.first(what) is None
            own.append(self.task.measure(model, what) if again else own[-1])

    @property
    def over(self) -> bool:
        """Whether all is reached, or it is given up."""
        if self.samples and self.samples[-1] >= self.task.most:
            return True
        return bool(self.loss) and None not in map(self.first, REACHED)

    def first(self, what: Literal["accuracy", "loss"]) -> int | None:
        """Return the first measured model that has reached the accuracy, or the loss."""
        if what == "accuracy":
            return next((row for row, one in enumerate(self.accuracy) if one >= self.task.accuracy), None)
        return next((row for row, one in enumerate(self.loss) if one <= self.task.loss), None)

    def seconds_to(self) -> tuple[float, float]:
        """Return when the accuracy and the loss were reached; inf if they never were."""
        return self._reached(self.seconds)

    def samples_to(self) -> tuple[float, float]:
        """Return after how many samples the accuracy and the loss were reached; inf if they never were."""
        return self._reached(self.samples)

    def _reached(self, axis: Sequence[float]) -> tuple[float, float]:
        accuracy, loss = (float("inf") if row is None else axis[row] for row in map(self.first, REACHED))
        return accuracy, loss

    def timed(self, ends: Callable[[int], float]) -> Race:
        """Return the same run on another clock, which says when so many samples of a rank were through."""
        return Race(self.task, [ends(each) for each in self.samples], self.samples, self.accuracy, self.loss)


def optimizer_of(kind: str, rate: float, model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer by its name in rows."""
    if kind == "momentum":
        return torch.optim.SGD(model.parameters(), rate, 0.9)
    return torch.optim.AdamW(model.parameters(), rate)


def ours(task: Task, law: Law, kind: str, rate: float, seed: int, way: str | None = None) -> Race:
    """Run a stock loop as a team of ranks on the virtual clock."""
    race, made = Race(task), 0

    def main() -> None:
        nonlocal made
        team = eht.join()
        model = task.model(seed)
        optimizer = team.optimizer(optimizer_of(kind, rate, model), model, **({} if way is None else {"way": way}))
        step = 0
        while not race.over:
            optimizer.zero_grad()
            task.loss_of(model, task.samples(seed, team.rank, step)).backward()
            optimizer.step()
            step += 1
            made += 1
            if made % task.every == 0:
                race.add(team.seconds, made * BATCH, team.model())

    eht.simulate(main, RANKS, delays=law.delays(seed), seconds_per_sample=law.seconds_per_sample())
    return race


def coded(task: Task, law: Law, kind: str, rate: float, seed: int, scheme: str) -> Race:
    """Run with gradients by a scheme whose late ranks leave a step when it is over, as `team.backward` lets them.

    All ranks begin each step at once, so what a team comes to needs no events either (`tests/torch/test_races.py`
    compares both): of each step the first arrivals that the scheme waits for, and what they decode to.
    """
    made = parse_scheme(scheme, RANKS)
    model = task.model(seed)
    optimizer = optimizer_of(kind, rate, model)
    race, now, step = Race(task), 0.0, 0
    compute = law.compute * np.array(law.slow) * made.code.loads
    delays = law.delays(seed).rows(0, ROWS, RANKS)
    while not race.over:
        arrivals = (compute + delays[step % ROWS]).tolist()
        view, last = View(made.decoder), 0.0
        for rank in sorted(range(RANKS), key=arrivals.__getitem__):
            view.add(int(made.code.messages_of(rank)[0]))
            last = arrivals[rank]
            if made.rule.verdict(view) is Verdict.STOP:
                break
        counted = torch.from_numpy(np.repeat(view.session.decoding().alpha[0], BATCH)).float()
        own = torch.cat([task.samples(seed, rank, step) for rank in range(RANKS)])
        optimizer.zero_grad()
        losses = cross_entropy(model(task.x[own]), task.y[own], reduction="none")
        ((losses * counted).sum() / counted.sum()).backward()
        optimizer.step()
        now, step = now + last, step + 1
        if step * RANKS % task.every == 0:
            race.add(now, step * RANKS * BATCH, model)
            if not race.loss[-1] < 10.0:
                break
    return race


def ddp_steps(task: Task, kind: str, rate: float, seed: int) -> Iterator[nn.Module]:
    """Yield the model after each step of `DistributedDataParallel`, as one process makes it of all ranks' samples."""
    model = task.model(seed)
    optimizer = optimizer_of(kind, rate, model)
    step = 0
    while True:
        own = torch.cat([task.samples(seed, rank, step) for rank in range(RANKS)])
        optimizer.zero_grad()
        task.loss_of(model, own).backward()
        optimizer.step()
        step += 1
        yield model


def ddp(task: Task, kind: str, rate: float, seed: int) -> Race:
    """Return the run of `DistributedDataParallel`, in steps."""
    return _run(task, ddp_steps(task, kind, rate, seed), 1)


def post_local(task: Task, kind: str, rate: float, seed: int, period: int) -> Race:
    """Return the run of PyTorch's PostLocalSGD, in steps: `DistributedDataParallel` at first, then averaged models."""
    return _run(task, _local_steps(task, kind, rate, seed, period, alone_from=100, outer=False), 1)


def diloco(task: Task, kind: str, rate: float, seed: int, period: int) -> Race:
    """Return the run of DiLoCo, in steps: Nesterov's method (0.7, 0.9) on what ranks did in so many steps of theirs."""
    return _run(task, _local_steps(task, kind, rate, seed, period, alone_from=0, outer=True), period)


def _run(task: Task, models: Iterator[nn.Module], steps: int) -> Race:
    race = Race(task)
    for number, model in enumerate(models, 1):
        samples = number * steps * RANKS * BATCH
        if (number * steps) % (task.every // RANKS) < steps:
            race.add(float(number * steps), samples, model)
            if race.over or not race.loss[-1] < 10.0:
                break
    return race


def _local_steps(
    task: Task, kind: str, rate: float, seed: int, period: int, alone_from: int, outer: bool
) -> Iterator[nn.Module]:
    mean, models = task.model(seed), [task.model(seed) for _ in range(RANKS)]
    optimizers = [optimizer_of(kind, rate, model) for model in models]
    outside = torch.optim.SGD(mean.parameters(), 0.7, 0.9, nesterov=True)
    step = 0
    while True:
        for rank, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            optimizer.zero_grad()
            task.loss_of(model, task.samples(seed, rank, step)).backward()
        if step < alone_from:
            for same in zip(*(model.parameters() for model in models), strict=True):
                gradient = torch.stack([each.grad for each in same if each.grad is not None]).mean(0)
                for each in same:
                    each.grad = gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
        step += 1
        if step % period and (outer or step > alone_from):
            if not outer:
                yield _average(mean, models)
            continue
        if outer:
            for own, *same in zip(*(each.parameters() for each in (mean, *models)), strict=True):
                own.grad = own.detach() - torch.stack([each.detach() for each in same]).mean(0)
            outside.step()
        else:
            _average(mean, models)
        with torch.no_grad():
            for own, *same in zip(*(each.parameters() for each in (mean, *models)), strict=True):
                for each in same:
                    each.copy_(own)
        yield mean


def _average(mean: nn.Module, models: list[nn.Module]) -> nn.Module:
    with torch.no_grad():
        for own, *same in zip(*(each.parameters() for each in (mean, *models)), strict=True):
            own.copy_(torch.stack([each.detach() for each in same]).mean(0))
    return mean


def alone(task: Task, kind: str, rate: float, seed: int) -> Race:
    """Return the run of one process alone, in batches of one rank."""
    model = task.model(seed)
    optimizer = optimizer_of(kind, rate, model)
    race, step = Race(task), 0
    while not race.over:
        optimizer.zero_grad()
        task.loss_of(model, task.samples(seed, RANKS, step)).backward()
        optimizer.step()
        step += 1
        if step % task.every == 0:
            race.add(float(step), step * BATCH, model)
            if not race.loss[-1] < 10.0:
                break
    return race


def first_of(task: Task, law: Law, kind: str, rate: float, seed: int, least: int) -> Race:
    """Run with the mean of the first gradients of each step; late ranks end theirs, which is lost, and then go on.

    So does torchft, where `min_replica_size` ranks make a step without those that are not there.
    """
    model = task.model(seed)
    optimizer = optimizer_of(kind, rate, model)
    race, made = Race(task), 0
    steps = [0] * RANKS
    table = law.steps(seed, 0, ROWS)
    ends = table[0].copy()
    begun = [0] * RANKS  # the version that each rank computes on
    version, now = 0, 0.0
    while not race.over:
        came: list[int] = []
        own: list[torch.Tensor] = []
        while len(came) < least:
            rank = int(np.argmin(ends))
            now = max(now, float(ends[rank]))
            if begun[rank] == version:
                came.append(rank)
                own.append(task.samples(seed, rank, steps[rank]))
                ends[rank] = np.inf
            else:
                begun[rank] = version
                ends[rank] = now + table[(steps[rank] + 1) % ROWS, rank]
            steps[rank] += 1
        optimizer.zero_grad()
        task.loss_of(model, torch.cat(own)).backward()
        optimizer.step()
        before, made = made, made + least
        version += 1
        for rank in came:
            begun[rank] = version
            ends[rank] = now + table[steps[rank] % ROWS, rank]
        if made // task.every > before // task.every:
            race.add(now, made * BATCH, model)
            if not race.loss[-1] < 10.0:
                break
    return race


def waited(law: Law, seed: int, period: int = 1, together: int = 0) -> Callable[[int], float]:
    """Return the clock of ranks that wait for all others every so many steps: when so many samples were through.

    Arguments:
        law: how long steps take.
        seed: of delays.
        period: steps between two times that they wait.
        together: the first steps, in which they wait each time.
    """
    steps = np.concatenate([law.steps(seed, first, ROWS) for first in (0, ROWS)])
    ends = [0.0]
    since = np.zeros(RANKS)
    for number, row in enumerate(steps, 1):
        since += row
        if number <= together or number % period == 0:
            ends.append(ends[-1] + float(since.max()))
            since[:] = 0.0
        else:
            ends.append(ends[-1])
    through = np.array(ends)
    return lambda samples: float(through[min(samples // (RANKS * BATCH), len(through) - 1)])
