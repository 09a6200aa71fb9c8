"""Workers that report what they have finished, and then send one sum each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy import sparse

from erasurehead import FaultPolicy, schemes
from erasurehead.delays import Delays, Exponential
from erasurehead.delays._fixed import Recorded
from erasurehead.engines import Engine, Order, VirtualEngine
from erasurehead.errors import Diverged, InvalidArgument, Unreachable
from erasurehead.optimizers import GradientDescent, QuasiNewton
from erasurehead.problems import LogisticRegression, Problem
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Run, train
from erasurehead.training._assignment import Assignment
from erasurehead.training._programs import build_programs
from erasurehead.training._rows import ArrivalRow
from erasurehead.training._sums import NAMED, name_holders, reporting

WORKERS = 6
PROBLEM = Quadratic.random(48, 5, seed=1)


def once(load: int = 3, pieces: int = 2, sums: bool = True) -> Scheme:
    return schemes.compute_once(WORKERS, load, pieces, sums)


def fit(scheme: Scheme, engine: Engine, watching: Callback | None = None, **how: Any) -> Run:
    problem: Problem = how.pop("problem", PROBLEM)
    optimizer = how.pop("optimizer", None) or GradientDescent(problem.initial(), 0.01)
    steps = how.pop("steps", 12)
    return train(problem, scheme, optimizer, engine, steps, [watching] if watching else [], evaluate_every=0, **how)


def virtual(late: str = "preempt", delays: Delays | None = None) -> VirtualEngine:
    return VirtualEngine(delays or Exponential(0.5, seed=2), late)


EXACT = fit(schemes.uncoded(WORKERS), VirtualEngine()).x


@pytest.mark.parametrize("late", ["preempt", "drop(1)", "carry"])
def test_steps_are_exact_and_each_worker_sends_one_vector_and_a_few_bytes(late: str) -> None:
    problem = Quadratic.random(72, 400, seed=3)
    how: dict[str, Any] = {"problem": problem, "steps": 8}
    by_task, summed = (fit(once(3, 6, sums), virtual(late), **how) for sums in (False, True))
    assert summed.x == pytest.approx(by_task.x, rel=1e-12)
    assert all(row.residual < 1e-12 and row.decision["named"] for row in summed.steps)
    reports = {row.round for row in summed.arrivals} - {row.round for row in summed.steps}
    assert len(reports) == len(summed.steps)
    for number in reports:
        came = [row for row in summed.arrivals if row.round == number and not row.censored]
        assert sum(row.used for row in came) == 36  # one report of each task
    if late == "preempt":
        bytes_of = [np.mean([row.received for row in run.steps]) for run in (summed, by_task)]
        assert bytes_of[0] <= 0.4 * bytes_of[1]


def test_the_time_of_a_step_is_that_of_both_rounds() -> None:
    run = fit(once(), virtual())
    for row, after in zip(run.steps, [*run.steps[1:], None], strict=True):
        (event,) = [event for event in row.events if event.kind == "reported"]
        assert event.begin == row.begin < event.time < row.end == pytest.approx(row.begin + row.waited)
        assert after is None or after.begin == row.end
        assert (row.workers, row.missing) == (WORKERS, [])


def test_a_sum_takes_no_work_as_its_tasks_are_finished() -> None:
    class Work(Delays):
        def __str__(self) -> str:
            return "work()"

        def rows(self, first: int, count: int, n_workers: int, unit: int = 0, work: Any = 1.0, out: Any = None) -> Any:
            drawn = np.empty((count, n_workers)) if out is None else out
            drawn[:] = work
            return drawn

    run = fit(once(3, 2), virtual(delays=Work()), steps=3)
    assert [row.waited for row in run.steps] == pytest.approx([1.0] * 3)  # a share each, of two tasks


class Watched(VirtualEngine):
    """Takes note of the orders for sums."""

    def submit(self, order: Order, workers: Any = None) -> None:
        super().submit(order, workers)
        if NAMED in order.note:
            self.named = [*getattr(self, "named", ()), order]


def test_the_model_is_sent_again_only_where_somebody_has_to_compute() -> None:
    engine = Watched(Exponential(0.5, seed=2))
    fit(once(), engine, AfterReports(engine.kill), fault_policy=FaultPolicy(on_death="leave"))
    assert len({order.round for order in engine.named}) == 13
    for order in engine.named:
        assert len(order.points) == bool(order.note[NAMED]["fresh"])
    assert any(order.points for order in engine.named)


def test_sparse_shards_and_curvatures_are_summed_where_they_belong() -> None:
    random = np.random.default_rng(0)
    rows = sparse.random(144, 60, 0.05, format="csr", random_state=0)
    labels = np.sign(random.standard_normal(144))
    problem = LogisticRegression(rows, labels, l2=0.01)
    runs = [
        fit(scheme, virtual(), problem=problem, optimizer=QuasiNewton(problem.initial()), steps=15)
        for scheme in (once(), once(sums=False), schemes.uncoded(WORKERS))
    ]
    assert {row.kind for row in runs[0].steps} == {"gradient", "curvature"}
    for run in runs[1:]:
        assert runs[0].x == pytest.approx(run.x, rel=1e-9)
        assert len(runs[0].steps) == len(run.steps)


@pytest.mark.parametrize("wire", ["cast('float32')", "dithered(seed=5)"])
def test_sums_cross_wires(wire: str) -> None:
    assert fit(once(), virtual(), wire=wire).x == pytest.approx(EXACT, rel=0.05)


@pytest.mark.slow
@given(
    late=st.sampled_from(["preempt", "drop(1)", "carry"]),
    death=st.sampled_from(["replace", "leave", "spread"]),
    kills=st.lists(st.tuples(st.integers(0, WORKERS - 1), st.floats(0.0, 8.0)), max_size=4),
    load=st.integers(1, 3),
)
@settings(max_examples=25, deadline=None)
def test_whoever_dies_at_whatever_time_no_task_is_counted_twice(
    late: str, death: Any, kills: list[tuple[int, float]], load: int
) -> None:
    engine = virtual(late)
    for worker, at in kills:
        engine.kill(worker, at=at)
    policy = FaultPolicy(on_death=death, on_suspicion="ignore")
    try:
        run = fit(once(load), engine, fault_policy=policy)
    except Unreachable:
        assume(False)
        raise
    assert run.x == pytest.approx(EXACT, rel=1e-12)
    assert len(run.steps) == 12


class AfterReports(Callback):
    """Does something to the worker whose report came first, in the third step, before it is asked for a sum."""

    def __init__(self, does: Any) -> None:
        self.does, self.worker = does, -1

    def on_arrival(self, row: ArrivalRow) -> None:
        if row.step == 2 and row.used and self.worker < 0:
            self.worker = row.worker
            self.does(row.worker)


def followed(run: Run) -> list[str]:
    return [event.kind for event in run.steps[2].events if event.kind in ("reported", "broken_off")]


@pytest.mark.parametrize("death", ["leave", "replace", "spread"])
def test_tasks_of_who_dies_between_report_and_sum_are_named_anew(death: Any) -> None:
    engine = virtual()
    run = fit(once(), engine, AfterReports(engine.kill), fault_policy=FaultPolicy(on_death=death))
    assert followed(run) == ["reported", "reported"]
    assert run.x == pytest.approx(EXACT, rel=1e-12)


def test_without_another_holder_the_step_begins_anew_with_a_replacement_or_the_run_says_why_not() -> None:
    engine = virtual()
    run = fit(once(load=1), engine, AfterReports(engine.kill))
    assert followed(run) == ["reported", "broken_off", "reported"]
    assert run.x == pytest.approx(EXACT, rel=1e-12)
    engine = virtual()
    with pytest.raises(Unreachable, match=r"step 2: the wait rule decodable.* tasks .* are lost with it"):
        fit(once(load=1), engine, AfterReports(engine.kill), fault_policy=FaultPolicy(on_death="leave"))
    engine, policy = virtual(), FaultPolicy(on_death="leave", on_loss="go_on")
    lost = fit(once(load=1), engine, AfterReports(engine.kill), fault_policy=policy)
    assert len(lost.steps[-1].lost) == 2
    assert lost.steps[-1].coverage == pytest.approx(10 / 12)


def test_a_worker_that_hangs_after_its_reports_is_not_waited_for() -> None:
    engine = virtual()
    policy = FaultPolicy(suspect_after=5.0)
    run = fit(once(), engine, watching := AfterReports(engine.pause), fault_policy=policy)
    assert followed(run) == ["reported", "reported"]
    assert {worker for row in run.steps for worker in row.workers_noticed("suspected")} == {watching.worker}
    assert run.x == pytest.approx(EXACT, rel=1e-12)
    assert 5.0 < run.steps[2].waited < 12.0
    assert all(row.waited < 8.0 for row in run.steps[3:])  # it is named no more
    rows = [row.as_dict() for row in run.arrivals]
    recorded = VirtualEngine(Recorded.from_rows(rows, steps=[row.as_dict() for row in run.steps]))
    assert fit(once(), recorded, fault_policy=policy).x.tobytes() == run.x.tobytes()


def test_a_worker_that_hangs_is_waited_for_where_nobody_else_has_its_tasks() -> None:
    engine = virtual()
    paused: list[int] = []

    class Wakes(AfterReports):
        def on_notice(self, notice: Any) -> None:
            if notice.kind == "suspected" and paused:
                engine.proceed(paused.pop())

    def pause(worker: int) -> None:
        paused.append(worker)
        engine.pause(worker)

    run = fit(once(load=1), engine, Wakes(pause), fault_policy=FaultPolicy(suspect_after=5.0))
    assert run.x == pytest.approx(EXACT, rel=1e-12)


class Overflowing(Quadratic):
    """Some tasks' gradients are finite, but their sum is not."""

    def shard(self, tasks: Any) -> Any:
        shard = super().shard(tasks)
        inner = shard.combine

        def combine(local: Any, coefficients: Any, step: int, out: Any) -> float:
            loss = inner(local, coefficients, step, out)
            out[:] = 1.5e308
            return loss

        shard.combine = combine
        return shard


