"""The batches of a team: each sample once an epoch, whoever is fast, through PyTorch's loader."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import erasurehead.torch as eht
from erasurehead.consensus import Crash
from erasurehead.errors import InvalidArgument
from erasurehead.torch._simulate import Join

from .small import X, Y, loss_of, momentum, net

pytestmark = pytest.mark.timeout(120)


class Numbers(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples that say which they are, in their place among the targets."""

    def __init__(self, total: int, drawn: bool = False) -> None:
        self.total, self.drawn = total, drawn

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = X[number % len(X)]
        return (x + torch.rand(()) if self.drawn else x), torch.tensor(number)


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        yield from zip(X[:103], range(103), strict=True)  # pyright: ignore


def numbers_of(
    epochs: int,
    batch_size: int,
    dataset: Any,
    each: Callable[[eht.Team, int], bool] = lambda team, step: False,
    **options: Any,
) -> Callable[[], list[list[list[int]]]]:
    """Return a main that trains, and tells by epoch and step which samples a rank had."""

    def main() -> list[list[list[int]]]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model)
        had: list[list[list[int]]] = []
        for epoch in range(epochs):
            had.append([])
            for step, (x, number) in enumerate(team.batches(dataset, batch_size, epoch, **options)):
                had[-1].append([int(one) for one in number])
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                if each(team, step):
                    break
        return had

    return main


def counted(returned: tuple[Any, ...], epoch: int) -> Counter[int]:
    return Counter(number for had in returned if had is not None for batch in had[epoch] for number in batch)


@pytest.mark.parametrize("ranks", [1, 3, 5])
@pytest.mark.parametrize(("delays", "latency"), [(None, 0.0), ("exponential(mean=0.2, seed=3)", 0.003)])
def test_each_epoch_is_each_sample_once_over_all_ranks(ranks: int, delays: str | None, latency: float) -> None:
    run = eht.simulate(numbers_of(3, 20, Numbers(203)), ranks, delays=delays, seconds_per_sample=0.01, latency=latency)
    for epoch in range(3):
        assert counted(run.returned, epoch) == Counter(range(203))
    orders = [[number for batch in run.returned[0][epoch] for number in batch] for epoch in range(3)]  # pyright: ignore
    assert orders[0] != sorted(orders[0])
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize(
    ("ranks", "way"),
    [(1, {}), (3, {}), *[(ranks, {"every": "gradient", "scheme": "exact(load=2)"}) for ranks in (1, 2)]],
)
def test_batches_that_are_gone_through_again_are_those_of_the_next_epoch(ranks: int, way: dict[str, Any]) -> None:
    def main() -> list[list[list[int]]]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, **way)
        batches, had = team.batches(Numbers(203), 20), list[list[list[int]]]()
        for _ in range(3):
            had.append([])
            for x, number in batches:
                had[-1].append([int(one) for one in number])
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        return had

    run = eht.simulate(main, ranks)
    for epoch in range(3):
        assert set(counted(run.returned, epoch)) == set(range(203))
        if "scheme" not in way:
            assert max(counted(run.returned, epoch).values()) == 1
    assert len({str(run.returned[0][epoch]) for epoch in range(3)}) == 3  # pyright: ignore


def test_a_fast_rank_has_more_of_it_and_nobody_waits_for_a_slow_one() -> None:
    speeds = [0.01, 0.01, 0.01, 0.1]
    run = eht.simulate(numbers_of(4, 40, Numbers(400)), 4, seconds_per_sample=speeds)
    steps = [sum(map(len, had)) for had in run.returned if had is not None]
    assert steps[3] <= 0.15 * steps[0]
    ideal = 4 * 400 / sum(1 / one for one in speeds)
    # at the end each rank has at most the piece under way and the one that it asked for before
    assert run.seconds <= ideal + 2 * 10 * 0.1


def test_without_delays_ranks_have_equal_parts_of_every_batch() -> None:
    run = eht.simulate(numbers_of(1, 24, Numbers(240)), 4, seconds_per_sample=0.01)
    assert [[len(batch) for batch in had[0]] for had in run.returned if had is not None] == 4 * [10 * [6]]


def test_the_order_is_that_of_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int, ranks: int) -> list[int]:
        main = numbers_of(epoch + 1, 20, Numbers(100), seed=seed)
        run = eht.simulate(main, ranks, seconds_per_sample=0.01)
        pieces = [had[epoch] for had in run.returned if had is not None]
        return [number for pieces_of_step in zip(*pieces, strict=True) for piece in pieces_of_step for number in piece]

    assert order(0, 1, 1) == order(0, 1, 4)
    assert order(0, 1, 1) != order(1, 1, 1)


def test_shares_in_proportion_to_given_speeds() -> None:
    run = eht.simulate(numbers_of(1, 40, Numbers(400), speeds=[1, 1, 2]), 3, seconds_per_sample=[0.02, 0.02, 0.01])
    assert [{len(batch) for batch in had[0]} for had in run.returned if had is not None] == [{10}, {10}, {20}]
    assert run.seconds == pytest.approx(10 * 10 * 0.02)


