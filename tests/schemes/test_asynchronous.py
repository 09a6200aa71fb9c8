"""Asynchronous training: its noise against the closed form, its convergence under any bounded delays, its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import engines, schemes, training
from erasurehead.delays import Exponential
from erasurehead.engines import VirtualEngine
from erasurehead.errors import Diverged, InvalidArgument
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import Problem, Shard
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.schemes import parse_scheme
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Timetable
from erasurehead.training import Callback, Resumption, Run

from ..arrays import Array

CURVATURE, NOISE, WIDTH = 1.0, 1.0, 2_000


class Noisy(Problem):
    """Half of the curvature times the square of the model, with noise in each gradient; every task says the same."""

    l2 = 0.0

    def __init__(self, n_samples: int, noise: float = NOISE) -> None:
        self.n_samples, self.n_parameters, self.noise = n_samples, WIDTH, noise

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return _NoisyShard([rows.start for rows in tasks], self.n_samples, self.noise)

    def loss(self, x: Array) -> float:
        return 0.5 * CURVATURE * float(x @ x)

    def gradient(self, x: Array) -> Array:
        return CURVATURE * x

    def metrics(self, x: Array) -> dict[str, float]:
        return {}


class _NoisyShard(Shard):
    def __init__(self, starts: Sequence[int], n_samples: int, noise: float) -> None:
        self.starts, self.n_samples, self.noise = starts, n_samples, noise
        self.support, self.n_tasks = None, len(starts)

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        out[:] = 0.0
        for factor, start in zip(coefficients, self.starts, strict=True):
            drawn = np.random.default_rng([start, step]).standard_normal(WIDTH)
            out += factor * (CURVATURE * local + self.noise * drawn) / self.n_samples
        return float(np.sum(coefficients)) * 0.5 * CURVATURE * float(local @ local) / self.n_samples


def go(
    problem: Problem, scheme: schemes.Scheme, rate: float, delays: Any, steps: int, x: Array, *watching: Callback
) -> Run:
    engine = VirtualEngine(delays, "carry")
    return training.train(problem, scheme, GradientDescent(x, rate), engine, steps, watching, evaluate_every=0)


class Models(Callback):
    def __init__(self) -> None:
        self.seen: list[Array] = []

    def on_step_end(self, row: object, x: Array) -> None:
        self.seen.append(x)


def constant_age(age: int, steps: int, own: bool = True) -> tuple[int, Timetable]:
    """Return workers, and delays under which every message is so many steps old once the run is under way.

    A worker that has answered takes the model that its own message has moved (`own`): n busy workers in turn are n - 1
    steps late. Otherwise it takes the newest one that there is when it has answered an earlier order, and n of them are
    n steps late. One that answers the newest waits for the next. So one worker alone is on time; if another stops the
    first step before it has answered, it is one step late for ever.
    """
    every = {(worker, step, 0): 1.0 for worker in range(age + 1) for step in range(steps + 1)}
    if own:
        return age + 1, Timetable(every)
    if age == 1:
        return 2, Timetable({**every, (1, 0, 0): 0.5, **{(1, step, 0): np.inf for step in range(1, steps + 1)}})
    return max(1, age), Timetable(every)


def closed_form(rate: float, age: int) -> float:
    """Return the variance of x when x_{k+1} = x_k - rate (curvature x_{k-age} + noise) has forgotten its beginning.

    The squares of the response to one kick, r_0 = 1 and r_{k+1} = r_k - rate * curvature * r_{k-age}, add up to it.
    """
    kick = [1.0]
    for k in range(2_000):
        kick.append(kick[k] - rate * CURVATURE * (kick[k - age] if k >= age else 0.0))
    return (rate * NOISE) ** 2 * float(np.sum(np.square(kick)))


def test_the_closed_form_is_the_textbooks() -> None:
    a = 0.1 * CURVATURE
    assert closed_form(0.1, 0) == pytest.approx(0.1 * NOISE**2 / (CURVATURE * (2 - a)))
    # A second-order autoregression with coefficients 1 and -a: (1 + a) / ((1 - a) ((1 + a)^2 - 1)).
    assert closed_form(0.1, 1) == pytest.approx((0.1 * NOISE) ** 2 * (1 + a) / ((1 - a) * ((1 + a) ** 2 - 1)))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("age", [0, 1, 4])
def test_the_steady_variance_is_that_of_the_closed_form(age: int, own: bool) -> None:
    steps, rate = 260, 0.12
    workers, delays = constant_age(age, steps, own)
    models = Models()
    scheme = schemes.asynchronous(workers, adaptive=False, after_own_step=own)
    run = go(Noisy(workers), scheme, rate, delays, steps, np.ones(WIDTH), models)
    ages = {row.taken - row.round for row in run.arrivals if row.taken is not None and row.round > 20}
    assert ages == {age}
    measured = float(np.var(np.stack(models.seen[100::20])))
    assert measured == pytest.approx(closed_form(rate, age), rel=0.1)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_with_shorter_steps_for_older_messages_any_bounded_delays_converge(data: st.DataObject) -> None:
    workers = data.draw(st.integers(1, 6))
    times = st.sampled_from([0.3, 0.5, 1.0, 1.7, 3.0])
    fixed = data.draw(st.lists(times, min_size=workers, max_size=workers))
    seed = data.draw(st.integers(0, 99))
    jitter = np.random.default_rng(seed).choice([1.0, 1.0, 1.0, 5.0], size=(workers, 300))
    table = {(w, s, 0): fixed[w] * jitter[w, s] for w in range(workers) for s in range(300)}
    x = np.ones(WIDTH)
    run = go(Noisy(workers, noise=0.0), schemes.asynchronous(workers), 0.9, Timetable(table), 300, x)
    assert np.abs(run.x).max() < 0.3


def test_without_it_old_messages_make_it_diverge_at_the_same_step_size() -> None:
    workers, delays = constant_age(4, 200)
    run = go(Noisy(workers, 0.0), schemes.asynchronous(workers), 0.9, delays, 200, np.ones(WIDTH))
    assert np.abs(run.x).max() < 1e-3
    with pytest.raises(Diverged):
        go(Noisy(workers, 0.0), schemes.asynchronous(workers, adaptive=False), 0.9, delays, 200, np.ones(WIDTH))


PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)


class States(Callback):
    def __init__(self) -> None:
        self.taken: list[Mapping[str, Any]] = []

    def on_state(self, step: int, state: Any) -> None:
        self.taken.append(state())


def test_it_goes_on_from_any_step_to_the_bit_and_its_records_replay_it(tmp_path: Path) -> None:
    scheme, x, states = schemes.asynchronous(6), np.zeros(6), States()
    delays = Exponential(0.5, seed=1)
    whole = go(PROBLEM, scheme, 0.2, delays, 60, x, Recorder(RunFolder.create(tmp_path / "run")), states)
    assert any(row.taken != row.round for row in whole.arrivals if row.taken is not None)
    for step in (1, 17, 40):
        resume = Resumption(states.taken[step], whole.steps[:step], [])
        engine = VirtualEngine(delays, "carry")
        again = training.train(PROBLEM, scheme, GradientDescent(x, 0.2), engine, 60, evaluate_every=0, resume=resume)
        assert again.x.tobytes() == whole.x.tobytes()
        assert list(again.steps) == list(whole.steps)
    again = go(PROBLEM, scheme, 0.2, replay(tmp_path / "run"), 60, x)
    assert again.x.tobytes() == whole.x.tobytes()
    assert list(again.steps) == list(whole.steps)
    assert list(again.arrivals) == list(whole.arrivals)


@pytest.mark.slow
def test_the_penalty_is_shortened_as_the_gradient_is() -> None:
    heavy = Quadratic(PROBLEM.rows, PROBLEM.centres, l2=2.0)
    run = go(heavy, schemes.asynchronous(6), 0.1, Exponential(0.5, seed=1), 600, np.zeros(6))
    best = np.linalg.solve(*_normal_equations(heavy))
    assert np.abs(run.x - best).max() < 0.3 * np.abs(best).max() + 0.1


def _normal_equations(problem: Quadratic) -> tuple[Array, Array]:
    n = problem.n_parameters
    zero = problem.gradient(np.zeros(n)) + problem.penalty_gradient(np.zeros(n))
    columns = [problem.gradient(e) + problem.penalty_gradient(e) - zero for e in np.eye(n)]
    return np.stack(columns, axis=1), -zero


@pytest.mark.processes
def test_the_virtual_engine_replays_it_from_real_processes_to_the_bit(tmp_path: Path) -> None:
    scheme, x = schemes.asynchronous(3), np.zeros(6)
    engine = engines.ProcessEngine(Exponential(0.01, seed=1), "carry")
    recorder = Recorder(RunFolder.create(tmp_path / "run"))
    real = training.train(PROBLEM, scheme, GradientDescent(x, 0.05), engine, 60, [recorder], evaluate_every=0)
    assert any(row.late for row in real.arrivals)
    again = go(PROBLEM, scheme, 0.05, replay(tmp_path / "run"), 60, x)
    assert again.x.tobytes() == real.x.tobytes()
    for one, other in zip(again.steps, real.steps, strict=True):
        assert (one.begin, one.waited, one.end, one.used, one.late) == (
            other.begin,
            other.waited,
            other.end,
            other.used,
            other.late,
        )
    assert [row.seconds for row in again.arrivals if not row.censored] == [
        row.seconds for row in real.arrivals if not row.censored
    ]


def test_it_has_a_text_and_is_refused_where_late_work_is_dropped() -> None:
    scheme = parse_scheme("asynchronous(adaptive=False, greatest_age=50)", 8)
    assert (scheme.name, str(scheme.rule), scheme.aggregation.greatest_age) == ("asynchronous", "arrivals(1)", 50)
    for late in ("preempt", "drop(0)"):
        engine = VirtualEngine(late=late)
        with pytest.raises(InvalidArgument, match=r"must be 'carry', or 'drop\(R\)' of 1 round at least"):
            training.train(PROBLEM, schemes.asynchronous(6), GradientDescent(np.zeros(6), 0.1), engine, 3)


def test_where_late_work_is_dropped_after_some_rounds_no_message_is_older() -> None:
    x = np.zeros(6)
    engine = VirtualEngine(Exponential(0.5, seed=1), "drop(3)")
    run = training.train(PROBLEM, schemes.asynchronous(6), GradientDescent(x, 0.2), engine, 60, evaluate_every=0)
    assert max(row.taken - row.round for row in run.arrivals if row.taken is not None) == 3


def test_it_is_resized_with_the_workers() -> None:
    assert str(schemes.asynchronous(3, 12).resized(6).rule) == "arrivals(1)"
