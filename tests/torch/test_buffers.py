"""Buffers of all kinds, on the virtual clock: who has the same version has the same ones, to the bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import erasurehead.torch as eht
from erasurehead.errors import InvalidArgument
from erasurehead.torch._simulate import Join

from .small import X, Y, loop, momentum, net

pytestmark = pytest.mark.timeout(120)

RANKS = 4
LATE: dict[str, Any] = {"seconds_per_sample": 0.002, "delays": "exponential(mean=0.1, seed=2)"}
DATA = TensorDataset(X[:200], Y[:200])


class Counting(torch.nn.Module):
    """Changes buffers of many kinds whenever it is trained, and has a mask that nobody changes, and a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.BatchNorm1d(12, momentum=None), net())
        self.register_buffer("count", torch.tensor([1 << 40, 0]))
        self.register_buffer("bytes", torch.zeros(3, dtype=torch.uint8))
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("short", torch.zeros(2, dtype=torch.float16))
        self.register_buffer("turned", torch.ones(2, dtype=torch.complex64))
        self.register_buffer("mask", torch.ones(80, 80, dtype=torch.bool))
        self.register_buffer("cache", torch.zeros(0, dtype=torch.long), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.count += torch.tensor([1, -len(x)])
            self.bytes += 1
            self.begun.fill_(True)
            self.short += x.mean().half()
            self.turned *= torch.complex(torch.tensor(0.9), x.mean())
            self.cache = torch.cat([self.cache, torch.tensor([len(x)])])
        return self.inner(x)


def kept(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return what is saved of a model."""
    return {name: each.clone() for name, each in model.state_dict().items()}


def one_for_each_version(runs: Any) -> int:
    """Check that ranks which have the same version have the same model, and return for how many that was seen."""
    seen: dict[tuple[int, int], dict[str, torch.Tensor]] = {}
    compared = 0
    for versions in runs:
        for version, own in versions.items():
            first = seen.setdefault(version, own)
            compared += first is not own
            for name, each in own.items():
                assert torch.equal(each, first[name]), (version, name)
    return compared


@pytest.mark.parametrize(
    ("scheme", "apart"),
    [("exact(load=2)", False), ("first(3)", False), ("exact(load=3, code='cyclic')", True), (None, False)],
)
def test_who_has_the_same_version_has_the_same_buffers_to_the_bit(scheme: str | None, apart: bool) -> None:
    def main() -> dict[tuple[int, int], dict[str, torch.Tensor]]:
        team, model = eht.join(), Counting()
        options: dict[str, Any] = {"every": "gradient", "scheme": scheme} if scheme else {"way": "first-gradients"}
        optimizer = team.optimizer(momentum(model), model, **options)

        def losses(batch: Any) -> torch.Tensor:
            return cross_entropy(model(batch[0]), batch[1], reduction="none")

        versions: dict[tuple[int, int], dict[str, torch.Tensor]] = {}
        for epoch in range(2):
            for batch in team.batches(DATA, batch_size=50, epoch=epoch):
                optimizer.zero_grad()
                team.backward(losses, batch) if apart else losses(batch).mean().backward()
                optimizer.step()
                versions[team.version] = kept(model)
        counts = model.get_buffer("count")
        assert 0 < int(counts[0]) - (1 << 40) == int(model.get_buffer("inner.0.num_batches_tracked"))
        assert int(counts[1]) < 0
        assert bool(model.get_buffer("begun"))
        if scheme is not None:  # where each step of the team is one
            assert int(counts[0]) - (1 << 40) == team.version[1] == int(model.get_buffer("bytes")[0])
        return versions

    assert one_for_each_version(eht.simulate(main, RANKS, **LATE).returned) > RANKS


@pytest.mark.parametrize("options", [{"way": "busy"}, {"every": 3}, {"way": "first-gradients"}])
def test_what_a_forward_pass_has_averaged_is_kept_where_a_version_comes_meanwhile(options: dict[str, Any]) -> None:
    """It was lost with the version that a step went on from, and statistics stayed at what they began with."""

    def main() -> torch.Tensor:
        team = eht.join()
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(12), net())
        optimizer = team.optimizer(momentum(model), model, **options)
        for inputs, labels in team.batches(TensorDataset(X + 5.0, Y), batch_size=50):
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        return team.model().get_buffer("0.running_mean")

    for mean in eht.simulate(main, RANKS, **LATE).returned:
        assert mean is not None
        assert torch.allclose(mean, torch.tensor(5.0), atol=0.5)


@pytest.mark.parametrize("options", [{"way": "busy"}, {"every": 3}, {"way": "first-gradients"}])
def test_a_rank_that_joins_goes_on_from_the_counters_of_the_team(options: dict[str, Any]) -> None:
    first: dict[int, int] = {}

    def note(team: eht.Team, _: object, model: torch.nn.Module) -> None:
        first.setdefault(team.rank, int(model.get_buffer("inner.0.num_batches_tracked")))

    run = eht.simulate(loop(30, Counting, each=note, **options), RANKS, seconds_per_sample=0.01, faults=[Join(3.0)])
    assert first[0] < 4
    assert first[RANKS] > 10
    ends = [int(each.get_buffer("count")[0]) - (1 << 40) for each in run.returned if each is not None]
    assert len(ends) == RANKS + 1
    assert all(25 <= each <= 65 for each in ends)  # versions, of which each has about a step of each rank


@pytest.mark.parametrize("options", [{"way": "busy"}, {"every": 3}, {"every": "gradient", "scheme": "uncoded()"}])
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (lambda model: model.mask[0].fill_(False), "buffer 'mask' must stay as it was at Team.optimizer"),
        (lambda model: setattr(model, "mask", ~model.mask), "buffer 'mask' must stay as it was at Team.optimizer"),
        (lambda model: model.count.add_(1 << 30), "buffer 'count' must stay within 16777216 of what it was"),
        (lambda model: setattr(model, "count", torch.zeros(3, dtype=torch.long)), r"'count' must stay \(2,\)"),
        (lambda model: setattr(model, "short", torch.zeros(3)), r"'short' must stay \(2,\)"),
    ],
)
def test_buffers_whose_change_cannot_be_sent_are_refused(options: dict[str, Any], changes: Any, says: str) -> None:
    def main() -> None:
        team, model = eht.join(), Counting()
        optimizer = team.optimizer(momentum(model), model, **options)
        for step, (inputs, labels) in enumerate(team.batches(DATA, batch_size=50)):
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            if step == 2:
                changes(model)
            optimizer.step()

    with pytest.raises(InvalidArgument, match=says):
        eht.simulate(main, 2, seconds_per_sample=0.01)
