"""`Team.backward`: gradients by codes with a coefficient for each task, on the virtual clock."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset, TensorDataset

import erasurehead.torch as eht
from erasurehead.consensus import Crash
from erasurehead.errors import ErasureHeadError, InvalidArgument
from erasurehead.schemes import parse_scheme
from erasurehead.torch import _coded
from erasurehead.torch._batches import permutation

from ..bounded import PATIENCE
from .small import Death, X, Y, momentum, net, weights

pytestmark = pytest.mark.timeout(120)

RANKS, BATCH, EPOCHS = 5, 40, 3
CYCLIC = "exact(load=3, code='cyclic')"
DATA = TensorDataset(X[:200], Y[:200])
STEPS = 5 * EPOCHS
LATE: dict[str, Any] = {"seconds_per_sample": 0.02, "delays": "exponential(mean=0.2, seed=1)"}
VERY_LATE: dict[str, Any] = {"seconds_per_sample": 0.002, "delays": "exponential(mean=0.4, seed=2)"}
CALM: dict[str, Any] = {"seconds_per_sample": 0.01}
CLASSES = torch.tensor([1.0, 3.0, 0.5])


def dropping() -> nn.Module:
    first, *others = net().children()
    return nn.Sequential(first, nn.Dropout(0.3), *others)


def normed() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(12), net())


class Noisy(Dataset[Any]):
    """Samples with noise that is drawn whenever one is read, by whichever generator."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> Any:
        drawn = 0.3 * torch.randn(12) + float(np.random.standard_normal()) + random.random()  # noqa: NPY002
        return X[index] + drawn, Y[index]


def each(model: nn.Module, batch: Any) -> torch.Tensor:
    return cross_entropy(model(batch[0]), batch[1], reduction="none")


def weighted(model: nn.Module, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return cross_entropy(model(batch[0]), batch[1], CLASSES, reduction="none"), CLASSES[batch[1]]


def summed(model: nn.Module, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return cross_entropy(model(batch[0]), batch[1], CLASSES, reduction="sum"), CLASSES[batch[1]].sum()


def train(
    scheme: str = CYCLIC,
    make: Callable[[], nn.Module] = net,
    data: Any = DATA,
    losses: Callable[[nn.Module, Any], Any] = each,
    function: bool = True,
    epochs: range = range(EPOCHS),
    path: Path | None = None,
    load: bool = False,
    **options: Any,
) -> tuple[torch.Tensor, list[torch.Tensor], list[float]]:
    team = eht.join()
    model = make()
    optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=scheme, **options)
    if load and path is not None:
        team.load(path)
    means: list[float] = []
    for epoch in epochs:
        for batch in team.batches(data, batch_size=BATCH, epoch=epoch):
            optimizer.zero_grad()
            if function:
                means.append(float(team.backward(lambda given: losses(model, given), batch)))
            else:
                means.append(float(team.backward(losses(model, batch))))
            optimizer.step()
    if path is not None and not load:
        team.save(path)
    return weights(model), [buffer.clone() for buffer in model.buffers()], means


def alone(weights_of: torch.Tensor | None = None, epochs: int = EPOCHS, samples: int = 200) -> torch.Tensor:
    """Return what one process comes to that has the whole batch in each step."""
    model = net()
    optimizer = momentum(model)
    for epoch in range(epochs):
        for own in permutation(samples, 0, epoch).split(BATCH):
            optimizer.zero_grad()
            cross_entropy(model(X[own]), Y[own], weights_of).backward()
            optimizer.step()
    return weights(model)


def same(result: Any, expected: torch.Tensor, dead: frozenset[int] = frozenset()) -> None:
    """Check that all ranks but the dead have the same weights as others, to rounding."""
    for rank, found in enumerate(result.returned):
        assert found is not None or rank in dead
        if found is not None:
            assert torch.allclose(found[0], expected, atol=5e-6), f"rank {rank}"


EXACT = (
    CYCLIC,
    "custom(code='cyclic_mds(load=3)', wait='decodable()')",
    "custom(code='binary_repetition(stragglers=2)', wait='decodable()')",
    "exact(load=2)",
    "uncoded()",
)


@pytest.mark.slow
@pytest.mark.parametrize("function", [True, False])
@pytest.mark.parametrize("delays", [CALM, LATE, VERY_LATE])
@pytest.mark.parametrize("scheme", EXACT)
def test_a_step_is_one_of_the_whole_batch_whoever_is_late(scheme: str, delays: Any, function: bool) -> None:
    result = eht.simulate(lambda: train(scheme, function=function), RANKS, **delays)
    same(result, alone())
    assert len(result.versions) == STEPS
    assert all(version.residual is not None and version.residual < 1e-12 for version in result.versions)


@pytest.mark.parametrize("scheme", [CYCLIC, "exact(load=2)"])
@pytest.mark.parametrize("losses", [weighted, summed])
def test_losses_that_are_not_divided_by_samples(scheme: str, losses: Any) -> None:
    same(eht.simulate(lambda: train(scheme, losses=losses), RANKS, **LATE), alone(CLASSES))


def test_a_batch_of_padding_only_is_left_out_and_counted() -> None:
    """As a mean over nothing is, which is no number."""

    def padded(model: nn.Module, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        counts = (batch[2] != 1).float()
        return cross_entropy(model(batch[0]), batch[1], reduction="none") * counts, counts

    def main(policy: Any) -> tuple[torch.Tensor, int]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=CYCLIC, not_finite=policy)
        data = TensorDataset(X[:80], Y[:80], torch.arange(80) // BATCH)
        for batch in team.batches(data, batch_size=BATCH, shuffle=False):
            optimizer.zero_grad()
            team.backward(lambda given: padded(model, given), batch)
            optimizer.step()
        return weights(model), team.skipped

    result = eht.simulate(lambda: main("skip"), RANKS, **CALM)
    assert len(result.versions) == 2
    assert [found[1] for found in result.returned if found] == [1] * RANKS
    assert all(found is not None and not torch.equal(found[0], weights(net())) for found in result.returned)
    with pytest.raises(ErasureHeadError, match="has weights that add up to nothing, and so gradients that are not fin"):
        eht.simulate(lambda: main("stop"), RANKS, **CALM)


@pytest.mark.slow
def test_it_returns_the_mean_loss_of_the_rank_s_samples() -> None:
    result = eht.simulate(lambda: train(losses=weighted), RANKS, **CALM)
    expected: list[float] = []

    def plain() -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=CYCLIC)
        for inputs, labels in team.batches(DATA, batch_size=BATCH, epoch=0):
            if team.rank == 2:
                expected.append(float(cross_entropy(model(inputs), labels, CLASSES).detach()))
            team.backward(weighted(model, (inputs, labels)))
            optimizer.step()
            optimizer.zero_grad()

    eht.simulate(plain, RANKS, **CALM)
    assert result.returned[2] is not None
    assert result.returned[2][2][:5] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "data"), [(dropping, DATA), (normed, DATA), (net, Noisy())])
