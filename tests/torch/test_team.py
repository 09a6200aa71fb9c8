"""What scripts do with optimizers and models, within a team on the virtual clock."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

import erasurehead.torch as eht
from erasurehead.consensus import Crash
from erasurehead.errors import ErasureHeadError, InvalidArgument, RecordsError
from erasurehead.torch._narrow import narrowed, widened

from .small import X, Y, batch, loop, loss_of, momentum, net, weights

pytestmark = pytest.mark.timeout(120)


def train(
    make: Callable[[], torch.nn.Module] = net,
    optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer] = momentum,
    ranks: int = 3,
    steps: int = 6,
    each: Callable[[Any, Any, torch.nn.Module], object] | None = None,
    **options: Any,
) -> torch.nn.Module:
    """Return the team's model after some steps without delays."""
    run = eht.simulate(
        loop(steps, make=make, optimizer=optimizer, each=each, **options), ranks=ranks, seconds_per_sample=0.01
    )
    assert run.returned[0] is not None
    return run.returned[0]


def alone(
    make: Callable[[], torch.nn.Module],
    optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer],
    ranks: int = 3,
    steps: int = 6,
    each: Callable[[Any, Any, torch.nn.Module], object] | None = None,
) -> torch.nn.Module:
    model = make()
    stepping = optimizer(model)
    for step in range(steps):
        own = torch.cat([batch(rank, step) for rank in range(ranks)])
        stepping.zero_grad()
        cross_entropy(model(X[own]), Y[own]).backward()
        stepping.step()
        if each is not None:
            each(None, stepping, model)
    return model


