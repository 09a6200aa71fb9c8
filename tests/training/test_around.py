"""Data that groups of workers hold are laid around a circle where a whole group is slow: nobody else could help it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import FaultPolicy, schemes
from erasurehead.delays import Delays
from erasurehead.engines import Engine, ProcessEngine, VirtualEngine
from erasurehead.optimizers import QuasiNewton
from erasurehead.problems import LogisticRegression
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.training import Callback, Resumption, Run, train

from ..arrays import Array
from ..kept_states import KeptStates

pytestmark = pytest.mark.xdist_group("around")  # each process would make anew what runs are compared with

WORKERS = 12


def made() -> LogisticRegression:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((360, 12)) * np.geomspace(0.01, 10.0, 12)
    y = np.sign(X @ (rng.standard_normal(12) / np.geomspace(0.01, 10.0, 12)) + rng.standard_normal(360))
    one = LogisticRegression(X, y, l2=1e-5)
    one.outputs = 0  # without the curvature between columns: more steps, none of which takes as long as ten
    return one


PROBLEM = made()


@dataclass(frozen=True)
class Slow(Delays):
    """Time that grows with the work, more of it on some machines."""

    slow: tuple[int, ...] = (0, 1, 2)
    share: float = 1.0

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
        drawn[:] = self.share * work * np.where(np.isin(np.arange(n_workers), self.slow), 5.0, 1.0)
        return drawn

    def __str__(self) -> str:
        return f"slow({self.slow}, {self.share})"


def in_groups(scheme: schemes.Scheme, pieces: int) -> schemes.Scheme:
    """Return a scheme with its tasks cut into pieces, whose data never move."""
    assert scheme.finer is not None
    return replace(scheme.finer(pieces), around=None)


def fit(
    law: Delays | None = None,
    late: str = "preempt",
    moves: bool = True,
    engine: Engine | None = None,
    steps: int = 300,
    workers: int = WORKERS,
    **others: Any,
) -> Run:
    scheme = schemes.adaptive(workers, 3)
    if not moves:
        scheme = replace(scheme, finer=partial(in_groups, scheme))
    engine = engine or VirtualEngine(law or Slow(), late, seconds_per_task=1e-5)
    return train(PROBLEM, scheme, QuasiNewton(PROBLEM.initial()), engine, steps, evaluate_every=0, **others)


@cache
def usual(late: str = "preempt") -> Run:
    """The run that others are compared with."""
    return fit(late=late)


def moved_at(run: Run) -> list[int]:
    """Return the steps with which data began to be held around a circle."""
    return [row.step for row in run.steps for notice in row.notices if "around a circle" in notice.text]


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_a_slow_group_is_helped_by_its_neighbours_as_soon_as_that_has_cost_as_much_as_the_move(late: str) -> None:
    run, stays = usual(late), fit(late=late, moves=False)
    (step,) = moved_at(run)
    (notice,) = [one for row in run.steps for one in row.notices if one.kind == "rebalanced"]
    assert 0 < notice.data["bytes"] <= 3 * PROBLEM.n_samples * (PROBLEM.n_parameters + 1) * 8 + 10_000
    before = [row.waited for row in run.steps[:step] if row.decision.get("by_task") and row.kind == "gradient"]
    after = [row.waited for row in run.steps[step + 2 :] if row.kind == "gradient"]
    assert len(before) >= 3
    assert np.median(after) < 0.5 * np.median(before)
    assert all(row.decision["by_task"] for row in run.steps[step:])
    assert not moved_at(stays)
    assert run.final is not None
    assert stays.final is not None
    assert (run.ended, stays.ended) == ("converged", "converged")
    assert run.final.objective == pytest.approx(stays.final.objective, rel=1e-9)
    assert run.steps[-1].end < 0.8 * stays.steps[-1].end


def test_where_nobody_is_slow_data_stay_where_they_are() -> None:
    run = fit(Slow(()))
    assert any(row.decision.get("by_task") for row in run.steps)
    assert not moved_at(run)


def test_steps_that_take_less_time_than_a_move_are_left_alone() -> None:
    assert not moved_at(fit(Slow(share=0.05)))


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_it_goes_on_from_any_step_to_the_bit(late: str) -> None:
    (step,) = moved_at(usual(late))
    kept = KeptStates(step - 1, step, step + 1, step + 3)
    whole = fit(late=late, callbacks=[kept])
    for at in kept.steps:
        again = fit(late=late, resume=Resumption(kept.at[at], whole.steps[:at], whole.arrivals))
        assert again.x.tobytes() == whole.x.tobytes()
        assert [row.as_dict() for row in again.steps] == [row.as_dict() for row in whole.steps]


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_it_is_replayed_to_the_bit(tmp_path: Path, late: str) -> None:
    first = fit(late=late, callbacks=[Recorder(RunFolder.create(tmp_path))])
    again = fit(engine=VirtualEngine(replay(tmp_path)))
    assert again.x.tobytes() == first.x.tobytes()
    assert moved_at(again) == moved_at(first) != []


class Kill(Callback):
    """Kills two workers after a step."""

    def __init__(self, engine: VirtualEngine, step: int) -> None:
        self.engine, self.step = engine, step

    def on_step_end(self, row: Any, x: Array) -> None:
        if row.step == self.step:
            self.engine.kill(0)
            self.engine.kill(7)


@pytest.mark.parametrize("death", ["replace", "leave", "spread"])
@pytest.mark.parametrize("after", [-1, 2])
def test_workers_may_die_just_before_and_after(death: Any, after: int) -> None:
    engine = VirtualEngine(Slow(), "preempt", seconds_per_task=1e-5)
    (step,) = moved_at(usual())
    run = fit(engine=engine, callbacks=[Kill(engine, step + after)], fault_policy=FaultPolicy(on_death=death))
    assert run.ended == "converged"
    least, final = usual().final, run.final
    assert least is not None
    assert final is not None
    assert final.objective == pytest.approx(least.objective, rel=1e-9)
    assert run.steps[-1].workers == (WORKERS - 2 if death == "spread" else WORKERS)


class Losses(Callback):
    """Compares what each whole gradient says of the objective with what it is there."""

    def __init__(self) -> None:
        self.x, self.off = PROBLEM.initial(), list[float]()

    def on_step_end(self, row: Any, x: Array) -> None:
        if row.kind == "gradient":
            self.off.append(abs(row.loss / PROBLEM.objective(self.x) - 1.0))
        self.x = x.copy()


@pytest.mark.slow
@pytest.mark.processes
def test_real_workers_are_given_the_data_that_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erasurehead.training._turns._MOVE", 0.2)  # so that it does not take long to be lost
    losses = Losses()
    engine = ProcessEngine(Slow(share=0.05), late="preempt")
    run = fit(engine=engine, steps=12, workers=6, callbacks=[losses])
    (step,) = moved_at(run)
    assert step < len(run.steps) - 1
    assert max(losses.off) < 1e-9