def test_what_a_step_draws_and_averages_is_the_same_whoever_computes_it(make: Any, data: Any) -> None:
    calm = eht.simulate(lambda: train(make=make, data=data), RANKS, **CALM).returned[0]
    assert calm is not None
    for faults, dead in (((), frozenset[int]()), ((Crash(2, 2.0),), frozenset({2}))):
        disturbed = eht.simulate(lambda: train(make=make, data=data), RANKS, faults=faults, **VERY_LATE)
        same(disturbed, calm[0], dead)
        for found in filter(None, disturbed.returned):
            for one, two in zip(found[1], calm[1], strict=True):
                assert not one.is_floating_point() or torch.allclose(one, two, atol=1e-5)


def test_statistics_of_batch_norm_are_those_of_tasks_weighted_by_samples() -> None:
    found = eht.simulate(lambda: train(make=normed, epochs=range(1)), RANKS, **CALM).returned[0]
    mean = torch.zeros(12)
    for own in permutation(200, 0, 0).split(BATCH):
        mean += 0.1 * (torch.stack([X[task].mean(0) for task in own.split(BATCH // RANKS)]).mean(0) - mean)
    assert found is not None
    assert torch.allclose(found[1][0], mean, atol=1e-6)
    assert int(found[1][2]) == 5  # steps, however many tasks


def test_a_decoded_gradient_is_rescaled_as_the_scheme_says() -> None:
    """Of one step: what arrived by the decoder's weights, over the weight that this comes to."""
    ranks = 6
    for rescale in ("coverage", "none"):
        scheme = f"custom(code='regular(load=3)', wait='first(2)', rescale='{rescale}')"
        made = parse_scheme(scheme, ranks)
        gradients: dict[int, torch.Tensor] = {}

        def main(scheme: str = scheme, gradients: dict[int, torch.Tensor] = gradients) -> torch.Tensor:
            team = eht.join()
            model = net()
            optimizer = team.optimizer(torch.optim.SGD(model.parameters(), 1.0), model, every="gradient", scheme=scheme)
            before = weights(model)
            batch = next(iter(team.batches(TensorDataset(X[:36], Y[:36]), batch_size=36, shuffle=False)))
            team.backward(lambda given: each(model, given), batch)
            optimizer.step()
            return before - weights(model)

        result = eht.simulate(main, ranks, delays="exponential(mean=0.2, seed=3)")
        (version,) = result.versions
        assert len(version.steps) == 2
        decoded = made.decoder.decode(version.steps)
        for task in range(ranks):
            model = net()
            cross_entropy(model(X[6 * task :][:6]), Y[6 * task :][:6]).backward()
            gradients[task] = torch.cat([one.grad.reshape(-1) for one in model.parameters() if one.grad is not None])
        expected = sum(float(decoded.alpha[0, task]) * gradients[task] for task in range(ranks)) / ranks
        if rescale == "coverage":
            expected = expected / decoded.coverage
        assert 0.1 < decoded.coverage < 0.95
        assert version.residual == pytest.approx(decoded.residual)
        assert torch.allclose(torch.as_tensor(result.returned[0]), torch.as_tensor(expected), atol=1e-6)


def test_the_residual_is_in_the_record(tmp_path: Path) -> None:
    path = tmp_path / "versions.jsonl"
    eht.simulate(lambda: train(record=path, epochs=range(1)), RANKS, **CALM)
    assert path.read_text(encoding="utf-8").count('"residual": ') == 5


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("latency", [0.0, 0.05])
@pytest.mark.parametrize("rank", range(RANKS))
def test_one_dies_between_any_two_events_and_the_weights_are_the_same(
    rank: int, latency: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    death = Death(rank, monkeypatch)
    data, expected = TensorDataset(X[:120], Y[:120]), alone(epochs=2, samples=120)  # three steps an epoch

    def run() -> Any:
        return eht.simulate(lambda: train(data=data, epochs=range(2)), RANKS, latency=latency, **LATE)

    same(run(), expected)
    for moment in range(3 + rank, death.events - 20, 17):
        death.again(moment)
        same(run(), expected, frozenset({rank}))


@pytest.mark.slow
def test_two_die_and_the_weights_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [Crash(0, 1.0), Crash(3, 2.0)]
    same(eht.simulate(train, RANKS, faults=faults, **LATE), alone(), frozenset({0, 3}))
    same(eht.simulate(train, RANKS, faults=[Crash(3, 1.0, rejoin=2.0)], **LATE), alone(), frozenset({3}))


@pytest.mark.slow
def test_it_goes_on_from_what_was_saved_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "team"
    speeds: Any = {"seconds_per_sample": (0.01, 0.011, 0.012, 0.013, 0.014)}  # the same ranks are decoded in each step
    for make in (net, dropping):
        whole = eht.simulate(lambda make=make: train(make=make), RANKS, **speeds)
        eht.simulate(lambda make=make: train(make=make, epochs=range(2), path=path), RANKS, **speeds)
        resumed = eht.simulate(lambda make=make: train(make=make, path=path, load=True), RANKS, **speeds)
        assert len(resumed.versions) == 5
        for one, other in zip(resumed.returned, whole.returned, strict=True):
            assert one is not None
            assert other is not None
            assert torch.equal(one[0], other[0])


def test_a_late_rank_leaves_a_step_that_the_others_have_made() -> None:
    """With a plain backward pass it ends it first: the others wait for it where it is needed again."""
    delays: dict[str, Any] = {"seconds_per_sample": 0.001, "delays": "exponential(mean=0.4, seed=2)"}

    def plain() -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2)")
        for epoch in range(EPOCHS):
            for batch in team.batches(DATA, batch_size=BATCH, epoch=epoch):
                optimizer.zero_grad()
                each(model, batch).mean().backward()
                optimizer.step()

    ended = eht.simulate(plain, 4, **delays)
    left = eht.simulate(lambda: train("exact(load=2)"), 4, **delays)
    assert left.versions[-1].seconds < 0.8 * ended.versions[-1].seconds
    same(left, alone())


def test_a_backward_pass_ends_when_the_others_have_made_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def overtaken(_: Any) -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    monkeypatch.setattr(_coded.CodedMeeting, "overtaken", property(overtaken))

    def main() -> list[bool]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="uncoded()")
        batch = next(iter(team.batches(TensorDataset(X[:8], Y[:8]), batch_size=8)))
        mean = team.backward(lambda given: each(model, given), batch)
        assert torch.isfinite(mean)
        found = [bool((parameter.grad == 0).all()) for parameter in model.parameters()]  # pyright: ignore[reportOptionalMemberAccess]
        optimizer.step()
        return found

    assert eht.simulate(main, 2).returned == ([True] * 4, [False] * 4)


@pytest.mark.slow
def test_a_step_takes_the_time_of_its_samples_however_often_a_function_is_called() -> None:
    for make in (net, dropping):
        result = eht.simulate(lambda make=make: train(make=make), RANKS, **CALM)
        assert result.seconds == pytest.approx(STEPS * 3 * BATCH / RANKS * 0.01)


@pytest.mark.slow
def test_a_module_that_draws_in_some_steps_only_is_computed_task_by_task_from_then_on() -> None:
    class Sometimes(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs + torch.randn_like(inputs) if self.training and inputs.sum() > 3.0 else inputs

    def make() -> nn.Module:
        return nn.Sequential(Sometimes(), net())

    calm = eht.simulate(lambda: train(make=make), RANKS, **CALM).returned[0]
    assert calm is not None
    same(eht.simulate(lambda: train(make=make), RANKS, **VERY_LATE), calm[0])


@pytest.mark.parametrize("options", [{}, {"every": 2}, {"way": "first-gradients"}])
@pytest.mark.parametrize("ranks", [1, 3])
def test_in_any_other_team_it_is_a_plain_backward_pass(ranks: int, options: dict[str, Any]) -> None:
    def main(coded: int) -> torch.Tensor:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, **options)
        for batch in team.batches(DATA, batch_size=BATCH, epoch=0):
            optimizer.zero_grad()
            if coded:
                mean = team.backward(lambda given: (summed, weighted)[coded - 1](model, given), batch)
                assert not mean.requires_grad
            else:
                cross_entropy(model(batch[0]), batch[1], CLASSES).backward()
            optimizer.step()
        return weights(team.model())

    plain, *coded = (eht.simulate(lambda coded=coded: main(coded), ranks, **CALM).returned[0] for coded in range(3))
    assert plain is not None
    assert all(one is not None and torch.allclose(one, plain, atol=1e-6) for one in coded)


@pytest.mark.slow
def test_a_scaler_that_leaves_out_a_step_tries_the_same_batch_again() -> None:
    def main() -> tuple[torch.Tensor]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=CYCLIC)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000)
        for epoch in range(EPOCHS):
            for batch in team.batches(DATA, batch_size=BATCH, epoch=epoch):
                optimizer.zero_grad()
                losses = cross_entropy(model(batch[0]), batch[1], reduction="none")
                team.backward(scaler.scale(1e4 * losses))
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.grad /= 1e4
                scaler.step(optimizer)
                scaler.update()
        return (weights(team.model()),)

    same(eht.simulate(main, RANKS, **LATE), alone())


@pytest.mark.slow
def test_batches_are_cut_in_any_nest() -> None:
    class Named(Dataset[Any]):
        def __len__(self) -> int:
            return 200

        def __getitem__(self, index: int) -> Any:
            return {"x": X[index], "more": (Y[index], str(index)), "k": 3}

    def losses(model: nn.Module, batch: Mapping[str, Any]) -> torch.Tensor:
        labels, texts = batch["more"]
        assert torch.equal(batch["x"], X[list(map(int, texts))])
        return cross_entropy(model(batch["x"]), labels, reduction="none")

    calm = eht.simulate(lambda: train(make=dropping), RANKS, **CALM).returned[0]
    assert calm is not None
    same(eht.simulate(lambda: train(make=dropping, data=Named(), losses=losses), RANKS, **CALM), calm[0])


class Own(nn.Module):
    """Noise from a generator that nobody else knows."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + torch.randn(inputs.shape, generator=self.generator)


def drawing() -> nn.Module:
    return nn.Sequential(nn.Sequential(nn.Identity(), Own()), net())


class Counting:
    """Losses that depend on how often they were asked for."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, model: nn.Module, batch: Any) -> torch.Tensor:
        self.calls += 1
        return each(model, batch) * (1.0 + self.calls)


def backward_itself(model: nn.Module, batch: Any) -> torch.Tensor:
    losses = each(model, batch)
    losses.mean().backward(retain_graph=True)  # pyright: ignore[reportUnknownMemberType]
    return losses


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"losses": lambda m, b: each(m, b).mean()},
        r"one number for each of 8 samples, got 'a tensor of shape \(\)'",
    ),
    ({"losses": lambda m, b: each(m, b).mean(), "function": False}, r"each of 24 samples, .* take reduction='none'"),
    ({"losses": lambda m, b: m(b[0])}, r"one number for each of 8 samples, got 'a tensor of shape \(8, 3\)'"),
    ({"losses": lambda m, b: each(m, b)[b[1] > 0]}, "losses must have one number for each of 8 samples"),
    ({"losses": lambda m, b: each(m, b).tolist()}, "must be a tensor with one loss a sample, .* 'list'|float"),
    ({"losses": lambda m, b: each(m, b).detach()}, "losses must depend on the model's weights"),
    ({"losses": lambda m, b: (each(m, b), -CLASSES[b[1]])}, "weights must be one for each loss, and at least 0"),
    ({"losses": lambda m, b: (each(m, b), torch.ones(3))}, "weights must be one for each loss, and at least 0"),
    ({"losses": backward_itself}, "the function of team.backward must return losses, and not go backward itself"),
    ({"losses": Counting()}, "In two runs of one task, .* the function that team.backward was given gave different"),
    ({"make": drawing}, r"with the same weights and seeds, module '0.1' \(Own\) gave different results"),
    ({"make": drawing, "function": False}, r"module '0.1' \(Own\) has a generator of its own"),
    (
        {"make": dropping, "function": False},
        "random numbers were drawn for all tasks of rank . together. Give team.bac",
    ),
    ({"make": normed, "function": False}, r"module '0' \(BatchNorm1d\) has averaged over samples for all tasks"),
]


