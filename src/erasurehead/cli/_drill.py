"""`erasurehead drill`: inject scheduled faults into a run, and report how it coped."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from erasurehead.cli._grouping import refuse_others
from erasurehead.cli._options import OutputOptions, folder, option, pictures, shared, value_of
from erasurehead.cli._screen import Screen
from erasurehead.errors import InvalidArgument, check_count, invalid

if TYPE_CHECKING:
    from erasurehead.drills._drill import DrillSettings
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

[bold]erasurehead drill --peers 'local()' --workers 10 --seconds 60[/bold]
  Peers without a coordinator, under this wait policy: one is killed, one is
  killed and comes back, and the network is cut and heals.

[bold]erasurehead drill --lives 200 --workers 6[/bold]
  Two hundred short runs, each killed in a different way and then resumed.

The same run is made twice: first without faults (the baseline), then with
them. The report says what was injected, when it was noticed and as what, what
it cost in time and accuracy, and whether each promise was kept. The exit code
is 1 if any was broken.
"""

_FAULTS, _RUN = "Fault schedule", "Workers and steps"


@dataclass(frozen=True)
class FaultOptions:
    """Options on the faults that are injected."""

    lives: int | None = option(
        "--lives",
        "Instead of one long run, N short ones, each killed in another way: workers, coordinator or both, at "
        "the start, in the middle or while files are written. One verdict for all.",
        panel=_FAULTS,
        metavar="N",
    )
    seed: int = option("--seed", "Seed of the fault schedule.", panel=_FAULTS, metavar="N", shown=True, default=0)
    kinds: list[str] | None = option(
        "--kinds",
        "Kinds of faults, of kill, stop, slow, corrupt, disconnect, disk_full and coordinator; by default all.",
        panel=_FAULTS,
        metavar="A,B,...",
    )
    schedule: str | None = option(
        "--schedule", "Faults from a TOML file, instead of drawn ones.", panel=_FAULTS, metavar="FILE"
    )


@dataclass(frozen=True)
class SubjectOptions:
    """Options on the run into which faults are injected."""

    engine: str = shared("run.engine", text="virtual, processes, mpi or ray.", shown=True, default="virtual")
    workers: int = shared("run.workers", text="Number of workers.", shown=True, default=30)
    seconds: float = option(
        "--seconds",
        "Length of the baseline run on the engine's clock, which determines the number of steps.",
        panel=_RUN,
        metavar="SECONDS",
        shown=True,
        default=600.0,
    )
    scheme: str | None = option(
        "--scheme, -s",
        "As for erasurehead train; by default exact with three replicas, two of which must agree.",
        panel=_RUN,
        metavar="SCHEME",
    )
    peers: str | None = option(
        "--peers",
        "Instead of workers with a coordinator, peers that wait by this policy: 'full()', 'dynamic()', "
        "'local()', ... (see erasurehead consensus --help).",
        panel=_RUN,
        metavar="POLICY",
    )
    data: str = shared(
        "data.source",
        text="A small synthetic stand-in of amazon, kc_housing or covertype, or a file of your own.",
        panel=_RUN,
        shown=True,
        default="covertype",
    )
    label: str | None = shared("data.target", panel=_RUN)
    categorical: bool = shared("data.categorical", panel=_RUN, off=False, default=False)
    drop: list[str] | None = shared("data.drop", panel=_RUN)
    delays: str = shared(
        "delays.model",
        text="Delays that are injected into both runs.",
        panel=_RUN,
        shown=True,
        default="exponential(mean=0.5, seed=0)",
    )
    on_suspicion: str = shared(
        "faults.on_suspicion",
        text="What to do about workers that seem to hang: report (name them), replace or ignore.",
        panel=_RUN,
        shown=True,
        default="report",
    )
    address: str | None = shared("run.address", text="Address of a running Ray cluster, as HOST:PORT, or auto.")
    records: str = shared(
        "run.records",
        text="What happens if the disk is full: training ends and is resumed (required), or continues without "
        "records (optional).",
        shown=True,
        default="required",
    )