@pytest.mark.slow
def test_shares_in_proportion_to_speeds_that_are_measured() -> None:
    run = eht.simulate(
        numbers_of(1, 40, Numbers(4000), speeds="measured"), 4, seconds_per_sample=[0.01, 0.01, 0.01, 0.02]
    )
    assert counted(run.returned, 0) == Counter(range(4000))
    late = [[len(batch) for batch in had[0][20:-3]] for had in run.returned if had is not None]
    assert {len(set(sizes)) for sizes in late} == {1}  # one move, and no other
    assert late[3][0] == pytest.approx(late[0][0] / 2, abs=1)


def test_a_loop_that_breaks_leaves_its_samples_to_others() -> None:
    main = numbers_of(1, 20, Numbers(200), lambda team, step: team.rank == 1 and step == 2)
    run = eht.simulate(main, 2, seconds_per_sample=[0.01, 0.013])
    assert counted(run.returned, 0) == Counter(range(200))
    assert run.returned[1] is not None
    assert len(run.returned[1][0]) == 3


def test_what_is_beyond_the_last_whole_batch_can_be_left_out() -> None:
    run = eht.simulate(numbers_of(1, 20, Numbers(205), drop_last=True, shuffle=False), 2, seconds_per_sample=0.01)
    assert counted(run.returned, 0) == Counter(range(200))


def test_an_iterable_data_set_is_split_by_rank() -> None:
    run = eht.simulate(numbers_of(2, 12, Stream()), 3, seconds_per_sample=0.01)
    for epoch in (0, 1):
        assert counted(run.returned, epoch) == Counter(range(103))
    assert [len(batch) for batch in (run.returned[0] or [[]])[0]] == 8 * [4] + [3]


def test_a_rank_that_makes_no_step_at_all_is_waited_for_by_nobody() -> None:
    run = eht.simulate(numbers_of(1, 8, Numbers(3)), 4, seconds_per_sample=0.01)
    assert counted(run.returned, 0) == Counter(range(3))


def test_two_data_sets_in_one_loop() -> None:
    def main() -> tuple[list[int], list[int]]:
        team, model = eht.join(), net()
        optimizer = team.optimizer(momentum(model), model)
        one, other = Numbers(60), Numbers(90)
        had: tuple[list[int], list[int]] = [], []
        for (x, number), (z, further) in zip(team.batches(one, 6), team.batches(other, 6), strict=False):
            had[0].extend(number.tolist())
            had[1].extend(further.tolist())
            optimizer.zero_grad()
            (model(x).square().mean() + model(z).mean()).backward()
            optimizer.step()
        return had

    run = eht.simulate(main, 2, delays="exponential(mean=0.1, seed=1)")
    both = [Counter(n for had in run.returned if had is not None for n in had[side]) for side in (0, 1)]
    assert both[0] == Counter(range(60))
    assert max(both[1].values()) == 1


def alone(main: Callable[[eht.Team], Any]) -> Any:
    team = eht.join()
    model = net()
    team.optimizer(momentum(model), model)
    with team:
        return main(team)


@pytest.mark.parametrize("workers", [0, 2])
def test_random_transforms_are_drawn_anew_each_epoch(workers: int) -> None:
    def main(team: eht.Team) -> None:
        data = Numbers(12, drawn=True)
        options: dict[str, Any] = {"num_workers": workers, "persistent_workers": bool(workers)}
        torch.manual_seed(0)
        random.seed(0)
        seen: list[torch.Tensor] = []
        for epoch in range(2):
            rows = torch.empty(12, 12)
            for x, number in team.batches(data, 4, epoch, **options):
                rows[number] = x
            seen.append(rows)
        assert not torch.isclose(seen[0], seen[1]).all(1).any()

    alone(main)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_read_as_one_process_does(workers: int) -> None:
    def main(team: eht.Team) -> None:
        def epoch(**options: Any) -> list[list[int]]:
            return [n.tolist() for _, n in team.batches(Numbers(50), 8, 3, seed=5, **options)]

        one = epoch()
        assert epoch(num_workers=workers) == one
        assert sorted(n for batch in one for n in batch) == list(range(50))
        split = [n.tolist() for _, n in team.batches(Stream(), 8, num_workers=workers)]
        assert sorted(n for batch in split for n in batch) == list(range(103))

    alone(main)


def test_collate_and_length_are_those_of_the_loader() -> None:
    def main(team: eht.Team) -> None:
        batches = team.batches(TensorDataset(X, Y), 64, collate_fn=lambda items: len(items))
        assert len(batches) == 32
        assert sum(batches) == 2000
        assert [one.epoch for one in (batches, team.batches(TensorDataset(X, Y), 64))] == [0, 0]
        with pytest.raises(TypeError, match="have no length"):
            len(team.batches(Stream(), 8))

    alone(main)