@pytest.mark.parametrize(("options", "text"), BAD)
def test_losses_that_are_not_those_of_tasks_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        eht.simulate(lambda: train(**options), RANKS, **CALM)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("plain", r"With the scheme exact cyclic, .* call team.backward\(losses\), with one loss a sample"),
        ("twice", "team.backward must have one call for each batch of team.batches, got 'a second call'"),
        (
            "other",
            "must have one call for each batch of team.batches, got 'losses of other samples'",
        ),
        ("weigh", r"weight must come with the losses, .* call team.backward\(\(losses, weights\)\)"),
        ("drawn", "random numbers were drawn .* What the script itself draws belongs in that function, or in"),
        (
            "short",
            "batch must have this rank's 24 samples along the first axis of each tensor, got '7 there'",
        ),
        ("lacking", r"batch must be given with a function; call team.backward\(function, batch\)"),
        ("before", "nothing can be added to it, but there are gradients already beside that of team.backward"),
        ("after", "nothing can be added to it, but another backward pass follows beside that of team.backward"),
    ],
)
def test_what_is_said_wrongly_is_refused(wrong: str, text: str) -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=CYCLIC)
        if wrong == "other":
            team.backward(each(model, DATA[:8]))
        for batch in team.batches(DATA, batch_size=BATCH):
            if wrong == "plain":
                each(model, batch).mean().backward()
            elif wrong == "weigh":
                team.weigh(3.0)
            if wrong == "drawn":
                batch[0] += torch.randn(1)
            if wrong == "short":
                batch = [one[:7] for one in batch]
            if wrong == "before":
                model(batch[0]).square().mean().backward()
            if wrong in ("twice", "drawn", "short", "before", "after"):
                team.backward(lambda given: each(model, given), batch)
            if wrong == "after":
                model(batch[0]).square().mean().backward()
            if wrong == "lacking":
                team.backward(lambda given: each(model, given))
            if wrong == "twice":
                team.backward(each(model, batch))
            optimizer.step()

    with pytest.raises(InvalidArgument, match=text):
        eht.simulate(main, RANKS, **CALM)


