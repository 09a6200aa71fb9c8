"""How good is the first choice of `erasurehead plan-network`? Eight situations, with every way to meet run in each.

Eight ranks train a network of two dense layers on the written digits that come with scikit-learn, on the virtual clock,
32 samples a rank and step, to a training loss of 0.03. The plan is made from a trace of 200 steps of the same law, with
other draws. A regret is the time of its first choice over that of the quickest way, means over seeds; a way is given up
at two and a half times the quickest so far. `DistributedDataParallel` is computed, as in `networks_races.py`; where the
network is slow, what it sends is a ring's 2 (n - 1) / n models a step. A code's steps are those of
`DistributedDataParallel`, and how long they take is run. Rates are the same for all ways.

    python benchmarks/plan_networks.py             all, two seeds: about a quarter of an hour of one core
    python benchmarks/plan_networks.py --seeds 1 --only lines
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import erasurehead.torch as eht
import networks_races as races
from common import report
from erasurehead.delays import Bootstrap, Delays, Exponential, Trace
from erasurehead.planning import plan_network
from erasurehead.planning._networks import NetworkOptimizer, NetworkPlan

RANKS, SHARE, LOSS, TRACED = 8, 32, 0.03, 200
GIVEN_UP = 2.5  # times what the quickest way so far took
RATES = {"momentum": 0.05, "adamw": 0.004}
PARAMETERS, MBIT = 10_000_000, 20.0
CODES = ("exact(load=2)", "exact(load=4)")
SEED_OF_TRACE = 100


@dataclass(frozen=True)
class Situation:
    """Ranks, and what keeps them.

    Arguments:
        name: in rows.
        seconds: what each rank computes on its share of a batch.
        delay: mean of the delay of a step, exponential.
        optimizer: `"momentum"` or `"adamw"`.
        mbit: million bits a second of a rank's line, with a model of ten million parameters.
        mixed: whether each rank has samples of all classes; if not, they are sorted, and each has a part.
    """

    name: str
    seconds: tuple[float, ...]
    delay: float
    optimizer: NetworkOptimizer = "momentum"
    mbit: float = math.inf
    mixed: bool = True

    def delays(self, seed: int) -> Delays:
        """Return the delays of a seed."""
        return Exponential(mean=self.delay, seed=seed)


EQUAL = (1.0,) * RANKS


def times(seconds: float, factors: Sequence[float] = EQUAL) -> tuple[float, ...]:
    """Return what ranks of these factors compute."""
    return tuple(seconds * each for each in factors)


SITUATIONS = (
    Situation("long delays", times(0.02), 0.2),
    Situation("delays", times(0.1), 0.2),
    Situation("one slow", times(0.1, (10.0, *EQUAL[1:])), 0.005),
    Situation("nobody slow", times(0.1), 0.005),
    Situation("delays, AdamW", times(0.1), 0.2, "adamw"),
    Situation("half slow, AdamW", times(0.1, (2.0,) * 4 + (1.0,) * 4), 0.005, "adamw"),
    Situation("lines, AdamW", times(0.1), 0.005, "adamw", MBIT),
    Situation("sorted, two slow", times(0.1, (4.0, 4.0, *EQUAL[2:])), 0.01, mixed=False),
)


@dataclass(frozen=True, eq=False)
class Task:
    """The digits, and the network that learns them.

    Arguments:
        x, y: samples that are trained on.
        seed: of first weights, and of which samples a step has.
        mixed: as of a situation.
    """

    x: torch.Tensor
    y: torch.Tensor
    seed: int
    mixed: bool

    @classmethod
    def of(cls, situation: Situation, seed: int) -> Task:
        """Return the task of a situation."""
        x, y, _, _ = races.digits()
        if not situation.mixed:
            order = torch.argsort(y, stable=True)
            x, y = x[order], y[order]
        return cls(x.flatten(1), y, seed, situation.mixed)

    def model(self) -> nn.Module:
        """Return the network with its first weights."""
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            return races.dense(64)()

    def own(self, rank: int, step: int) -> torch.Tensor:
        """Return which samples a rank's step has."""
        begin, end = (
            (0, len(self.x)) if self.mixed else (rank * len(self.x) // RANKS, (rank + 1) * len(self.x) // RANKS)
        )
        return torch.from_numpy(np.random.default_rng((self.seed, rank, step)).integers(begin, end, SHARE))

    def loss_of(self, model: nn.Module, own: torch.Tensor) -> torch.Tensor:
        """Return the loss over some samples, to go back from."""
        return cross_entropy(model(self.x[own]), self.y[own])

    def reached(self, model: nn.Module) -> bool:
        """Return whether the loss over all samples is low enough."""
        with torch.no_grad():
            return float(cross_entropy(model(self.x), self.y)) <= LOSS


class _Over(Exception):
    """Ends a simulation when the loss is reached, or the time is up."""


def simulated(situation: Situation, seed: int, main: Callable[[], Any], n_parameters: int) -> Any:
    """Run a main on the clock of a situation, with lines that are slower as its network is smaller."""
    return eht.simulate(
        main,
        RANKS,
        delays=situation.delays(seed),
        seconds_per_sample=[each / SHARE for each in situation.seconds],
        mbit=situation.mbit * n_parameters / PARAMETERS,
    )


def team(situation: Situation, seed: int, limit: float, by_speed: bool = False, **options: Any) -> float:
    """Return when a team reaches the loss; inf if it does not within a limit."""
    task, found, measured = Task.of(situation, seed), math.inf, 0

    def main() -> None:
        nonlocal found, measured
        own = eht.join()
        model = task.model()
        inner = races.optimizer_of(situation.optimizer, RATES[situation.optimizer], model)
        optimizer = own.optimizer(inner, model, **options)
        for rows in batches(own):
            optimizer.zero_grad()
            task.loss_of(model, rows).backward()
            optimizer.step()
            if own.seconds > limit:
                raise _Over
            if own.version[1] != measured:
                measured = own.version[1]
                if task.reached(own.model()):
                    found = own.seconds
                    raise _Over

    def batches(own: Any) -> Any:
        step = epoch = 0
        while True:
            if by_speed:
                yield from own.batches(
                    range(len(task.x)), batch_size=RANKS * SHARE, seed=seed, epoch=epoch, speeds="measured"
                )
            else:
                yield task.own(own.rank, step)
            step, epoch = step + 1, epoch + 1

    with suppress(_Over):
        simulated(situation, seed, main, sum(each.numel() for each in task.model().parameters()))
    return found


def steps_of_ddp(situation: Situation, seed: int) -> float:
    """Return after how many steps `DistributedDataParallel` reaches the loss."""
    task = Task.of(situation, seed)
    model = task.model()
    optimizer = races.optimizer_of(situation.optimizer, RATES[situation.optimizer], model)
    for step in range(3_000):
        optimizer.zero_grad()
        task.loss_of(model, torch.cat([task.own(rank, step) for rank in range(RANKS)])).backward()
        optimizer.step()
        if task.reached(model):
            return step + 1
    return math.inf


def step_of_ddp(situation: Situation, seed: int) -> float:
    """Return the seconds of its step."""
    drawn = situation.delays(seed).rows(0, 500, RANKS) + np.array(situation.seconds)
    return float(drawn.max(axis=1).mean()) + 2.0 * (RANKS - 1) / RANKS * 32e-6 * PARAMETERS / situation.mbit


def step_of_code(situation: Situation, seed: int, scheme: str, steps: int = 70) -> float:
    """Return the seconds of a step that has the whole batch's gradient by a code, where late ranks leave off."""
    data, ended = torch.utils.data.TensorDataset(torch.zeros(RANKS * SHARE * 2 * steps, 1)), math.inf

    def main() -> None:
        nonlocal ended
        own = eht.join()
        model = nn.Linear(1, 500)
        optimizer = own.optimizer(torch.optim.SGD(model.parameters(), 0.1), model, every="gradient", scheme=scheme)
        for (inputs,) in own.batches(data, batch_size=RANKS * SHARE):
            if own.version[1] >= steps:
                ended = own.seconds
                raise _Over
            optimizer.zero_grad()
            own.backward(model(inputs).sum(1))
            optimizer.step()

    with suppress(_Over):
        simulated(situation, seed, main, 1_000)
    return ended / steps


def truth(situation: Situation, seed: int) -> tuple[dict[str, float], float]:
    """Return the seconds that each way takes, inf where it is given up; and the steps of waiting for all."""
    steps = steps_of_ddp(situation, seed)
    found = {"wait for all": steps * step_of_ddp(situation, seed)}
    for scheme in CODES:
        found[scheme] = steps * step_of_code(situation, seed, scheme)
    mean = {} if situation.optimizer == "adamw" else {"outer_rate": 1.0, "outer_momentum": 0.0}
    options: dict[str, dict[str, Any]] = {
        "every=50": {"every": 50, "bfloat16": situation.mbit < math.inf, **mean},
        "every=20": {"every": 20, "bfloat16": situation.mbit < math.inf, **mean},
        "busy": {},
        "first gradients": {"way": "first-gradients"},
    }
    if situation.mixed and max(situation.seconds) > 1.1 * min(situation.seconds):
        options["shares by speed"] = {"way": "first-gradients", "by_speed": True}
    for name, chosen in options.items():
        found[name] = team(situation, seed, GIVEN_UP * min(found.values()), **chosen)
    ranked = sorted(found.items(), key=lambda each: each[1])
    said = ", ".join(f"{name} {seconds:.3g}" for name, seconds in ranked)
    print(f"{situation.name}, seed {seed}, {steps} steps: {said}", file=sys.stderr, flush=True)
    return found, steps


def planned(situation: Situation) -> NetworkPlan:
    """Return the plan from a trace of the situation."""
    trace = Trace.from_table(situation.delays(SEED_OF_TRACE).rows(0, TRACED, RANKS))
    return plan_network(
        Bootstrap.from_trace(trace),
        RANKS,
        [each / SHARE for each in situation.seconds],
        RANKS * SHARE,
        4.0 * PARAMETERS,
        situation.mbit,
        situation.optimizer,
        situation.mixed,
    )


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args(given)
    torch.set_num_threads(1)
    rows: dict[str, float | str] = {}
    regrets: list[float] = []
    within: list[bool] = []
    for situation in SITUATIONS:
        if options.only not in situation.name:
            continue
        plan = planned(situation)
        runs = [truth(situation, seed) for seed in range(1, options.seeds + 1)]
        took = {way: statistics.mean(found[way] for found, _ in runs) for way in runs[0][0]}
        for way in plan.ways:
            low, high = way.band
            within += [low * steps <= found[way.name] <= high * steps for found, steps in runs if way.name in found]
        best = min(took, key=lambda way: took[way])
        regrets.append(took[plan.best.name] / took[best])
        rows |= {f"{situation.name}: {way}, seconds": seconds for way, seconds in took.items()}
        rows |= {
            f"{situation.name}: best, way": best,
            f"{situation.name}: best, seconds": took[best],
            f"{situation.name}: first choice, way": plan.best.name,
            f"{situation.name}: first choice, seconds": took[plan.best.name],
            f"{situation.name}: regret": regrets[-1],
        }
    rows |= {
        "regret, median": statistics.median(regrets),
        "regret, worst": max(regrets),
        "runs within the range of the plan, share": statistics.mean(within),
    }
    report("plan_networks", rows, {"regret, median": "<= 1.1", "regret, worst": "<= 1.4"})


if __name__ == "__main__":
    main()
