"""Ringmaster and Rennala: which gradients they take, and which they throw away."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, problems, schemes, training
from erasurehead._internal.partition import split_samples
from erasurehead.errors import InvalidArgument
from erasurehead.schemes import parse_scheme


def problem() -> problems.LeastSquares:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    return problems.LeastSquares(X, X @ np.array([1.0, -2.0, 0.5, 3.0]), l2=0.01)


LAW = delays.Exponential(0.5, seed=1)


def trained(
    scheme: schemes.Scheme | str, steps: int, late: str = "carry", rate: float = 0.02, law: delays.Delays = LAW
) -> training.Run:
    engine = engines.VirtualEngine(law, late=late)
    return training.train(problem(), scheme, optimizers.GradientDescent(np.zeros(4), rate), engine, steps)


@pytest.mark.parametrize("threshold", [1, 3, 8])
def test_ringmaster_takes_no_gradient_as_old_as_its_threshold(threshold: int) -> None:
    """The models are those that the rows tell: each message below the threshold is a step, and no other is any."""
    run = trained(schemes.ringmaster(6, threshold), 120)
    asked, models, rate = problem(), [np.zeros(4)], 0.02
    ages: list[int] = []
    for row in run.steps:
        came = [one for one in run.arrivals if one.taken == row.round and not one.refused]
        taken = [one for one in came if row.step - one.step < threshold]
        assert len(taken) == 1
        ages += [row.step - one.step for one in came]
        (one,) = taken
        (samples,) = [training_samples(120, 6)[one.message]]
        gradient, point = np.empty(4), models[one.step]
        asked.shard([samples]).combine(point, np.ones(1), 0, gradient)
        models.append(models[-1] - rate * (6 * gradient + asked.penalty_gradient(models[-1])))
    np.testing.assert_allclose(run.x, models[-1], rtol=1e-9)
    assert max(ages) >= 5  # of six workers: so that the threshold has something to throw away


def published(threshold: int, law: delays.Delays, workers: int, steps: int) -> list[tuple[int, int]]:
    """Return, for each gradient of Ringmaster as its authors write it, the worker and the age; by a loop of its own."""
    draws = [iter(law.rows(0, steps * workers, workers)[:, worker].tolist()) for worker in range(workers)]
    busy = [(next(draws[worker]), worker, 0) for worker in range(workers)]
    came: list[tuple[int, int]] = []
    taken = 0
    while taken < steps:
        now, worker, begun = heapq.heappop(busy)
        came.append((worker, taken - begun))
        taken += taken - begun < threshold
        heapq.heappush(busy, (now + next(draws[worker]), worker, taken))
    return came


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [1, 3, 8])
def test_ringmaster_hands_out_models_as_published(threshold: int) -> None:
    """Each worker is handed the model that its own message has moved, or the newest one if the message is too old."""
    law = delays.Fixed(tuple((0.3141, 0.5257, 0.7383, 1.1749, 1.3931, 1.8127) for _ in range(700)))
    run = trained(schemes.ringmaster(6, threshold), 120, law=law)
    came = sorted(
        (row.taken, row.place, row.worker, row.taken - row.round) for row in run.arrivals if row.taken is not None
    )
    assert [(worker, age) for _, _, worker, age in came] == published(threshold, law, 6, 120)
    without = trained(schemes.ringmaster(6, threshold, after_own_step=False), 120, law=law)
    thrown = [sum(1 for row in one.arrivals if not row.censored) - 120 for one in (run, without)]
    assert thrown[0] < thrown[1] or threshold == 1


def training_samples(n_samples: int, n_tasks: int) -> list[slice]:
    return list(split_samples(n_samples, n_tasks))


def test_ringmaster_without_a_threshold_that_binds_is_plain_asynchronous_training() -> None:
    free = trained(schemes.ringmaster(6, 1000), 150)
    plain = trained(schemes.asynchronous(6, adaptive=False), 150)
    assert free.x.tobytes() == plain.x.tobytes()


@pytest.mark.slow
def test_ringmaster_converges_on_alike_tasks() -> None:
    exact = problem()
    run = trained(schemes.ringmaster(6, 8), 600, rate=0.05)
    assert exact.objective(run.x) < 0.05 * exact.objective(np.zeros(4))


def test_ringmaster_needs_late_work_to_be_carried_on() -> None:
    with pytest.raises(InvalidArgument, match=r"must be 'carry', or .* for the scheme ringmaster"):
        trained(schemes.ringmaster(6, 3), 5, late="preempt")


@pytest.mark.parametrize("late", ["carry", "preempt"])
def test_rennala_takes_the_mean_of_the_first_fresh_gradients(late: str) -> None:
    run = trained(schemes.rennala(6, 4), 40, late)
    same = trained(schemes.ignore_stragglers(6, 4), 40, late)
    assert run.x.tobytes() == same.x.tobytes()
    assert all(len(row.used) == 4 for row in run.steps)
    assert not any(row.late and row.used for row in run.arrivals)


def test_rennala_lets_a_fast_worker_bring_several_gradients_of_one_model() -> None:
    run = trained(schemes.rennala(3, 4, messages=4), 30, law=delays.Fixed(((0.01, 0.1, 0.1),) * 30))
    assert all(len(row.used) == 4 for row in run.steps)
    brought = [one.worker for one in run.arrivals if one.used]
    assert brought.count(0) > 3 * brought.count(1)
    assert not any(row.late and row.used for row in run.arrivals)


@pytest.mark.parametrize("late", ["carry", "preempt", "drop(1)"])
def test_a_worker_of_rennala_ends_an_old_batch_after_the_gradient_that_it_is_at(late: str) -> None:
    run = trained(schemes.rennala(4, 5, messages=4), 60, late)
    came = [one for one in run.arrivals if one.late]
    assert bool(came) == (late != "preempt")
    for worker in range(4):  # of each batch at most one is late, and it is the last that the worker brings
        own = [one.round for one in run.arrivals if one.worker == worker and not one.censored]
        assert own == sorted(own)
        late_rounds = [one.round for one in came if one.worker == worker]
        assert len(late_rounds) == len(set(late_rounds))


def test_rennala_keeps_its_batch_when_the_code_is_resized() -> None:
    smaller = schemes.rennala(6, 7, messages=2).resized(4)
    assert (smaller.code.n_workers, smaller.code.n_tasks, smaller.until_newer) == (4, 12, True)
    assert smaller.rule == schemes.rennala(6, 7, messages=2).rule


def test_their_texts_and_their_bounds() -> None:
    assert parse_scheme("ringmaster(threshold=4)", 8).aggregation.greatest_age == 3
    assert parse_scheme("rennala(batch=3)", 8).name == "rennala"
    with pytest.raises(InvalidArgument, match="threshold"):
        parse_scheme("ringmaster(threshold=0)", 8)
    assert parse_scheme("rennala(batch=9, messages=2)", 8).code.n_messages == 16
    with pytest.raises(InvalidArgument, match="batch"):
        parse_scheme("rennala(batch=9)", 8)
    with pytest.raises(InvalidArgument, match="messages"):
        parse_scheme("rennala(batch=9, messages=0)", 8)