@pytest.mark.parametrize("scheme", [CYCLIC, "exact(load=2)"])
@pytest.mark.parametrize("how", ["clipped", "cut off", "penalised", "removed", "cut off in their data", "replaced"])
def test_gradients_that_are_changed_before_the_step_are_refused(how: str, scheme: str) -> None:
    def main() -> None:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=scheme)
        for batch in team.batches(DATA, batch_size=BATCH):
            optimizer.zero_grad()
            team.backward(lambda given: each(model, given), batch)
            if how == "clipped":
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            elif how == "cut off":
                nn.utils.clip_grad_value_(model.parameters(), 1e-3)
            elif how == "removed":
                optimizer.zero_grad()
            for parameter in model.parameters() if how in ("penalised", "replaced", "cut off in their data") else ():
                assert parameter.grad is not None
                if how == "penalised":
                    parameter.grad += parameter.detach()
                elif how == "cut off in their data":
                    parameter.grad.data.clamp_(-1e-3, 1e-3)
                else:
                    parameter.grad = torch.randn_like(parameter)
            optimizer.step()

    with pytest.raises(InvalidArgument, match=r"gradients of rank . were changed.* optimizer.register_step_pre_hook\."):
        eht.simulate(main, RANKS, **CALM)


def test_a_gradient_may_be_clipped_in_a_hook_and_multiplied_by_the_same_in_all_steps() -> None:
    def main(factor: float) -> tuple[torch.Tensor, int]:
        team = eht.join()
        model = net()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme=CYCLIC)

        def clip(*_: object) -> None:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)

        optimizer.register_step_pre_hook(clip)
        for epoch in range(2):
            for number, batch in enumerate(team.batches(DATA, batch_size=BATCH, epoch=epoch)):
                optimizer.zero_grad()
                scale = factor * 2.0**number
                team.backward(lambda given, scale=scale: scale * each(model, given), batch)
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.grad /= scale
                optimizer.step()
        return weights(model), len(team.versions)

    plain, scaled = (eht.simulate(lambda factor=factor: main(factor), RANKS, **LATE) for factor in (1.0, 1e4))
    for one, other in zip(plain.returned, scaled.returned, strict=True):
        assert one is not None
        assert other is not None
        assert torch.allclose(one[0], other[0], atol=1e-5)


