"""What a drill has found, for people: tables and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.documents import PlainData
from erasurehead.drills._findings import FaultFinding
from erasurehead.drills._supervisor import DrillRun
from erasurehead.drills._verdicts import DrillVerdict, Findings, Judged
from erasurehead.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

_MARKS = {True: "kept   ", False: "BROKEN ", None: "–      "}


def fault_table(findings: Findings) -> Table:
    """Return a table with one row a fault."""
    from rich import box
    from rich.table import Column, Table

    table = Table(
        Column("at", justify="right"),
        "fault",
        Column("noticed", justify="right"),
        Column("as", max_width=72),
        "and then",
        box=box.SIMPLE_HEAD,
        title=f"{counted('fault', len(findings.faults))} on the {findings.engine} engine: {findings.scheme}",
        title_justify="left",
    )
    for one in findings.faults:
        table.add_row(*_fault_row(one))
    return table


def _fault_row(one: FaultFinding) -> list[str]:
    at = f"{one.fault.at:.2f} s"
    if one.injected is None:
        return [at, str(one.fault), "–", f"not injected: {one.noticed}", ""]
    return [at, str(one.fault), "–" if one.after is None else _seconds(one.after), one.noticed or "–", one.effect]


def cost_table(findings: Findings) -> Table:
    """Return a table of what the fault schedule has cost: the baseline run beside the faulty one."""
    from rich import box
    from rich.table import Column, Table

    table = Table(
        "",
        *(Column(name, justify="right") for name in ("baseline", "faulty")),
        box=box.SIMPLE_HEAD,
        title="what it cost",
        title_justify="left",
    )
    baseline, faulty = _costs(findings.baseline), _costs(findings.faulty)
    for name in baseline | faulty:
        table.add_row(name, baseline.get(name, "–"), faulty.get(name, "–"))
    return table


def _costs(run: DrillRun) -> dict[str, str]:
    event_log, outcome = run.event_log, run.outcome or {}
    costs: dict[str, str] = {}
    if outcome:
        costs["seconds of training"] = f"{outcome['seconds']:.2f}"
        costs["steps"] = str(outcome["steps"])
        costs["steps taken again"] = str(run.redone)
        costs["training loss"] = f"{outcome['loss']:.9g}"
        metrics: PlainData = outcome["metrics"]
        costs |= {name: f"{value:.6g}" for name, value in metrics.items()}
        costs["messages received"] = f"{outcome['received'] / 1e6:.2f} MB"
        costs["workers at the end"] = ", ".join(map(str, outcome["workers"]))
    costs["deaths"] = str(len(event_log.kept("died")))
    costs["workers that joined"] = str(len(event_log.kept("joined")))
    costs["the code was resized"] = str(len(event_log.kept("resized")))
    costs["coordinators"] = str(run.lives)
    costs["seconds of real time"] = f"{run.seconds:.1f}"
    return costs


def verdict_line(verdict: DrillVerdict) -> str:
    """Return a verdict as a line."""
    return f"{_MARKS[verdict.kept]}{verdict.text}"


def conclusion(outcome: Judged) -> str:
    """Return the last line."""
    broken = sum(verdict.kept is False for verdict in outcome.verdicts)
    text = f"{broken} promise{'s were' if broken > 1 else ' was'} broken"
    if not broken:
        some = any(verdict.kept is None for verdict in outcome.verdicts)
        text = f"every promise{' that was tested' if some else ''} was kept"
    return f"{text}; the fault schedule, both runs and this report are in {outcome.folder}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 or seconds == 0 else f"{1e3 * seconds:.2g} ms"
