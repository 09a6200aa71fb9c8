"""Verdicts: what a drill says of journals that are known beforehand, above all of promises that were broken."""

from __future__ import annotations

import io
from typing import Any

import pytest

from erasurehead.drills import Fault
from erasurehead.drills._findings import FaultFinding, Finder
from erasurehead.drills._journal import EventLog
from erasurehead.drills._report import conclusion, cost_table, fault_table, verdict_line
from erasurehead.drills._schedule import FaultSchedule
from erasurehead.drills._supervisor import DrillRun
from erasurehead.drills._verdicts import Findings

OUTCOME: dict[str, Any] = {
    "steps": 3,
    "seconds": 30.0,
    "loss": 0.5,
    "metrics": {"auc": 0.8},
    "received": 1000,
    "residual": 0.0,
    "in_order": True,
    "all_stepped": True,
    "workers": [4],
    "ends": [10.0, 20.0, 30.0],
    "late": {"1": [10.0]},
    "stopped": "",
}
LIFE = {"what": "life", "time": 0.0, "step": 0, "resumed": False}


def drilled(*entries: dict[str, Any], faults: tuple[Fault, ...] = (), **changes: Any) -> Findings:
    """Return what a drill finds in a faulty journal, beside a baseline run."""
    given: dict[str, Any] = {"outcome": OUTCOME, "journal": [LIFE, *entries], "lives": 1}
    faulty = DrillRun(**{**given, **{key: changes.pop(key) for key in given if key in changes}})
    schedule = FaultSchedule(faults)
    found = Finder(schedule, EventLog(faulty.journal), faulty.outcome or {}).findings()
    settings: dict[str, Any] = {"same_bits": None, "patience": 5.0, "telling": True}
    baseline = DrillRun(outcome=OUTCOME, journal=[LIFE], lives=1)
    return Findings("", "virtual", "exact", 3, baseline, faulty, found, **{**settings, **changes})


def injected(fault: int, time: float) -> dict[str, Any]:
    return {"what": "injected", "time": time, "fault": fault}


def broken(found: Findings) -> list[str]:
    return [verdict.text for verdict in found.verdicts if verdict.kept is False]


def test_a_run_where_nothing_goes_wrong_keeps_every_promise() -> None:
    found = drilled()
    assert found.passed
    assert not broken(found)
    assert "every promise was kept" in conclusion(found)


KILL = (Fault("kill", 5.0, 1),)


def test_a_kill_is_to_be_noticed_within_a_second() -> None:
    def after(seconds: float) -> Findings:
        died = {"what": "died", "time": 5.0 + seconds, "worker": 1, "text": "killed"}
        joined = {"what": "joined", "time": 7.5, "worker": 1}
        return drilled(injected(0, 5.0), died, joined, faults=KILL)

    soon = after(0.25)
    assert soon.passed
    (one,) = soon.faults
    assert (one.injected, one.after, one.effect) == (5.0, 0.25, "a replacement had started 2.5 s later")
    assert one.noticed == "worker 1 died: killed"
    assert broken(after(1.5)) == ["1 of 1 kills were noticed, at most 1.5 s after"]
    assert broken(drilled(injected(0, 5.0), faults=KILL)) == ["0 of 1 kills were noticed, at most 0 s after"]
    assert drilled(injected(0, 29.5), faults=KILL).passed  # the run was over before anybody could notice


def test_what_was_not_injected_need_not_be_noticed_and_is_said() -> None:
    missed = {"what": "missed", "time": 5.0, "fault": 0, "text": "worker 1 is not there"}
    found = drilled(missed, faults=KILL)
    assert found.passed
    assert found.faults[0].noticed == "worker 1 is not there"
    (untested,) = (verdict.text for verdict in found.verdicts if verdict.kept is None)
    assert "1 of 1 faults tested only that training went on" in untested
    assert "worker 1 is not there" in untested
    assert conclusion(found).startswith("every promise that was tested was kept;")


def test_a_death_that_nobody_caused_is_a_failure() -> None:
    died = {"what": "died", "time": 5.0, "worker": 2, "text": "exited with status 1"}
    assert broken(drilled(died)) == ["workers 2 died without having been killed"]


