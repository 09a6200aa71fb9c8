"""One gradient a step from the first ranks, on the virtual clock: all ranks go through the same models."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest
import torch

import erasurehead.torch as eht
from erasurehead.consensus import Crash, NetworkPartition
from erasurehead.errors import InvalidArgument
from erasurehead.torch._simulate import Event, Hang, Join
from erasurehead.torch._ways._first_k import ask_again, time_left

from .small import loop, loss_of, net, weights

pytestmark = pytest.mark.timeout(120)


def adagrad(model: torch.nn.Module) -> torch.optim.Adagrad:
    return torch.optim.Adagrad(model.parameters(), 0.05)


@pytest.mark.parametrize(
    ("durations", "elapsed", "left"),
    [
        ((), 3.0, 0.0),  # unknown: it is waited for
        ((2.0, 4.0), 1.0, 2.0),
        ((2.0, 4.0), 3.0, 1.0),
        ((2.0, 4.0), 5.0, 5.0),  # it has never taken so long: as long again
    ],
)
def test_how_long_a_rank_needs_yet(durations: tuple[float, ...], elapsed: float, left: float) -> None:
    assert time_left(durations, elapsed) == pytest.approx(left)


def test_when_a_step_is_closed() -> None:
    assert ask_again(1.0, 4, ()) <= 1.0  # nobody is out
    assert ask_again(1.0, 1, (0.1, 0.1, 0.1)) == math.inf  # fewer than half
    assert ask_again(1.0, 3, (0.0,)) == math.inf  # nothing is known of one
    assert ask_again(1.0, 3, (9.0,)) <= 1.0  # the next takes 9 s, those that are there took a third
    assert 1.0 < ask_again(1.0, 3, (0.1,)) < 1.2
    assert ask_again(1.0, 2, (0.9, 0.9)) > 1.0  # one of the two comes in 0.45 s
    assert ask_again(1.0, 2, (1.1, 1.1)) <= 1.0


def test_all_are_waited_for_where_nobody_is_slow() -> None:
    run = eht.simulate(loop(15, optimizer=adagrad), ranks=5, seconds_per_sample=0.01)
    assert [len(version.steps) for version in run.versions] == [5] * 15


def test_a_slow_rank_is_not_waited_for() -> None:
    main = loop(lambda rank: 40 if rank else 4, optimizer=adagrad)
    run = eht.simulate(main, ranks=5, seconds_per_sample=[0.1, 0.01, 0.01, 0.01, 0.01])
    assert run.seconds < 12.0
    assert all(len(version.steps) == 4 for version in run.versions[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    [
        (),
        (Join(1.0),),
        (Crash(0, 1.0),),
        (Crash(0, 1.0), Crash(2, 1.0)),
        (Hang(0, 1.0, 9.0),),
        (NetworkPartition((0, 1), 1.0, 9.0),),
    ],
)
def test_ranks_go_through_the_same_models(faults: tuple[Event, ...]) -> None:
    seen: dict[Any, set[bytes]] = defaultdict(set)

    def note(team: eht.Team, _: object, model: torch.nn.Module) -> None:
        seen[team.version].add(weights(model).numpy().tobytes())

    main = loop(60, optimizer=adagrad, each=note)
    run = eht.simulate(main, ranks=4, seconds_per_sample=0.001, delays="exponential(mean=0.2)", faults=faults)
    assert all(len(models) == 1 for models in seen.values())
    model = next(model for model in run.returned if model is not None)
    assert loss_of(model) < 0.4 * loss_of(net())


def test_rates_of_who_is_behind_do_not_differ() -> None:
    """A scheduler counts a rank's own steps, of which a slow one makes fewer: the rate that counts is the mean's."""
    seen: dict[Any, set[bytes]] = defaultdict(set)

    def main() -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(adagrad(model), model)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(8, 12)).square().mean().backward()
            optimizer.step()
            scheduler.step()
            seen[team.version].add(weights(model).numpy().tobytes())

    eht.simulate(main, ranks=3, seconds_per_sample=[0.01, 0.01, 0.035])
    assert all(len(models) == 1 for models in seen.values())


def test_an_optimizer_that_computes_gradients_itself_is_refused() -> None:
    def lbfgs(model: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(model.parameters())

    with pytest.raises(InvalidArgument, match="must make a step of one gradient to meet others, got 'LBFGS'"):
        eht.simulate(loop(3, optimizer=lbfgs), ranks=2)