def test_a_plain_backward_pass_is_refused_where_ranks_share_single_tasks_whatever_their_coefficients() -> None:
    def main() -> None:
        team = eht.join()
        model = normed()
        optimizer = team.optimizer(momentum(model), model, every="gradient", scheme="exact(load=2, code='cyclic')")
        for batch in team.batches(DATA, batch_size=BATCH):
            each(model, batch).mean().backward()
            optimizer.step()

    with pytest.raises(
        InvalidArgument, match="With the scheme exact cyclic, ranks share single tasks, and must compute"
    ):
        eht.simulate(main, 4, **CALM)


SCRIPT = """
import json, os, sys, time
import torch
import erasurehead.torch as eht

def await_file(name):
    end = time.monotonic() + 250
    while not os.path.exists(name):
        assert time.monotonic() < end, name
        time.sleep(0.005)

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):  # whatever the machine's pace, the others have made a step before the first one goes on
        open("late-has-begun", "w").close()
        await_file("others-have-stepped")
        time.sleep(0.2)
        return grad

class Late(torch.nn.Module):
    def forward(self, x):
        return Slow.apply(x) if team.rank == 2 else x

torch.set_num_threads(1)
generator = torch.Generator().manual_seed(1)
x, y = torch.randn(120, 6, generator=generator), torch.randint(0, 3, (120,), generator=generator)
team = eht.join()
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), Late(), torch.nn.Linear(8, 8), Late(), torch.nn.Linear(8, 3))
inner = torch.optim.SGD(model.parameters(), 0.1)
options = {} if team.size == 1 else {"every": "gradient", "scheme": "exact(load=2, code='cyclic')"}
optimizer = team.optimizer(inner, model, **options)
seen = []
model[0].weight.register_post_accumulate_grad_hook(lambda _: seen.append(1))
steps = 0
for epoch in range(3):
    for batch in team.batches(torch.utils.data.TensorDataset(x, y), batch_size=24, epoch=epoch):
        optimizer.zero_grad()
        team.backward(lambda own: torch.nn.functional.cross_entropy(model(own[0]), own[1], reduction="none"), batch)
        if team.size > 1 and team.rank != 2:
            await_file("late-has-begun")
        optimizer.step()
        steps += 1
        if team.rank == 0:
            open("others-have-stepped", "w").close()
with open(f"{team.size}-{team.rank}.json", "w") as file:
    json.dump([team.rank, steps, len(seen), team.model()[0].weight.flatten().tolist()], file)
"""


@pytest.mark.processes
@pytest.mark.timeout(2 * PATIENCE)
def test_a_late_process_leaves_its_backward_pass_and_has_the_same_weights(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    for launcher in ([], ["-m", "erasurehead.torch.run", "-n", "3"]):
        command = [sys.executable, *launcher, str(script)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
    alone, *ranks = (json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json")))
    assert sorted(rank for rank, *_ in ranks) == [0, 1, 2]
    for rank, steps, whole, own in ranks:
        assert own == pytest.approx(alone[3], abs=1e-5), rank
        assert rank != 2 or whole < steps  # of which the last parameter had no gradient
