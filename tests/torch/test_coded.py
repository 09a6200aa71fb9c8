"""Gradients by a scheme, on the virtual clock: that of the same batch, whoever dies, hangs, comes or is late."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset, TensorDataset

import erasurehead.torch as eht
from erasurehead.consensus import Crash, NetworkPartition
from erasurehead.errors import ErasureHeadError, InvalidArgument
from erasurehead.torch import _coded, _simulate, _versions
from erasurehead.torch._batches import permutation
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._place import current_place
from erasurehead.torch._simulate import Hang, Join
from erasurehead.torch._ways._coded import workers_of

from .small import Death, X, Y, momentum, net, weights

pytestmark = pytest.mark.timeout(120)

RANKS, BATCH, EPOCHS = 4, 48, 3
DATA = TensorDataset(X[:200], Y[:200])  # four batches and a smaller one
STEPS = 5 * EPOCHS
LATE = {"seconds_per_sample": 0.02, "delays": "exponential(mean=0.2, seed=1)"}
CLASSES = torch.tensor([1.0, 3.0, 0.5])


def dropping() -> torch.nn.Module:
    model = net()
    return torch.nn.Sequential(model[0], torch.nn.Dropout(0.3), model[1], model[2])  # pyright: ignore[reportIndexIssue]


def normed() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.BatchNorm1d(12), net())


class Noisy(Dataset[Any]):
    """Samples with noise that is drawn whenever one is read."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> Any:
        return X[index] + 0.3 * torch.randn(12), Y[index]


def train(
    scheme: str = "exact(load=2)",
    make: Any = net,
    data: Any = DATA,
    epochs: range = range(EPOCHS),
    path: Path | None = None,
    load: bool = False,
    classes: torch.Tensor | None = None,
) -> tuple[torch.Tensor, int, list[torch.Tensor]]:
    team = eht.join()
    model = make()
    optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=scheme)
    if load and path is not None:
        team.load(path)
    for epoch in epochs:
        for inputs, labels in team.batches(data, batch_size=BATCH, epoch=epoch):
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels, classes).backward()
            if classes is not None:
                team.weigh(float(classes[labels].sum()))
            optimizer.step()
    if path is not None and not load:
        team.save(path)
    return weights(model), team.skipped, [buffer.clone() for buffer in model.buffers()]


def alone(classes: torch.Tensor | None = None, epochs: int = EPOCHS, samples: int = 200) -> torch.Tensor:
    """Return what one process comes to that has the whole batch in each step."""
    model = net()
    optimizer = momentum(model)
    for epoch in range(epochs):
        order = permutation(samples, 0, epoch)
        for own in order.split(BATCH):
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own], classes).backward()
            optimizer.step()
    return weights(model)


def same(result: Any, expected: torch.Tensor, dead: frozenset[int] = frozenset()) -> None:
    """Check that all ranks but the dead have the same weights as others, to rounding."""
    for rank, found in enumerate(result.returned):
        assert found is not None or rank in dead  # which may have been through before
        if found is not None:
            assert torch.allclose(found[0], expected, atol=2e-6), f"rank {rank}"


@pytest.mark.parametrize("delays", [{"seconds_per_sample": 0.01}, LATE])
@pytest.mark.parametrize("scheme", ["exact(load=2)", "uncoded()", "decodable()", "erasurehead(load=4, wait_for=2)"])
def test_a_step_is_one_of_the_whole_batch_whoever_is_late(scheme: str, delays: dict[str, Any]) -> None:
    result = eht.simulate(lambda: train(scheme), RANKS, **delays)
    same(result, alone())
    assert len(result.versions) == STEPS


def test_a_step_takes_the_time_of_its_samples() -> None:
    result = eht.simulate(train, RANKS, seconds_per_sample=0.01)
    assert result.seconds == pytest.approx(EPOCHS * (4 * BATCH + 8) / 2 * 0.01)


def test_losses_that_are_not_divided_by_samples() -> None:
    same(eht.simulate(lambda: train(classes=CLASSES), RANKS, **LATE), alone(CLASSES))


