"""Outer steps on the virtual clock: rounds close early, late ranks send what they have, and nothing of it is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from torch.nn.functional import cross_entropy

import erasurehead.torch as eht
from erasurehead.consensus import Crash, NetworkPartition
from erasurehead.errors import ErasureHeadError, InvalidArgument
from erasurehead.torch import _simulate
from erasurehead.torch._simulate import Hang, Join
from erasurehead.torch._ways._outer import Outer

from .small import Death, X, Y, batch, loop, loss_of, momentum, net, weights

pytestmark = pytest.mark.timeout(120)

RANKS, STEPS, EVERY = 4, 30, 10
SECONDS = [0.01, 0.013, 0.04, 0.011]


def plain(model: torch.nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), 0.1)


def adam(model: torch.nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), 0.005)


def run(
    *faults: _simulate.Event,
    steps: int = STEPS,
    every: int = EVERY,
    seconds: Sequence[float] = SECONDS,
    **options: Any,
) -> _simulate.Simulated[torch.nn.Module]:
    main = loop(steps, optimizer=plain, every=every, outer_momentum=0.5)
    return eht.simulate(main, RANKS, seconds_per_sample=seconds, faults=faults, **options)


def added(result: _simulate.Simulated[torch.nn.Module]) -> Counter[int]:
    """Return how many steps of each rank are in versions that the last one follows."""
    found: Counter[int] = Counter()
    for version in {version.version: version for version in result.versions}.values():
        found.update(version.steps)
    return found


def diloco(rounds: int, rate: float, decay: float, ranks: int = RANKS) -> torch.nn.Module:
    """Return what DiLoCo comes to: each rank's steps by themselves, and then Nesterov's method on their mean."""
    whole, models = net(), [net() for _ in range(ranks)]
    optimizers = [momentum(model) for model in models]
    outer = torch.optim.SGD(whole.parameters(), rate, decay, nesterov=decay > 0.0)
    for step in range(EVERY * rounds):
        for rank, (model, inner) in enumerate(zip(models, optimizers, strict=True)):
            own = batch(rank, step)
            inner.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            inner.step()
        if (step + 1) % EVERY == 0:
            for mine, *theirs in zip(*(each.parameters() for each in (whole, *models)), strict=True):
                mine.grad = mine.detach() - torch.stack([each.detach() for each in theirs]).mean(0)
            outer.step()
            for model in models:
                model.load_state_dict(whole.state_dict())
    return whole


@pytest.mark.parametrize(("rate", "decay"), [(0.7, 0.9), (0.7, 0.6), (1.0, 0.0)])
def test_where_nobody_is_late_it_is_diloco(rate: float, decay: float) -> None:
    main = loop(4 * EVERY, every=EVERY, outer_rate=rate, outer_momentum=decay)
    result = eht.simulate(main, RANKS, seconds_per_sample=0.01)
    expected = weights(diloco(4, rate, decay))
    for model in result.returned:
        assert model is not None
        assert torch.allclose(weights(model), expected, atol=2e-5)
    assert [version.steps for version in result.versions] == [dict.fromkeys(range(RANKS), EVERY)] * 4
    assert result.seconds == pytest.approx(4 * EVERY * 16 * 0.01)


def test_a_team_of_one_is_the_loop_itself() -> None:
    result = eht.simulate(loop(12, every=5), ranks=1)
    other = eht.simulate(loop(12), ranks=1)
    assert result.returned[0] is not None
    assert other.returned[0] is not None
    assert torch.equal(weights(result.returned[0]), weights(other.returned[0]))


def test_late_ranks_send_what_they_have_and_nobody_waits_for_them() -> None:
    main = loop(lambda rank: 4 * EVERY if rank != 3 else EVERY, every=EVERY, optimizer=plain)
    result = eht.simulate(main, RANKS, seconds_per_sample=[0.01, 0.01, 0.01, 0.04])
    assert result.seconds == pytest.approx(4 * EVERY * 16 * 0.01, rel=0.05)
    assert [version.steps[3] for version in result.versions] == [2, 3, 2, 3]
    assert all(version.steps[rank] == EVERY for version in result.versions for rank in range(3))


def test_each_change_counts_per_step() -> None:
    """Three ranks of ten steps, and one of two whose steps lead elsewhere: as far as ten of them would."""
    way = Outer(np.zeros(2, np.float32), 1, every=10, rate=0.5, momentum=0.0)
    way.heard(np.zeros(2, np.float32))
    for rank in range(3):
        way.announced(rank, 10, 1.0, 1.0, late=False)
        way.fold(rank, np.array([1.0, 0.3], np.float32), 10, 0.0, 1.0)
    assert not way.closes(range(4), 1.0)
    assert list(way.calls(range(4), 1.0)) == []
    assert list(way.calls(range(4), 1.2)) == [3]
    assert way.asks_at == pytest.approx(1.2 + 0.5 * 1.2)
    assert not way.closes(range(4), 1.2)
    assert way.closes(range(4), 1.9)  # it has not answered
    way.announced(3, 2, 1.0, 1.3, late=False)
    assert not way.closes(range(4), 1.9)  # it has, but what it has is on its way
    way.fold(3, np.array([-0.4, 0.7], np.float32), 2, 0.0, 1.0)
    assert way.closes(range(4), 1.3)
    out = np.empty(2, np.float32)
    way.close(range(4), 1.3, out)
    assert out == pytest.approx([0.5 * (3 * 1.0 - 2.0) / 4, (3 * 0.3 + 0.7) / 4])  # statistics are averaged as they are
    way.announced(3, 1, 0.4, 1.4, late=True)
    way.fold(3, np.array([0.1, 0.0], np.float32), 1, 0.0, 0.4)
    assert list(way.calls(range(4), 2.3)) == []  # as nobody is through


def test_who_hears_of_versions_knows_the_momentum() -> None:
    rng = np.random.default_rng(0)
    gathers, hears, comes = (Outer(np.zeros(5, np.float32), 4, 3, 0.7, 0.9) for _ in range(3))
    model = np.zeros(5, np.float32)
    for way in (gathers, hears):
        way.heard(model)
    for version in range(12):
        gathers.fold(0, rng.standard_normal(5).astype(np.float32), 3, 0.0, 1.0)
        model = np.empty(5, np.float32)
        gathers.close({0}, 1.0, model)
        gathers.heard(model)
        hears.heard(model.copy())
        assert np.allclose(gathers.momentum, hears.momentum, atol=1e-5)
        if version >= 1:
            comes.heard(model.copy())
    assert np.allclose(gathers.momentum, comes.momentum, rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("latency", [0.0, 0.05])
@pytest.mark.parametrize("rank", range(RANKS))
def test_one_dies_between_any_two_events_and_no_step_of_the_others_is_lost(
    rank: int, latency: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    death = Death(rank, monkeypatch)
    run(steps=15, every=5, latency=latency)
    for moment in range(3 + rank, death.events, 11):
        death.again(moment)
        found = added(run(steps=15, every=5, latency=latency))
        assert {other: found[other] for other in range(RANKS) if other != rank} == {
            other: 15 for other in range(RANKS) if other != rank
        }, f"after event {moment}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "missed"),
    [
        ((Hang(0, 1.0, 9.0),), 0),
        ((Hang(2, 1.0, 9.0),), EVERY),  # what it had when it was left out
        ((Hang(1, 1.3, 4.0),), 0),
        ((Crash(0, 1.0), Crash(1, 1.7)), 0),
        ((Join(2.5),), 0),
        ((Crash(2, 1.0, rejoin=2.0),), 0),
        ((NetworkPartition((2,), 1.0, 1.3),), 0),
        ((NetworkPartition((0, 1), 1.0, 12.0),), EVERY),
        ((NetworkPartition((3,), 2.0, 25.0),), EVERY),
    ],
)
def test_ranks_hang_come_and_are_cut_off(faults: tuple[_simulate.Event, ...], missed: int) -> None:
    result = run(*faults, steps=90)
    found, dead = added(result), {fault.peer for fault in faults if isinstance(fault, Crash)}
    for rank, model in enumerate(result.returned):
        assert (model is None) == (rank in dead)
        assert rank in dead or 90 - missed <= found[rank] <= 90
    assert loss_of(next(model for model in result.returned if model is not None)) < 0.5 * loss_of(net())


def test_one_that_hangs_until_all_others_have_ended_is_told() -> None:
    with pytest.raises(ErasureHeadError, match="Rank 3 was not heard of for so long"):
        run(Hang(3, 1.0, 60.0), seconds=[0.01] * RANKS)


def test_what_is_left_of_a_round_is_sent_at_the_end() -> None:
    result = run(steps=17)
    assert added(result) == Counter(dict.fromkeys(range(RANKS), 17))


@pytest.mark.slow
@pytest.mark.parametrize("make", [plain, adam, momentum])
def test_any_optimizer_makes_the_steps_between(make: Any) -> None:
    main = loop(60, optimizer=make, every=EVERY, outer_momentum=0.5)
    result = eht.simulate(main, RANKS, seconds_per_sample=SECONDS)
    assert all(model is not None and loss_of(model) < 0.5 * loss_of(net()) for model in result.returned)


def test_an_optimizer_that_computes_gradients_itself_makes_the_steps_between() -> None:
    def main() -> torch.nn.Module:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(torch.optim.LBFGS(model.parameters(), 0.1, 3), model, every=2)

        def closure(step: int) -> torch.Tensor:
            optimizer.zero_grad()
            loss = cross_entropy(model(X[batch(team.rank, step, 64)]), Y[batch(team.rank, step, 64)])
            loss.backward()
            return loss

        for step in range(6):
            optimizer.step(lambda step=step: closure(step))
        return team.model()

    result = eht.simulate(main, RANKS, seconds_per_sample=SECONDS)
    assert added(result) == Counter(dict.fromkeys(range(RANKS), 6))
    assert result.returned[0] is not None
    assert loss_of(result.returned[0]) < 0.7 * loss_of(net())


def test_statistics_of_batch_norm_are_averaged() -> None:
    def main() -> torch.Tensor:
        team = eht.join()
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(2, momentum=0.5), torch.nn.Linear(2, 1))
        optimizer = team.optimizer(plain(model), model, every=2)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.full((8, 2), float(team.rank)) + torch.randn(8, 2)).square().mean().backward()
            optimizer.step()
        return team.model()[0].running_mean  # pyright: ignore[reportIndexIssue]

    result = eht.simulate(main, RANKS, seconds_per_sample=0.01)
    assert all(found is not None and torch.allclose(found, result.returned[0]) for found in result.returned)  # pyright: ignore[reportArgumentType]
    assert float(result.returned[0].mean()) == pytest.approx(0.75 * 1.5, abs=0.4)  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("where", ["gradients", "weights"])
def test_steps_that_are_not_finite_reach_nobody(where: str) -> None:
    def main() -> tuple[torch.nn.Module, int]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(plain(model), model, every=EVERY, outer_momentum=0.0)
        for step in range(3 * EVERY):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            if team.rank == 1 and step == 13:
                parameter = next(model.parameters())
                if where == "gradients":
                    parameter.grad = torch.full_like(parameter, float("nan"))
                else:
                    optimizer.param_groups[0]["lr"] = float("inf")
            optimizer.step()
            optimizer.param_groups[0]["lr"] = 0.1
        return team.model(), team.skipped

    result = eht.simulate(main, RANKS, seconds_per_sample=0.01)
    for rank, found in enumerate(result.returned):
        assert found is not None
        assert torch.isfinite(weights(found[0])).all()
        assert (found[1] > 0) == (rank == 1)


@pytest.mark.slow
def test_it_goes_on_from_what_was_saved(tmp_path: Path) -> None:
    def main(rounds: int, load: bool) -> torch.nn.Module:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(plain(model), model, every=EVERY)
        if load:
            team.load(tmp_path / "team")
        for step in range(EVERY * (3 if load else 0), EVERY * (3 if load else 0) + EVERY * rounds):
            own = batch(team.rank, step)
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own]).backward()
            optimizer.step()
        found = team.model()
        if not load and rounds == 3:
            team.save(tmp_path / "team")
        return found

    whole = eht.simulate(lambda: main(6, load=False), RANKS, seconds_per_sample=0.01)
    eht.simulate(lambda: main(3, load=False), RANKS, seconds_per_sample=0.01)
    resumed = eht.simulate(lambda: main(3, load=True), RANKS, seconds_per_sample=0.01)
    assert whole.returned[0] is not None
    for model in resumed.returned:
        assert model is not None
        assert torch.allclose(weights(model), weights(whole.returned[0]), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"every": 0}, "every"),
        ({"every": 2.5}, "every"),
        ({"every": "gradients"}, "every must be a number of steps, 'gradient', or left out"),
        ({"outer_rate": 0.5}, "every must be a number of steps with outer_rate or outer_momentum"),
        ({"every": 5, "outer_rate": 0.0}, "outer_rate must be a number above 0"),
        ({"every": 5, "outer_momentum": 1.0}, "outer_momentum must be at least 0 and below 1"),
        ({"every": 5, "way": "busy"}, "way must be left out where every says how ranks meet"),
    ],
)
def test_settings_that_break_a_rule_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        eht.simulate(loop(3, **options), ranks=2)


def test_ranks_with_other_settings_are_told() -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        team.optimizer(plain(model), model, every=5 + team.rank)

    with pytest.raises(InvalidArgument, match=r"outer steps every 6 steps, of rate 0\.7 and momentum 0\.9 here"):
        eht.simulate(main, ranks=2)


@pytest.mark.parametrize("seconds", [0.1, 700.0])  # longer than it may be that nothing happens at all
def test_vectors_take_the_time_of_their_lines_one_after_the_other(seconds: float) -> None:
    def main() -> float:
        team = eht.join()
        model = net()
        team.optimizer(plain(model), model)
        return team.seconds

    megabits = 32e-6 * sum(parameter.numel() for parameter in net().parameters())
    found = eht.simulate(main, 3, mbit=megabits / seconds).returned
    assert found == pytest.approx([0.0, seconds, 2 * seconds], rel=0.2, abs=0.0)  # the first rank's model comes


@pytest.mark.slow
@pytest.mark.parametrize("bfloat16", [False, True])
def test_on_slow_lines_ranks_are_waited_for_whose_change_is_on_its_way(bfloat16: bool) -> None:
    """A vector takes five steps; the last of four ranks has the model three vectors later than the first."""
    megabits = 32e-6 * sum(parameter.numel() for parameter in net().parameters())
    main = loop(14 * EVERY, every=EVERY, optimizer=plain, outer_momentum=0.5, bfloat16=bfloat16)
    result = eht.simulate(main, RANKS, seconds_per_sample=0.01, mbit=megabits / 0.8)
    assert added(result) == Counter(dict.fromkeys(range(RANKS), 14 * EVERY))
    assert all(version.steps == dict.fromkeys(range(RANKS), EVERY) for version in result.versions[9:13])
    seconds = [
        two.seconds - one.seconds for one, two in zip(result.versions[9:12], result.versions[10:13], strict=True)
    ]
    assert seconds == pytest.approx([3.2 if bfloat16 else 4.8] * 3, abs=0.1)
    models = [model for model in result.returned[:2] if model is not None]  # others may end a version later
    assert torch.equal(*map(weights, models))


def test_a_change_that_is_lost_on_its_way_holds_nobody_up() -> None:
    """Cut off for a moment after it said that its change comes, and before that has come."""
    megabits = 32e-6 * sum(parameter.numel() for parameter in net().parameters())
    result = eht.simulate(
        loop(6 * EVERY, every=EVERY, optimizer=plain),
        3,
        seconds_per_sample=0.01,
        mbit=megabits / 0.8,
        faults=[NetworkPartition((2,), 15.0, 15.9)],
    )
    assert all(model is not None for model in result.returned)
    found = added(result)
    assert [found[rank] for rank in range(2)] == [6 * EVERY] * 2
    assert 4 * EVERY <= found[2] <= 6 * EVERY


def test_a_line_that_carries_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="mbit must be a number of million bits a second above 0, but it is 0"):
        eht.simulate(loop(1), 2, mbit=0)


@pytest.mark.parametrize("until", [17.0, 20.0])
def test_what_a_rank_has_sent_counts_once_though_it_hangs_before_its_round_is_closed(until: float) -> None:
    """It is left out, and let in again by the same rank, which has what it sent; it sends that again, to be sure."""
    seconds = [0.25, 0.25, 0.75, 0.75]
    found = eht.simulate(loop(8, every=2), 4, seconds_per_sample=seconds, faults=[Hang(1, 9.0, until)])
    assert found.versions[0].steps == {0: 2, 1: 2, 2: 2, 3: 2}
    assert sum((Counter(version.steps) for version in found.versions), Counter[int]())[1] == 8


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 20.0), st.floats(4.0, 15.0)), min_size=1, max_size=3),
    st.lists(st.sampled_from([0.03, 0.1, 0.25, 0.75]), min_size=4, max_size=4),
    st.sampled_from([{"every": 2}, {"every": 3}, {"way": "busy"}, {"way": "first-gradients"}]),
)
@example([(1, 9.0, 9.0)], [0.25, 0.25, 0.75, 0.75], {"every": 2})
@settings(max_examples=12, deadline=None)
def test_no_step_of_any_rank_is_added_twice(
    hangs: list[tuple[int, float, float]], seconds: list[float], options: dict[str, Any]
) -> None:
    faults = [Hang(rank, at, at + long) for rank, at, long in hangs]
    try:
        found = eht.simulate(loop(8, **options), 4, seconds_per_sample=seconds, faults=faults)
    except ErasureHeadError as error:
        if "was not heard of for so long" not in str(error):
            raise
        return
    chain: dict[int, Any] = {}
    for version in found.versions:  # one of a later term replaces those of its number and after
        chain = {number: one for number, one in chain.items() if number < version.version}
        chain[version.version] = version
    for rank in range(4):
        assert sum(version.steps.get(rank, 0) for version in chain.values()) <= 8, rank