LIE = (Fault("corrupt", 5.0, 1, lie="flip"),)
LIED = {"what": "lied", "time": 6.0, "fault": 0}


def test_a_lie_that_arrived_is_to_be_found_and_nobody_else_blamed() -> None:
    named = {"what": "named", "worker": 1, "time": 7.0, "text": "its message 1 differs"}
    found = drilled(injected(0, 5.0), LIED, named, faults=LIE)
    assert found.passed
    assert (found.faults[0].after, found.faults[0].effect) == (2.0, "put aside")
    assert drilled(injected(0, 5.0), faults=LIE).passed  # nothing of it arrived
    unseen = drilled(injected(0, 5.0), LIED, faults=LIE)
    assert broken(unseen) == ["0 of 1 workers whose lies arrived were named and put aside"]
    refused = {"what": "refused", "worker": 1, "time": 7.0, "text": "it differs, and no majority says who lies"}
    assert not drilled(injected(0, 5.0), LIED, refused, faults=LIE).passed
    assert drilled(injected(0, 5.0), LIED, refused, faults=LIE, telling=False).passed  # two cannot tell
    other = {"what": "named", "worker": 3, "time": 8.0, "text": "its message 3 differs"}
    assert broken(drilled(injected(0, 5.0), LIED, named, other, faults=LIE)) == [
        "worker 3 was put aside as a liar, and is honest"
    ]


STOP = (Fault("stop", 5.0, 1, 12.0),)
SILENT, OVER = {"what": "silent", "time": 6.0, "fault": 0}, {"what": "over", "time": 17.0, "fault": 0}


def test_long_silence_is_to_raise_suspicion() -> None:
    suspected = {"what": "suspected", "worker": 1, "time": 9.0, "text": "silent for 3 s"}
    found = drilled(injected(0, 5.0), SILENT, suspected, OVER, faults=STOP)
    assert found.passed
    assert found.faults[0].effect == "late in 1 step; the longest took 10 s"
    assert broken(drilled(injected(0, 5.0), SILENT, OVER, faults=STOP)) == [
        "0 of 1 workers that were silent for long were suspected"
    ]
    assert drilled(injected(0, 5.0), OVER, faults=STOP).passed  # it owed no answer
    assert drilled(injected(0, 5.0), SILENT, OVER, faults=STOP, patience=20.0).passed


def life(time: float, *, restored: bool) -> list[dict[str, Any]]:
    """Return how another coordinator goes on: with the workers as they were, or with others."""
    entries = [{"what": "life", "time": time, "step": 1, "resumed": True}]
    return [*entries, {"what": "restored", "time": time}] if restored else entries


@pytest.mark.parametrize("resumed_at", [10.5, 14.0, 16.9])
def test_what_a_worker_suffers_from_goes_on_where_the_engine_is_restored(resumed_at: float) -> None:
    begun = [injected(0, 10.0), {"what": "silent", "time": 10.0, "fault": 0}]
    said = [
        {"what": "suspected", "time": 17.0, "worker": 1, "text": "worker 1 is suspected to hang"},
        {"what": "over", "time": 22.0, "fault": 0},
    ]
    stop = (Fault("stop", 10.0, 1, 12.0),)
    found = drilled(*begun, *life(resumed_at, restored=True), *said, faults=stop, lives=2)
    assert found.passed, broken(found)
    assert found.faults[0].after == 7.0
    unsaid = drilled(*begun, *life(resumed_at, restored=True), said[1], faults=stop, lives=2)
    assert broken(unsaid) == ["0 of 1 workers that were silent for long were suspected"]
    # Where the workers went with their coordinator, so did what they suffered from.
    assert drilled(*begun, *life(resumed_at, restored=False), *said, faults=stop, lives=2).faults[0].after is None