def test_a_share_of_which_no_sample_counts_adds_nothing() -> None:
    """The gradient of its mean is NaN, and nothing of the batch is left out for that."""
    one = torch.tensor([0.0, 1.0, 0.0])
    result = eht.simulate(lambda: train("uncoded()", classes=one), RANKS, **LATE)
    same(result, alone(one))
    assert all(found is not None and found[1] == 0 for found in result.returned)


def test_a_rank_that_wakes_up_when_all_are_through_is_told_that_they_are() -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        for step, (inputs, labels) in enumerate(team.batches(DATA, batch_size=BATCH)):
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            if team.rank == 1 and step == 2:  # what it finds in its mail then, but for the steps
                member: Any = vars(team)["_meeting"].member
                for other in {0, 2, 3}:
                    member.on_message(other, Head(Kind.DONE, flag=1, term=0, version=99), None)
                    member.on_message(other, Head(Kind.DONE, term=0), None)

    with pytest.raises(ErasureHeadError, match="Rank 1 was not heard of for so long that the others went on without"):
        eht.simulate(main, RANKS, seconds_per_sample=0.01)


def test_approximate_schemes_take_the_mean_of_what_came() -> None:
    """Three of four parts of each batch: not the whole batch's gradient, and yet the size of it."""
    result = eht.simulate(lambda: train("first(3)"), RANKS, **LATE)
    assert all(len(version.steps) == 3 for version in result.versions)
    found = result.returned[0]
    assert found is not None
    apart, gone = float((found[0] - alone()).norm()), float((alone() - weights(net())).norm())
    assert 0.001 * gone < apart < 0.3 * gone


@pytest.mark.slow
@pytest.mark.parametrize("latency", [0.0, 0.05])
@pytest.mark.parametrize("rank", range(RANKS))
def test_one_dies_between_any_two_events_and_the_weights_are_the_same(
    rank: int, latency: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    death = Death(rank, monkeypatch)
    data, expected = TensorDataset(X[:150], Y[:150]), alone(epochs=2, samples=150)  # three steps an epoch and a smaller

    def run() -> Any:
        return eht.simulate(lambda: train(data=data, epochs=range(2)), RANKS, latency=latency, **LATE)

    same(run(), expected)
    for moment in range(3 + rank, death.events - 20, 17):
        death.again(moment)
        same(run(), expected, frozenset({rank}))


@pytest.mark.parametrize(
    "faults",
    [
        (Hang(0, 1.0, 9.0),),
        (Hang(1, 1.0, 9.0),),
        (Hang(2, 1.0, 9.0), Hang(3, 1.0, 9.0)),  # a whole group
        (Hang(0, 1.0, 9.0), Hang(1, 1.0, 30.0)),
        (Hang(1, 1.0, 9.0), Hang(2, 1.0, 9.0), Hang(3, 1.0, 9.0)),
        (Crash(0, 2.0), Crash(2, 3.0)),  # one of each group
        (Crash(3, 1.0, rejoin=2.0),),
        (Crash(2, 1.0, rejoin=2.0), Crash(3, 6.0)),  # whoever came has the place of the first
        (Join(2.0),),
        (NetworkPartition((1,), 1.0, 1.3),),
        (NetworkPartition((3,), 1.0, 5.0),),
    ],
)
def test_ranks_hang_come_and_are_cut_off_and_the_weights_are_the_same(faults: tuple[_simulate.Event, ...]) -> None:
    result = eht.simulate(train, RANKS, faults=faults, **LATE)
    same(result, alone(), frozenset(fault.peer for fault in faults if isinstance(fault, Crash)))


@pytest.mark.parametrize("scheme", ["uncoded()", "decodable()"])
@pytest.mark.parametrize("hang", [(0,), (3,), (1, 2)])
def test_ranks_that_nobody_stands_in_for_are_waited_for_while_they_hang(scheme: str, hang: tuple[int, ...]) -> None:
    """What they had sent is dropped with them as they are left out, and they send it again when they are let in."""
    faults = [Hang(rank, 1.0, 9.0) for rank in hang]
    same(eht.simulate(lambda: train(scheme), RANKS, faults=faults, seconds_per_sample=0.01), alone())


def test_ranks_of_which_nothing_is_heard_for_a_minute_end_the_others_by_an_error() -> None:
    said = "tasks of rank 3, which are gone, or of which nothing was heard for 60 s. Start again"
    with pytest.raises(ErasureHeadError, match=said):
        eht.simulate(lambda: train("uncoded()"), RANKS, faults=[Hang(3, 1.0, 100.0)], seconds_per_sample=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "data"), [(dropping, DATA), (normed, DATA), (net, Noisy())])
