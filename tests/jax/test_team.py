"""Teams of JAX on the virtual clock: what they must come to, whatever their ranks do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

import erasurehead.jax as ehj
import erasurehead.torch as eht
from erasurehead.consensus import Crash
from erasurehead.errors import DataError, ErasureHeadError, InvalidArgument
from erasurehead.jax._averages import Averages
from erasurehead.jax._form import PytreeForm
from erasurehead.jax._model import PytreeModel
from erasurehead.jax._programs import Programs

from ..torch.small import Death
from .small import ADAM, MOMENTUM, Params, X, Y, alone, batch, loop, loss, loss_of, net, weights

pytestmark = pytest.mark.timeout(300)

DATA = (X[:512], Y[:512])
DELAYS = "exponential(mean=0.2, seed=1)"


def apart(one: Params | None, other: Params | None) -> float:
    assert one is not None
    assert other is not None
    return float(np.abs(weights(one) - weights(other)).max())


@pytest.mark.parametrize("first", [np.ones(20, np.float32), {"w": np.ones((4, 3)), "b": np.ones(8)}])
@pytest.mark.parametrize("optimizer", [MOMENTUM, optax.sgd(0.1, 0.9, nesterov=True)])
def test_a_version_and_the_step_after_it_are_the_same_in_one_run_and_in_two(first: Any, optimizer: Any) -> None:
    def quadratic(params: Any, batch: Any) -> Any:
        return sum((leaf**2 * batch).sum() for leaf in jax.tree.leaves(params))

    form = PytreeForm.of(first)
    programs = Programs(quadratic, optimizer, form, False, False, False)
    before, newest = (np.linspace(low, 3.0, 20, dtype=np.float32) for low in (1.0, 2.0))
    told, found = newest.copy(), []
    for settles in (False, True):
        model = PytreeModel(programs, optimizer, form, jax.tree.map(jnp.asarray, first))
        momentum = model.momentum()
        assert momentum is not None
        momentum.keep()
        for _ in range(2):
            model.differentiate(np.float32(1.0), None)
            momentum.set(before, newest, 1.0)
            model.write(newest)
            if settles:
                model.settle()
                assert np.array_equal(weights(model.params), newest)
            model.step()
        found.append((weights(model.params), weights(model.state)))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert np.array_equal(newest, told)  # whose memory others may read


@pytest.mark.parametrize("settles", [False, True])
def test_moments_of_a_version_come_before_a_step_and_what_it_squares_beside_it(settles: bool) -> None:
    optimizer, first, gradient = optax.adam(0.1), np.ones(8, np.float32), np.linspace(-1.0, 1.0, 8, dtype=np.float32)
    form = PytreeForm.of(first)
    programs = Programs(lambda params, batch: (params * batch).sum(), optimizer, form, False, False, False)
    model = PytreeModel(programs, optimizer, form, jnp.asarray(first))
    moments, squared = model.moments(), np.full(8, 7.0, np.float32)
    assert moments is not None
    model.differentiate(gradient, None)
    newest = np.repeat(np.float32([2.0, 0.5, 0.25, 3.0]), [8, 8, 8, 1])
    moments.write(newest)
    model.write(newest)
    if settles:
        model.settle()
    moments.prepare(squared, 4)
    model.step()
    mean, second = 0.9 * 0.5 + 0.1 * gradient, 0.999 * 0.25 + 0.001 * gradient**2 / 4  # as one of four ranks
    expected = 2.0 - 0.1 * (mean / (1.0 - 0.9**4)) / (np.sqrt(second / (1.0 - 0.999**4)) + 1e-8)
    np.testing.assert_allclose(weights(model.params), expected, rtol=1e-5)
    np.testing.assert_allclose(squared, gradient, rtol=1e-5)


def epochs(count: int = 2, optimizer: Any = MOMENTUM, **options: Any) -> Callable[[], Params]:
    """Return a main that goes through whole epochs."""

    def main() -> Params:
        team = ehj.join()
        step = team.step(loss, optimizer, **options)
        params, state = step.init(net())
        for epoch in range(count):
            for own in team.batches(DATA, 64, epoch):
                params, state, _ = step(params, state, own)
        return team.params()

    return main


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(
    "options", [{"way": "busy"}, {"way": "first-gradients"}, {"every": 1, "outer_rate": 1.0, "outer_momentum": 0.0}]
)
def test_without_delays_the_team_is_synchronous_training(ranks: int, options: dict[str, Any]) -> None:
    plain = optax.sgd(0.1) if "every" in options else MOMENTUM  # each rank's momentum is its own between outer steps
    run = ehj.simulate(loop(12, plain, **options), ranks=ranks, seconds_per_sample=0.01)
    for params in run.returned:
        assert apart(params, alone(ranks, 12, plain)) < 1e-5
    assert run.seconds == pytest.approx(12 * 16 * 0.01)
    assert len(run.versions) == (12 if ranks > 1 else 0)


@pytest.mark.slow
def test_adam_divides_by_the_second_moment_of_the_team_s_gradient() -> None:
    run = ehj.simulate(loop(60, ADAM), ranks=8, seconds_per_sample=0.01)
    expected = alone(8, 60, ADAM)
    assert run.returned[0] is not None
    gone, off = weights(expected) - weights(net()), weights(run.returned[0]) - weights(expected)
    assert np.linalg.norm(off) / np.linalg.norm(gone) < 0.2
    assert loss_of(run.returned[0]) == pytest.approx(loss_of(expected), rel=0.15)


def of_torch(steps: int, make: Callable[[Any], torch.optim.Optimizer], **options: Any) -> Callable[[], Any]:
    """Return a main with the same first weights, samples and steps in PyTorch."""

    def main() -> Any:
        team = eht.join()
        first, second = net()["layers"]
        model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        with torch.no_grad():
            for layer, own in ((model[0], first), (model[2], second)):
                layer.weight.copy_(torch.from_numpy(own["w"].T))  # type: ignore[operator]
                layer.bias.copy_(torch.from_numpy(own["b"]))  # type: ignore[operator]
        optimizer = team.optimizer(make(model.parameters()), model, **options)
        for number in range(steps):
            x, y = batch(team.rank, number)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y)).backward()
            optimizer.step()
        layers = [{"w": layer.weight.detach().T, "b": layer.bias.detach()} for layer in team.model()[::2]]  # type: ignore[index]
        return jax.tree.map(lambda leaf: leaf.numpy(), {"layers": layers, "unused": None})

    return main


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "make"),
    [
        (MOMENTUM, lambda own: torch.optim.SGD(own, 0.1, 0.9)),
        (optax.sgd(0.1, 0.9, nesterov=True), lambda own: torch.optim.SGD(own, 0.1, 0.9, nesterov=True)),
        (optax.adamw(0.01, weight_decay=0.01), lambda own: torch.optim.AdamW(own, 0.01)),
        (optax.rmsprop(0.003, decay=0.99, eps_in_sqrt=False), lambda own: torch.optim.RMSprop(own, 0.003)),
    ],
    ids=["momentum", "nesterov", "adamw", "rmsprop"],
)
def test_it_makes_the_steps_of_a_team_of_pytorch(optimizer: Any, make: Callable[[Any], torch.optim.Optimizer]) -> None:
    """The same delays, first weights and samples: in all ways to meet, the same versions, and the same model by then.

    A busy rank of PyTorch that hears of a version before its first step has no momentum to replace.
    """
    for options in ({"way": "busy"}, {"way": "first-gradients"}, {"every": 5}):
        ours = ehj.simulate(loop(40, optimizer, **options), 4, DELAYS, 0.005)
        theirs = eht.simulate(of_torch(40, make, **options), 4, DELAYS, 0.005)
        assert ours.seconds == pytest.approx(theirs.seconds)
        assert [version.steps for version in ours.versions] == [version.steps for version in theirs.versions]
        assert apart(ours.returned[0], theirs.returned[0]) < (0.1 if options.get("way") == "busy" else 1e-4)
        assert loss_of(ours.returned[0] or {}) == pytest.approx(loss_of(theirs.returned[0]), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        optax.sgd(0.1, 0.9, nesterov=True),
        optax.sgd(optax.linear_schedule(0.0, 0.1, 4), 0.9, nesterov=True),
        optax.sgd(optax.linear_schedule(0.1, 0.01, 6), 0.9),
        optax.chain(optax.scale(0.5), optax.sgd(0.1, 0.9)),
        optax.chain(optax.scale(-0.1), optax.trace(0.9)),
        optax.chain(optax.centralize(), optax.sgd(0.1, 0.9)),
    ],
    ids=["nesterov", "nesterov and a schedule", "schedule", "scaled gradients", "rate within", "centralized"],
)
def test_ranks_in_step_make_the_steps_of_one_process_with_whatever_momentum(optimizer: Any) -> None:
    run = ehj.simulate(loop(8, optimizer), 3, seconds_per_sample=0.01)
    assert all(apart(own, alone(3, 8, optimizer)) < 1e-5 for own in run.returned)
    assert len(run.versions) == 8


def test_a_first_moment_that_is_taken_from_the_second_is_none_of_adam_s() -> None:
    form = PytreeForm.of(net())
    for optimizer, kind in (
        (optax.rmsprop(0.01, centered=True, bias_correction=True), "others"),
        (optax.adam(optax.linear_schedule(0.0, 0.01, 5)), "moments"),
        (optax.adam(0.01, b1=0.0), "moments"),
    ):
        assert Averages(optimizer, form).kind == kind


WAYS: list[dict[str, Any]] = [
    {"way": "busy"},
    {"way": "first-gradients"},
    {"every": 4},
    {"every": "gradient", "scheme": "first(3)"},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("rank", [0, 2])
def test_the_others_go_on_when_a_rank_dies_at_whatever_moment(
    options: dict[str, Any], rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    death = Death(rank, monkeypatch)
    undisturbed = ehj.simulate(epochs(**options), 4, DELAYS, 0.01)
    for after in range(5, death.events, death.events // 12):  # those of PyTorch die after many more
        death.again(after)
        run = ehj.simulate(epochs(**options), 4, DELAYS, 0.01)
        alive = [params for number, params in enumerate(run.returned) if number != rank]
        assert all(params is not None and loss_of(params) < 0.75 * loss_of(net()) for params in alive)
    assert loss_of(undisturbed.returned[0] or {}) < 0.75 * loss_of(net())


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_a_batch_s_gradient_is_the_same_whatever_dies(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    main = epochs(optimizer=optimizer, every="gradient", scheme="exact(load=2)")
    death = Death(1, monkeypatch)
    undisturbed = ehj.simulate(main, 4, DELAYS, 0.01)
    assert len({weights(params).tobytes() for params in undisturbed.returned if params is not None}) == 1
    for after in range(3, death.events, death.events // 13):
        death.again(after)
        run = ehj.simulate(main, 4, DELAYS, 0.01)
        assert apart(run.returned[0], undisturbed.returned[0]) < 1e-5


@pytest.mark.slow
def test_a_rank_that_comes_later_goes_on_from_the_team_s_model() -> None:
    for options in ({"way": "busy"}, {"way": "first-gradients"}):
        run = ehj.simulate(epochs(optimizer=ADAM, **options), 3, DELAYS, 0.01, faults=[Crash(1, at=1.0, rejoin=1.5)])
        assert len(run.returned) == 4
        assert all(loss_of(one or {}) < 0.75 * loss_of(net()) for n, one in enumerate(run.returned) if n != 1)


@pytest.mark.slow
def test_halved_vectors_lead_to_the_same_place() -> None:
    whole = ehj.simulate(loop(20, way="first-gradients"), 3, DELAYS)
    halved = ehj.simulate(loop(20, way="first-gradients", bfloat16=True), 3, DELAYS)
    assert 0.0 < apart(whole.returned[0], halved.returned[0]) < 0.02


# What a step is given, and gives


def drawn_by(keys: list[Any]) -> Callable[[Params, Any, Any], Any]:
    def drawing(params: Params, own: Any, key: Any) -> Any:
        jax.debug.callback(lambda data: keys.append(tuple(data.tolist())), jax.random.key_data(key))
        return loss(params, own) + 0.0 * jax.random.normal(key)

    return drawing


@pytest.mark.slow
def test_keys_are_made_of_seed_epoch_and_step_and_replicas_have_the_same() -> None:
    def keys_of(ranks: int, seed: int, **options: Any) -> list[Any]:
        keys: list[Any] = []
        drawing = drawn_by(keys)

        def main() -> None:
            team = ehj.join()
            step = team.step(drawing, MOMENTUM, seed=seed, **options)
            params, state = step.init(net())
            for own in team.batches((X[:64], Y[:64]), 16, 0):
                params, state, _ = step(params, state, own)
            jax.effects_barrier()

        ehj.simulate(main, ranks, seconds_per_sample=0.01)
        return keys

    busy = keys_of(2, 0)
    assert len(set(busy)) == len(busy) == 8
    assert busy == keys_of(2, 0)
    assert not set(busy) & set(keys_of(2, 1))
    coded = keys_of(2, 0, every="gradient", scheme="exact(load=2)")
    assert len(coded) == 8
    assert len(set(coded)) == 4


def test_what_is_given_to_a_step_is_given_away() -> None:
    team = ehj.join()
    step = team.step(loss, MOMENTUM)
    before = step.init(net())
    after = step(*before, batch(0, 0))
    with pytest.raises(RuntimeError, match="deleted"):
        weights(before[0])
    kept = team.params()
    step(*after[:2], batch(0, 1))
    assert np.isfinite(weights(kept)).all()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"way": "busy"}, {"way": "first-gradients"}, {"every": 3}], ids=str)
def test_what_a_step_returned_stays_as_it_is_until_the_next_one(options: dict[str, Any]) -> None:
    """Also if the team's model is asked for between two steps, when this rank has heard of newer versions."""

    def main(asks: bool) -> Params:
        team = ehj.join()
        step = team.step(loss, ADAM, **options)
        params, state = step.init(net())
        for own in team.batches(DATA, 32, 0):
            before = weights(params).copy()
            if asks:
                team.params()
            assert np.array_equal(weights(params), before)
            params, state, _ = step(params, state, own)
        return team.params()

    asked, plain = (ehj.simulate(lambda asks=asks: main(asks), 3, DELAYS, 0.01, latency=0.3) for asks in (True, False))
    if options.get("way") == "first-gradients":  # the next gradient is that of a newer model then
        assert all(loss_of(params or {}) < 0.95 * loss_of(net()) for params in asked.returned)
    else:
        assert asked.seconds == plain.seconds
        assert apart(asked.returned[0], plain.returned[0]) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_any_pytree_of_floating_point_numbers(ranks: int) -> None:
    first = ({"a": (np.ones(3, np.float32), None)}, [jnp.ones((2, 2), jnp.bfloat16), jnp.float16(1.0)])

    def square(params: Any, own: Any) -> Any:
        whole = sum((jnp.asarray(leaf, jnp.float32) ** 2).sum() for leaf in jax.tree.leaves(params)) * own.mean()
        return whole, {"samples": own.shape[0]}

    def main() -> Any:
        step = ehj.join().step(square, optax.sgd(0.25), has_aux=True)
        params, state = step.init(first)
        metrics = None
        for _ in range(2):
            params, state, metrics = step(params, state, np.ones(4, np.float32))
        return params, metrics

    for returned in ehj.simulate(main, ranks).returned:
        params, (value, aux) = returned or (None, (0, {}))
        assert jax.tree.structure(params) == jax.tree.structure(first)
        assert [leaf.dtype for leaf in jax.tree.leaves(params)] == [leaf.dtype for leaf in jax.tree.leaves(first)]
        assert all((leaf == 0.25).all() for leaf in jax.tree.leaves(params))
        assert float(value) == 2.0  # 8 numbers of a half
        assert int(aux["samples"]) == 4


