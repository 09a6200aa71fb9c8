"""Saving a team and going on: to the bit alone, with nothing of an epoch missed in a team, refused in sentences."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import TensorDataset

import erasurehead.torch as eht
from erasurehead.errors import DataError, InvalidArgument

from .small import X, Y, loss_of, momentum, net, weights
from .test_batches import Numbers

pytestmark = pytest.mark.timeout(120)


def with_dropout() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


def adam(model: nn.Module) -> Optimizer:
    return AdamW(model.parameters(), 0.01, amsgrad=True)


@pytest.mark.parametrize("make", [momentum, adam])
@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: CosineAnnealingLR(optimizer, 30),
        lambda optimizer: OneCycleLR(optimizer, 0.1, 60),
    ],
)
def test_a_team_of_one_goes_on_to_the_bit_in_the_middle_of_an_epoch(
    make: Callable[[nn.Module], Optimizer], schedule: Callable[[Any], Any], tmp_path: Path
) -> None:
    file = tmp_path / "team.safetensors"

    def train(stop: int | None, resume: bool = False) -> tuple[torch.Tensor, torch.Tensor, float]:
        torch.manual_seed(7)
        team, model = eht.join(), with_dropout()
        optimizer = team.optimizer(make(model), model)
        scheduler, average = schedule(optimizer), AveragedModel(model)
        first = team.load(file, scheduler=scheduler, average=average) if resume else 0
        step, data = 0, Numbers(200)
        for epoch in range(first, 3):
            for x, number in team.batches(data, 10, epoch):
                optimizer.zero_grad()
                cross_entropy(model(x + 0.1 * torch.randn(x.shape)), Y[number]).backward()
                optimizer.step()
                scheduler.step()
                average.update_parameters(model)
                step += 1
                if step == stop:
                    team.save(file, scheduler=scheduler, average=average)
                    return weights(model), weights(average), 0.0
        return weights(model), weights(average), scheduler.get_last_lr()[0]

    whole = train(None)
    train(27)
    rest = train(None, resume=True)
    assert torch.equal(whole[0], rest[0])
    assert torch.equal(whole[1], rest[1])
    assert whole[2] == rest[2]


def test_generators_go_on_and_those_of_other_ranks_are_others(tmp_path: Path) -> None:
    file = tmp_path / "team"

    def draws() -> tuple[float, float, float]:
        return float(torch.rand(())), float(np.random.rand()), random.random()  # noqa: NPY002

    def saving() -> tuple[float, float, float]:
        team, model = eht.join(), net()
        team.optimizer(momentum(model), model)
        draws()
        team.save(file)
        return draws()

    def loading() -> tuple[float, float, float]:
        team, model = eht.join(), net()
        team.optimizer(momentum(model), model)
        team.load(file)
        return draws()

    before = eht.simulate(saving, 3).returned
    after = eht.simulate(loading, 3, seed=9).returned
    assert before[0] == after[0]
    assert len({*before, *after}) == 5


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 5])
@pytest.mark.parametrize(("make", "way"), [(momentum, "busy"), (adam, "busy"), (adam, "first-gradients")])
def test_a_team_goes_on_from_the_team_s_model_and_misses_no_sample(
    ranks: int, make: Callable[[nn.Module], Optimizer], way: Literal["busy", "first-gradients"], tmp_path: Path
) -> None:
    file = tmp_path / "team"
    trained: Counter[int] = Counter()
    models: dict[str, torch.Tensor] = {}

    def saving() -> None:
        team, model = eht.join(), net()
        optimizer, data = team.optimizer(make(model), model, way), Numbers(400)
        for epoch in range(2):
            for step, (x, number) in enumerate(team.batches(data, 20, epoch)):
                optimizer.zero_grad()
                cross_entropy(model(x), Y[number]).backward()
                optimizer.step()
                if epoch == 1 and not file.exists():
                    trained.update(number.tolist())
                    if team.first and step == 9:
                        models["saved"] = weights(team.model())
                        team.save(file)

    speeds = [0.01, 0.013, 0.011, 0.03]
    eht.simulate(saving, 4, seconds_per_sample=speeds)

    def going_on() -> torch.Tensor:
        team, model = eht.join(), net(seed=99)
        optimizer = team.optimizer(make(model), model, way)
        data = Numbers(400)
        epoch = team.load(file)
        assert epoch == 1
        begun = weights(model)
        for x, number in team.batches(data, 20, epoch):
            optimizer.zero_grad()
            cross_entropy(model(x), Y[number]).backward()
            optimizer.step()
            trained.update(number.tolist())
        return begun

    run = eht.simulate(going_on, ranks, seconds_per_sample=0.01)
    assert all(begun is not None and torch.equal(begun, models["saved"]) for begun in run.returned)
    assert trained.keys() == set(range(400))
    assert trained.total() - 400 <= 4 * 5  # a step of each rank, at most, is made twice
    assert way != "busy" or run.versions[0].version > 20


def test_only_the_first_rank_writes(tmp_path: Path) -> None:
    def main() -> bool:
        team, model = eht.join(), net()
        team.optimizer(momentum(model), model)
        file = tmp_path / str(team.rank)
        team.save(file)
        return file.exists()

    assert eht.simulate(main, 3).returned == (True, False, False)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Embedding(5, 4)
        self.outer = nn.Linear(4, 5, bias=False)
        self.outer.weight = self.inner.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(x))


def test_tied_weights_and_short_types_are_saved_as_they_are(tmp_path: Path) -> None:
    team, model = eht.join(), Tied().to(torch.bfloat16)
    team.optimizer(SGD(model.parameters(), 0.1), model)
    file = tmp_path / "team.safetensors"
    team.save(file)
    tensors = load_file(file)
    assert sum(tensor.shape == (5, 4) for tensor in tensors.values()) == 1
    other = Tied().to(torch.bfloat16)
    second = eht.join()
    second.optimizer(SGD(other.parameters(), 0.1), other)
    assert second.load(file) == 0
    assert torch.equal(other.inner.weight, model.inner.weight)
    assert other.inner.weight is other.outer.weight


class Counts:
    """Something with a state that holds what cannot be saved."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