def test_what_a_step_draws_and_averages_is_the_same_whoever_computes_it(make: Any, data: Any) -> None:
    calm = eht.simulate(lambda: train(make=make, data=data), RANKS, seconds_per_sample=0.01).returned[0]
    assert calm is not None
    late: dict[str, Any] = {
        "seconds_per_sample": 0.002,
        "delays": "exponential(mean=0.4, seed=2)",
    }  # often several steps behind
    for faults, dead in (((), frozenset[int]()), ((Crash(2, 2.0),), frozenset({2}))):
        disturbed = eht.simulate(lambda: train(make=make, data=data), RANKS, faults=faults, **late)
        same(disturbed, calm[0], dead)
        for found in filter(None, disturbed.returned):
            for one, two in zip(found[2], calm[2], strict=True):
                assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("scheme", ["exact(load=2)", "first(3)"])
@pytest.mark.parametrize("delays", [{"seconds_per_sample": 0.01}, LATE])
def test_a_rank_whose_own_gradients_are_not_finite_makes_the_steps_of_the_others(
    scheme: str, delays: dict[str, Any]
) -> None:
    def broken() -> torch.nn.Module:
        model = normed()
        if os.environ["RANK"] == "1":
            for parameter in model.parameters():
                parameter.register_hook(lambda gradient: gradient * float("nan"))
        return model

    found = [each for each in eht.simulate(lambda: train(scheme, broken), RANKS, **delays).returned if each is not None]
    assert [each[1] > 0 for each in found] == [False, True, False, False]
    for one in found:
        assert torch.equal(one[0], found[0][0])
        assert torch.allclose(one[2][0], found[0][2][0], atol=1e-6)


def test_a_group_that_has_died_ends_the_others_by_an_error() -> None:
    with pytest.raises(ErasureHeadError, match="nobody else has all the tasks of ranks 0, 1, which are gone"):
        eht.simulate(train, RANKS, faults=[Crash(0, 2.0), Crash(1, 3.0)], **LATE)


@pytest.mark.parametrize(
    ("seconds", "dead"),
    [((0.001, 0.03), {0}), ((0.03, 0.001), {1}), ((0.001, 0.03) * 2, {0, 2}), ((0.03, 0.001) * 2, {1, 3})],
)
def test_slow_ranks_make_the_steps_of_those_that_had_the_newest_model_and_died(
    seconds: tuple[float, ...], dead: set[int]
) -> None:
    """They are many steps behind then, and nobody is left to send them the model."""
    result = eht.simulate(train, len(seconds), seconds_per_sample=seconds, faults=[Crash(rank, 0.2) for rank in dead])
    same(result, alone(), frozenset(dead))


@pytest.mark.parametrize(("seconds", "dead"), [((0.001, 0.05), {0}), ((0.001, 0.05) * 2, {0, 2})])
def test_slow_ranks_that_are_too_far_behind_those_that_died_end_by_an_error(
    seconds: tuple[float, ...], dead: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_versions, "_MOST_KEPT", 0)
    with pytest.raises(ErasureHeadError, match="those that are left were too far behind to make it"):
        eht.simulate(train, len(seconds), seconds_per_sample=seconds, faults=[Crash(rank, 0.3) for rank in dead])


def test_a_rank_that_is_late_when_the_others_leave_their_loops_ends_by_an_error() -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        for made, (inputs, labels) in enumerate(team.batches(DATA, batch_size=8, epoch=0)):
            if made == 9:
                break
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()

    with pytest.raises(ErasureHeadError, match="Rank 3 is still in its loop, and ranks 0, 1, 2 have left theirs"):
        eht.simulate(main, RANKS, seconds_per_sample=(0.01, 0.01, 0.01, 0.03))


