"""Nested codes: reports first, then a message a worker, as redundant as the stragglers of the step require."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from erasurehead import FaultPolicy, codes, schemes
from erasurehead.delays import Delays
from erasurehead.delays._fixed import Recorded
from erasurehead.engines import Engine, Order, ProcessEngine, VirtualEngine
from erasurehead.errors import InvalidArgument, Unreachable
from erasurehead.optimizers import GradientDescent, QuasiNewton
from erasurehead.problems import LeastSquares, LogisticRegression
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Run, train
from erasurehead.training._programs import ASKED, REPORTS, CodedProgram, build_programs

from ..arrays import Array
from ..engines.mpi_inside import check_nested

PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)


@dataclass(frozen=True)
class Given(Delays):
    """A start that takes each worker so long, the same in each step, and then so long for each unit of work."""

    start: tuple[float, ...]
    each: float = 1.0

    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        assert unit == 0, "what a nested code's worker sends is one message that grows, with one delay"
        return np.tile(np.array(self.start[:n_workers]) + self.each * np.asarray(work), (count, 1))

    def __str__(self) -> str:
        return "given"


def go(engine: Engine, scheme: Scheme, steps: int = 3, policy: FaultPolicy | None = None, *watching: Callback) -> Run:
    optimizer = GradientDescent(PROBLEM.initial(), 0.05)
    return train(PROBLEM, scheme, optimizer, engine, steps, watching, fault_policy=policy)


@pytest.mark.parametrize("level", range(4))
def test_every_tolerance_gives_the_gradient_from_any_workers_but_as_many(level: int) -> None:
    n, load = 7, 4
    for late in range(n):
        start = [9.0 if (worker - late) % n < level else 0.0 for worker in range(n)]
        run = go(VirtualEngine(Given(tuple(start), 0.1)), schemes.nested(n, load), 1)
        assert run.steps[0].decision["tolerance"] == level
        assert run.steps[0].waited == pytest.approx(0.1 * (level + 1))
        np.testing.assert_allclose(run.x, go(VirtualEngine(), schemes.uncoded(n), 1).x, rtol=1e-9)


class Dies(Callback):
    """Kills workers at a time of the virtual clock."""

    def __init__(self, engine: VirtualEngine, *deaths: tuple[int, float]) -> None:
        for worker, at in deaths:
            engine.kill(worker, at=at)


@pytest.mark.parametrize("death", ["leave", "replace", "spread"])
def test_a_worker_that_dies_between_two_tasks_costs_its_messages_and_nothing_else(death: Any) -> None:
    engine = VirtualEngine(Given((0.0,) * 6, 1.0))
    Dies(engine, (2, 0.5), (3, 4.5))
    run = go(engine, schemes.nested(6, load=3), 8, FaultPolicy(on_death=death))
    np.testing.assert_allclose(run.x, go(VirtualEngine(), schemes.uncoded(6), 8).x, rtol=1e-9)
    assert run.steps[0].waited == pytest.approx(2.0 if death != "replace" else 1.5)
    tolerances = [row.decision["tolerance"] for row in run.steps]
    assert max(tolerances) == {"leave": 2, "replace": 0, "spread": 1}[death]


class KillsReporters(Callback):
    """Kills workers that have reported, when the round of their reports is over."""

    def __init__(self, engine: VirtualEngine, workers: list[int]) -> None:
        self.engine, self.workers = engine, workers

    def on_arrival(self, row: Any) -> None:
        while self.workers and row.step == 1 and not row.used:
            self.engine.kill(self.workers.pop())


@pytest.mark.parametrize("deaths", [1, 2, 3])
def test_more_deaths_after_the_reports_than_was_named_are_met_by_a_higher_tolerance(deaths: int) -> None:
    engine = VirtualEngine(Given((0.0,) * 7, 1.0))
    watching = KillsReporters(engine, [1, 3, 4][:deaths])
    run = go(engine, schemes.nested(7, load=4), 3, FaultPolicy(on_death="leave"), watching)
    assert [row.decision["tolerance"] for row in run.steps] == [0, deaths, deaths]
    assert run.steps[1].waited == pytest.approx(1.0 + deaths)
    np.testing.assert_allclose(run.x, go(VirtualEngine(), schemes.uncoded(7)).x, rtol=1e-9)
    rows = [row.as_dict() for row in run.steps]
    replayed = VirtualEngine(Recorded.from_rows([row.as_dict() for row in run.arrivals], steps=rows))
    again = go(replayed, schemes.nested(7, load=4), 3, FaultPolicy(on_death="leave"))
    assert again.x.tobytes() == run.x.tobytes()
    assert list(again.steps) == list(run.steps)


def test_too_many_deaths_are_an_error_that_says_so() -> None:
    engine = VirtualEngine(Given((0.0,) * 5, 1.0))
    Dies(engine, *[(worker, 0.5) for worker in range(3)])
    with pytest.raises(Unreachable, match="cannot be met any more"):
        go(engine, schemes.nested(5, load=3), 2, FaultPolicy(on_death="leave"))


def order(note: dict[str, Any], number: int, point: Array, kind: str = "gradient") -> Order:
    return Order(0, (point,), round=number, kind=kind, note=note)


def reported_first(program: CodedProgram, point: Array, kind: str, number: int, level: int = 2) -> Array:
    """Return what a worker answers after its reports in a round."""
    asked = order({REPORTS: True}, number, point, kind)
    taken = program.take(asked)
    for spec in program.remaining(asked, ()):
        program.compute(spec, taken, np.empty(spec.length))
    message = program.sent(False)[level].message
    again = order({ASKED: {"of": number, "level": level, "prior": [(message, 3.0)]}}, number + 1, point.copy(), kind)
    (spec,) = program.remaining(again, ())
    assert spec.prior == 3.0 * (2.0 if kind == "curvature" else 1.0)
    out = np.empty(spec.length)
    program.compute(spec, program.take(again), out)
    return out


class Counting:
    """A shard that counts the tasks that are computed."""

    def __init__(self, shard: Any) -> None:
        self.shard, self.tasks = shard, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shard, name)

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        self.tasks += np.count_nonzero(coefficients)
        return self.shard.combine(local, coefficients, step, out)


@pytest.mark.parametrize("kind", ["gradient", "curvature"])
def test_a_worker_computes_each_of_its_tasks_once_and_answers_with_the_coded_sum(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3)) * (rng.random((40, 3)) < 0.6)
    problem = LogisticRegression(X, np.where(rng.random(40) < 0.5, 1.0, -1.0), l2=0.1)
    code = codes.build("nested", n_workers=5, stragglers=2)
    programs, _ = build_programs(code, problem, curvature=True)
    point = rng.standard_normal(3)
    for program in programs:
        counting = Counting(program.shards[0])
        object.__setattr__(program, "shards", (counting,))
        told = reported_first(program, point, kind, 0)
        assert counting.tasks == 3
        plain, fresh = order({}, 2, point, kind), replace(program)
        specs = fresh.remaining(plain, ())
        alone = np.empty(specs[2].length)
        fresh.compute(specs[2], fresh.take(plain), alone)
        assert alone.tobytes() == told.tobytes()  # whether it was kept, or is computed when it is asked for
        assert counting.tasks == 6
        wanted = np.empty(4)
        wanted[3] = counting.shard.combine(point, program.sums[2].coefficients[0], 0, wanted[:3])
        np.testing.assert_allclose(told[:4], wanted)
        reported_first(program, point + 1.0, kind, 2)  # another model: nothing of the old one is used
        assert counting.tasks == 9


def test_a_run_with_curvatures_beside_gradients_is_exact_too() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 4))
    problem = LeastSquares(X, X @ rng.standard_normal(4), l2=0.1)
    delays = Given((0.0, 0.0, 5.0, 0.0, 0.0, 0.0), 0.1)
    runs = [
        train(problem, scheme, QuasiNewton(problem.initial()), VirtualEngine(delays), 12, evaluate_every=0)
        for scheme in (schemes.nested(6), schemes.uncoded(6))
    ]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-7)


@pytest.mark.processes
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_processes_report_and_a_run_is_replayed_to_the_same_bits(late: str) -> None:
    check_nested(ProcessEngine, late)


@pytest.mark.processes
def test_messages_cross_a_lossy_wire_and_reports_too() -> None:
    scheme = schemes.nested(4, load=2)
    optimizer = GradientDescent(PROBLEM.initial(), 0.05)
    run = train(PROBLEM, scheme, optimizer, ProcessEngine(), 3, wire="cast()", evaluate_every=0)
    np.testing.assert_allclose(run.x, go(VirtualEngine(), schemes.uncoded(4)).x, rtol=1e-4)


def test_it_is_written_as_other_schemes_are() -> None:
    scheme = parse_scheme("nested(load=4)", 9)
    assert (scheme.name, scheme.code.load, scheme.code.tolerance) == ("nested", 4, 3)
    assert parse_scheme("nested", 2).code.load == 2
    assert str(scheme).startswith("nested: nested(n_workers=9, stragglers=3, seed=0), stop at decodable()")
    with pytest.raises(InvalidArgument, match="load must be"):
        parse_scheme("nested(load=10)", 9)


def test_messages_of_which_none_can_be_compared_are_not_verified() -> None:
    with pytest.raises(InvalidArgument, match="leaves none that say anything about each other"):
        go(VirtualEngine(), schemes.nested(6), policy=FaultPolicy(verify=True))
