"""What loops do with optimizers and models: a team without delays is then one process that has the batches of all."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

import erasurehead.torch as eht
from erasurehead.errors import InvalidArgument
from erasurehead.torch._second_moments import steps_average

from .small import X, Y, batch, net, weights

pytestmark = pytest.mark.timeout(60)

RANKS, STEPS = 4, 12

Make = Callable[[nn.Module], Optimizer]
Does = Callable[[int, nn.Module, Optimizer], object]
"""What a loop does before a step, by its number."""


def nothing(step: int, model: nn.Module, optimizer: Optimizer) -> None:
    """Leave gradients as they are."""


def same(make: Make, begin: Callable[[], nn.Module] = net, does: Does = nothing, **options: Any) -> None:
    """Hold that a team, and one process that has the batches of all ranks, come to the same weights."""

    def main() -> torch.Tensor:
        team = eht.join()
        model = begin()
        optimizer = team.optimizer(make(model), model, **options)
        for step in range(STEPS):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            does(step, model, optimizer)
            optimizer.step()
        return weights(team.model())

    model = begin()
    optimizer = make(model)
    for step in range(STEPS):
        own = torch.cat([batch(rank, step) for rank in range(RANKS)])
        optimizer.zero_grad()
        cross_entropy(model(X[own]), Y[own]).backward()
        does(step, model, optimizer)
        optimizer.step()
    for found in eht.simulate(main, ranks=RANKS, seconds_per_sample=0.01).returned:
        assert found is not None
        assert torch.allclose(found, weights(model), atol=1e-5)


def sgd(**options: Any) -> Make:
    return lambda model: torch.optim.SGD(model.parameters(), 0.1, 0.9, **options)


def channels_last() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Unflatten(1, (3, 2, 2)), nn.Conv2d(3, 8, (2, 1)), nn.ReLU(), nn.Conv2d(8, 4, (1, 2)), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4, 3)).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]


def test_parameters_may_lie_in_another_order_than_they_are_sent() -> None:
    same(sgd(), channels_last)


class Scaled(torch.optim.SGD):
    """SGD whose steps are as long as the weights say, as those of LARS: no momentum leads along them."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for parameter in (one for group in self.param_groups for one in group["params"]):
            parameter.grad.mul_(parameter.norm() / (parameter.grad.norm() + 1e-8))
        return super().step(closure)


class Named(torch.optim.SGD):
    """SGD, as it is."""


def test_a_subclass_with_a_step_of_its_own_is_another_optimizer() -> None:
    same(lambda model: Scaled(model.parameters(), 0.01, 0.9))
    same(lambda model: Named(model.parameters(), 0.1, 0.9))
    assert [steps_average(kind(net().parameters(), 0.1)) for kind in (Scaled, Named)] == [False, True]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_a_closure_makes_the_step_of_its_gradient(kind: Any) -> None:
    def ended(closed: bool) -> list[torch.Tensor]:
        def main() -> torch.Tensor:
            team = eht.join()
            model = net()
            optimizer = team.optimizer(kind(model.parameters(), 0.01), model)
            for step in range(STEPS):

                def closure(own: torch.Tensor = batch(team.rank, step)) -> Any:
                    optimizer.zero_grad()
                    loss = cross_entropy(model(X[own]), Y[own])
                    loss.backward()
                    return loss

                if not closed:
                    closure()
                optimizer.step(closure if closed else None)
            return weights(team.model())

        return eht.simulate(main, ranks=RANKS, seconds_per_sample=0.01).returned

    assert all(torch.equal(*both) for both in zip(ended(True), ended(False), strict=True))


def by_turns(step: int, model: Any, optimizer: Optimizer) -> None:
    """Train one layer, and then the other, as a GAN does: what has no gradient is left alone, with its momentum."""
    for parameter in model[2 * (step % 2)].parameters():
        parameter.grad = None


@pytest.mark.parametrize("nesterov", [False, True])
def test_what_a_step_leaves_alone_keeps_its_momentum(nesterov: bool) -> None:
    same(sgd(nesterov=nesterov), does=by_turns)


