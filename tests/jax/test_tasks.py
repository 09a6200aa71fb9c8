"""Steps by codes whose ranks share single tasks, on the virtual clock: one batch's gradient, whoever computes it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import erasurehead.jax as ehj
from erasurehead.consensus import Crash
from erasurehead.errors import ErasureHeadError, InvalidArgument
from erasurehead.jax import _team
from erasurehead.jax._feed import ArrayFeed, cut

from ..torch.small import Death
from .small import ADAM, MOMENTUM, Params, X, Y, loss, net, weights

pytestmark = pytest.mark.timeout(300)

RANKS, BATCH = 5, 40
DATA = (X[:200], Y[:200])
CYCLIC = "exact(load=3, code='cyclic')"
ODD = "exact(load=2, code='cyclic')"
EXACT = (CYCLIC, ODD, "custom(code='binary_repetition(stragglers=2)', wait='decodable()')", "exact(load=2)")
LATE: dict[str, Any] = {"seconds_per_sample": 0.02, "delays": "exponential(mean=0.2, seed=1)"}
CLASSES = np.array([1.0, 3.0, 0.5], np.float32)


def weighted(params: Params, own: Any) -> Any:
    """Return the sum of weighted losses, and that of their weights."""
    x, y = own
    first, second = params["layers"]
    scores = jax.nn.relu(x @ first["w"] + first["b"]) @ second["w"] + second["b"]
    each = jnp.asarray(CLASSES)[y]
    return (optax.softmax_cross_entropy_with_integer_labels(scores, y) * each).sum(), each.sum()


def divided(params: Params, own: Any) -> Any:
    total, weight = weighted(params, own)
    return total / weight


def train(
    scheme: str = CYCLIC, loss_of: Any = loss, epochs: int = 2, optimizer: Any = MOMENTUM, **options: Any
) -> tuple[Params, list[Any], int]:
    team = ehj.join()
    step = team.step(loss_of, optimizer, every="gradient", scheme=scheme, **options)
    params, state = step.init(net())
    values: list[Any] = []
    for epoch in range(epochs):
        for own in team.batches(DATA, BATCH, epoch):
            params, state, value = step(params, state, own)
            values.append(value)
    return params, values, team.skipped


def alone(loss_of: Any = loss, epochs: int = 2, optimizer: Any = MOMENTUM) -> Params:
    """Return what one process comes to that has the whole batch in each step."""
    params = jax.tree.map(jnp.asarray, net())
    state, gradient = optimizer.init(params), jax.jit(jax.grad(loss_of))
    feed = ArrayFeed(DATA, 0, True, {})
    for epoch in range(epochs):
        for own in np.split(feed.order(0, epoch), 5):
            updates, state = optimizer.update(gradient(params, (X[own], Y[own])), state, params)
            params = optax.apply_updates(params, updates)
    return params


def same(result: Any, expected: Params, dead: frozenset[int] = frozenset()) -> None:
    """Check that all ranks but the dead have the same weights as others, to rounding."""
    for rank, found in enumerate(result.returned):
        assert found is not None or rank in dead
        if found is not None:
            assert np.allclose(weights(found[0]), weights(expected), atol=5e-6), f"rank {rank}"


@pytest.mark.slow
@pytest.mark.parametrize("delays", [{"seconds_per_sample": 0.01}, LATE], ids=["calm", "late"])
@pytest.mark.parametrize("scheme", EXACT)
def test_a_step_is_one_of_the_whole_batch_whoever_is_late(scheme: str, delays: dict[str, Any]) -> None:
    result = ehj.simulate(lambda: train(scheme), RANKS, **delays)
    same(result, alone())
    assert len(result.versions) == 10
    assert all(version.residual is not None and version.residual < 1e-12 for version in result.versions)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [CYCLIC, "exact(load=2)"])
def test_losses_are_divided_by_their_weights(scheme: str) -> None:
    result = ehj.simulate(lambda: train(scheme, weighted, weighted=True), RANKS, **LATE)
    same(result, alone(divided))
    values = [float(value) for value in result.returned[0][1]] if result.returned[0] else []
    assert 0.5 < values[0] < 2.0  # a mean, not a sum


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"way": "first-gradients"}])
def test_in_any_other_team_they_are_divided_at_once(options: dict[str, Any]) -> None:
    def main(loss_of: Any, **more: Any) -> Any:
        step = ehj.join().step(loss_of, MOMENTUM, **options, **more)
        params, state = step.init(net())
        for own in np.split(np.arange(60), 3):
            params, state, value = step(params, state, (X[own], Y[own]))
        return params, float(value)

    for ranks in (1, 2):
        pairs = ehj.simulate(lambda: main(weighted, weighted=True), ranks).returned[0]
        plain = ehj.simulate(lambda: main(divided), ranks).returned[0]
        assert pairs is not None
        assert plain is not None
        assert np.allclose(weights(pairs[0]), weights(plain[0]), atol=1e-6)
        assert pairs[1] == pytest.approx(plain[1], rel=1e-5)


@pytest.mark.slow
def test_codes_that_are_not_exact_are_rescaled() -> None:
    scheme = "custom(code='regular(load=3)', wait='first(4)', rescale='coverage')"
    result = ehj.simulate(lambda: train(scheme), RANKS, **LATE)
    gone = weights(alone()) - weights(net())
    assert result.returned[0] is not None
    off = weights(result.returned[0][0]) - weights(alone())
    assert 1e-4 < np.linalg.norm(off) / np.linalg.norm(gone) < 0.5


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_one_dies_between_any_two_events_and_the_weights_are_the_same(
    rank: int, optimizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    death = Death(rank, monkeypatch)
    expected = alone(epochs=1, optimizer=optimizer)

    def run() -> Any:
        return ehj.simulate(lambda: train(epochs=1, optimizer=optimizer), RANKS, latency=0.05, **LATE)

    same(run(), expected)
    for moment in range(3 + rank, death.events - 20, death.events // 12):
        death.again(moment)
        same(run(), expected, frozenset({rank}))


@pytest.mark.slow
def test_two_die_and_the_weights_are_the_same() -> None:
    faults = [Crash(0, 1.0), Crash(3, 2.0)]
    same(ehj.simulate(train, RANKS, faults=faults, **LATE), alone(), frozenset({0, 3}))
    same(ehj.simulate(train, RANKS, faults=[Crash(3, 1.0, rejoin=2.0)], **LATE), alone(), frozenset({3}))


def drawing(params: Params, own: Any, key: Any) -> Any:
    """Return a loss with some inputs left out; what else it returns says which key it had."""
    x, y = own
    kept = jax.random.bernoulli(key, 0.7, x.shape)
    return loss(params, (x * kept, y)), jax.random.key_data(key)


@pytest.mark.slow
def test_each_task_has_a_key_of_its_own_in_all_ranks_that_have_it() -> None:
    calm, late = (
        ehj.simulate(lambda: train(loss_of=drawing, has_aux=True, seed=7), RANKS, **delays)
        for delays in ({"seconds_per_sample": 0.01}, LATE)
    )
    assert calm.returned[0] is not None
    same(late, calm.returned[0][0])
    first = [{tuple(np.asarray(key).tolist()) for key in found[1][0][1]} for found in calm.returned if found]
    assert [len(keys) for keys in first] == [3] * RANKS
    assert len(set().union(*first)) == RANKS  # one for each task
    other = ehj.simulate(lambda: train(loss_of=drawing, has_aux=True, seed=8), RANKS, seconds_per_sample=0.01)
    assert other.returned[0] is not None
    assert not np.allclose(weights(other.returned[0][0]), weights(calm.returned[0][0]), atol=1e-4)


@pytest.mark.slow
def test_a_late_rank_leaves_the_rest_of_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_team.CodedMeeting, "overtaken", property(lambda _: True))
    scheme = "custom(code='regular(load=3)', wait='first(5)', rescale='coverage')"

    def main() -> int:
        team = ehj.join()
        step = team.step(drawing, MOMENTUM, every="gradient", scheme=scheme, has_aux=True)
        params, state = step.init(net())
        _, _, (value, each) = step(params, state, next(iter(team.batches(DATA, BATCH))))
        assert np.isfinite(value)
        return len(each)

    assert ehj.simulate(main, RANKS).returned == (1,) * RANKS


def test_a_step_takes_the_time_of_its_samples() -> None:
    result = ehj.simulate(train, RANKS, seconds_per_sample=0.01)
    assert result.seconds == pytest.approx(10 * 3 * BATCH / RANKS * 0.01)


@pytest.mark.slow
def test_gradients_of_16_bits_are_added_up_in_32() -> None:
    def main() -> Any:
        team = ehj.join()
        step = team.step(lambda params, own: (params * own).mean(), optax.sgd(0.5), every="gradient", scheme=CYCLIC)
        params, state = step.init(np.zeros((), np.float16))
        for own in team.batches(np.full(RANKS * 100, 1000.0, np.float16), RANKS * 100):
            params, state, _ = step(params, state, own)
        return params

    for found in ehj.simulate(main, RANKS).returned:
        assert found is not None
        assert float(found) == -500.0  # the sum over a task is more than 16 bits hold


def test_batches_are_cut_in_any_nest() -> None:
    batch = {"x": np.arange(10).reshape(5, 2), "rest": [jnp.arange(5), np.float32(2.0), None]}
    first, second = cut(batch, [2, 3])
    assert first["x"].tolist() == [[0, 1], [2, 3]]
    assert second["rest"][0].tolist() == [2, 3, 4]
    assert second["rest"][1:] == [2.0, None]
    with pytest.raises(InvalidArgument, match=r"batch\['x'\] must have this rank's 6 samples along its first axis"):
        cut({"x": batch["x"]}, [2, 4])


def test_what_is_not_of_a_batch_is_refused() -> None:
    def others() -> None:
        step = ehj.join().step(loss, MOMENTUM, every="gradient", scheme=CYCLIC)
        params, state = step.init(net())
        step(params, state, (X[:4], Y[:4]))

    with pytest.raises(InvalidArgument, match="needs the batches of"):
        ehj.simulate(others, RANKS)

    def weighs() -> None:
        team = ehj.join()
        step = team.step(loss, MOMENTUM, every="gradient", scheme=CYCLIC)
        step.init(net())
        next(iter(team.batches(DATA, BATCH)))
        team.weigh(3.0)

    with pytest.raises(InvalidArgument, match=r"weight must come with the losses.* give team.step weighted=True"):
        ehj.simulate(weighs, RANKS)

    def negative() -> None:
        team = ehj.join()
        step = team.step(lambda *given: (loss(*given), -1.0), MOMENTUM, weighted=True, every="gradient", scheme=CYCLIC)
        params, state = step.init(net())
        step(params, state, next(iter(team.batches(DATA, BATCH))))

    with pytest.raises(InvalidArgument, match=r"loss must return a weight of at least 0 with weighted=True.*-1"):
        ehj.simulate(negative, RANKS)

    def twice() -> None:
        team = ehj.join()
        team.step(loss, MOMENTUM, every="gradient", scheme=CYCLIC).init(net())
        for _ in team.batches(DATA, BATCH):
            pass

    with pytest.raises(ErasureHeadError, match="for its next batch without the team's step"):
        ehj.simulate(twice, RANKS)


@pytest.mark.parametrize(
    ("returns", "options", "text"),
    [
        (lambda value: value[None], {}, "must return one floating-point number.*'float32 of shape \\(1,\\)'"),
        (lambda value: (value, {"value": value}), {}, "must return one floating-point number.*has_aux=True"),
        (lambda _: None, {}, "must return one floating-point number.*'NoneType'"),
        (lambda _: jnp.int32(3), {}, "must return one floating-point number.*'int32 of shape \\(\\)'"),
        (lambda value: value, {"has_aux": True}, "must return a pair with has_aux=True"),
        (lambda value: (value, 1, 2), {"has_aux": True}, "must return a pair with has_aux=True.*'tuple of 3'"),
        (lambda value: (value, None), {"weighted": True}, "must return one floating-point number.*'NoneType'"),
        (lambda value: value, {"weighted": True}, "must return a pair with weighted=True, a sum and its weight"),
        (lambda value: (value, 2), {"weighted": True, "has_aux": True}, "must return a pair with weighted=True"),
    ],
)
def test_losses_that_return_something_else_are_named(returns: Any, options: Any, text: str) -> None:
    def main() -> None:
        step = ehj.join().step(lambda params, own: returns(loss(params, own)), MOMENTUM, **options)
        params, state = step.init(net())
        step(params, state, (X[:4], Y[:4]))

    with pytest.raises(InvalidArgument, match=f"loss {text}"):
        main()
