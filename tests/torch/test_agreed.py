"""What ranks must have in common: each difference is found before the first step, with what it is and whose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

import erasurehead
import erasurehead.torch as eht
from erasurehead.errors import InvalidArgument

from .small import loop, momentum, net

pytestmark = pytest.mark.timeout(60)


def differing(
    rank: int,
    make: Callable[[], nn.Module] = net,
    optimizer: Callable[[nn.Module], Optimizer] = momentum,
    usual: Callable[[nn.Module], Optimizer] = momentum,
    ordinary: Callable[[], nn.Module] = net,
) -> None:
    """Simulate a team of which one rank has another model or another optimizer."""

    def main() -> None:
        team = eht.join()
        other = team.rank == rank
        model = make() if other else ordinary()
        team.optimizer((optimizer if other else usual)(model), model)

    eht.simulate(main, 3)


def frozen(seed: int, weight: bool = True) -> nn.Module:
    model = net(seed)
    one = next(model.parameters())
    one.requires_grad_(False)
    return model


def trained_part(model: nn.Module) -> Optimizer:
    return SGD([one for one in model.parameters() if one.requires_grad], 0.1, 0.9)


def groups(model: nn.Module) -> Optimizer:
    one, *others = model.parameters()
    return SGD([{"params": [one]}, {"params": others, "lr": 0.01}], 0.1, 0.9)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (
            {"make": lambda: net(width=17)},
            r"parameter '0.weight' is float32 \(17, 12\) here, and float32 \(16, 12\) there; "
            r"parameter '0.bias' is .*; parameter '2.weight' is .*",
        ),
        ({"make": lambda: net().double()}, r"parameter '0.weight' is float64 \(16, 12\) here, and float32"),
        (
            {"make": lambda: nn.Sequential(*net(), nn.Linear(3, 3))},
            r"parameter '3.weight' is float32 \(3, 3\) here, and missing there; parameter '3.bias' is .*; "
            r"what group 0 trains is 0.weight, 0.bias, 2.weight, 2.bias, 3.weight, 3.bias here, and 0.weight, 0.bias",
        ),
        ({"optimizer": lambda model: SGD(model.parameters(), 0.2, 0.9)}, "lr of group 0 is 0.2 here, and 0.1 there"),
        ({"optimizer": lambda model: AdamW(model.parameters(), 0.1)}, "the optimizer is AdamW here, and SGD there"),
        ({"optimizer": groups}, "what group 0 trains is 0.weight here, and 0.weight, 0.bias"),
        (
            {
                "make": lambda: frozen(4),
                "ordinary": lambda: frozen(3),
                "optimizer": trained_part,
                "usual": trained_part,
            },
            r"parameter '0.weight' is float32 \(16, 12\) with the checksum \w{8} here, and float32 \(16, 12\) with the",
        ),
    ],
)
def test_a_rank_that_differs_is_told_in_what_and_from_whom(rank: int, case: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^Rank {rank} differs from rank 0: {sentence}"):
        differing(rank, **case)


def test_another_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        team, model = eht.join(), net()
        with monkeypatch.context() as patch:
            patch.setattr(erasurehead, "__version__", f"0.{team.rank // 2}")
            team.optimizer(momentum(model), model)

    with pytest.raises(InvalidArgument, match=r"the version of erasurehead is 0\.1 here, and 0\.0 there"):
        eht.simulate(main, 3)


def test_another_way_is_told() -> None:
    def main() -> None:
        team, model = eht.join(), net()
        team.optimizer(momentum(model), model, "busy" if team.rank else "first-gradients")

    with pytest.raises(InvalidArgument, match="the way to meet is busy here, and first-gradients there"):
        eht.simulate(main, 2)


def test_first_weights_of_other_seeds_are_nothing_as_all_begin_with_those_of_the_first_rank() -> None:
    differing(1, make=lambda: net(seed=11))


def test_ranks_that_are_alike_go_on() -> None:
    for latency in (0.0, 0.01):
        run = eht.simulate(loop(3), ranks=4, latency=latency)
        assert sum(sum(version.steps.values()) for version in run.versions) == 12


def test_integer_parameters_are_refused_by_name() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.arange(3), requires_grad=False)

    def main() -> None:
        team, model = eht.join(), Whole()
        team.optimizer(SGD(model.parameters(), 0.1), model)

    with pytest.raises(InvalidArgument, match="the parameter 'table' must be of floating-point numbers, but it is"):
        eht.simulate(main, 2)
