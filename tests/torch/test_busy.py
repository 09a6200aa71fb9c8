"""Always busy ranks on the virtual clock: what a team must come to whatever its ranks do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import cross_entropy

import erasurehead.torch as eht
from erasurehead.delays import Exponential

from .small import X, Y, batch, loop, loss_of, momentum, net, weights

pytestmark = pytest.mark.timeout(60)


def alone(
    ranks: int, steps: int, make: Callable[[torch.nn.Module], torch.optim.Optimizer] = momentum
) -> torch.nn.Module:
    """Return the model of synchronous training: one process that has the batches of all ranks in each step."""
    model = net()
    optimizer = make(model)
    for step in range(steps):
        own = torch.cat([batch(rank, step) for rank in range(ranks)])
        optimizer.zero_grad()
        cross_entropy(model(X[own]), Y[own]).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_without_delays_the_team_is_synchronous_training(ranks: int, way: str) -> None:
    run = eht.simulate(loop(12, way=way), ranks=ranks, seconds_per_sample=0.01)
    expected = weights(alone(ranks, 12))
    for model in run.returned:
        assert model is not None
        assert torch.allclose(weights(model), expected, atol=1e-5)
    assert run.seconds == pytest.approx(12 * 16 * 0.01)
    assert len(run.versions) == (12 if ranks > 1 else 0)


def test_the_same_bits_twice() -> None:
    def ends() -> tuple[float, list[torch.Tensor]]:
        run = eht.simulate(loop(15), ranks=4, delays=Exponential(mean=0.2, seed=1), seconds_per_sample=0.001)
        return run.seconds, [weights(model) for model in run.returned if model is not None]

    (seconds, models), (again, others) = ends(), ends()
    assert seconds == again
    assert all(torch.equal(one, other) for one, other in zip(models, others, strict=True))


def test_a_slow_rank_slows_nobody() -> None:
    ended: dict[int, float] = {}

    def note(team: eht.Team, *_: object) -> None:
        ended[team.rank] = team.seconds

    steps = 40
    run = eht.simulate(loop(steps, each=note), ranks=4, seconds_per_sample=[0.01, 0.01, 0.01, 0.1])
    assert [ended[rank] for rank in range(3)] == pytest.approx([steps * 16 * 0.01] * 3)
    assert run.returned[0] is not None
    assert loss_of(run.returned[0]) < 0.5 * loss_of(net())


def test_every_step_is_in_exactly_one_version() -> None:
    run = eht.simulate(loop(lambda rank: 5 + 3 * rank), ranks=4, delays="exponential(mean=0.2, seed=2)")
    added = {rank: sum(version.steps.get(rank, 0) for version in run.versions) for rank in range(4)}
    assert added == {0: 5, 1: 8, 2: 11, 3: 14}


def test_ranks_begin_with_the_first_one_s_model() -> None:
    drawn: list[torch.Tensor] = []

    def main() -> torch.Tensor:
        team = eht.join()
        model = torch.nn.Linear(3, 2)
        drawn.append(weights(model))
        team.optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
        return weights(model)

    run = eht.simulate(main, ranks=3)
    assert not torch.equal(drawn[0], drawn[1])
    assert all(one is not None and torch.equal(one, drawn[0]) for one in run.returned)


def adam(model: torch.nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), 0.01)


def test_adam_divides_by_the_second_moment_of_the_team_s_gradient() -> None:
    """By its own, a rank's steps would be too short by the root of how much noisier its gradient is."""
    ranks, steps = 8, 60
    run = eht.simulate(loop(steps, optimizer=adam), ranks=ranks, seconds_per_sample=0.01)
    expected = alone(ranks, steps, adam)
    assert run.returned[0] is not None
    gone, apart = weights(expected) - weights(net()), weights(run.returned[0]) - weights(expected)
    assert float(apart.norm() / gone.norm()) < 0.2
    assert loss_of(run.returned[0]) == pytest.approx(loss_of(expected), rel=0.15)