def test_sums_that_are_not_finite_are_refused_and_the_run_says_so() -> None:
    base = Quadratic.random(48, 5, seed=1)
    with pytest.raises((Diverged, Unreachable), match="step 0"), np.errstate(over="ignore"):
        fit(once(), virtual(), problem=Overflowing(base.rows, base.centres))


class Broken(Quadratic):
    """A shard cannot be computed again once it was: as if a worker had lost it."""

    failing = False

    def shard(self, tasks: Any) -> Any:
        shard = super().shard(tasks)
        inner = shard.combine

        def combine(local: Any, coefficients: Any, step: int, out: Any) -> float:
            if self.failing:
                raise OSError("the disk is gone")
            return inner(local, coefficients, step, out)

        shard.combine = combine
        return shard


def test_holders_who_cannot_compute_what_they_are_named_for_are_told_of() -> None:
    """Everybody but one has lost its data when that one, which alone had finished some tasks, dies."""
    problem = Broken(PROBLEM.rows, PROBLEM.centres)
    engine = virtual()

    def strike(worker: int) -> None:
        engine.kill(worker)
        problem.failing = True

    policy = FaultPolicy(on_death="leave", on_suspicion="ignore")
    with pytest.raises(Unreachable, match=r"step 2.* cannot send the sum of what was finished, and nobody else holds"):
        fit(once(), engine, AfterReports(strike), problem=problem, fault_policy=policy)