class Slope(nn.Module):
    """Has the same gradient everywhere, so that it does not matter when which rank hears of which step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.zeros(2)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first.sum() + self.second.sum()


def down(make: Make, steps: int, before: Does, after: Callable[[Optimizer], Any], latency: float) -> list[torch.Tensor]:
    """Return where a team of three, whose messages are under way for so long, comes to down a slope."""

    def main() -> torch.Tensor:
        team = eht.join()
        model = Slope()
        optimizer = team.optimizer(make(model), model)
        scheduler = after(optimizer)
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.zeros(1)).backward()
            before(step, model, optimizer)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
        return weights(team.model())

    return eht.simulate(main, ranks=3, seconds_per_sample=0.1, latency=latency).returned


@pytest.mark.parametrize("latency", [0.01, 0.06, 0.2])
def test_a_rate_that_falls_takes_the_momentum_along_however_late_ranks_hear_of_it(latency: float) -> None:
    falls = torch.optim.lr_scheduler.StepLR
    ended, later = (down(sgd(), steps, nothing, lambda own: falls(own, 20, 0.01), latency)[0] for steps in (30, 45))
    assert 0.05 < float((ended - later).min()) <= float((ended - later).max()) < 0.001 / (1.0 - 0.9) * 15


def test_weights_that_are_thawed_late_make_the_first_steps_of_adam() -> None:
    def thawed(step: int, model: Any, optimizer: Optimizer) -> None:
        if step < 40:
            model.second.grad = None

    for found in down(of(0.01, betas=(0.9, 0.99)), 60, thawed, lambda _: None, 0.01):
        assert found[:2].tolist() == pytest.approx([-0.6] * 2, rel=0.1)
        assert found[2:].tolist() == pytest.approx([-0.2] * 2, rel=0.25)


def test_the_team_s_moments_follow_betas_that_change() -> None:
    betas = [(0.95 - 0.05 * step, 0.9 + 0.005 * step) for step in range(STEPS)]

    def main() -> list[float]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(of(0.01, betas=betas[0])(model), model)
        for own in betas:
            optimizer.param_groups[0]["betas"] = own
            optimizer.zero_grad()
            torch.stack([parameter.sum() for parameter in model.parameters()]).sum().backward()  # gradients are 1
            optimizer.step()
        state = next(iter(optimizer.state.values()))
        return [float(state[moment].flatten()[0]) for moment in ("exp_avg", "exp_avg_sq")]

    expected = [1.0 - math.prod(own) for own in zip(*betas, strict=True)]
    for found in eht.simulate(main, RANKS, seconds_per_sample=0.01).returned:
        assert found == pytest.approx(expected, rel=1e-4)


def test_what_nadam_multiplies_up_is_the_team_s_in_a_rank_that_joins() -> None:
    def main() -> tuple[float, float]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(torch.optim.NAdam(model.parameters(), 0.001, betas=(0.99, 0.999)), model)
        for step in range(30):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            optimizer.step()
        state = next(iter(optimizer.state.values()))
        return float(state["step"]), float(state["mu_product"])

    for found in eht.simulate(main, 3, "exponential(mean=0.1)", 0.01, faults=[eht.Join(1.0)]).returned:
        assert found is not None
        factors = [0.99 * (1.0 - 0.5 * 0.96 ** (0.004 * step)) for step in range(1, round(found[0]) + 1)]
        assert found[1] == pytest.approx(math.prod(factors), rel=1e-4)


def test_a_copy_of_a_team_s_optimizer_is_that_of_the_script() -> None:
    def main() -> torch.Tensor:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(torch.optim.Adam(model.parameters(), 0.1), model)
        model(X[:8]).sum().backward()
        optimizer.step()
        copied = copy.deepcopy(optimizer)
        assert type(copied) is torch.optim.Adam
        assert len(copied.state) == len(optimizer.state)
        before = weights(model)
        for parameter in copied.param_groups[0]["params"]:
            parameter.grad = torch.ones_like(parameter)
        copied.step()
        assert torch.equal(weights(model), before)
        assert copy.copy(optimizer) is optimizer.inner
        return weights(team.model())

    first, second = eht.simulate(main, 2, seconds_per_sample=0.01).returned
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)


def of(rate: float, **options: Any) -> Make:
    return lambda model: torch.optim.AdamW(model.parameters(), rate, weight_decay=0.0, **options)


@pytest.mark.parametrize("kind", [partial(torch.optim.SGD, momentum=0.9), torch.optim.AdamW], ids=["sgd", "adamw"])
@pytest.mark.parametrize("options", [{"way": "first-gradients"}, {"every": "gradient", "scheme": "exact(load=2)"}])
def test_a_schedule_of_momentum_or_decay_leaves_all_ranks_one_model(kind: Any, options: dict[str, Any]) -> None:
    dataset = torch.utils.data.TensorDataset(X[:256], Y[:256])

    def main() -> dict[int, torch.Tensor]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(kind(model.parameters(), 0.01), model, **options)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, 100)  # and momentum, or the first of betas
        found: dict[int, torch.Tensor] = {}
        for inputs, labels in team.batches(dataset, batch_size=16):
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            found[team.version[1]] = weights(model)
            optimizer.param_groups[0]["weight_decay"] += 0.01
            scheduler.step()
        return found

    first, *others = eht.simulate(main, RANKS, "exponential(mean=0.2)", 0.01).returned
    both = [(first[version], own[version]) for own in others for version in first.keys() & own.keys()]
    assert len(both) > 20
    assert all(torch.equal(one, other) for one, other in both)


class Sparse(nn.Module):
    """Has gradients of few rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.out = nn.Embedding(9, 4, sparse=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.rows((3.0 * x).abs().long().clamp(max=8)).mean(1))