def team_of(model: nn.Module, optimizer: Optimizer | None = None) -> eht.Team:
    team = eht.join()
    team.optimizer(optimizer or momentum(model), model)
    return team


def test_any_state_of_tensors_numbers_texts_lists_and_mappings_comes_back(tmp_path: Path) -> None:
    state: dict[str, Any] = {
        "a": [1, 2.5, None, True, "text", (3, [4])],
        "b": {7: torch.arange(3), "nan": float("inf"), "array": np.arange(4.0)},
        "empty": [torch.zeros(0), torch.zeros(0, 3), {}],
    }
    one, other = Counts(state), Counts({})
    team_of(net()).save(tmp_path / "team", counts=one)
    team_of(net()).load(tmp_path / "team", counts=other)
    back = other.state
    assert back["a"] == state["a"]
    assert back["b"][7].tolist() == [0, 1, 2]
    assert back["b"]["nan"] == float("inf")
    assert back["b"]["array"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert [tuple(one.shape) for one in back["empty"][:2]] == [(0,), (0, 3)]


def test_a_scheduler_that_waits_for_a_plateau_comes_back(tmp_path: Path) -> None:
    models = [net(), net()]
    teams = [team_of(model) for model in models]
    schedulers = [ReduceLROnPlateau(momentum(model), patience=3) for model in models]
    for value in (1.0, 0.5, 0.6):
        schedulers[0].step(value)
    teams[0].save(tmp_path / "team", scheduler=schedulers[0])
    teams[1].load(tmp_path / "team", scheduler=schedulers[1])
    assert schedulers[1].state_dict() == schedulers[0].state_dict()


@pytest.mark.parametrize(
    ("state", "match"),
    [
        ({"a": {"b": [object()]}}, r"objects.counts.a.b.0 must be made of tensors.*but it is 'object'"),
        ({"a": len}, r"objects.counts.a must be"),
        ({(1, 2): 3}, r"a key in objects.counts must be a text"),
    ],
)
def test_what_cannot_be_saved_is_named(state: dict[Any, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=match):
        team_of(net()).save(tmp_path / "team", counts=Counts(state))
    assert not (tmp_path / "team").exists()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "team"
    team_of(net()).save(file, counts=Counts({}))
    wide, short = net(width=17), net().to(torch.bfloat16)
    more = nn.Sequential(*net(), nn.ReLU())
    deep = nn.Sequential(*net(), nn.Linear(3, 3))
    groups = net()
    one, *others = groups.parameters()
    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: team_of(wide).load(file), DataError, r"'0.weight' of the model is float32 \(17, 12\) here, and"),
        (lambda: team_of(short).load(file), DataError, r"is bfloat16 \(16, 12\) here, and float32"),
        (lambda: team_of(deep).load(file), DataError, "has no '3.weight', which this model has"),
        (
            lambda: team_of(more).load(file),
            InvalidArgument,
            r"names of objects must be \['counts'\], as they were saved",
        ),
        (
            lambda: team_of(groups, SGD([{"params": [one]}, {"params": others}], 0.1)).load(file),
            DataError,
            r"has \[1, 3\] parameters in its groups, and that which was saved in .* has \[4\]",
        ),
        (lambda: team_of(net()).load(file, counts=3), InvalidArgument, "counts must have state_dict"),
        (lambda: eht.join().load(file), InvalidArgument, "load must be called after Team.optimizer"),
        (lambda: eht.join().save(file), InvalidArgument, "save must be called after Team.optimizer"),
        (lambda: team_of(net()).load(tmp_path / "none"), DataError, "There is no file"),
    ]
    for call, error, match in cases:
        with pytest.raises(error, match=match):
            call()


