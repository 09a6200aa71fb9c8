"""The picture of a drill: the faults on their workers, and how far each run had come when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from erasurehead._internal.user_files import StrPath
from erasurehead.drills._findings import NAMED, FaultFinding
from erasurehead.drills._schedule import KINDS, Kind
from erasurehead.drills._verdicts import Findings
from erasurehead.reports._canvas import (
    FAINT,
    INK,
    Axes,
    drawing,
    line_key,
    new_figure,
    patch_key,
    prepare_folder,
    run_style,
    save,
)

_COLOURS: Mapping[Kind, str] = {
    # Okabe and Ito's colours, which people of every kind of colour vision can tell apart.
    "kill": "#D55E00",
    "stop": "#0072B2",
    "slow": "#56B4E9",
    "corrupt": "#CC79A7",
    "disconnect": "#E69F00",
    "disk_full": "#009E73",
    "coordinator": "#000000",
}


_ROW = 0.24  # inches that a worker's name needs


def draw_drill(findings: Findings, folder: StrPath) -> list[Path]:
    """Draw a drill, and return the files.

    Arguments:
        findings: what it has found.
        folder: where to put them.

    Raises:
        MissingExtra: if matplotlib is not installed.
    """
    place = prepare_folder(folder)
    with drawing():
        rows = len({_row(one) for one in findings.faults})
        upper, lower = max(3.0, _ROW * rows), 2.0
        figure = new_figure(9.0, upper + lower + 1.0)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(upper, lower))
        _draw_faults(above, findings)
        _draw_progress(below, findings)
        kinds: list[Kind] = [kind for kind in KINDS if any(one.fault.kind == kind for one in findings.faults)]
        keys = [patch_key(_COLOURS[kind], kind.replace("_", " ")) for kind in kinds]
        figure.legend(
            handles=[*keys, line_key(INK, "noticed")],
            loc="outside upper left",
            ncols=8,
            handlelength=1.0,
            columnspacing=1.0,
            title="Faults",
            alignment="left",
        )
        return save(figure, place, "drill", ("png", "svg"))


def _draw_faults(axes: Axes, findings: Findings) -> None:
    end = _end(findings)
    rows = sorted({_row(one) for one in findings.faults})
    for one in findings.faults:
        if one.injected is None:
            continue
        length = (
            min(one.fault.until, end) if one.effect != NAMED else one.injected + (one.after or 0.0)
        ) - one.injected
        row, least = rows.index(_row(one)), 0.007 * end  # a kill has no length, but is to be seen
        axes.barh(row, max(length, least), left=one.injected, height=0.6, color=_COLOURS[one.fault.kind])
        if one.after is not None:  # above the bar, which may be no wider
            axes.vlines(one.injected + one.after, row + 0.1, row + 0.55, color=INK)
    axes.set_yticks(range(len(rows)), ["coordinator" if row < 0 else f"worker {row}" for row in rows])
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_title(f"{len(findings.faults)} faults on the {findings.engine} engine, and when they were noticed")


def _draw_progress(axes: Axes, findings: Findings) -> None:
    for index, (name, run) in enumerate((("baseline", findings.baseline), ("faulty", findings.faulty))):
        ends = (run.outcome or {}).get("ends", [])
        style = run_style(index)
        axes.plot(ends, range(1, len(ends) + 1), color=style.colour, linestyle=style.line, label=name)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("steps done")
    axes.set_xlim(0, _end(findings))
    axes.legend(loc="upper left", title="Run", alignment="left")


def _row(one: FaultFinding) -> int:
    return -1 if one.fault.worker is None else one.fault.worker


def _end(findings: Findings) -> float:
    ends: list[Any] = [
        run.outcome["seconds"] for run in (findings.baseline, findings.faulty) if run.outcome is not None
    ]
    return max(ends, default=math.nan)
