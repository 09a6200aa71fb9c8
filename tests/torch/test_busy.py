"""Always busy ranks on the virtual clock: what a team must come to whatever its ranks do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import erasurehead.torch as eht
from erasurehead.delays import Exponential
from erasurehead.torch._pace import Pace
from erasurehead.torch._second_moments import SharedMoments, SharedMomentum
from erasurehead.torch._simulate import Hang, Simulated

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


@pytest.mark.slow
def test_adam_divides_by_the_second_moment_of_the_team_s_gradient() -> None:
    """By its own, a rank's steps would be too short by the root of how much noisier its gradient is."""
    ranks, steps = 8, 60
    run = eht.simulate(loop(steps, optimizer=adam), ranks=ranks, seconds_per_sample=0.01)
    expected = alone(ranks, steps, adam)
    assert run.returned[0] is not None
    gone, apart = weights(expected) - weights(net()), weights(run.returned[0]) - weights(expected)
    assert float(apart.norm() / gone.norm()) < 0.2
    assert loss_of(run.returned[0]) == pytest.approx(loss_of(expected), rel=0.15)


JITTER = "lognormal(median=0.01, sigma=0.5, seed=3)"  # of steps of 0.16 s


def in_step(make: Callable[[torch.nn.Module], torch.optim.Optimizer], *faults: Hang, steps: int) -> list[list[float]]:
    """Return of each rank when its steps ended, less by how many versions it was behind, in hundreds of seconds."""
    ends: list[list[float]] = [[] for _ in range(4)]

    def note(team: eht.Team, *_: object) -> None:
        own = ends[team.rank]
        own.append(team.seconds + 100.0 * (len(own) + 1 - team.version[1]))

    eht.simulate(loop(steps, optimizer=make, each=note), 4, delays=JITTER, seconds_per_sample=0.01, faults=faults)
    return ends


@pytest.mark.slow
def test_ranks_with_moments_that_are_in_step_wait_for_each_other_and_others_do_not() -> None:
    """Each computes its gradients where the team is then, and not where it was a step before."""
    assert all(end < 100.0 for own in in_step(adam, steps=30) for end in own[10:])
    assert not all(end < 100.0 for own in in_step(momentum, steps=30) for end in own[10:])


@pytest.mark.slow
def test_ranks_in_step_wait_for_one_that_hangs_for_less_than_a_step() -> None:
    ends = in_step(adam, Hang(3, 8.0, 12.0), steps=80)
    for own in ends[:3]:
        lasted = np.diff(np.array(own) % 100.0)
        assert lasted.max() < 1.6 * np.median(lasted)


def test_how_long_to_wait_for_ranks_in_step() -> None:
    def patience(seconds: list[float], versions: float) -> float:
        pace = Pace()
        for step, each in enumerate(seconds):
            pace.add(each, int(versions * step))
        return pace.patience

    alike = [9.0, *[1.0, 1.05, 0.95, 1.0] * 8]  # but for the first one, in which much is made ready
    assert patience(alike, 1.0) == pytest.approx(0.2)
    assert patience([9.0], 1.0) == 4.5  # nothing is known yet
    assert patience([9.0, *[0.1, 1.9] * 3], 1.0) == pytest.approx(0.5)
    assert patience([9.0, *[0.1, 1.9] * 4], 1.0) == 0.0
    assert patience(alike, 0.91) == 0.0  # one of ten is slow
    assert patience(alike, 1.1) == 0.0  # this one is
    assert patience([9.0, *[0.8, 1.2, 1.0, 1.0] * 8], 1.0) == pytest.approx(0.5)
    assert patience([9.0, *[0.7, 1.3, 1.0, 1.0] * 8], 1.0) == 0.0  # no two are alike


def one_class(rank: int, step: int) -> torch.Tensor:
    """Return samples of one class, which a rank has of all."""
    own = torch.nonzero(rank % 3 == Y).reshape(-1)
    return own[torch.randint(0, len(own), (16,), generator=torch.Generator().manual_seed(1000 * step + rank))]


