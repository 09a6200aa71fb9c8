"""A small task and a stock loop over it, for teams on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim import SGD

import erasurehead.torch as eht
from erasurehead.torch import _simulate

_DRAWN = torch.Generator().manual_seed(5)
X = torch.randn(2000, 12, generator=_DRAWN)
Y = (X @ torch.randn(12, 3, generator=_DRAWN)).argmax(1)


def net(seed: int = 3, width: int = 16) -> torch.nn.Module:
    """Return a network of which all ranks have the same."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(12, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))


def batch(rank: int, step: int, size: int = 16) -> torch.Tensor:
    """Return which samples a rank's step has."""
    return torch.randint(0, len(X), (size,), generator=torch.Generator().manual_seed(1000 * step + rank))


def weights(model: torch.nn.Module) -> torch.Tensor:
    """Return all parameters as one vector."""
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()]).clone()


def loss_of(model: torch.nn.Module) -> float:
    """Return the loss over all samples."""
    with torch.no_grad():
        return float(cross_entropy(model(X), Y))


def momentum(model: torch.nn.Module) -> SGD:
    return SGD(model.parameters(), 0.1, 0.9)


def loop(
    steps: int | Callable[[int], int],
    make: Callable[[], torch.nn.Module] = net,
    optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer] = momentum,
    each: Callable[[eht.Team, Any, torch.nn.Module], object] | None = None,
    **options: Any,
) -> Callable[[], torch.nn.Module]:
    """Return a main: a stock loop of so many steps, and the team's model as this rank then has it."""

    def main() -> torch.nn.Module:
        team = eht.join()
        model = make()
        stepping = team.optimizer(optimizer(model), model, **options)
        for step in range(steps if isinstance(steps, int) else steps(team.rank)):
            own = batch(team.rank, step)
            stepping.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            stepping.step()
            if each is not None:
                each(team, stepping, model)
        return team.model()

    return main


class Death:
    """Ends a rank after one of the events of a simulated team, and counts them.

    Attributes:
        after: the event, from 1, after which the rank ends; 0 for none.
        events: how many there have been.
    """

    def __init__(self, rank: int, monkeypatch: pytest.MonkeyPatch, after: int = 0) -> None:
        self.after, self.events = after, 0
        handle = _simulate._Clock._handle  # pyright: ignore[reportPrivateUsage]

        def handled(clock: _simulate._Clock, *event: Any) -> None:  # pyright: ignore[reportPrivateUsage]
            handle(clock, *event)
            self.events += 1
            if self.events == self.after:
                clock.end(clock.ranks[rank])

        monkeypatch.setattr(_simulate._Clock, "_handle", handled)  # pyright: ignore[reportPrivateUsage]

    def again(self, after: int) -> None:
        """Count anew, for another team whose rank ends after another event."""
        self.after, self.events = after, 0
