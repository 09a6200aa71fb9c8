"""Every verdict of a drill is turned by a sabotage: the loop, or what it writes, is broken, and the drill says so.

The sabotage is a statement that is run when the coordinator of the faulty run starts, in a process of its own. All but
one of these processes are forked; on real engines, `test_drill` starts its coordinators as users do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from erasurehead.drills import Fault, _drill as drilling, _supervisor as supervisor
from erasurehead.drills._drill import Drill
from erasurehead.drills._schedule import FaultSchedule
from erasurehead.drills._supervisor import DrillRun, run_command
from erasurehead.drills._verdicts import Findings

from .small import forked, tables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.xdist_group("sabotage"),  # with one baseline
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
]

TABLES = tables(workers=6)

KILL = Fault("kill", 4.0, 1)
LIE = Fault("corrupt", 4.0, 4, lie="flip")
SILENCE = Fault("disconnect", 4.0, 0, 40.0)  # longer than any patience that the delays justify
FULL = Fault("disk_full", 8.0, lasting=2.0)
END = Fault("coordinator", 8.0)

NOTHING_RECORDED = """
from dataclasses import replace
from erasurehead.training._callbacks import StepLog
taken = StepLog.take_notices
StepLog.take_notices = lambda log: [one for one in taken(log) if one.kind != {what!r}]
"""

SABOTAGES = {
    "a death is not recorded": (
        KILL,
        NOTHING_RECORDED.format(what="died"),
        "0 of 1 kills were noticed",
    ),
    "a death is recorded late": (
        KILL,
        """
from dataclasses import replace
from erasurehead.training._callbacks import StepLog
taken = StepLog.take_notices
StepLog.take_notices = lambda log: [replace(one, time=one.time + 2) for one in taken(log)]
""",
        "1 of 1 kills were noticed, at most 2 s after",
    ),
    "a death is recorded of somebody else": (
        KILL,
        """
from dataclasses import replace
from erasurehead.training._callbacks import StepLog
taken = StepLog.take_notices
StepLog.take_notices = lambda log: [replace(one, worker=5) for one in taken(log)]
""",
        "workers 5 died without having been killed",
    ),
    "a liar is not named": (
        LIE,
        NOTHING_RECORDED.format(what="lied"),
        "0 of 1 workers whose lies arrived were named and put aside",
    ),
    "somebody else is named": (
        LIE,
        """
from dataclasses import replace
from erasurehead.training._callbacks import StepLog
taken = StepLog.take_notices
StepLog.take_notices = lambda log: [replace(one, worker=3) for one in taken(log)]
""",
        "worker 3 was put aside as a liar, and is honest",
    ),
    "silence is not suspected": (
        SILENCE,
        NOTHING_RECORDED.format(what="suspected"),
        "0 of 1 workers that were silent for long were suspected",
    ),
    "a step is not recorded": (
        KILL,
        """
from erasurehead.runs import Recorder
step = Recorder.on_step_end
Recorder.on_step_end = lambda recorder, row, x: None if row.step == 7 else step(recorder, row, x)
""",
        "steps were taken, each once and in order",
    ),
    "another model is saved": (
        KILL,
        """
from erasurehead.runs import RunFolder
write = RunFolder.write_model
RunFolder.write_model = lambda folder, x: write(folder, 1.001 * x)
""",
        "the last model's loss is",
    ),
    "a run that goes on begins from another model": (
        END,
        """
from erasurehead.optimizers import Nesterov
restore = Nesterov.restore
def other(optimizer, state):
    restore(optimizer, state)
    optimizer.x = optimizer.x * (1 + 1e-12)
Nesterov.restore = other
""",
        "the run ended with other bits",
    ),
    "that a run was continued is not recorded": (
        END,
        """
from erasurehead.runs import Recorder
reopen = Recorder.reopen.__func__
def silent(kind, *arguments, **more):
    recorder = reopen(kind, *arguments, **more)
    recorder.resumed = []
    return recorder
Recorder.reopen = classmethod(silent)
""",
        "the coordinator was killed, and training ended",
    ),
    "a full disk is not noticed": (
        FULL,
        """
from erasurehead.runs import Recorder
flush = Recorder._flush
def quietly(recorder):
    try:
        flush(recorder)
    except OSError:
        pass
Recorder._flush = quietly
from erasurehead.runs import Checkpointer
Checkpointer.on_state = lambda self, step, state: None
""",
        "the full disk was reported in a sentence",
    ),
    "rows are flushed at the end only, and a full disk meets none of them": (
        FULL,
        """
from erasurehead.runs import Recorder
Recorder._flush = lambda recorder: None
from erasurehead.runs import Checkpointer
Checkpointer.on_state = lambda self, step, state: None
""",
        "the full disk was reported in a sentence",
    ),
}


def seconds_for(fault: Fault) -> float:
    return 60.0 if fault is SILENCE else 24.0


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Fault], DrillRun]:
    """Return the run without faults, which no sabotage touches: one for all drills as long."""

    @cache
    def baseline(seconds: float) -> DrillRun:
        out = tmp_path_factory.mktemp("baseline") / "drill"
        drill = Drill(TABLES, seconds, schedule=FaultSchedule(), out=out)
        drill.prepare()
        return drill.perform("baseline")

    return lambda fault: baseline(seconds_for(fault))


def drilled(folder: Path, fault: Fault, baseline: DrillRun) -> Findings:
    drill = Drill(TABLES, seconds_for(fault), schedule=FaultSchedule((fault,)), out=folder)
    drill.prepare()
    faulty = drill.perform("faulty")
    return drill.findings(baseline, faulty, drill.perform("unbroken") if drill.compares_bits else None)


def broken(found: Findings) -> str:
    return "\n".join(verdict.text for verdict in found.verdicts if verdict.kept is False)


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drilling, "run_command", forked)


@pytest.mark.parametrize("fault", [KILL, LIE, SILENCE, FULL, END], ids=lambda fault: fault.kind)
def test_without_a_sabotage_every_promise_is_kept(
    tmp_path: Path, baselines: Callable[[Fault], DrillRun], fault: Fault
) -> None:
    assert not broken(drilled(tmp_path / "drill", fault, baselines(fault)))


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_sabotage_turns_its_verdict(
    tmp_path: Path, baselines: Callable[[Fault], DrillRun], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fault, sabotage, sentence = SABOTAGES[name]
    baseline = baselines(fault)
    monkeypatch.setattr(drilling, "run_command", partial(forked, sabotage=sabotage))
    assert sentence in broken(drilled(tmp_path / "drill", fault, baseline))


def test_a_process_that_is_left_running_is_ended_and_told(
    tmp_path: Path, baselines: Callable[[Fault], DrillRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline = baselines(KILL)
    monkeypatch.setattr(drilling, "run_command", run_command)
    left = """if sys.orig_argv[-1] == 'faulty':
    subprocess.Popen(["sleep", "600"], start_new_session=True)
"""
    (tmp_path / "sitecustomize.py").write_text(f"import subprocess, sys\n{left}")
    monkeypatch.setattr(supervisor, "GRACE", 5.0)  # so long is waited for a process that is left running
    source = Path(__file__).parents[2] / "src"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{source}")
    assert "left running: sleep" in broken(drilled(tmp_path / "drill", KILL, baseline))