def test_an_epoch_that_is_not_numbered_is_the_next_one() -> None:
    def main(team: eht.Team) -> None:
        data = TensorDataset(X, Y)
        assert [team.batches(data, 10).epoch for _ in range(3)] == [0, 1, 2]
        assert team.batches(data, 10, 7).epoch == 7
        assert team.batches(data, 10).epoch == 8

    alone(main)


def test_a_loader_of_the_user_s_own_over_a_shard() -> None:
    def main() -> list[int]:
        team, model = eht.join(), net()
        optimizer = team.optimizer(momentum(model), model)
        had: list[int] = []
        for x, number in torch.utils.data.DataLoader(team.shard(Numbers(100)), batch_size=5, shuffle=True):
            had.extend(number.tolist())
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return had

    run = eht.simulate(main, 3, seconds_per_sample=0.01)
    assert Counter(n for had in run.returned if had is not None for n in had) == Counter(range(100))


@pytest.mark.slow
def test_training_by_batches_learns() -> None:
    def main() -> torch.nn.Module:
        team, model = eht.join(), net()
        optimizer, data = team.optimizer(momentum(model), model), TensorDataset(X, Y)
        for epoch in range(3):
            for x, y in team.batches(data, 64, epoch):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        return team.model()

    run = eht.simulate(main, 4, delays="exponential(mean=0.2, seed=0)")
    assert run.returned[0] is not None
    assert loss_of(run.returned[0]) < 0.3 * loss_of(net())


def test_what_cannot_be_handed_out_is_refused() -> None:
    def main(team: eht.Team) -> None:
        data = Numbers(10)
        for match, call in (
            ("batch_size must be at least 1", lambda: team.batches(data, 0)),
            ("epoch must be", lambda: team.batches(data, 4, -1)),
            ("speeds must be numbers, one a rank, or 'measured'", lambda: team.batches(data, 4, speeds="guessed")),  # pyright: ignore
            ("speeds must be one number for each of 1", lambda: team.batches(data, 4, speeds=[1, 2])),
            ("sampler must not be given", lambda: team.batches(data, 4, sampler=[1])),
            ("dataset must have a length", lambda: team.batches(iter([1]), 4)),
            ("dataset must hold at least one sample", lambda: team.batches([], 4)),
            ("data must have a length", lambda: team.shard(iter([1]))),
        ):
            with pytest.raises(InvalidArgument, match=match):
                call()

    alone(main)


def test_a_batch_smaller_than_the_team_and_batches_before_the_optimizer_are_refused() -> None:
    def small() -> None:
        team, model = eht.join(), net()
        team.optimizer(momentum(model), model)
        team.batches(Numbers(10), 3)

    with pytest.raises(
        InvalidArgument, match="at least the number of ranks, 4, as it is the whole team's, but it is 3"
    ):
        eht.simulate(small, 4)
    with pytest.raises(InvalidArgument, match=r"after Team.optimizer"):
        eht.simulate(lambda: eht.join().batches(Numbers(10), 4), 2)


def trained_by(rank_dies: int, at: float, joins: bool = False) -> tuple[Counter[int], Counter[int]]:
    """Return how often each sample was trained on, over all ranks, in two epochs of which one dies on the way."""
    trained: tuple[Counter[int], Counter[int]] = Counter(), Counter()

    def main() -> None:
        team, model = eht.join(), net()
        optimizer, data = team.optimizer(momentum(model), model), Numbers(400)
        for epoch in range(2):
            for x, number in team.batches(data, 20, epoch):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                trained[epoch].update(int(one) for one in number)

    faults = [Crash(rank_dies, at), *([Join(at + 0.1)] if joins else [])]
    eht.simulate(main, 4, seconds_per_sample=[0.01, 0.011, 0.012, 0.013], faults=faults)
    return trained


@pytest.mark.slow
@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("at", [0.6, 0.97])
def test_the_samples_of_a_rank_that_dies_are_trained_on_by_others(at: float, joins: bool) -> None:
    for trained in trained_by(2, at, joins):
        assert trained == Counter(range(400))


@pytest.mark.parametrize("at", [0.3, 0.6, 0.97])
def test_who_gathers_dies_and_an_epoch_misses_no_more_than_what_it_had_and_repeats_a_step_of_each(at: float) -> None:
    for trained in trained_by(0, at):
        assert 400 - len(trained) <= 5
        assert trained.total() - len(trained) <= 3 * 5


def test_a_rank_whose_data_set_has_another_length_is_told() -> None:
    def main() -> None:
        team, model = eht.join(), net()
        team.optimizer(momentum(model), model)
        for _ in team.batches(Numbers(60 if team.rank else 50), 6):
            pass

    with pytest.raises(
        InvalidArgument, match=r"dataset of rank 1 must have as many samples .*, of which an epoch has 50, "
    ):
        eht.simulate(main, 2)
