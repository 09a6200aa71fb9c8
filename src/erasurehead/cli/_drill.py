"""`erasurehead drill`: inject scheduled faults into a run, and report how it coped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from erasurehead._internal.documents import PlainData
from erasurehead.cli._options import FileOptions, OutputOptions, folder, option, options_of, pictures
from erasurehead.cli._output import Screen
from erasurehead.errors import check_count, invalid
from erasurehead.runs._config import Config

if TYPE_CHECKING:
    from erasurehead.drills._schedule import Kind
    from erasurehead.drills._verdicts import Judged

HELP = """
Rehearse the faults that clusters inflict on a run: does it survive them?

[bold]erasurehead drill[/bold]
  30 workers, ten minutes of virtual time: workers are killed, stopped,
  slowed, cut off and made to lie, the disk is full, the coordinator is
  killed.

[bold]erasurehead drill --engine processes --seconds 120[/bold]
  Two minutes with real processes. It works likewise with mpi, whose ranks are
  started by mpiexec, and with ray, whose cluster is started here.

[bold]erasurehead drill --seed 7 --kinds kill,corrupt[/bold]
  Another schedule, of these two kinds only. The same seed gives the same one.

[bold]erasurehead drill --schedule drills/virtual-7-1/faults.toml[/bold]
  The fault schedule of an earlier drill once more.

[bold]erasurehead drill lives 200 --workers 6[/bold]
  Two hundred short runs, each killed in a different way and then resumed.

[bold]erasurehead drill peers --policy 'local()' --seconds 60[/bold]
  Peers without a coordinator: one is killed, one is killed and comes back,
  and the network is cut and heals.

The same run is made twice: first without faults (the baseline), then with
them. The report says what was injected, when it was noticed and as what, what
it cost in time and accuracy, and whether each promise was kept. The exit code
is 1 if any was broken.
"""

_FAULTS = "Fault schedule"

SCHEME: Any = option(
    "--scheme, -s",
    "As for erasurehead train; by default exact with three replicas, two of which must agree.",
    panel="Workers and steps",
    metavar="SCHEME",
)


KEYS = (
    *("run.engine", "run.workers", "run.address", "data.source", "data.target", "data.categorical", "data.drop"),
    *("delays.model", "faults.on_suspicion", "run.records"),
)
"""The keys of the run into which faults are injected that have an option."""

TEXTS = {
    "run.engine": "virtual (the default), processes, mpi or ray.",
    "run.workers": "Number of workers; by default 30.",
    "run.address": "Address of a running Ray cluster, as HOST:PORT, or auto.",
    "data.source": "A small synthetic stand-in of covertype (the default), amazon or kc_housing, or a file of your "
    "own.",
    "delays.model": "Delays that are injected into all runs; by default exponential(mean=0.5, seed=0).",
    "faults.on_suspicion": "What to do about workers that seem to hang: report (name them, the default), replace "
    "or ignore.",
    "run.records": "What happens if the disk is full: training ends and is resumed (required, the default), or "
    "continues without records (optional).",
}
"""What is said of them."""


@options_of(Config, *KEYS, texts=TEXTS)
class SubjectOptions(FileOptions):
    """Options on the run into which faults are injected."""

    def of_scheme(self, scheme: str | None) -> PlainData:
        """Return the tables of the run file, with the scheme that was given, if any."""
        tables = self.tables()
        workers = tables.get("run", {}).get("workers")
        if workers is not None:
            check_count("--workers", workers, 3 if scheme is None else 1)  # three copies of each task
        return tables if scheme is None else {**tables, "scheme": scheme}


def run(
    *,
    seed: int = option("--seed", "Seed of the fault schedule; by default 0.", panel=_FAULTS, metavar="N", default=0),
    kinds: list[str] | None = option(
        "--kinds",
        "Kinds of faults, of kill, stop, slow, corrupt, disconnect, disk_full and coordinator; by default all.",
        panel=_FAULTS,
        metavar="A,B,...",
    ),
    schedule: str | None = option(
        "--schedule", "Faults from a TOML file, instead of drawn ones.", panel=_FAULTS, metavar="FILE"
    ),
    seconds: float = option(
        "--seconds",
        "Length of the baseline run on the engine's clock, which determines the number of steps; by default 600.",
        panel="Workers and steps",
        metavar="SECONDS",
        default=600.0,
    ),
    scheme: str | None = SCHEME,
    subject: SubjectOptions,
    out: str | None = folder("Folder for the fault schedule, the runs and the report; by default a new one in drills."),
    figures: bool = pictures("a figure", default=False),
    output: OutputOptions,
) -> None:
    """Rehearse what clusters do to a run."""
    from erasurehead.drills._drill import Drill
    from erasurehead.drills._report import cost_table, fault_table
    from erasurehead.drills._schedule import read_schedule

    screen, faults = Screen(output), None if schedule is None else read_schedule(schedule)
    drill = Drill(subject.of_scheme(scheme), seconds, seed, _kinds(kinds), faults, out)
    for fault in drill.schedule.faults:
        screen.say(f"{fault.at:10.2f} s  {fault}")
    findings = drill.run(screen.say)
    screen.result(findings.as_dict(), fault_table(findings), cost_table(findings), verdicts(findings))
    if figures:
        from erasurehead.drills._picture import draw_drill

        draw_drill(findings, Path(findings.folder))
    if not findings.passed:
        raise typer.Exit(1)


def verdicts(findings: Judged) -> str:
    """Return the verdicts of a drill as lines, the last of which is the conclusion."""
    from erasurehead.drills._report import conclusion, verdict_line

    return "\n".join([*map(verdict_line, findings.verdicts), "", conclusion(findings)])


def _kinds(given: list[str] | None) -> tuple[Kind, ...]:
    from erasurehead.drills._schedule import KINDS

    if not given:
        return KINDS
    text = ",".join(given)
    names = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    chosen: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in names)
    unknown = [name for name in names if name not in KINDS]
    if unknown or not chosen:
        raise invalid("--kinds", f"must be among {', '.join(KINDS)}", text)
    return chosen