def test_a_file_that_is_none_of_ours_or_is_damaged_or_newer_is_refused(tmp_path: Path) -> None:
    file, bad = tmp_path / "team", tmp_path / "bad"
    team_of(net()).save(file)
    data = file.read_bytes()
    contents: list[tuple[bytes | None, str]] = [
        (b"", "is no file that Team.save wrote"),
        (b"PK" + data, "is no file that Team.save wrote"),
        (data[: len(data) // 2], "is no file that Team.save wrote"),
        (
            data.replace(b'"version":"1"', b'"version":"7"'),
            "in version 7 of the format; this erasurehead reads version 1",
        ),
        (data.replace(b'\\"tensor\\"', b'\\"tenser\\"'), "is damaged"),
        (None, "is a file of tensors, but none that Team.save wrote"),
    ]
    for content, match in contents:
        if content is None:
            save_file({"x": torch.zeros(2)}, bad)
        else:
            bad.write_bytes(content)
        with pytest.raises(DataError, match=match):
            team_of(net()).load(bad)


def test_loading_after_a_step_is_refused(tmp_path: Path) -> None:
    model = net()
    team = eht.join()
    optimizer = team.optimizer(momentum(model), model)
    cross_entropy(model(X[:5]), Y[:5]).backward()
    optimizer.step()
    team.save(tmp_path / "team")
    with pytest.raises(InvalidArgument, match="before the first step"):
        team.load(tmp_path / "team")


def test_nothing_of_it_is_run_when_it_is_read(tmp_path: Path) -> None:
    team_of(net()).save(tmp_path / "team")
    header = (tmp_path / "team").read_bytes()
    length = int.from_bytes(header[:8], "little")
    about = json.loads(header[8 : 8 + length])["__metadata__"]
    assert set(about) == {"format", "version", "state"}
    assert set(json.loads(about["state"])) == {
        *("model", "optimizer", "objects", "data", "epoch", "generators", "about")
    }


def test_the_file_that_was_there_stays_where_a_new_one_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "team"
    model = net()
    team_of(model).save(file)
    before = file.read_bytes()
    with pytest.raises(InvalidArgument):
        team_of(net(seed=4)).save(file, counts=Counts({"a": object()}))
    assert file.read_bytes() == before
    assert loss_of(model) > 0.0


@pytest.mark.parametrize("make", [momentum, adam])
def test_all_ranks_of_a_team_go_on_from_the_saved_optimizer(
    make: Callable[[nn.Module], Optimizer], tmp_path: Path
) -> None:
    file = tmp_path / "team"

    def moments(optimizer: Any) -> list[torch.Tensor]:
        states = [optimizer.state[one] for group in optimizer.param_groups for one in group["params"]]
        return [
            state[key].clone()
            for state in states
            for key in ("momentum_buffer", "exp_avg", "exp_avg_sq")
            if key in state
        ]

    def saving() -> list[torch.Tensor]:
        team, model = eht.join(), net()
        optimizer = team.optimizer(make(model), model)
        for x, number in team.batches(Numbers(200), 20):
            optimizer.zero_grad()
            cross_entropy(model(x), Y[number]).backward()
            optimizer.step()
        team.save(file)
        return moments(optimizer)

    def loading() -> list[torch.Tensor]:
        team, model = eht.join(), net()
        optimizer = team.optimizer(make(model), model)
        team.load(file)
        return moments(optimizer)

    saved = eht.simulate(saving, 3, seconds_per_sample=[0.01, 0.012, 0.02]).returned[0]
    assert saved
    for loaded in eht.simulate(loading, 3).returned:
        assert loaded is not None
        for one, other in zip(saved, loaded, strict=True):
            assert torch.allclose(one, other, rtol=1e-5, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"way": "first-gradients"}, {"every": 3}])
