"""The delays of a plan: a delay model, draws from a trace, or a distribution fitted to a trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from erasurehead.cli.options import RunOptions
from erasurehead.cli.plan_costs import Cost, known_cost
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import TraceOptions
from erasurehead.delays import Delays, Trace
from erasurehead.delays.absences import completed
from erasurehead.errors import DataError, counted, invalid
from erasurehead.planning.trace_delays import drawn_from
from erasurehead.runs.names import CONFIG

if TYPE_CHECKING:
    from erasurehead.cli.plan_options import SourceOptions
    from erasurehead.delays.absences import Absent
    from erasurehead.delays.bootstrap import Keep
    from erasurehead.runs.config import Config

TRACE = "trace.csv"
"""Name of the trace file next to the run file, from which the run draws its delays."""


@dataclass(frozen=True, eq=False)
class Planned:
    """The delays, workers and computing times of a plan.

    Arguments:
        delays: how slow the workers are.
        n_workers: number of workers.
        said: description of the delays for the user.
        cost: cost of computing a task.
        trace: trace from which delays are drawn, if there is one.
        current: setting in use: the one that the user named, or that of the run that recorded the trace; None if there
            is neither.
    """

    delays: Delays
    n_workers: int
    said: str
    cost: Cost
    trace: Trace | None = None
    current: str | None = None


@dataclass(frozen=True, eq=False)
class Named:
    """The delay model or trace that the options name, read and checked, but not yet used.

    Arguments:
        n_workers: number of workers.
        delays: the delay model; None if there is a trace.
        trace: the trace; None if there is a delay model.
        config: configuration of the run that recorded the trace, if there is one.
        cost: cost of computing a task; None if it is not known yet.
        by_default: where the number of workers is from, if the user did not give it; empty otherwise.
    """

    n_workers: int
    delays: Delays | None
    trace: Trace | None
    config: Config | None
    cost: Cost | None
    by_default: str = ""


def named(source: SourceOptions, reading: TraceOptions, options: RunOptions) -> Named:
    """Read and check the delay model or trace that the options name.

    Arguments:
        source, reading, options: options of the command, checked by `check_options`.

    Raises:
        DataError: if nothing can be drawn from the trace.
        InvalidArgument: if the trace has too few workers, or the model is not valid.
    """
    from erasurehead.runs.config.parts import build_delays
    from erasurehead.schemes.text import PAPER_WORKERS

    if source.trace is None:
        model, n_workers = build_delays(options.delays), options.workers or PAPER_WORKERS
        cost = known_cost(source.seconds_per_task, False, None, n_workers)
        return Named(n_workers, model, None, None, cost, "" if options.workers else " (the default; see --workers)")
    trace = reading.read(source.trace)
    n_workers = trace.n_workers if options.workers is None else options.workers
    _check_workers(trace, n_workers, source.keep or "rounds")
    completed(trace, cast("Absent", source.absent or "censored"))  # raises if nothing can be drawn from it
    config = _config(Path(source.trace).expanduser())
    cost = known_cost(source.seconds_per_task, source.scale_with_load, config, n_workers)
    return Named(n_workers, None, trace, config, cost, "" if options.workers else " (as in the trace)")


def planned(
    given: Named, source: SourceOptions, cost: Cost, current: str | None, folder: Path, screen: Screen
) -> Planned:
    """Return the delays of a plan.

    Arguments:
        given: the delay model or trace.
        source: options of the command.
        cost: cost of computing a task.
        current: setting in use that the user named, if any.
        folder: folder in which the trace will be written.
        screen: prints warnings.
    """
    workers = f"{counted('worker', given.n_workers)}{given.by_default}"
    if given.trace is None:
        assert given.delays is not None
        return Planned(given.delays, given.n_workers, f"{given.delays}, {workers}", cost)
    keep, absent = cast("Keep", source.keep or "rounds"), cast("Absent", source.absent or "censored")
    drawn = drawn_from(
        given.trace,
        given.n_workers,
        keep,
        absent,
        cost.in_trace,
        scale_with_load=source.scale_with_load,
        warn=screen.warn,
        source=str((folder / TRACE).absolute()),
    )
    said = f"{drawn.said}, {workers}"
    if drawn.block > 1:
        said += f" ({drawn.block} successive rounds at a time, as they are alike)"
    config = given.config
    alike = config is not None and config.run.workers == given.n_workers
    before = config.scheme if config is not None and alike and current is None else None
    return Planned(drawn.delays, given.n_workers, said, cost, drawn.trace, before)


def _check_workers(trace: Trace, n_workers: int, keep: str) -> None:
    """Raise if the delays of a trace cannot be drawn for this number of workers."""
    if trace.n_workers == 1 and n_workers > 1 and keep != "pooled":
        raise invalid("--workers", "must be 1, as in the trace", n_workers, "--keep pooled draws for any number")
    if n_workers < 2:
        raise invalid(
            "--workers",
            "must be at least 2",
            n_workers,
            "one worker has nobody to wait for; --keep pooled draws for any number from one worker's delays",
        )
    if keep != "pooled" and n_workers > trace.n_workers:
        raise invalid(
            "--workers",
            f"must be at most the {trace.n_workers} workers of the trace",
            n_workers,
            "--keep pooled draws for any number",
        )


def _config(place: Path) -> Config | None:
    """Return the configuration of the run that recorded a trace; None if it is not that of a run."""
    from erasurehead.runs.config import read_config

    file = (place if place.is_dir() else place.parent) / CONFIG
    if place.suffix not in ("", ".jsonl") or not file.is_file():
        return None
    try:
        return read_config(file)
    except (DataError, ValueError):
        return None