@pytest.mark.slow
def test_one_vector_as_the_only_parameter_stays_whole() -> None:
    """It is the same as the vector that ranks send, but for whose it is."""

    def main() -> Any:
        step = ehj.join().step(lambda params, own: ((params - own) ** 2).sum(), optax.sgd(0.1, 0.5))
        params, state = step.init(np.zeros(5, np.float32))
        for _ in range(40):
            params, state, _ = step(params, state, np.ones(5, np.float32))
        return params

    for params in ehj.simulate(main, 3, seconds_per_sample=0.1).returned:
        assert np.allclose(params, 1.0, atol=1e-3)


@pytest.mark.slow
def test_numbers_of_64_bits_stay_such() -> None:
    def main() -> Any:
        step = ehj.join().step(lambda params, own: ((params["x"] - own) ** 2).sum(), optax.sgd(0.25))
        params, state = step.init({"x": jnp.zeros(2, jnp.float64)})
        params, _, _ = step(params, state, np.full(2, 1e-9))
        return np.asarray(params["x"])

    jax.config.update("jax_enable_x64", True)
    try:
        for found in ehj.simulate(main, 2).returned:
            assert found is not None
            assert found.dtype == np.float64
            assert np.allclose(found, 5e-10, rtol=1e-12, atol=0.0)
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.slow
def test_a_step_that_is_not_finite_is_left_out_or_an_error() -> None:
    def main(policy: Any) -> Any:
        team = ehj.join()
        step = team.step(lambda params, own: (params["x"] * own).sum(), optax.sgd(0.1), not_finite=policy)
        params, state = step.init({"x": np.zeros(2, np.float32)})
        for number in range(3):
            bad = team.rank == 1 and number == 1
            params, state, _ = step(params, state, np.array([np.nan if bad else 1.0], np.float32))
        return team.skipped, team.params()

    run = ehj.simulate(lambda: main("skip"), 2)
    assert [skipped for skipped, _ in filter(None, run.returned)] == [0, 1]
    assert all(np.isfinite(params["x"]).all() for _, params in filter(None, run.returned))
    with pytest.raises(ErasureHeadError, match="Rank 1 has gradients that are not finite in its step 2"):
        ehj.simulate(lambda: main("stop"), 2)