def test_a_rank_that_joins_keeps_the_team_s_model_where_it_loads_what_the_team_has_saved_before(
    options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "team"

    def main() -> float:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, **options)
        if path.exists():
            team.load(path)
        behind = loss_of(model)
        for step in range(60):
            own = torch.randint(0, len(X), (32,))
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            optimizer.step()
            if step == 3:
                team.save(path)
        return behind

    begun = eht.simulate(main, 3, seconds_per_sample=0.01, faults=[eht.Join(12.0)]).returned
    assert begun[3] is not None
    assert begun[0] is not None
    assert begun[3] < 0.5 * begun[0]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("options", [{}, {"every": 2}, {"every": "gradient", "scheme": "exact(load=2)"}])
def test_an_epoch_that_was_gone_through_is_not_begun_again_and_schedulers_go_on(
    options: dict[str, Any], ranks: int, tmp_path: Path
) -> None:
    path, data = tmp_path / "team", TensorDataset(X[:24], Y[:24])

    def main(last: int) -> tuple[int, int]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, **options)
        scheduler = CosineAnnealingLR(optimizer, 9)
        begun = team.load(path, scheduler=scheduler) if path.exists() else 0
        for epoch in range(begun, last):
            for inputs, labels in team.batches(data, batch_size=6, epoch=epoch):
                optimizer.zero_grad()
                cross_entropy(model(inputs), labels).backward()
                optimizer.step()
            scheduler.step()
        team.save(path, scheduler=scheduler)
        return begun, scheduler.last_epoch

    eht.simulate(lambda: main(2), ranks, seconds_per_sample=[1.0, 0.1, 0.1][:ranks])
    assert eht.simulate(lambda: main(5), ranks, seconds_per_sample=1.0).returned == ((2, 5),) * ranks


def test_a_scheduler_of_epochs_makes_no_step_too_many_where_an_epoch_was_saved_under_way(tmp_path: Path) -> None:
    """By the rule of docs/networks.md: it is stepped only where it has not counted the epoch."""
    path, data = tmp_path / "team", TensorDataset(X[:24], Y[:24])

    def main(last: int) -> tuple[int, int]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model)
        scheduler = CosineAnnealingLR(optimizer, 9)
        begun = team.load(path, scheduler=scheduler) if path.exists() else 0
        counted = scheduler.last_epoch
        for epoch in range(begun, last):
            for inputs, labels in team.batches(data, batch_size=6, epoch=epoch):
                optimizer.zero_grad()
                cross_entropy(model(inputs), labels).backward()
                optimizer.step()
            if scheduler.last_epoch <= epoch:
                scheduler.step()
            if last == 2 and epoch == 1:
                team.save(path, scheduler=scheduler)
        return counted - begun, scheduler.last_epoch

    eht.simulate(lambda: main(2), 3, seconds_per_sample=[0.1, 0.1, 0.25])
    ahead = eht.simulate(lambda: main(5), 3, seconds_per_sample=1.0).returned
    assert ahead == ((1, 5),) * 3  # two were counted, but the second goes on with what others had not trained on