def test_a_kill_is_noticed_by_the_next_coordinator_where_the_engine_is_restored() -> None:
    died = {"what": "died", "time": 5.25, "worker": 1, "text": "killed"}
    found = drilled(injected(0, 5.0), *life(5.1, restored=True), died, faults=KILL, lives=2)
    assert found.passed
    assert found.faults[0].after == 0.25
    unnoticed = drilled(injected(0, 5.0), *life(5.1, restored=True), faults=KILL, lives=2)
    assert broken(unnoticed) == ["0 of 1 kills were noticed, at most 0 s after"]
    assert drilled(injected(0, 5.0), *life(5.1, restored=False), faults=KILL, lives=2).passed


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"steps": 2}, "2 of 3 steps were taken"),
        ({"in_order": False}, "3 of 3 steps were taken"),
        ({"all_stepped": False}, "3 of 3 steps were taken"),
        ({"loss": 0.5001}, "a relative difference of 0.0002 (at most 1e-06 is allowed)"),
        ({"residual": 1.0}, "the last model's loss is 0.5"),
    ],
)
def test_steps_that_were_lost_and_losses_that_differ_are_failures(change: dict[str, Any], sentence: str) -> None:
    (text,) = broken(drilled(outcome={**OUTCOME, **change}))
    assert sentence in text


def test_a_run_that_did_not_end_is_a_failure_with_its_reason() -> None:
    faulty = DrillRun(failure="too few workers are left", journal=[LIFE], lives=1)
    baseline = DrillRun(outcome=OUTCOME, journal=[LIFE], lives=1)
    found = Findings("", "virtual", "exact", 3, baseline, faulty, [], None, 5.0, True)
    assert broken(found) == ["the faulty run did not finish: too few workers are left"]
    assert broken(Findings("", "virtual", "exact", 3, faulty, baseline, [], None, 5.0, True)) == [
        "the baseline run did not finish: too few workers are left"
    ]


END = (Fault("disk_full", 5.0, lasting=3.0), Fault("coordinator", 15.0))


def test_what_befell_the_coordinator_is_told_with_where_the_run_went_on() -> None:
    ended = {"what": "ended", "time": 6.0, "text": "steps.jsonl: File too large.", "kind": "RecordsError"}
    lives = [{"what": "life", "time": 4.0, "step": 1, "resumed": True}, {"what": "life", "time": 9.0, "step": 2}]
    told = [{"what": "resumed", "time": 0.0, "step": step} for step in (1, 2)]
    lives[1]["resumed"] = True
    found = drilled(injected(0, 5.0), ended, lives[0], injected(1, 15.0), lives[1], *told, faults=END, same_bits=True)
    assert found.passed
    assert [one.effect for one in found.faults] == ["went on from step 1", "went on from step 2"]
    assert broken(drilled(same_bits=False)) == [
        "with and without the faults of the coordinator, the run ended with other bits"
    ]
    unseen = drilled(injected(0, 9.0), faults=(Fault("disk_full", 9.0, lasting=3.0),), same_bits=True)
    assert broken(unseen) == ["the full disk was reported in a sentence, and training ended"]


def test_what_is_done_again_counts_once() -> None:
    died = {"what": "died", "time": 12.0, "worker": 1, "text": "killed"}
    journal = [LIFE, died, {"what": "life", "time": 10.0, "step": 1}, died]
    assert len(EventLog(journal).all("died")) == 2
    assert len(EventLog(journal).kept("died")) == 1


def test_processes_that_are_left_are_a_failure() -> None:
    faulty = DrillRun(outcome=OUTCOME, journal=[LIFE], lives=1, leftovers=["python (123)"])
    baseline = DrillRun(outcome=OUTCOME, journal=[LIFE], lives=1)
    assert broken(Findings("", "virtual", "exact", 3, baseline, faulty, [], None, 5.0, True)) == [
        "left running: python (123)"
    ]


def test_the_report_says_all_of_it() -> None:
    from rich.console import Console

    found = drilled(injected(0, 5.0), faults=(*KILL, Fault("slow", 29.9, 2, 3.0, by=1.0)))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(fault_table(found), cost_table(found))
    text = console.export_text()
    assert "kill worker 1" in text
    assert "not noticed" in text
    assert "not injected: the run was over before" in text
    assert "seconds of training" in text
    assert verdict_line(found.verdicts[0]).startswith("kept")
    assert found.as_dict()["faults"][0]["fault"] == {"kind": "kill", "at": 5.0, "worker": 1}
    assert isinstance(found.faults[0], FaultFinding)