def test_batches_without_a_step_and_epochs_that_were_not_gone_through_are_refused() -> None:
    def main(each: int, most: int) -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        next(iter(team.batches(DATA, batch_size=BATCH, epoch=0)))  # a look at the data
        for epoch in range(EPOCHS):
            for made, (inputs, labels) in enumerate(team.batches(DATA, batch_size=BATCH, epoch=epoch)):
                if made == most:
                    break
                cross_entropy(model(inputs), labels).backward()
                if made % each == each - 1:
                    optimizer.step()
                    optimizer.zero_grad()

    eht.simulate(lambda: main(1, 9), RANKS, seconds_per_sample=0.01)
    with pytest.raises(ErasureHeadError, match=r"next batch without optimizer.step\(\) for the one before"):
        eht.simulate(lambda: main(2, 9), RANKS, seconds_per_sample=0.01)
    with pytest.raises(InvalidArgument, match="epoch must be at most 0 after 3 steps, of which an epoch has 5, but it"):
        eht.simulate(lambda: main(1, 3), RANKS, seconds_per_sample=0.01)


def test_a_scaler_that_leaves_out_a_step_tries_the_same_batch_again() -> None:
    def main() -> tuple[torch.Tensor]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000)
        for epoch in range(EPOCHS):
            for inputs, labels in team.batches(DATA, batch_size=BATCH, epoch=epoch):
                optimizer.zero_grad()
                scaler.scale(1e4 * cross_entropy(model(inputs), labels)).backward()
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.grad /= 1e4
                scaler.step(optimizer)
                scaler.update()
        return (weights(team.model()),)

    same(eht.simulate(main, RANKS, **LATE), alone())


def test_a_team_of_one_has_the_whole_batch_by_any_scheme() -> None:
    for scheme in ("exact(load=2)", "erasurehead(load=4, wait_for=2)", "first(3)"):
        same(eht.simulate(lambda scheme=scheme: train(scheme), 1), alone())
    with pytest.raises(InvalidArgument, match="'nonsense' is unknown"):
        eht.simulate(lambda: train("nonsense(3)"), 1)


CODED = {"every": "gradient", "scheme": "exact(load=2)"}


