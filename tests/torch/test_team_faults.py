"""Ranks that die, come, hang and are cut off, on the virtual clock: training goes on, and little is lost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import erasurehead.torch as eht
from erasurehead.consensus import Crash, NetworkPartition
from erasurehead.errors import ErasureHeadError
from erasurehead.torch import _simulate
from erasurehead.torch._agreed import Agreement
from erasurehead.torch._member import Member
from erasurehead.torch._membership import LEASE
from erasurehead.torch._simulate import Hang, Join

from .small import Death, X, Y, loop, loss_of, momentum, net, weights

pytestmark = pytest.mark.timeout(120)

RANKS, STEPS = 4, 30
SECONDS = [0.01, 0.013, 0.017, 0.011]


def run(*faults: _simulate.Event, steps: int = STEPS, ranks: int = RANKS) -> _simulate.Simulated[torch.nn.Module]:
    seconds = [SECONDS[rank % len(SECONDS)] for rank in range(ranks)]
    return eht.simulate(loop(steps), ranks=ranks, seconds_per_sample=seconds, faults=faults)


def added(result: _simulate.Simulated[torch.nn.Module], rank: int) -> int:
    """Return how many steps of a rank are in versions that the last one follows."""
    last = {version.version: version for version in result.versions}
    return sum(version.steps.get(rank, 0) for version in last.values())


def check(result: _simulate.Simulated[torch.nn.Module], dead: set[int], lost: int = 1, steps: int = STEPS) -> None:
    """Check that all others made all their steps, lost few of them, and have one model, which was trained."""
    names = [(version.term, version.version) for version in result.versions]
    assert names == sorted(names)
    for rank, model in enumerate(result.returned):
        assert (model is None) == (rank in dead), f"rank {rank}"
        if rank not in dead and rank < RANKS:
            assert steps - lost <= added(result, rank) <= steps, f"rank {rank}"
    model = next(model for model in result.returned if model is not None)
    assert loss_of(model) < 0.6 * loss_of(net())


@pytest.mark.slow
@pytest.mark.parametrize("rank", range(RANKS))
def test_one_dies_at_any_time(rank: int) -> None:
    for tenth in range(8):
        at = 0.55 * tenth
        check(run(Crash(rank, at)), {rank})


@pytest.mark.slow
@pytest.mark.parametrize("event", range(5, 440, 15))
def test_who_gathers_dies_between_any_two_events(event: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Death(0, monkeypatch, after=event)
    check(run(), {0})


@pytest.mark.slow
def test_two_die_at_once() -> None:
    for other in (1, 2, 3):
        check(run(Crash(0, 1.0), Crash(other, 1.0)), {0, other})


def test_all_but_one_die_one_after_the_other() -> None:
    result = run(Crash(0, 1.0), Crash(1, 1.7), Crash(2, 2.4))
    check(result, {0, 1, 2}, lost=3)
    assert {version.gathered_by for version in result.versions} == {0, 1, 2, 3}


def test_one_that_comes_goes_on_from_the_newest_model() -> None:
    seen: dict[int, float] = {}

    def note(team: eht.Team, _: object, model: torch.nn.Module) -> None:
        seen.setdefault(team.rank, loss_of(model))

    result = eht.simulate(loop(STEPS, each=note), ranks=RANKS, seconds_per_sample=0.01, faults=[Join(3.0)])
    check(result, set())
    assert len(result.returned) == RANKS + 1
    assert seen[RANKS] < 0.7 * seen[0]
    assert sum(version.steps.get(RANKS, 0) for version in result.versions) == STEPS


def test_one_that_died_is_replaced() -> None:
    check(run(Crash(2, 1.0, rejoin=2.0)), {2})


@pytest.mark.slow
@pytest.mark.parametrize("rank", range(RANKS))
def test_one_hangs_and_goes_on(rank: int) -> None:
    result = run(Hang(rank, 1.0, 9.0), steps=90)
    assert all(model is not None for model in result.returned)
    assert {version.gathered_by for version in result.versions} == ({0, 1} if rank == 0 else {0})
    gaps = [other.seconds - one.seconds for one, other in zip(result.versions, result.versions[1:], strict=False)]
    assert max(gaps) < (2 * LEASE if rank == 0 else 0.6)
    assert all(added(result, number) >= 89 for number in range(RANKS) if number != rank)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.0, 0.3, 0.8])
def test_who_gathers_hangs_as_soon_as_one_has_come_back(after: float) -> None:
    """The two that are left are most of the team, and know it from the first version that all three belong to."""
    first = Hang(2, 1.0, 9.0)
    back = next(one for one in run(first, steps=120, ranks=3).versions if one.term and len(one.members) == 3)
    result = run(first, Hang(0, back.seconds + after + 1e-6, back.seconds + 15.0), steps=300, ranks=3)
    assert all(model is not None for model in result.returned)
    times = [one.seconds for one in result.versions if one.seconds > 2.0]
    assert max(other - one for one, other in pairwise(times)) < 2 * LEASE


@pytest.mark.parametrize(
    "options",
    [{"way": "busy"}, {"every": 3}, {"way": "first-gradients"}, {"every": "gradient", "scheme": "exact(load=2)"}],
)
def test_who_evaluates_and_saves_is_another_one_where_the_script_of_the_first_rank_has_ended(options: Any) -> None:
    """It stays, as it gathers, and yet it evaluates nothing any more."""
    firsts: list[tuple[int, int]] = []
    data = TensorDataset(X[:200], Y[:200])

    def main() -> bool:
        team, model = eht.join(), net()
        optimizer = team.optimizer(momentum(model), model, **options)
        for epoch in range(16):
            for inputs, labels in team.batches(data, batch_size=50, epoch=epoch):
                optimizer.zero_grad()
                cross_entropy(model(inputs), labels).backward()
                optimizer.step()
            if team.first:
                firsts.append((epoch, team.rank))
            if team.rank == 0 and epoch == 2:
                break
        return team.first

    ends = eht.simulate(main, RANKS, seconds_per_sample=0.05).returned
    assert firsts[:3] == [(0, 0), (1, 0), (2, 0)]
    epochs = [epoch for epoch, rank in firsts if rank == 1]
    assert epochs == list(range(epochs[0], 16))
    assert epochs[0] <= 8
    assert ends[:2] == (True, True)


def test_one_that_hangs_until_all_others_have_ended_is_told() -> None:
    with pytest.raises(ErasureHeadError, match="Rank 3 was not heard of for so long"):
        run(Hang(3, 1.0, 30.0))


@pytest.mark.parametrize("way", ["busy", "first-gradients"])
def test_one_that_begins_when_the_others_are_through_goes_on_from_their_model(way: str) -> None:
    """It was left out as it was silent, and is still waited for, as nobody knows that its process has ended."""
    seen: dict[int, float] = {}

    def note(team: eht.Team, _: object, model: torch.nn.Module) -> None:
        seen.setdefault(team.rank, loss_of(model))

    run = eht.simulate(loop(STEPS, each=note, way=way), ranks=3, seconds_per_sample=0.02, faults=[Hang(2, 0.0, 40.0)])
    assert all(model is not None for model in run.returned)
    assert seen[2] < 0.7 * seen[0]
    assert sum(version.steps.get(2, 0) for version in run.versions) == STEPS
    assert run.ended[0] > 40.0 > run.versions[-STEPS - 1].seconds


def test_one_that_was_started_and_does_not_come_is_waited_for_at_the_end_for_a_minute_and_may_not_train_alone() -> None:
    """It would begin with its own first weights, and save what came of them in place of the team's model."""
    ended: dict[int, float] = {}

    def main() -> None:
        teams: list[eht.Team] = []
        loop(STEPS, each=lambda team, *_: teams.append(team))()
        teams[0].close()
        ended[teams[0].rank] = teams[0].seconds

    with pytest.raises(ErasureHeadError, match="Rank 2 began when the others had come to their end"):
        eht.simulate(main, ranks=3, seconds_per_sample=0.02, faults=[Hang(2, 0.0, 100.0)])
    assert 60.0 < ended[0] < 75.0