@pytest.mark.slow
@pytest.mark.parametrize("make", [momentum, adam])
def test_ranks_of_different_samples_are_not_led_by_their_own(
    make: Callable[[torch.nn.Module], torch.optim.Optimizer],
) -> None:
    ranks, steps = 6, 40

    def main() -> torch.nn.Module:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(make(model), model)
        for step in range(steps):
            own = one_class(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            optimizer.step()
        return team.model()

    together = net()
    optimizer = make(together)
    for step in range(steps):
        own = torch.cat([one_class(rank, step) for rank in range(ranks)])
        optimizer.zero_grad()
        cross_entropy(together(X[own]), Y[own]).backward()
        optimizer.step()
    jitter = "lognormal(median=0.01, sigma=0.5, seed=3)"
    run = eht.simulate(main, ranks=ranks, delays=jitter, seconds_per_sample=0.01)
    assert run.returned[0] is not None
    assert loss_of(run.returned[0]) < 1.5 * loss_of(together)


def of(kind: type[torch.optim.Optimizer], **options: Any) -> Callable[[torch.nn.Module], torch.optim.Optimizer]:
    return lambda model: kind(model.parameters(), **options)


def trained(
    ranks: int, steps: int, make: Callable[[torch.nn.Module], torch.optim.Optimizer]
) -> Simulated[torch.nn.Module]:
    def main() -> torch.nn.Module:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(make(model), model)
        for step in range(steps):
            optimizer.zero_grad()
            own = batch(team.rank, step)
            cross_entropy(model(X[own]), Y[own]).backward()
            optimizer.step()
        return team.model()

    return eht.simulate(main, ranks=ranks, seconds_per_sample=0.01)


@pytest.mark.parametrize(
    "make",
    [
        of(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        of(torch.optim.SGD, lr=0.01, momentum=0.9, maximize=True),
        of(torch.optim.RMSprop, lr=0.003, momentum=0.9),  # first gradients, as is the next
        of(torch.optim.RMSprop, lr=0.003, centered=True),
    ],
    ids=["nesterov", "maximize", "rmsprop with momentum", "rmsprop, centered"],
)
def test_ranks_in_step_make_the_steps_of_one_process(
    make: Callable[[torch.nn.Module], torch.optim.Optimizer],
) -> None:
    expected = weights(alone(4, 12, make))
    run = trained(4, 12, make)
    for model in run.returned:
        assert model is not None
        assert torch.allclose(weights(model), expected, atol=1e-5)
    assert len(run.versions) == 12


def test_adam_s_moments_are_the_team_s_where_it_maximizes() -> None:
    make = of(torch.optim.AdamW, lr=0.01, maximize=True)
    begun, expected = weights(net()), weights(alone(4, 12, make))
    found = trained(4, 12, make).returned[0]
    assert found is not None
    assert float((weights(found) - expected).norm()) < 0.3 * float((expected - begun).norm())


def test_nesterov_s_momentum_of_a_rank_that_comes_later_is_the_team_s_soon() -> None:
    late = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([late], 0.1, momentum=0.9, nesterov=True)
    late.sum().backward()
    optimizer.step()
    shared, at, momentum = SharedMomentum(optimizer, torch.from_numpy), 0.0, 5.0
    shared.keep()
    for version in range(8):
        momentum = 0.9 * momentum + 1.0
        told = np.array([at, 0.1 * version, 0.0, version], np.float32)
        at -= 0.1 * (1.0 + 0.9 * momentum)
        shared.set(told, np.array([at, 0.1 * (version + 1), 0.0, version + 1], np.float32), 1.0)
    assert float(optimizer.state[late]["momentum_buffer"]) == pytest.approx(momentum, rel=0.01)


def test_momentum_is_how_far_the_team_s_model_moved_in_a_step() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}], 0.1, momentum=0.9)
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    shared = SharedMomentum(optimizer, torch.from_numpy)
    told, total = np.zeros(13, np.float32), np.zeros(2)
    for n_steps, moved in ((4095.5, 1.0), (2.0, 0.4), (0.5, 0.3), (0.0, 7.0)):  # the counter begins again
        told[:8] -= moved
        total += [0.1 * n_steps, 0.5 * n_steps]
        told[8:10] = total
        told[10:12] = total - told[8:10]
        told[12] = (told[12] + n_steps) % 4096
        shared.write(told.copy())
        if n_steps in (2.0, 0.5):
            for parameter, rate in ((model.weight, 0.1), (model.bias, 0.5)):
                buffer = optimizer.state[parameter]["momentum_buffer"]
                assert torch.allclose(buffer, torch.full_like(buffer, moved / n_steps / rate), rtol=1e-3)
    assert torch.allclose(buffer, torch.full_like(buffer, 0.3 / 0.5 / 0.5), rtol=1e-3)
    shared.forget()
    told[12] += 3.0
    shared.write(told - 5.0)  # a loaded model
    assert torch.allclose(buffer, torch.full_like(buffer, 0.3 / 0.5 / 0.5), rtol=1e-3)


def test_a_rank_s_own_square_counts_as_one_of_all_ranks() -> None:
    weight = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.AdamW([weight], 0.01, (0.9, 0.95))
    weight.grad = torch.ones(4)
    optimizer.step()
    moments = SharedMoments(optimizer, [weight])
    moments.write(np.array([0.1] * 4 + [0.02, 0.0, 1.0, 1e-8, 7.0, 0.0, 9.0], np.float32))
    assert float(optimizer.state[weight]["step"]) == 7.0
    weight.grad = torch.tensor([1.0, 0.1, 3.0, 0.0])
    gradients = np.zeros(4, np.float32)
    moments.prepare(gradients, 8)
    optimizer.step()
    expected = 0.95 * torch.tensor([0.02, 0.0, 1.0, 1e-8]) + 0.05 * weight.grad**2 / 8
    assert torch.allclose(optimizer.state[weight]["exp_avg_sq"], expected, rtol=1e-4)
    assert torch.allclose(optimizer.state[weight]["exp_avg"], 0.9 * torch.tensor(0.1) + 0.1 * weight.grad)