@dataclass(frozen=True)
class ReportOptions:
    """Options on the files of the drill."""

    out: str | None = folder("Folder for the fault schedule, the runs and the report; by default a new one in drills.")
    figures: bool = pictures("a figure", default=False)


def run(*, faults: FaultOptions, subject: SubjectOptions, report: ReportOptions, output: OutputOptions) -> None:
    """Rehearse what clusters do to a run."""
    screen = Screen(output)
    if subject.peers is not None:
        passed = _peers(subject.peers, faults, subject, report, screen)
    elif faults.lives is not None:
        passed = _live(faults.lives, faults, subject, report, screen)
    else:
        passed = _scheduled(faults, subject, report, screen)
    if not passed:
        raise typer.Exit(1)


def _scheduled(faults: FaultOptions, subject: SubjectOptions, report: ReportOptions, screen: Screen) -> bool:
    from erasurehead.drills._drill import Drill
    from erasurehead.drills._report import cost_table, fault_table
    from erasurehead.drills._schedule import read_schedule

    schedule = None if faults.schedule is None else read_schedule(faults.schedule)
    drill = Drill(_settings(faults, subject), schedule, report.out)
    for fault in drill.schedule.faults:
        screen.say(f"{fault.at:10.2f} s  {fault}")
    findings = drill.run(screen.say)
    screen.result(findings.as_dict(), fault_table(findings), cost_table(findings), _verdicts(findings))
    if report.figures:
        from erasurehead.drills._picture import draw_drill

        draw_drill(findings, Path(findings.folder))
    return findings.passed


def _live(lives: int, faults: FaultOptions, subject: SubjectOptions, report: ReportOptions, screen: Screen) -> bool:
    from erasurehead.drills._lives import Lives

    refuse_others(("lives", "seed"), "must be left out with --lives, which are struck by kills only", faults)
    taken = {"out", *(field.name for field in fields(subject) if field.name != "seconds")}
    refuse_others(taken, "must be left out with --lives", report, subject)
    findings = Lives(_settings(faults, subject), lives, report.out).run(screen.say)
    broken = [f"life {one.number}, {one.strike}: {text}" for one in findings.broken for text in one.broken]
    screen.result(findings.as_dict(), "\n".join([*broken, f"{findings.verdict}; the report is in {findings.folder}"]))
    return findings.passed


def _peers(policy: str, faults: FaultOptions, subject: SubjectOptions, report: ReportOptions, screen: Screen) -> bool:
    from erasurehead.consensus._drill import PeerDrill

    taken = ("peers", "engine", "workers", "seconds", "seed", "delays", "out")
    refuse_others(taken, "must be left out with --peers", faults, subject, report)
    try:
        drill = PeerDrill(
            policy,
            engine=subject.engine,
            peers=subject.workers,
            seconds=subject.seconds,
            seed=faults.seed,
            delays=subject.delays,
        )
    except InvalidArgument as error:
        names = {"peers": "--workers", "engine": "--engine", "seconds": "--seconds", "policy": "--peers"}
        raise error.about(names[error.subject]) if error.subject in names else error from None
    findings = drill.run(screen.say, report.out)
    screen.result(findings.as_dict(), _verdicts(findings))
    return findings.passed


def _settings(faults: FaultOptions, subject: SubjectOptions) -> DrillSettings:
    from erasurehead.drills._drill import SCHEME, DrillSettings

    check_count("--workers", subject.workers, 3 if subject.scheme is None else 1)  # three copies of each task
    given = {name: value for name, value in asdict(subject).items() if name != "peers"}
    given |= {"scheme": subject.scheme or SCHEME, "drop": tuple(value_of("drop", subject.drop or ()))}
    return DrillSettings(seed=faults.seed, kinds=_kinds(faults.kinds), **given)


def _verdicts(findings: Judged) -> str:
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