def test_one_that_was_left_out_before_it_could_ask_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not wait for an answer of those that have ended."""
    monkeypatch.setattr(Member, "forgotten", property(lambda member: member.rank == 3))
    monkeypatch.setattr(Agreement, "on_message", Mock())
    with pytest.raises(ErasureHeadError, match="Rank 3 was not heard of for so long"):
        run()


@pytest.mark.slow
@pytest.mark.parametrize("rank", range(1, RANKS))
def test_messages_are_lost_for_a_moment(rank: int) -> None:
    cuts = [NetworkPartition((rank,), at, at + 0.3) for at in (0.1, 1.0, 2.2, 12.0)]
    result = run(*cuts, steps=120)
    assert all(added(result, number) >= 120 - len(cuts) for number in range(RANKS))
    assert {version.term for version in result.versions} == {0}


@pytest.mark.slow
def test_a_network_is_cut_and_heals_and_there_is_one_team() -> None:
    for inside in ((0,), (0, 1), (1, 2), (3,), (1, 2, 3)):
        result = run(NetworkPartition(inside, 1.0, 25.0), steps=200)
        for one, other in zip(result.versions, result.versions[1:], strict=False):
            assert other.term > one.term or other.version == one.version + 1
        models = [model for model in result.returned if model is not None]
        assert len(models) == RANKS
        assert loss_of(models[0]) < 0.3 * loss_of(net())
        assert torch.equal(weights(models[0]), weights(models[0]))