@pytest.mark.parametrize(("saves", "size"), [({}, BATCH), (CODED, BATCH // 2)], ids=["busy", "another batch"])
def test_what_was_saved_otherwise_goes_on_with_its_epoch(saves: dict[str, Any], size: int, tmp_path: Path) -> None:
    def main(options: dict[str, Any], size: int, load: bool) -> tuple[int, int]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, **options)
        begin, steps = team.load(tmp_path / "team") if load else 0, 0
        for epoch in range(begin, begin + 2):
            for inputs, labels in team.batches(DATA, batch_size=size, epoch=epoch):
                optimizer.zero_grad()
                cross_entropy(model(inputs), labels).backward()
                optimizer.step()
                steps += 1
        if not load:
            team.save(tmp_path / "team")
        return begin, steps

    eht.simulate(lambda: main(saves, size, False), RANKS, seconds_per_sample=0.01)
    run = eht.simulate(lambda: main(CODED, BATCH, True), RANKS, seconds_per_sample=0.01)
    assert {steps for _, steps in filter(None, run.returned)} == {2 * -(-len(DATA) // BATCH)}
    assert {begin for begin, _ in filter(None, run.returned)} <= {1, 2}


@pytest.mark.slow
def test_it_goes_on_from_what_was_saved_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "team"
    whole = eht.simulate(lambda: train(path=tmp_path / "whole"), RANKS, seconds_per_sample=0.01)
    eht.simulate(lambda: train(epochs=range(2), path=path), RANKS, seconds_per_sample=0.01)
    resumed = eht.simulate(lambda: train(path=path, load=True), RANKS, seconds_per_sample=0.01)
    assert len(resumed.versions) == 5
    for one, other in zip(resumed.returned, whole.returned, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one[0], other[0])


@pytest.mark.parametrize("load", [1, 2])
def test_a_rank_that_loads_late_makes_the_steps_that_others_have_made_since_they_loaded(
    load: int, tmp_path: Path
) -> None:
    path = tmp_path / "team"

    def main(epochs: range) -> tuple[torch.Tensor]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        if epochs.start:
            if team.rank == 3:
                team._place.compute(30.0 * load, 0)  # pyright: ignore[reportPrivateUsage]
            assert team.load(path) == epochs.start
        for epoch in epochs:
            for inputs, labels in team.batches(DATA, batch_size=BATCH, epoch=epoch):
                optimizer.zero_grad()
                cross_entropy(model(inputs), labels).backward()
                optimizer.step()
        team.save(path)
        return (weights(team.model()),)

    eht.simulate(lambda: main(range(1)), RANKS, seconds_per_sample=0.01)
    same(eht.simulate(lambda: main(range(1, EPOCHS)), RANKS, seconds_per_sample=0.01), alone())


@pytest.mark.parametrize("fault", [Join(4.0), Crash(3, 2.0, rejoin=4.0)])
def test_a_rank_that_joins_loads_what_the_team_has_saved_meanwhile_and_has_its_newest_step(
    fault: _simulate.Event, tmp_path: Path
) -> None:
    path, begun = tmp_path / "team", list[tuple[int, int]]()

    def main(last: int) -> tuple[torch.Tensor]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        begun.append((team.rank, team.load(path) if path.exists() else 0))
        for epoch in range(begun[-1][1], last):
            for inputs, labels in team.batches(DATA, batch_size=BATCH, epoch=epoch):
                optimizer.zero_grad()
                cross_entropy(model(inputs), labels).backward()
                optimizer.step()
            team.save(path)
        return (weights(team.model()),)

    eht.simulate(lambda: main(1), RANKS, seconds_per_sample=0.01)
    assert {epoch for _, epoch in begun} == {0}
    result = eht.simulate(lambda: main(EPOCHS), RANKS, faults=[fault], **LATE)
    assert begun[RANKS:] == [*((rank, 1) for rank in range(RANKS)), (RANKS, 2)]
    same(result, alone(), frozenset({3}))


def test_a_batch_whose_gradient_is_not_finite_is_left_out_by_all() -> None:
    x = X[:200].clone()
    x[7] = float("nan")
    result = eht.simulate(lambda: train(data=TensorDataset(x, Y[:200])), RANKS, **LATE)
    found = [each for each in result.returned if each is not None]
    assert all(torch.isfinite(each[0]).all() and torch.equal(each[0], found[0][0]) for each in found)
    assert len(result.versions) == STEPS
    assert any(each[1] for each in found)


def test_which_worker_a_rank_is() -> None:
    assert workers_of({0, 1, 2}, 3) == {0: 0, 1: 1, 2: 2}
    assert workers_of({0, 2, 5, 3}, 3) == {0: 0, 2: 2, 3: 1, 5: 2}


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (None, r"scheme must be given with every='gradient'; such as 'exact\(load=2\)' or 'first\(7\)'"),
        (
            "exact(load=3, code='cyclic')",
            r"With the scheme exact cyclic, ranks share single tasks.* team.backward\(losses\), with one loss a sample",
        ),
        (
            "compute_once()",
            r"which has several messages of a rank'; take exact\(load=2\) or first\(7\); erasurehead.train, with pr",
        ),
        (
            "custom(code='bernoulli(load=1, nobody_idle=False)', wait='first(3)')",
            r"leaves ranks [\d, ]+ without a task",
        ),
        ("asynchronous()", "which remembers more than one step"),
        ("nonsense(3)", "'nonsense' is unknown"),
        ("first(9)", "must be at most the 7 workers"),
        (3, "scheme must be given with every='gradient', got 3"),
    ],
)
def test_schemes_that_do_not_fit_are_refused(scheme: str | None, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        eht.simulate(lambda: train(scheme), 7)  # pyright: ignore[reportArgumentType]


def test_what_is_said_wrongly_is_refused() -> None:
    def other(**options: Any) -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, **options)
        model(X[:8]).sum().backward()
        optimizer.step()

    def batches(**options: Any) -> None:
        team = eht.join()
        model = net()
        team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        next(iter(team.batches(DATA, **options)))

    for options, text in (
        (
            {"every": "gradient", "scheme": "uncoded()"},
            "needs the batches of team.batches, got 'a step of other samples'",
        ),
        ({"scheme": "uncoded()"}, "every must be 'gradient' with a scheme"),
        ({"every": "gradient", "scheme": "uncoded()", "way": "busy"}, "way must be left out"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            eht.simulate(lambda options=options: other(**options), RANKS)
    for options, text in (
        ({"batch_size": 3}, "batch_size"),
        ({"batch_size": 8, "num_workers": 1}, "num_workers must be 0 where a late rank leaves out steps"),
        ({"batch_size": 8, "speeds": "measured"}, "speeds must be left out where a scheme says who computes what"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            eht.simulate(lambda options=options: batches(**options), RANKS)


@pytest.mark.parametrize("total", [50, 49, 19])
@pytest.mark.parametrize("scheme", ["uncoded()", "exact(load=2)"])
def test_each_sample_is_in_an_epoch_once_however_few_are_left_for_its_last_batch(total: int, scheme: str) -> None:
    data = TensorDataset(torch.arange(total, dtype=torch.float32)[:, None])

    def main() -> list[float]:
        team = eht.join()
        model = torch.nn.Linear(1, 1)
        optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 1e-6), model, every="gradient", scheme=scheme)
        found: list[float] = []
        for (batch,) in team.batches(data, batch_size=16, epoch=0):
            found += batch[:, 0].tolist()
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
        return found

    found = eht.simulate(main, 4, seconds_per_sample=0.01).returned
    assert all(one is not None and len(set(one)) == len(one) for one in found)
    assert set().union(*(one or [] for one in found)) == set(range(total))


def test_a_version_that_comes_while_a_batch_is_put_together_is_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or samples of one step would be sent as those of another."""
    cut, once = _coded.parts, [3]

    def slowly(*arguments: Any, **options: Any) -> Any:
        place = current_place()
        assert place is not None
        if place.rank in once:
            once.remove(place.rank)
            place.compute(1000.0, 0)  # until the slow other rank of its group has made the first step
        return cut(*arguments, **options)

    monkeypatch.setattr(_coded, "parts", slowly)
    same(eht.simulate(train, RANKS, seconds_per_sample=(0.01, 0.01, 0.4, 0.01)), alone())
    assert not once


def test_a_rank_that_comes_when_the_first_epoch_is_over_has_none_of_the_next_one_instead() -> None:
    def main() -> int:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="erasurehead(load=2, wait_for=2)")
        steps = 0
        for inputs, labels in team.batches(TensorDataset(X[:8], Y[:8]), 8):
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            steps += 1
        return steps

    result = eht.simulate(main, RANKS)  # all of it at once: some hear of the step before they begin
    assert len(result.versions) == 1
    assert set(result.returned) == {0, 1}


def test_fewer_samples_than_tasks_are_refused() -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        team.batches(TensorDataset(X[:3], Y[:3]), batch_size=16)

    with pytest.raises(InvalidArgument, match="dataset must have at least a sample for each of 4 tasks, got 3"):
        eht.simulate(main, 4, seconds_per_sample=0.01)


@pytest.mark.parametrize("scheme", ["exact(load=2)", "exact(load=2, code='cyclic')"])
def test_a_rank_whose_last_model_is_on_its_way_when_the_others_leave_waits_for_it(scheme: str) -> None:
    """That they have left is said in a word, which overtakes the model on a slow line."""

    def main() -> torch.Tensor:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=scheme)
        for inputs, labels in team.batches(TensorDataset(X[:16], Y[:16]), batch_size=8, epoch=0):
            optimizer.zero_grad()
            team.backward(lambda batch: cross_entropy(model(batch[0]), batch[1], reduction="none"), (inputs, labels))
            optimizer.step()
        return weights(model)

    for mbit in (0.001, 0.0003):
        for seconds in (0.01, (0.01, 0.01, 0.01, 30.0)):
            found = eht.simulate(main, RANKS, seconds_per_sample=seconds, mbit=mbit).returned
            assert all(one is not None and torch.allclose(one, found[0], atol=1e-6) for one in found)  # type: ignore[arg-type]
