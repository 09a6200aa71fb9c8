"""Tasks that go by the speed of each worker: given, or measured and dealt out anew when a change has lasted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import FaultPolicy, schemes
from erasurehead.delays import Delays
from erasurehead.engines import Engine, ProcessEngine, VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.testing._pacing import at_some_pace
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Notice, Resumption, Run, train

from ..arrays import Array


@dataclass(frozen=True)
class Machines(Delays):
    """Machines of given speeds, some of which change.

    Arguments:
        speeds: tasks a second.
        later: the same from a step on.
        change: that step; each multiple of it swaps them if `swings`.
        swings: whether they swing back and forth.
    """

    speeds: tuple[float, ...]
    later: tuple[float, ...] = ()
    change: int = 1000
    swings: bool = False

    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        drawn = np.empty((count, n_workers)) if out is None else out
        for step in range(count):
            periods = (first + step) // self.change
            changed = periods % 2 if self.swings else periods > 0
            drawn[step] = work / np.resize(self.later if changed else self.speeds, n_workers)
        return drawn

    def __str__(self) -> str:
        return f"machines({self.speeds}, {self.later}, {self.change}, {self.swings})"


def fit(scheme: Scheme | str, delays: Delays | Engine, steps: int = 20, workers: int = 4, **how: Any) -> Run:
    made = parse_scheme(scheme, workers) if isinstance(scheme, str) else scheme
    problem = Quadratic.random(4 * made.code.n_tasks, 4, seed=1)
    engine = VirtualEngine(delays) if isinstance(delays, Delays) else delays
    optimizer = GradientDescent(np.zeros(4), 0.01)
    return train(problem, made, optimizer, engine, steps, evaluate_every=0, tolerance=None, **how)


def over_ideal(run: Run, speeds: tuple[float, ...], work: float, copies: int = 1) -> list[float]:
    return [row.waited * sum(speeds) / (work * copies) for row in run.steps]


@pytest.mark.parametrize(
    ("speeds", "most"), [((1.0, 2.0, 2.0, 2.0), 1.2), (tuple(np.linspace(1.0, 4.0, 30).tolist()), 1.1)]
)
@pytest.mark.parametrize(
    ("text", "copies"), [("uncoded(speeds='measured')", 1), ("exact(load=2, speeds='measured')", 2)]
)
def test_speeds_are_found_within_ten_steps(speeds: tuple[float, ...], most: float, text: str, copies: int) -> None:
    scheme = parse_scheme(text, len(speeds))
    run = fit(scheme, Machines(speeds), 12)
    found = over_ideal(run, speeds, len(speeds), copies)
    assert found[0] > 1.3 or copies == 2  # the first whole class of two is enough
    assert max(found[10:]) <= most
    moves = [notice for notice in run.notices if notice.kind == "rebalanced"]
    assert len(moves) == 1 or (copies == 2 and not moves)
    for moved in moves:
        assert moved.data["bytes"] > 0
        assert "tasks are dealt out anew, by how fast workers have been; " in moved.text
    even = fit(text, Machines((1.0,) * len(speeds)), 12, len(speeds))
    assert not [notice for notice in even.notices if notice.kind == "rebalanced"]
    if copies == 1:
        assert run.x == pytest.approx(fit(schemes.uncoded(len(speeds), scheme.code.n_tasks), Machines(speeds), 12).x)


def test_given_speeds_hold_from_the_first_step_and_for_good() -> None:
    speeds = (1.0, 2.0, 4.0, 4.0)
    run = fit("uncoded(speeds=[1, 2, 4, 4], n_tasks=22)", Machines(speeds, speeds[::-1], 5))
    assert over_ideal(run, speeds, 22)[0] == pytest.approx(1.0)
    assert not run.notices


@pytest.mark.slow
def test_a_change_that_lasts_is_followed_and_one_that_swings_is_not() -> None:
    speeds, later = (2.0, 2.0, 2.0, 1.0), (1.0, 2.0, 2.0, 2.0)
    run = fit("uncoded(speeds='measured')", Machines(speeds, later, 30), 60)
    assert max(over_ideal(run, speeds, 4)[45:]) <= 1.2
    assert sum(notice.kind == "rebalanced" for notice in run.notices) == 2
    for every in (1, 3, 10):
        swinging = fit("uncoded(speeds='measured')", Machines(speeds, later, every, swings=True), 300)
        assert sum(notice.kind == "rebalanced" for notice in swinging.notices) <= 7


@pytest.mark.slow
def test_who_was_too_slow_for_a_task_is_tried_again_and_works_once_it_has_become_faster() -> None:
    usual, slow = (1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 0.02)
    runs = [fit("uncoded(speeds='measured')", Machines(slow, later, 30), 400) for later in (usual, slow)]
    recovered, stays = ([row.waited for row in run.steps] for run in runs)
    assert recovered[100] == pytest.approx(1.375)  # three share the work of four
    assert recovered[-1] == pytest.approx(1.0)
    assert max(stays[3:]) == pytest.approx(3.125)  # its one task
    assert np.mean(stays[3:]) <= 1.05 * 1.375
    assert [notice.step for notice in runs[1].notices if notice.kind == "idle"] == [3, 148]


def test_who_would_only_delay_the_others_gets_nothing_and_that_is_said() -> None:
    for text in ("uncoded(speeds=[1, 1, 0.001, 1])", "exact(load=2, speeds=[1, 1, 0.001, 1])"):
        run = fit(text, Machines((1.0, 1.0, 1.0, 1.0)), 5)
        (notice,) = run.notices
        assert (notice.kind, notice.data) == ("idle", {"workers": [2]})
        assert notice.text == "worker 2 gets no task, as the others are sooner through without it"
        assert {row.worker for row in run.arrivals} == {0, 1, 3}


class Kill(Callback):
    def __init__(self, engine: VirtualEngine, steps: Mapping[int, int]) -> None:
        self.engine, self.steps = engine, steps

    def on_step_end(self, row: Any, x: Array) -> None:
        if row.step in self.steps:
            self.engine.kill(self.steps[row.step], at=self.engine.now() + 0.5)


@pytest.mark.parametrize("death", ["replace", "spread"])
@pytest.mark.parametrize("step", [1, 2, 3, 6])
def test_a_worker_dies_while_tasks_are_dealt_out(death: Any, step: int) -> None:
    speeds = (1.0, 2.0, 2.0, 2.0)
    engine = VirtualEngine(Machines(speeds))
    run = fit(
        "uncoded(speeds='measured')",
        engine,
        30,
        callbacks=[Kill(engine, {step: 3})],
        fault_policy=FaultPolicy(on_death=death),
    )
    assert all(row.residual < 1e-12 and not row.lost for row in run.steps)
    left = speeds if death == "replace" else speeds[:3]
    assert over_ideal(run, left, 4)[-1] <= 1.2


class KillsWhenMoved(Callback):
    """Kills a worker at the moment when tasks are dealt out anew, before anybody has loaded its new ones."""

    def __init__(self, engine: VirtualEngine, worker: int) -> None:
        self.engine, self.worker, self.killed = engine, worker, 0

    def on_notice(self, notice: Notice) -> None:
        if notice.kind == "rebalanced" and not self.killed:
            self.killed += 1
            self.engine.kill(self.worker)


@pytest.mark.parametrize("death", ["replace", "spread"])
@pytest.mark.parametrize("worker", range(4))
def test_a_worker_dies_with_the_tasks_that_it_is_just_given(death: Any, worker: int) -> None:
    speeds = (1.0, 2.0, 2.0, 2.0)
    engine = VirtualEngine(Machines(speeds))
    kills = KillsWhenMoved(engine, worker)
    policy, scheme = FaultPolicy(on_death=death), schemes.uncoded(4, speeds="measured")
    run = fit(scheme, engine, 30, callbacks=[kills], fault_policy=policy)
    assert kills.killed == 1
    assert all(row.residual < 1e-12 and not row.lost for row in run.steps)
    left = speeds if death == "replace" else tuple(speed for one, speed in enumerate(speeds) if one != worker)
    assert over_ideal(run, left, 4)[-1] <= 1.2
    assert run.x == pytest.approx(fit(schemes.uncoded(4, scheme.code.n_tasks), Machines(speeds), 30).x, rel=1e-9)


class States(Callback):
    def __init__(self) -> None:
        self.states: list[Mapping[str, Any]] = []

    def on_state(self, step: int, state: Callable[[], Mapping[str, Any]]) -> None:
        self.states.append(state())


@pytest.mark.slow
@pytest.mark.parametrize("death", ["replace", "spread"])
def test_it_goes_on_from_any_step_and_is_replayed_to_the_bit(tmp_path: Path, death: Any) -> None:
    def go(engine: VirtualEngine, **how: Any) -> Run:
        kill = Kill(engine, {8: 1} if isinstance(engine.delays, Machines) else {})
        callbacks = [kill, *how.pop("callbacks", ())]
        return fit(
            "uncoded(speeds='measured')",
            engine,
            40,
            callbacks=callbacks,
            fault_policy=FaultPolicy(on_death=death, on_suspicion="ignore"),
            **how,
        )

    law = Machines((1.0, 2.0, 2.0, 2.0), (2.0, 2.0, 1.0, 2.0), 15)
    kept = States()
    whole = go(VirtualEngine(law), callbacks=[kept, Recorder(RunFolder.create(tmp_path))])
    assert sum(notice.kind == "rebalanced" for notice in whole.notices) >= 2
    for step in (0, 1, 2, 3, 9, 12, 20, 25, 33):
        again = go(VirtualEngine(law), resume=Resumption(kept.states[step], whole.steps[:step], whole.arrivals))
        assert again.x.tobytes() == whole.x.tobytes()
        assert [row.as_dict() for row in again.steps] == [row.as_dict() for row in whole.steps]
    assert go(VirtualEngine(replay(tmp_path))).x.tobytes() == whole.x.tobytes()


@pytest.mark.processes
@at_some_pace
def test_real_workers_are_given_other_data(pace: float) -> None:
    speeds = (200.0 / pace, 800.0 / pace, 800.0 / pace)
    scheme = schemes.uncoded(3, speeds="measured")
    run = fit(scheme, ProcessEngine(Machines(speeds)), 14)
    assert any(notice.kind == "rebalanced" for notice in run.notices)
    assert all(row.residual < 1e-12 for row in run.steps)
    assert run.x == pytest.approx(fit(schemes.uncoded(3, scheme.code.n_tasks), Machines(speeds), 14).x, rel=1e-9)


@pytest.mark.processes
@at_some_pace
def test_a_run_that_is_resumed_on_other_machines_deals_tasks_out_by_their_speeds(pace: float) -> None:
    scheme, kept = schemes.uncoded(3, speeds="measured"), States()
    slow, quick, slower = 200.0 / pace, 800.0 / pace, 100.0 / pace
    before, after = Machines((slow, quick, quick)), Machines((quick, quick, slower))
    begun = fit(scheme, ProcessEngine(before), 14, callbacks=[kept])
    resumed = Resumption(kept.states[14], begun.steps, begun.arrivals)
    run = fit(scheme, ProcessEngine(after), 40, resume=resumed)
    moved = [row.step for row in run.steps if row.noticed("rebalanced")]
    assert moved
    assert min(moved) < 14 <= max(moved)
    assert all(row.residual < 1e-12 for row in run.steps)
    assert run.x == pytest.approx(fit(schemes.uncoded(3, scheme.code.n_tasks), before, 40).x, rel=1e-9)


def test_what_it_is_told() -> None:
    with pytest.raises(InvalidArgument, match=r"speeds must be numbers, or 'measured', but it is 'fast'; such as"):
        schemes.uncoded(4, speeds="fast")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match=r"speeds must be one number for each of 4"):
        parse_scheme("uncoded(speeds=[1, 2])", 4)
    with pytest.raises(InvalidArgument, match=r"speeds are for the code 'repetition' alone"):
        schemes.exact(6, 3, "cyclic", speeds="measured")