@pytest.mark.parametrize(
    ("optimizer", "kind"),
    [
        (optax.sgd(0.1), "nothing"),
        (optax.sgd(optax.cosine_decay_schedule(0.1, 9), 0.9), "momentum"),
        (optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, 0.9)), "momentum"),
        (optax.adamw(1e-3, mu_dtype=jnp.bfloat16), "moments"),
        (
            optax.chain(optax.clip(1.0), optax.add_decayed_weights(0.1), optax.scale_by_adam(), optax.scale(-1e-3)),
            "moments",
        ),
        (optax.masked(optax.adam(1e-3), {"layers": [True, False], "unused": None}), "moments"),
        (optax.inject_hyperparams(optax.adam)(1e-3), "moments"),
        (optax.nadam(1e-3), "moments"),
        (optax.amsgrad(1e-3), "moments"),
        (optax.rmsprop(1e-3), "moments"),
        (optax.adamax(1e-3), "others"),
        (optax.adabelief(1e-3), "others"),
        (optax.lion(1e-3), "others"),
        (optax.adafactor(1e-3), "others"),
        (optax.novograd(1e-3), "others"),  # one second moment a layer
        (optax.rmsprop(1e-3, momentum=0.9), "others"),
        (optax.chain(optax.trace(0.9), optax.scale_by_sign(), optax.scale(-0.1)), "others"),
        (optax.chain(optax.centralize(), optax.sgd(0.1, 0.9)), "others"),
        (optax.MultiSteps(optax.sgd(0.1), 2), "others"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_optimizer_averages_is_found_by_asking(optimizer: Any, kind: str) -> None:
    assert Averages(optimizer, PytreeForm.of(net())).kind == kind


def test_averages_of_single_numbers_are_no_counters() -> None:
    assert Averages(optax.lion(1e-3), PytreeForm.of(np.float32(1.0))).kind == "others"
    assert Averages(optax.adam(1e-3), PytreeForm.of(np.float32(1.0))).kind == "moments"


# Data


@pytest.mark.slow
def test_each_sample_is_had_once_an_epoch_from_arrays_and_from_items() -> None:
    items = [{"x": np.full(2, number, np.float32), "n": number} for number in range(50)]
    arrays = {"x": np.arange(100, dtype=np.float32).reshape(50, 2), "n": np.arange(50)}

    def main(data: Any) -> list[int]:
        team = ehj.join()
        step = team.step(lambda params, own: ((own["x"] - params) ** 2).mean(), optax.sgd(0.1))
        params, state = step.init(np.zeros(2, np.float32))
        had: list[int] = []
        for epoch in range(2):
            for own in team.batches(data, 12, epoch):
                assert own["x"].shape == (len(own["n"]), 2)
                had += np.asarray(own["n"]).tolist()
                params, state, _ = step(params, state, own)
        return had

    for data in (items, arrays):
        run = ehj.simulate(lambda data=data: main(data), 3, DELAYS, 0.01)
        assert sorted(number for had in run.returned for number in had or ()) == sorted([*range(50), *range(50)])


def test_ranks_with_the_same_items_draw_the_same_as_they_read_them() -> None:
    class Noisy:
        def __len__(self) -> int:
            return 32

        def __getitem__(self, number: int) -> Any:
            return np.float32(number + np.random.rand())  # noqa: NPY002  # as people's transforms do

    data, had = Noisy(), dict[int, list[Any]]()

    def main() -> None:
        team = ehj.join()
        step = team.step(
            lambda params, own: ((params - own) ** 2).mean(), MOMENTUM, every="gradient", scheme="exact(load=2)"
        )
        params, state = step.init(np.zeros(1, np.float32))
        for own in team.batches(data, 8, 0):
            had.setdefault(team.rank, []).append(own.tolist())
            params, state, _ = step(params, state, own)

    ehj.simulate(main, 2, seconds_per_sample=0.01)
    assert had[0] == had[1]
    assert len(had[0]) == 4


def test_a_rank_s_fixed_part() -> None:
    team = ehj.join()
    assert np.array_equal(team.shard({"x": np.arange(4)})["x"], np.arange(4))
    assert team.shard([1, 2, 3]) == [1, 2, 3]


# Saving


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("options", [{}, {"every": "gradient", "scheme": "first(3)"}], ids=["busy", "gradients"])
def test_what_was_saved_goes_on_to_the_bit(ranks: int, options: dict[str, Any], tmp_path: Path) -> None:
    scheme = {"scheme": f"first({ranks})"} if options else {}

    def main(begin: int, end: int) -> Params:
        team = ehj.join()
        step = team.step(loss, ADAM if ranks == 1 or options else MOMENTUM, **options | scheme)
        params, state = step.init(net(seed=begin))
        if begin:
            params, state, epoch = team.load(tmp_path / f"{begin}")
            assert epoch == begin
        for epoch in range(begin, end):
            for own in team.batches(DATA, 64, epoch):
                params, state, _ = step(params, state, own)
        team.save(tmp_path / f"{end}")
        return team.params()

    whole = ehj.simulate(lambda: main(0, 2), ranks, seconds_per_sample=0.01).returned
    ehj.simulate(lambda: main(0, 1), ranks, seconds_per_sample=0.01)
    resumed = ehj.simulate(lambda: main(1, 2), ranks, seconds_per_sample=0.01).returned
    if ranks == 1 or options:
        assert apart(whole[0], resumed[0]) == 0.0
    else:
        assert loss_of(resumed[0] or {}) == pytest.approx(loss_of(whole[0] or {}), rel=0.15)


@pytest.mark.slow
def test_what_does_not_fit_what_was_saved_is_named(tmp_path: Path) -> None:
    path = tmp_path / "team"

    def begun(params: Any, optimizer: Any = MOMENTUM) -> ehj.JaxTeam:
        team = ehj.join()
        team.step(loss, optimizer).init(params)
        return team

    begun(net()).save(path)
    with pytest.raises(
        DataError, match=r"\['layers'\]\[0\]\['b'\]\" of the model is float32 \(17,\) here, and float32 \(16,\)"
    ):
        begun(net(width=17)).load(path)
    with pytest.raises(DataError, match="which this optimizer has"):
        begun(net(), ADAM).load(path)
    with pytest.raises(DataError, match="none"):
        begun(net()).load(tmp_path / "none")
    eht_team = eht.join()
    model = torch.nn.Linear(1, 1)
    eht_team.optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    with pytest.raises(DataError, match="was saved by a team that trains with JAX, and this one trains with PyTorch"):
        eht_team.load(path)
    eht_team.save(tmp_path / "torch")
    with pytest.raises(DataError, match="was saved by a team that trains with PyTorch, and this one trains with JAX"):
        begun(net()).load(tmp_path / "torch")


# Bad input


def test_bad_input_is_named() -> None:
    def said(call: Callable[[ehj.JaxTeam], object]) -> str:
        with pytest.raises(InvalidArgument) as error:
            call(ehj.join())
        return str(error.value)

    whole = {"w": np.ones(3, np.float32), "n": [np.arange(3)]}
    assert said(lambda team: team.step(loss, MOMENTUM).init(whole)).startswith(
        "params['n'][0] must be an array of floating-point numbers, but it is 'int64'"
    )
    assert "params must have at least one array" in said(lambda team: team.step(loss, MOMENTUM).init({"a": None}))
    assert "must be one of optax" in said(lambda team: team.step(loss, torch.optim.SGD))  # type: ignore[arg-type]
    assert "loss must be a function" in said(lambda team: team.step("loss", MOMENTUM))  # type: ignore[arg-type]
    assert "way must be one of" in said(lambda team: team.step(loss, MOMENTUM, way="none"))  # type: ignore[arg-type]
    assert "must be called after step.init" in said(lambda team: team.step(loss, MOMENTUM)(net(), None, batch(0, 0)))
    assert "must be called after step.init" in said(lambda team: team.save("x"))
    lbfgs = optax.lbfgs()
    assert "gradients, state and parameters alone" in said(lambda team: team.step(loss, lbfgs).init(net()))
    ahead, synced = optax.lookahead(optax.sgd(0.1), 5, 0.5), optax.LookaheadParams.init_synced(net())
    assert "where gradients have the form of all parameters" in said(lambda team: team.step(loss, ahead).init(synced))

    def twice(team: ehj.JaxTeam) -> None:
        team.step(loss, MOMENTUM)
        team.step(loss, MOMENTUM)

    assert "must be the only one of its team" in said(twice)

    def other(team: ehj.JaxTeam) -> None:
        step = team.step(loss, MOMENTUM)
        _, state = step.init(net())
        step({"w": np.ones(3)}, state, batch(0, 0))

    assert "params must be as they were in step.init" in said(other)

    def again(team: ehj.JaxTeam) -> None:
        step = team.step(loss, MOMENTUM)
        params, state = step.init(net())
        step(params, state, batch(0, 0))
        step(params, state, batch(0, 0))

    assert "params and state must be those that the last step returned" in said(again)
    uneven = {"x": np.ones(3), "y": np.ones(4)}
    assert "dataset['y'] must have as many samples as" in said(lambda team: team.batches(uneven, 2))
    assert "must have a length and items by number" in said(lambda team: team.batches(iter([1]), 2))
    assert "num_workers" in said(lambda team: team.batches([1], 2, num_workers=3))
    arrays = [np.ones((4, 2)), np.ones(4)]

    def begun(team: ehj.JaxTeam) -> None:
        team.step(loss, MOMENTUM).init(net())
        next(iter(team.batches(arrays, 2)))

    assert "give arrays that have all samples in a tuple or a dict" in said(begun)


def test_ranks_that_differ_are_told_in_what(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_rate() -> None:
        team = ehj.join()
        team.step(loss, optax.sgd(0.1 + 0.1 * team.rank, 0.9)).init(net())

    with pytest.raises(
        InvalidArgument, match="Rank 1 differs from rank 0: what the optimizer makes of small gradients"
    ):
        ehj.simulate(with_rate, 2)

    def with_shape() -> None:
        team = ehj.join()
        team.step(loss, MOMENTUM).init(net(width=16 + team.rank))

    with pytest.raises(InvalidArgument, match=r"Rank 1 differs from rank 0: params\['layers'\]\[0\]\['b'\] is float32"):
        ehj.simulate(with_shape, 2)

    def with_version() -> None:
        team = ehj.join()
        monkeypatch.setattr(jax, "__version__", f"0.10.{team.rank}")
        team.step(loss, MOMENTUM).init(net())

    with pytest.raises(InvalidArgument, match=r"the version of JAX is 0\.10\.1 here, and 0\.10\.0 there"):
        ehj.simulate(with_version, 2)


SHARDED = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, numpy as np, optax
import erasurehead.jax as ehj
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
w = jax.device_put(np.ones(4, np.float32), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d")))
try:
    ehj.join().step(lambda params, batch: params["w"].sum(), optax.sgd(0.1)).init({"w": w})
except ValueError as error:
    print(error)
"""


@pytest.mark.processes
def test_sharded_arrays_are_refused() -> None:
    done = subprocess.run([sys.executable, "-c", SHARDED], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.startswith("params['w'] must be on one device, but it is 'sharded over 2'"), done.stdout


@pytest.mark.processes
def test_neither_library_is_imported_for_the_other_nor_what_codes_need_for_teams_without_one() -> None:
    of_jax = "import sys, erasurehead.jax as e; e.join(); e.simulate(e.join, 2); assert 'torch' not in sys.modules"
    of_torch = "import sys, erasurehead.torch as e; e.join(); assert not {'jax', 'scipy'} & set(sys.modules)"
    for source in (of_jax, of_torch):
        subprocess.run([sys.executable, "-c", source], check=True, timeout=300)
