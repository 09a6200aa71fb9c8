"""What is noticed is data: the kind, the worker and the facts decide, and no text does."""

from __future__ import annotations

import contextlib
import inspect
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from erasurehead import schemes
from erasurehead.engines import VirtualEngine
from erasurehead.errors import Diverged, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent
from erasurehead.runs._summaries import figures
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Timetable
from erasurehead.training import Callback, Notice, Run, _rows as notices_module, train
from erasurehead.training._result import Status
from erasurehead.training._rows import NoticeKind

PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)
SECOND = Timetable({(w, s, 0): 1.0 for w in range(12) for s in range(20)})


class _Heard(Callback):
    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.run: Run | None = None

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def on_end(self, run: Run) -> None:
        self.run = run


def heard(
    engine: VirtualEngine, scheme: schemes.Scheme, fault_policy: FaultPolicy, steps: int = 8, rate: float = 0.1
) -> tuple[Run, list[Notice]]:
    """Train; return the run, and what callbacks were told."""
    told = _Heard()
    optimizer = GradientDescent(np.zeros(6), rate)
    with contextlib.suppress(Unreachable, Diverged):
        train(PROBLEM, scheme, optimizer, engine, steps, [told], fault_policy=fault_policy)
    assert told.run is not None
    return told.run, told.notices


def dying(worker: int = 2, at: float = 3.5) -> VirtualEngine:
    made = VirtualEngine(SECOND)
    made.kill(worker, at=at)
    return made


def test_a_death_and_a_replacement() -> None:
    run, told = heard(dying(), schemes.uncoded(6), FaultPolicy())
    assert [(one.kind, one.worker, one.step, one.time) for one in told] == [("died", 2, 3, 3.5), ("joined", 2, 3, 3.5)]
    assert [dict(one.data) for one in told] == [{"reason": "killed", "replaced": True}, {"host": "virtual"}]
    assert run.notices == run.steps[3].notices == told


def test_a_death_that_nobody_replaces_and_a_code_that_is_resized() -> None:
    run, told = heard(dying(), schemes.exact(6, 2), FaultPolicy(on_death="spread"))
    died, resized = told
    assert (died.kind, died.data["replaced"]) == ("died", False)
    assert (resized.kind, resized.worker, resized.data["n_workers"], resized.data["generation"]) == (
        "resized",
        None,
        5,
        1,
    )
    assert (resized.data["moved"] == 0) == (resized.data["bytes"] == 0)
    assert run.steps[-1].workers == resized.data["n_workers"]


def test_a_silence_that_is_suspected_and_cleared() -> None:
    engine = VirtualEngine(Timetable({(2, 0, 0): 4.0}))
    _, told = heard(engine, schemes.uncoded(6), FaultPolicy(suspect_after=2.5), steps=2)
    assert [(one.kind, one.worker, one.time) for one in told] == [("suspected", 2, 2.5), ("cleared", 2, 4.0)]
    assert [one.data["seconds"] for one in told] == [2.5, 4.0]


def test_a_suspect_that_is_replaced_is_no_death() -> None:
    engine = VirtualEngine(Timetable({(2, 0, 0): 40.0}))
    policy = FaultPolicy(suspect_after=2.5, on_suspicion="replace")
    run, told = heard(engine, schemes.uncoded(6), policy, steps=1)
    kinds = [one.kind for one in told]
    assert kinds[:3] == ["suspected", "ended", "joined"]
    assert told[1].data["replaced"]
    assert figures(run)["deaths"] == 0


def test_lost_tasks() -> None:
    run, told = heard(dying(), schemes.uncoded(6), FaultPolicy(on_death="leave", on_loss="go_on"))
    assert next(dict(one.data) for one in told if one.kind == "tasks_lost") == {"tasks": [2]}
    assert run.steps[-1].lost == [2]
    assert run.status == "finished"


def test_room_that_is_offered_and_left_alone() -> None:
    engine = VirtualEngine(SECOND)
    engine.offer(3, "new", at=1.5)
    _, told = heard(engine, schemes.exact(6, 2), FaultPolicy())
    assert [(one.kind, dict(one.data)) for one in told] == [("offered", {"host": "new", "count": 3, "taken": False})]


def test_what_is_told_at_the_end_belongs_to_no_step() -> None:
    _, told = heard(VirtualEngine(SECOND), schemes.exact(6, 3), FaultPolicy(verify=True))
    (cost,) = told
    assert (cost.kind, cost.step) == ("verification_cost", None)
    assert cost.data.keys() == {"seconds", "share", "comparisons"}
    assert cost.text.startswith("verification cost ")


def test_what_starting_brings_has_a_time_in_the_rows_alone() -> None:
    engine = VirtualEngine(SECOND)
    engine.kill(1, at=0.0)
    run, told = heard(engine, schemes.uncoded(6), FaultPolicy())
    assert [(one.kind, one.time, one.step) for one in told] == [("died", None, 0), ("joined", None, 0)]
    assert [(one.kind, one.time, one.step) for one in run.notices] == [("died", 0.0, 0), ("joined", 0.0, 0)]


@pytest.mark.parametrize(
    ("status", "engine", "rate"),
    [("finished", VirtualEngine(), 0.1), ("unreachable", dying(), 0.1), ("diverged", VirtualEngine(), 1e200)],
)
def test_how_a_run_ended_is_a_status(status: Status, engine: VirtualEngine, rate: float) -> None:
    with np.errstate(all="ignore"):
        run, _ = heard(engine, schemes.uncoded(6), FaultPolicy(on_death="leave"), rate=rate)
    assert run.status == status
    assert bool(run.stopped) == (status != "finished")


def test_every_kind_is_described_and_no_other() -> None:
    text = inspect.getsource(notices_module)
    assert sorted(re.findall(r"^`(\w+)` +", text, re.M)) == sorted(get_args(NoticeKind))


def test_the_page_on_records_has_every_kind_and_status() -> None:
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    assert {*get_args(NoticeKind), *get_args(Status)} <= told


def test_a_text_decides_nothing() -> None:
    run, _ = heard(dying(), schemes.exact(6, 2), FaultPolicy(on_death="spread"))
    reworded = [
        replace(row, notices=[replace(one, text="messages 1, 2 failed, refused, died") for one in row.notices])
        for row in run.steps
    ]
    again = replace(run, steps=reworded)
    told, retold = figures(run), figures(again)
    assert {key: value for key, value in retold.items() if value != told[key]} == {}
    assert math.isfinite(told["seconds"])