class Tied(torch.nn.Module):
    """Has a weight that two layers share, one that is frozen, and one that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.inner = torch.nn.Linear(12, 12)
            self.again = torch.nn.Linear(12, 12)
            self.frozen = torch.nn.Linear(12, 12)
            self.outer = torch.nn.Linear(12, 3)
            self.unused = torch.nn.Linear(12, 3)
        self.again.weight = self.inner.weight
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.relu(self.again(torch.relu(self.inner(self.frozen(x))))))


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_tied_frozen_and_unused_parameters(way: str) -> None:
    def decaying(model: torch.nn.Module) -> torch.optim.SGD:
        return torch.optim.SGD(model.parameters(), 0.05, 0.9, weight_decay=0.1)

    model, expected = train(Tied, decaying, way=way), alone(Tied, decaying)
    assert isinstance(model, Tied)
    assert model.again.weight is model.inner.weight
    assert torch.allclose(weights(model), weights(expected), atol=1e-5)
    assert torch.equal(weights(model.unused), weights(Tied().unused))  # no gradient: not even decay


def grouped(model: torch.nn.Module) -> torch.optim.SGD:
    first, *rest = list(model.parameters())
    return torch.optim.SGD([{"params": [first], "lr": 0.02, "weight_decay": 0.1}, {"params": rest}], 0.1, 0.9)


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
@pytest.mark.parametrize(
    "scheduled", [lambda one: LambdaLR(one, lambda step: 0.8**step), lambda one: OneCycleLR(one, 0.2, total_steps=9)]
)
def test_parameter_groups_and_schedulers(way: str, scheduled: Callable[[Any], Any]) -> None:
    def stepped(model: torch.nn.Module, optimizer: torch.optim.Optimizer, ranks: list[int]) -> None:
        scheduler = scheduled(optimizer)
        for step in range(6):
            own = torch.cat([batch(rank, step) for rank in ranks])
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            optimizer.step()
            scheduler.step()

    def main() -> torch.Tensor:
        team = eht.join()
        model = net()
        stepped(model, team.optimizer(grouped(model), model, way=way), [team.rank])  # pyright: ignore[reportArgumentType]
        return weights(team.model())

    run = eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    expected = net()
    stepped(expected, grouped(expected), [0, 1, 2])
    assert run.returned[0] is not None
    assert torch.allclose(run.returned[0], weights(expected), atol=1e-5)


def test_the_optimizer_is_the_user_s_but_for_its_step() -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        inner = torch.optim.SGD(model.parameters(), 0.1, 0.9)
        calls: list[str] = []
        optimizer = team.optimizer(inner, model)
        optimizer.register_step_post_hook(lambda *_: calls.append("after"))
        assert isinstance(optimizer, torch.optim.Optimizer)
        assert optimizer.param_groups is inner.param_groups
        assert optimizer.state is inner.state
        loss = cross_entropy(model(X[:8]), Y[:8])
        loss.backward()
        optimizer.step()
        assert calls == ["after"]
        saved = optimizer.state_dict()
        assert saved["state"].keys() == inner.state_dict()["state"].keys()
        optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        assert all(parameter.grad is None for parameter in model.parameters())
        assert "SGD" in repr(optimizer)
        assert f"rank {team.rank} of 2" in repr(team)

    eht.simulate(main, ranks=2)


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_a_closure(way: str) -> None:
    def main() -> torch.Tensor:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, way=way)  # pyright: ignore[reportArgumentType]
        for step in range(6):
            own = batch(team.rank, step)

            def closure(own: torch.Tensor = own) -> float:
                optimizer.zero_grad()
                loss = cross_entropy(model(X[own]), Y[own])
                loss.backward()
                return float(loss.detach())

            loss = optimizer.step(closure)
            assert loss is not None
            assert math.isfinite(loss)
        return weights(team.model())

    run = eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    assert run.returned[0] is not None
    assert torch.allclose(run.returned[0], weights(alone(net, momentum)), atol=1e-5)
    assert run.seconds == pytest.approx(6 * 16 * 0.01)


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_clipping_accumulation_and_a_scaler(way: str) -> None:
    def main() -> tuple[float, torch.Tensor]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, way=way)  # pyright: ignore[reportArgumentType]
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)  # pyright: ignore[reportPrivateImportUsage]
        for step in range(8):
            optimizer.zero_grad()
            for half in batch(team.rank, step).chunk(2):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = cross_entropy(model(X[half]), Y[half]) / 2
                scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        return loss_of(model), weights(team.model())

    run = eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    loss, model = run.returned[0] or (math.inf, torch.zeros(1))
    assert loss < loss_of(net())
    assert all(other is not None and torch.equal(other[1], model) for other in run.returned)


def with_norm() -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Linear(12, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
        )


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_statistics_of_batch_norm_are_averaged(way: str) -> None:
    own: list[torch.Tensor] = []

    def still(model: torch.nn.Module) -> torch.optim.SGD:
        return torch.optim.SGD(model.parameters(), 0.0)

    def main() -> torch.Tensor:
        team = eht.join()
        model = with_norm()
        optimizer = team.optimizer(still(model), model, way=way)  # pyright: ignore[reportArgumentType]
        cross_entropy(model(X[batch(team.rank, 0)]), Y[batch(team.rank, 0)]).backward()
        own.append(model[1].running_mean.clone())  # pyright: ignore[reportIndexIssue, reportArgumentType, reportUnknownMemberType]
        optimizer.step()
        return team.model()[1].running_mean  # pyright: ignore[reportIndexIssue, reportReturnType]

    run = eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    for mean in run.returned:
        assert mean is not None
        assert torch.allclose(mean, torch.stack(own).mean(0), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_models_of_other_types(dtype: torch.dtype, way: str) -> None:
    def main() -> torch.nn.Module:
        team = eht.join()
        model = net().to(dtype)
        optimizer = team.optimizer(momentum(model), model, way=way)  # pyright: ignore[reportArgumentType]
        for step in range(10):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(model(X[own].to(dtype)), Y[own]).backward()
            optimizer.step()
        return team.model()

    run = eht.simulate(main, ranks=2, seconds_per_sample=0.01)
    for model in run.returned:
        assert model is not None
        assert {parameter.dtype for parameter in model.parameters()} == {dtype}
        with torch.no_grad():
            assert float(cross_entropy(model(X.to(dtype)).float(), Y)) < 0.8 * float(cross_entropy(net()(X), Y))


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
@pytest.mark.parametrize("every", [1, 6])
def test_a_model_that_is_moved_after_it_was_given(way: str, every: int) -> None:
    """Also where a newer model of the team comes just then: it goes to where the weights are by now."""

    def main() -> torch.Tensor:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, way=way)  # pyright: ignore[reportArgumentType]
        for step in range(6):
            if step % every == 0:
                for parameter in model.parameters():
                    parameter.data = parameter.data.clone()  # as .to(device) does
            own = batch(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            optimizer.step()
        return weights(team.model())

    run = eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    assert run.returned[0] is not None
    assert torch.allclose(run.returned[0], weights(alone(net, momentum)), atol=1e-5)


def test_a_moved_model_goes_on_from_the_teams_newest() -> None:
    def main(moves: bool) -> torch.Tensor:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model)
        for step in range(8):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            if moves:
                for parameter in model.parameters():
                    parameter.data = parameter.data.clone()
            optimizer.step()
        return weights(team.model())

    def run(moves: bool) -> torch.Tensor | None:
        return eht.simulate(lambda: main(moves), 3, seconds_per_sample=[0.01, 0.013, 0.017]).returned[2]

    moved, stayed = run(moves=True), run(moves=False)
    assert moved is not None
    assert stayed is not None
    assert torch.equal(moved, stayed)


def replace(model: torch.nn.Module) -> None:
    model.load_state_dict({name: each.clone() for name, each in model.state_dict().items()}, assign=True)


def reshape(model: torch.nn.Module) -> None:
    next(model.parameters()).data = torch.zeros(16, 13)


def buffer(model: torch.nn.Module) -> None:
    model.register_buffer("scale", torch.ones(2))


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (replace, "model must have all parameters that the optimizer has, got \"a model without '0.weight' any more\""),
        (reshape, r"the shape of '0.weight' must stay \(16, 12\), as the ranks agreed, got \(16, 13\)"),
        (buffer, r"the shape of 'scale' must stay unset, as the ranks agreed, got \(2,\)"),
    ],
)
def test_weights_that_ranks_cannot_add_up_any_more_are_refused(
    way: str, change: Callable[[torch.nn.Module], None], told: str
) -> None:
    """Otherwise other tensors would be trained than the model has, without a word."""

    def note(_: object, stepping: Any, model: torch.nn.Module) -> None:
        if stepping.steps == 2:
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            change(model)
            stepping.step()

    with pytest.raises(InvalidArgument, match=told):
        eht.simulate(loop(3, each=note, way=way), ranks=2, seconds_per_sample=0.01)


def test_a_parameter_of_another_name_is_the_same_one() -> None:
    def note(_: object, stepping: Any, model: torch.nn.Module) -> None:
        if stepping.steps == 2:
            assert isinstance(model, torch.nn.Sequential)
            model.insert(0, torch.nn.Identity())

    run = eht.simulate(loop(4, each=note), ranks=2, seconds_per_sample=0.01)
    assert run.returned[0] is not None
    assert torch.equal(weights(run.returned[0]), weights(train(ranks=2, steps=4)))


def test_a_rank_joins_once() -> None:
    def main() -> None:
        eht.join()
        eht.join()

    with pytest.raises(ErasureHeadError, match=r"Rank 0 has joined its team already: call join\(\) once, and go on"):
        eht.simulate(main, ranks=2)


def test_a_rank_s_own_steps_are_in_the_model_before_there_is_a_version_of_the_team() -> None:
    run = eht.simulate(loop(2), ranks=3, seconds_per_sample=[0.01, 10.0, 10.0])
    model = run.returned[0]
    assert model is not None
    own = net()
    optimizer = momentum(own)
    for step in range(2):
        optimizer.zero_grad()
        cross_entropy(own(X[batch(0, step)]), Y[batch(0, step)]).backward()
        optimizer.step()
    assert torch.allclose(weights(model), weights(net()) + (weights(own) - weights(net())) / 3, atol=1e-6)


@pytest.mark.slow
def test_a_compiled_model() -> None:
    def main() -> torch.Tensor:
        team = eht.join()
        model = net()
        compiled: Any = torch.compile(model, backend="eager")
        optimizer = team.optimizer(momentum(model), compiled)
        for step in range(6):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(compiled(X[own]), Y[own]).backward()
            optimizer.step()
        return weights(team.model())

    run = eht.simulate(main, ranks=2, seconds_per_sample=0.01)
    assert run.returned[0] is not None
    assert torch.allclose(run.returned[0], weights(alone(net, momentum, ranks=2)), atol=1e-5)


def test_a_step_without_finite_gradients_is_not_made() -> None:
    skipped: dict[int, int] = {}

    def main(policy: Any) -> torch.nn.Module:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, not_finite=policy)
        for step in range(6):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            factor = math.nan if (team.rank, step) == (1, 2) else 1.0
            (factor * cross_entropy(model(X[own]), Y[own])).backward()
            optimizer.step()
        skipped[team.rank] = team.skipped
        return team.model()

    run = eht.simulate(lambda: main("skip"), ranks=3, seconds_per_sample=0.01)
    assert skipped == {0: 0, 1: 1, 2: 0}
    assert all(model is not None and bool(torch.isfinite(weights(model)).all()) for model in run.returned)
    with pytest.raises(ErasureHeadError, match="Rank 1 has gradients that are not finite in its step 3"):
        eht.simulate(lambda: main("stop"), ranks=3, seconds_per_sample=0.01)


@pytest.mark.parametrize(("dtype", "slope"), [(torch.float32, 3e38), (torch.float16, 6e4)])
def test_a_step_is_made_where_gradients_are_finite_though_their_sum_is_not(dtype: torch.dtype, slope: float) -> None:
    def main() -> int:
        team = eht.join()
        model = torch.nn.Linear(4, 1, bias=False).to(dtype)
        optimizer = team.optimizer(torch.optim.SGD(model.parameters(), lr=0.0), model)
        for _ in range(3):
            optimizer.zero_grad()
            (slope * model.weight).sum(dtype=torch.float64).backward()
            assert torch.isfinite(model.weight.grad).all()  # pyright: ignore[reportArgumentType]
            optimizer.step()
        return team.skipped

    assert eht.simulate(main, ranks=2, seconds_per_sample=0.01).returned == (0, 0)


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_steps_of_the_optimizer_that_the_team_was_given_are_refused(way: Any) -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        own = momentum(model)
        scheduler = torch.optim.lr_scheduler.ConstantLR(own)
        optimizer = team.optimizer(own, model, way=way)
        cross_entropy(model(X[:4]), Y[:4]).backward()
        optimizer.step()
        scheduler.step()
        own.step()

    with pytest.raises(InvalidArgument, match=r"call step\(\) of the one that Team\.optimizer returned"):
        eht.simulate(main, ranks=2, seconds_per_sample=0.01)


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_samples_that_are_no_numbers_do_not_reach_the_statistics_of_batch_norm(way: Any) -> None:
    def main() -> list[bool]:
        team = eht.join()
        model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
        optimizer = team.optimizer(momentum(model), model, way=way)
        for step in range(8):
            samples = torch.randn(8, 5)
            if (team.rank, step) == (1, 3):
                samples[0, 0] = math.nan
            optimizer.zero_grad()
            model(samples).square().mean().backward()
            optimizer.step()
        return [bool(torch.isfinite(each).all()) for one in (model, team.model()) for each in one.state_dict().values()]

    run = eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    assert all(finite is not None and all(finite) for finite in run.returned)


def test_a_rank_whose_weights_are_no_numbers_any_more_goes_on_from_the_teams() -> None:
    skipped: dict[int, int] = {}

    def main() -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model)
        for step in range(30):
            if (team.rank, step) == (1, 3):
                with torch.no_grad():
                    next(model.parameters()).fill_(math.inf)
            optimizer.zero_grad()
            own = batch(team.rank, step)
            cross_entropy(model(X[own]), Y[own]).backward()
            optimizer.step()
        skipped[team.rank] = team.skipped

    eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    assert skipped[0] == skipped[2] == 0
    assert 0 < skipped[1] < 6


@pytest.mark.parametrize("policy", ["skip", "stop"])
def test_a_step_whose_weights_are_not_finite_reaches_nobody(policy: Any) -> None:
    def main() -> tuple[int, bool, bool]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, not_finite=policy)
        rate = optimizer.param_groups[0]["lr"]
        for step in range(6):
            optimizer.param_groups[0]["lr"] = 3e38 if (team.rank, step) == (1, 2) else rate
            optimizer.zero_grad()
            (10.0 * cross_entropy(model(X[:9]), Y[:9])).backward()
            optimizer.step()
        both = (weights(model), weights(team.model()))
        return team.skipped, *(bool(torch.isfinite(each).all()) for each in both)  # pyright: ignore[reportReturnType]

    if policy == "skip":
        run = eht.simulate(main, ranks=3, seconds_per_sample=0.01)
        assert run.returned == ((0, True, True), (1, True, True), (0, True, True))
    else:
        with pytest.raises(ErasureHeadError, match="Rank 1 has weights that are not finite in its step 3"):
            eht.simulate(main, ranks=3, seconds_per_sample=0.01)


def test_an_optimizer_that_the_team_does_not_have_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    def main() -> None:
        team = eht.join()
        model, other = net(), torch.nn.Linear(3, 2)
        apart = torch.optim.Adam(other.parameters())
        optimizer = team.optimizer(momentum(model), model)
        for step in range(3):
            optimizer.zero_grad()
            cross_entropy(model(X[:9]), Y[:9]).backward()
            other(torch.ones(3)).sum().backward()
            optimizer.step()
            if team.rank == 1 and step:
                apart.step()

    eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    (told,) = (record.getMessage() for record in caplog.records)
    assert told.startswith(
        "An optimizer that Team.optimizer was not given (Adam) trains 2 tensors of parameters in this"
    )


def test_another_optimizer_of_the_teams_parameters_is_refused() -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        team.optimizer(momentum(model), model)
        cross_entropy(model(X[:9]), Y[:9]).backward()
        torch.optim.SGD(list(model.parameters())[1:], 0.1).step()

    with pytest.raises(InvalidArgument, match="got 'a step of another one with parameters of the team'"):
        eht.simulate(main, ranks=2, seconds_per_sample=0.01)


def test_bfloat16_on_the_way() -> None:
    drawn = torch.Generator().manual_seed(1)
    numbers = torch.randn(200_000, generator=drawn) * 10.0 ** torch.randint(-30, 30, (200_000,), generator=drawn)
    numbers[:4] = torch.tensor([math.inf, -math.inf, math.nan, 0.0])
    wide = widened(narrowed(numbers.numpy()), np.zeros(1, np.float32))  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(wide, numbers.bfloat16().float().numpy())
    for way in ("busy", "first-gradients"):
        model, expected = train(bfloat16=True, way=way), alone(net, momentum)
        gone, apart = weights(expected) - weights(net()), weights(model) - weights(expected)
        assert 0.0 < float(apart.norm() / gone.norm()) < 0.01


def test_versions_are_recorded(tmp_path: Path) -> None:
    shown: list[str] = []
    file = tmp_path / "versions.jsonl"
    train(steps=4, each=lambda team, *_: shown.append(repr(team)), record=file)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [row["version"] for row in rows] == [1, 2, 3, 4]
    assert rows[0] == {
        "version": 1,
        "term": 0,
        "seconds": pytest.approx(0.16),
        "gathered_by": 0,
        "steps": {"0": 1, "1": 1, "2": 1},
        "members": [0, 1, 2],
    }
    assert shown[0] == "rank 0 of 3, version 1 of the model, 3 ranks make steps, rank 0 gathers"


def test_a_record_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"nowhere/versions\.jsonl cannot be written: No such file or directory\."):
        train(steps=2, record=tmp_path / "nowhere" / "versions.jsonl")


def test_a_team_of_one_is_the_user_s_own_training() -> None:
    model = net()
    team = eht.join()
    optimizer = team.optimizer(momentum(model), model)
    for step in range(6):
        own = torch.cat([batch(rank, step) for rank in range(3)])
        optimizer.zero_grad()
        cross_entropy(model(X[own]), Y[own]).backward()
        optimizer.step()
    assert (team.first, team.rank, team.size) == (True, 0, 1)
    assert torch.equal(weights(team.model()), weights(alone(net, momentum)))
    assert team.model() is not model


def test_ranks_have_generators_and_variables_of_their_own() -> None:
    def main() -> tuple[Any, ...]:
        team = eht.join()
        drawn: list[float] = []
        for _ in range(3):
            drawn += [float(torch.rand(1)), float(np.random.rand()), random.random()]  # noqa: NPY002
            model = torch.nn.Linear(1, 1)
            if len(drawn) == 3:
                optimizer = team.optimizer(momentum(model), model)
            optimizer.step()  # others run meanwhile
        return os.environ["RANK"], os.environ["WORLD_SIZE"], *drawn

    before = torch.get_rng_state(), random.getstate(), os.environ.get("RANK")
    first, again = (eht.simulate(main, ranks=3, seconds_per_sample=0.01).returned for _ in range(2))
    assert first == again
    assert len({drawn for rank in first if rank is not None for drawn in rank[2:]}) == 27
    assert [rank[:2] for rank in first if rank is not None] == [("0", "3"), ("1", "3"), ("2", "3")]
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), os.environ.get("RANK"))


def test_processes_are_refused_in_simulated_ranks() -> None:
    data = torch.utils.data.TensorDataset(X, Y)

    def loads() -> None:
        next(iter(torch.utils.data.DataLoader(data, 4, num_workers=1)))

    for main in (loads, lambda: os.fork()):
        with pytest.raises(ErasureHeadError, match="A simulated rank cannot start processes"):
            eht.simulate(main, ranks=2)


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_steps_by_some_ranks_only(way: str) -> None:
    def main() -> int:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, way=way)  # pyright: ignore[reportArgumentType]
        for step in range(12):
            cross_entropy(model(X[batch(team.rank, step)]), Y[batch(team.rank, step)]).backward()
            if step % (team.rank + 1) == 0:  # as of a loop with an if around it
                optimizer.step()
                optimizer.zero_grad()
        return optimizer.steps

    run = eht.simulate(main, ranks=3, seconds_per_sample=0.01)
    assert run.returned == (12, 6, 4)
    added = {rank: sum(version.steps.get(rank, 0) for version in run.versions) for rank in range(3)}
    assert added == {0: 12, 1: 6, 2: 4} if way == "busy" else all(added.values())


def test_an_error_says_in_which_rank_it_was() -> None:
    def main() -> None:
        if eht.join().rank == 1:
            raise KeyError("oh")

    with pytest.raises(KeyError) as caught:
        eht.simulate(main, ranks=3)
    assert caught.value.__notes__ == ["In rank 1 of 3, 0 s after the simulation began."]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 0}, "ranks must be at least 1"),
        ({"seconds_per_sample": [1.0]}, "seconds_per_sample must be one number, or one for each of 10 ranks"),
        ({"seconds_per_sample": -1.0}, "seconds_per_sample must be a number of seconds of at least 0"),
        ({"latency": math.inf}, "latency must be a number of seconds of at least 0"),
        ({"delays": 0.3}, "delays must be a delay model, such as 'exponential"),
        ({"faults": [3]}, "faults must be of consensus.Crash"),
        ({"faults": [Crash(10, 1.0)]}, "faults must be of ranks from 0 to 9, those that join included"),
        (
            {"faults": [eht.Hang(10, 1.0, 2.0), eht.Join(0.5), eht.Hang(11, 1.0, 2.0)]},
            "faults must be of ranks from 0 to 10",
        ),
        ({"faults": [eht.Hang(1, 2.0, 1.0)]}, "faults must have ranks hang until later than at"),
        ({"main": 3}, "main must be a function without arguments"),
    ],
)
def test_bad_input_of_a_simulation(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        eht.simulate(**{"main": lambda: None} | options)


def test_bad_input_of_an_optimizer() -> None:
    def refused(message: str, call: Callable[[eht.Team, torch.nn.Module], object]) -> None:
        def main() -> None:
            call(eht.join(), net())

        with pytest.raises(InvalidArgument, match=message):
            eht.simulate(main, ranks=2)

    refused("optimizer must be an optimizer of PyTorch", lambda team, model: team.optimizer(3, model))  # pyright: ignore[reportArgumentType]
    refused("way must be one of", lambda team, model: team.optimizer(momentum(model), model, way="lazy"))  # pyright: ignore[reportArgumentType]
    refused("must have all parameters", lambda team, model: team.optimizer(momentum(net()), model))
    refused("must be given to Team.optimizer first", lambda team, _: team.model())

    def twice(team: eht.Team, model: torch.nn.Module) -> None:
        team.optimizer(momentum(model), model)
        team.optimizer(momentum(model), model)

    refused("optimizer must be the only one of its team", twice)

    def adds(team: eht.Team, model: torch.nn.Module) -> None:
        team.optimizer(momentum(model), model).add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]})

    refused("param_group must be given to the optimizer before Team.optimizer", adds)

    def counts(team: eht.Team, model: torch.nn.Module) -> None:
        model.register_parameter("count", torch.nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False))
        team.optimizer(momentum(model), model)

    refused("'count' must be of floating-point numbers", counts)
