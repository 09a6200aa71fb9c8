"""How long a task takes on this machine: the median of many times, to one digit, in a fraction of a second."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.planning import _task_times as task_times, measure_task
from erasurehead.planning._task_times import measure_tasks
from erasurehead.problems import LeastSquares, Problem, Shard

from ..arrays import Array


class Clock:
    """Stands in for the processor's clock, and is moved by what computes."""

    def __init__(self) -> None:
        self.now = 0.0

    def process_time(self) -> float:
        return self.now


class TimedShard(Shard):
    """Takes what it is told to."""

    n_tasks, support = 1, None

    def __init__(self, clock: Clock, seconds: Sequence[float], first: float) -> None:
        self.clock, self.seconds, self.first, self.calls = clock, cycle(seconds), first, 0

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        self.clock.now += next(self.seconds) + self.first
        self.first = 0.0
        self.calls += 1
        return 0.0


class TimedProblem(Problem):
    """Has shards that take so long."""

    n_samples, n_parameters, l2 = 1000, 3, 0.0

    def __init__(self, clock: Clock, *seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.ranges: list[slice] = []
        self.shards: list[TimedShard] = []

    def shard(self, tasks: Sequence[slice]) -> TimedShard:
        self.ranges += tasks
        first = 0.0 if self.shards else 1.0  # as what has to be compiled takes
        self.shards.append(TimedShard(self.clock, self.seconds, first))
        return self.shards[-1]

    def loss(self, x: Array) -> float:
        return 0.0

    def gradient(self, x: Array) -> Array:
        return np.zeros(3)

    def metrics(self, x: Array) -> dict[str, float]:
        return {}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(task_times, "time", clock)
    return clock


def test_it_is_the_median_to_one_digit_and_the_first_time_does_not_count(clock: Clock) -> None:
    problem = TimedProblem(clock, 2.6e-4, 3.4e-4, 2.9e-4, 9e-3, 3.1e-4)
    assert measure_task(problem, 30) == 3e-4
    assert len(problem.shards) == 5
    assert {rows.stop - rows.start for rows in problem.ranges} <= {33, 34}  # what an uncoded worker has
    assert problem.ranges[0].start == 0
    assert problem.ranges[-1].stop == 1000


def test_it_takes_a_fraction_of_a_second_and_no_more_runs_than_tell_anything(clock: Clock) -> None:
    problem = TimedProblem(clock, 1e-3)
    measure_task(problem, 30)
    assert clock.now - 1.0 < 0.3  # less the second that it takes to begin with
    quick = TimedProblem(clock, 0.0)
    assert measure_task(quick, 30) == 0.0
    assert sum(shard.calls for shard in quick.shards) < 20_000


def test_a_task_of_seconds_is_timed_once(clock: Clock) -> None:
    problem = TimedProblem(clock, 3.0)
    assert measure_task(problem, 30) == 3.0
    assert [shard.calls for shard in problem.shards] == [2]


def test_fewer_tasks_than_are_measured_are_all_of_them(clock: Clock) -> None:
    problem = TimedProblem(clock, 1e-3)
    assert measure_task(problem, 2) == 1e-3
    assert problem.ranges == [slice(0, 500), slice(500, 1000)]
    with pytest.raises(InvalidArgument, match="n_tasks must be at least 1"):
        measure_task(problem, 0)


@pytest.mark.slow
def test_a_plan_and_the_figures_of_a_paper_measure_the_same() -> None:
    rng = np.random.default_rng(0)
    problem = LeastSquares(rng.standard_normal((3000, 400)), rng.standard_normal(3000))
    all_of_them = measure_tasks(problem, 6)
    assert all_of_them.table.shape[1] == 6
    assert all_of_them.fastest <= all_of_them.typical
    assert 0.2 < measure_task(problem, 6) / all_of_them.typical < 5.0