@given(st.data())
@settings(deadline=None)
def test_each_task_is_named_once_and_to_whoever_reported_it_first_if_present(data: st.DataObject) -> None:
    scheme = once(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
    programs, layout = build_programs(scheme.code, PROBLEM)
    assignment = Assignment.first(scheme, reporting(programs, layout), layout)
    came = data.draw(st.permutations(range(scheme.code.n_messages)))[: data.draw(st.integers(0, 36))]
    present = data.draw(st.sets(st.integers(0, WORKERS - 1)))
    rows = [
        ArrivalRow(
            step=0,
            round=0,
            worker=int(scheme.code.owner[row]),
            message=row,
            unit=0,
            work=1.0,
            started=0.0,
            seconds=float(place),
            censored=False,
        )
        for place, row in enumerate(came)
    ]
    reports: Any = type("Reports", (), {"assignment": assignment, "rows": rows, "lost": ()})
    naming = name_holders(reports, 0, present, 1)
    held = {task for worker in present for task in scheme.code.tasks_of(worker).tolist()}
    if len(held) < scheme.code.n_tasks:
        assert naming is None
        return
    assert naming is not None
    code = naming.assignment.code
    assert code.encoding.toarray().sum(axis=0).tolist() == [1.0] * code.n_tasks
    assert {*naming.assignment.worker_ids} <= present
    task_of = scheme.code.encoding.indices.tolist()
    first: dict[int, int] = {}
    for row in came:
        if scheme.code.owner[row] in present:
            first.setdefault(task_of[row], row)
    note = naming.note[NAMED]
    assert {*first.values()} == {*naming.reported} <= {*note["tasks"]}
    assert sorted(note["fresh"]) == sorted({*note["tasks"]} - {*first.values()})
    assert len(note["tasks"]) == code.n_tasks


def test_what_it_is_told() -> None:
    scheme = parse_scheme("compute_once(load=3, sums=True)", 12)
    assert (scheme.sums, scheme.turns, scheme.until_newer) == (True, True, True)
    assert once().resized(4).sums
    assert not once(sums=False).resized(4).sums
    with pytest.raises(InvalidArgument, match="verify must be off where each sum comes from one worker alone"):
        fit(once(), virtual(), fault_policy=FaultPolicy(verify=True))
