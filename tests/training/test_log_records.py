"""What runs log: facts as fields, at levels that say how much they matter, and nothing on the screen by itself."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, optimizers, problems, schemes
from erasurehead.engines import VirtualEngine
from erasurehead.errors import Diverged
from erasurehead.training import Callback, Resumption, Run, train

PROBLEM = problems.LeastSquares(np.eye(6), np.arange(6.0))


def trained(rate: float = 0.5, killed: int | None = None, **more: Any) -> Run:
    engine = VirtualEngine(delays.Exponential(mean=0.5, seed=0))
    if killed is not None:
        engine.kill(killed, at=0.2)
    optimizer = optimizers.GradientDescent(PROBLEM.initial(), rate)
    return train(PROBLEM, schemes.erasurehead(6, 3, 4), optimizer, engine, **{"steps": 8, **more})


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, "erasurehead"):
        yield


def told(caplog: pytest.LogCaptureFixture, level: int) -> list[Any]:
    return [record for record in caplog.records if record.levelno == level]


def test_a_run_begins_and_ends_as_information(caplog: pytest.LogCaptureFixture) -> None:
    run = trained()
    begin, end = told(caplog, logging.INFO)
    assert {record.name for record in caplog.records} == {"erasurehead.training"}
    assert begin.getMessage() == f"{run.scheme} with 6 workers begins"
    assert end.getMessage() == f"{run.scheme}: finished after 8 steps"
    assert (end.status, end.seconds) == ("finished", run.seconds)
    assert told(caplog, logging.WARNING) == []


def test_each_step_is_there_for_those_who_look_for_mistakes(caplog: pytest.LogCaptureFixture) -> None:
    run = trained()
    records = told(caplog, logging.DEBUG)
    assert [(record.step, record.seconds) for record in records] == [(row.step, row.end) for row in run.steps]
    assert records[3].row == run.steps[3].as_dict()
    assert records[0].getMessage().startswith("step 0: waited ")


def test_a_notice_is_a_warning_with_its_facts(caplog: pytest.LogCaptureFixture) -> None:
    run = trained(killed=3)
    records = told(caplog, logging.WARNING)
    assert [(one.kind, one.worker, one.step, one.seconds, one.facts, one.getMessage()) for one in records] == [
        (one.kind, one.worker, one.step, one.time, one.data, one.text) for one in run.notices
    ]
    assert records[0].kind == "died"


def test_signs_of_formats_in_texts_are_texts(caplog: pytest.LogCaptureFixture) -> None:
    engine = VirtualEngine()
    optimizer = optimizers.GradientDescent(PROBLEM.initial(), 0.5)
    named = schemes.uncoded(6)
    object.__setattr__(named, "name", "100% %s {x}")
    train(PROBLEM, named, optimizer, engine, 1)
    assert caplog.records[0].getMessage() == "100% %s {x} with 6 workers begins"


def test_a_resumed_run_says_so(caplog: pytest.LogCaptureFixture) -> None:
    class Keep(Callback):
        state: Any = None

        def on_state(self, step: int, state: Any) -> None:
            if step == 5:
                self.state = state()

    keep = Keep()
    run = trained(callbacks=[keep])
    caplog.clear()
    trained(resume=Resumption(keep.state, run.steps[:5], [row for row in run.arrivals if row.step < 5]))
    assert caplog.records[0].getMessage() == f"{run.scheme} with 6 workers is resumed after 5 steps"
    assert [record.step for record in told(caplog, logging.DEBUG)] == [5, 6, 7]


def test_a_run_that_fails_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Diverged):
        trained(rate=1e9, steps=400)
    last = told(caplog, logging.INFO)[-1]
    assert (last.status, ": diverged after " in last.getMessage()) == ("diverged", True)
    assert last.getMessage().count(":") >= 2


@pytest.mark.slow
def test_nothing_is_printed_by_itself() -> None:
    """Not even warnings, which Python prints where a library has no handler at all."""
    code = (
        "import numpy as np, erasurehead as eh\n"
        "problem = eh.problems.LeastSquares(np.eye(6), np.arange(6.0))\n"
        "engine = eh.engines.VirtualEngine(eh.delays.Exponential(mean=0.5, seed=0)); engine.kill(3, at=0.2)\n"
        "optimizer = eh.optimizers.GradientDescent(problem.initial(), 0.5)\n"
        "run = eh.train(problem, eh.schemes.erasurehead(6, 3, 4), optimizer, engine, 8)\n"
        "print(len(run.notices))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0
    assert done.stderr == ""