def sparse() -> nn.Module:
    torch.manual_seed(0)
    return Sparse()


def test_gradients_may_be_sparse() -> None:
    same(sgd(), sparse)
    same(sgd(), sparse, way="first-gradients")


@pytest.mark.parametrize("options", [{}, {"every": "gradient", "scheme": "uncoded()"}])
def test_an_optimizer_of_sparse_gradients_alone_is_refused_where_their_mean_is_dense(options: dict[str, Any]) -> None:
    def main() -> None:
        rows = nn.Embedding(9, 4, sparse=True)
        eht.join().optimizer(torch.optim.SparseAdam(rows.parameters()), rows, **options)

    with pytest.raises(
        InvalidArgument, match=r"must take dense gradients, .* got 'SparseAdam'; way='busy' or every=20"
    ):
        eht.simulate(main, 2)


class Keeps(nn.Module):
    """Keeps what it has computed, as `torch.nn.utils.weight_norm` does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = net(), torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = self.inner(x)
        return self.last


def test_a_model_may_keep_what_it_has_computed() -> None:
    same(sgd(), Keeps)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (nn.LazyLinear(2), "'weight' must have its values before Team.optimizer"),
        (nn.Linear(2, 2, device="meta"), "'weight' must have its values before Team.optimizer"),
        (nn.Linear(2, 2, dtype=torch.complex64), "'weight' must be of floating-point numbers"),
        ([nn.Linear(2, 2)], "model must be a torch.nn.Module, but it is 'list'; nn.ModuleList holds several"),
    ],
    ids=["lazy", "meta", "complex", "a list"],
)
def test_what_is_no_model_to_train_is_refused(model: Any, says: str) -> None:
    def main() -> None:
        eht.join().optimizer(torch.optim.SGD(getattr(model, "parameters", net().parameters)(), 0.1), model)

    with pytest.raises(InvalidArgument, match=says):
        eht.simulate(main, 2)


@pytest.mark.parametrize("options", [{"way": "busy"}, {"way": "first-gradients"}, {"every": 2}])
def test_a_group_that_the_wrapped_optimizer_is_given_later_is_refused(options: dict[str, Any]) -> None:
    def main() -> None:
        team, model = eht.join(), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        own = torch.optim.SGD(model[0].parameters(), 0.1)
        optimizer = team.optimizer(own, model, **options)
        own.add_param_group({"params": model[1].parameters()})
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    with pytest.raises(InvalidArgument, match="param_group must be given to the optimizer before"):
        eht.simulate(main, 2)


def test_gradients_that_a_hook_clips_are_sent_clipped() -> None:
    def main(hooked: bool) -> tuple[torch.Tensor, int]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(of(0.01, betas=(0.9, 0.95))(model), model)

        def clip(*_: Any) -> None:
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)

        if hooked:
            optimizer.register_step_pre_hook(clip)
        for step in range(STEPS):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            (cross_entropy(model(X[own]), Y[own]) * (100.0 if step % 3 else 0.1)).backward()
            if not hooked:
                clip()
            optimizer.step()
        return weights(team.model()), team.skipped

    hooked, plain = (eht.simulate(lambda own=own: main(own), RANKS, seconds_per_sample=0.01) for own in (True, False))
    for one, other in zip(hooked.returned, plain.returned, strict=True):
        assert one is not None
        assert other is not None
        assert one[1] == other[1] == 0
        assert torch.equal(one[0], other[0])


def test_what_a_hook_takes_the_gradient_of_keeps_its_momentum() -> None:
    def make(model: nn.Module) -> Optimizer:
        optimizer = sgd()(model)
        turns = iter(range(STEPS))
        optimizer.register_step_pre_hook(lambda *_: by_turns(next(turns), model, optimizer))
        return optimizer

    same(make)
