"""The delays that a plan is made for: a model, or draws from a trace, or what was fitted to one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from erasurehead.cli.options import RunOptions
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import TraceOptions, read_model
from erasurehead.delays import Delays, Trace
from erasurehead.errors import DataError, invalid
from erasurehead.planning.trace_delays import drawn_from
from erasurehead.runs.names import CONFIG

if TYPE_CHECKING:
    from erasurehead.cli.plan_options import SourceOptions
    from erasurehead.delays.absences import Absent
    from erasurehead.delays.bootstrap import Keep
    from erasurehead.runs.config import Config

TRACE = "trace.csv"
"""The trace beside the run file, that the run draws from."""


@dataclass(frozen=True, eq=False)
class Planned:
    """What a plan is made for.

    Arguments:
        delays: how slow the workers are.
        n_workers: number of workers.
        said: what the delays are, for people.
        trace: what is drawn from, if it is a trace.
        current: the setting of the run that the trace is of, if it is one.
        seconds_per_task: computing time of a task: as the user said, or as the run that the trace is of took it.
        cost_known: whether anybody said what a further task costs.
    """

    delays: Delays
    n_workers: int
    said: str
    trace: Trace | None = None
    current: str | None = None
    seconds_per_task: float = 0.0
    cost_known: bool = False


def planned(
    source: SourceOptions,
    reading: TraceOptions,
    options: RunOptions,
    current: str | None,
    folder: Path,
    screen: Screen,
) -> Planned:
    """Return what the options name.

    Arguments:
        source, reading, options: of the command, checked by `check_options`.
        current: setting in use that the user named.
        folder: that the trace will be written to.
        screen: to print on what is odd.
    """
    given = source.seconds_per_task
    if source.trace is None:
        model = read_model(options.delays, screen)
        said = f"{model}, {options.workers:,} workers"
        return Planned(model, options.workers, said, seconds_per_task=given or 0.0, cost_known=given is not None)
    trace = reading.read(source.trace, screen)
    n_workers: int = trace.n_workers if options.workers is None else options.workers
    keep, absent = cast("Keep", source.keep or "rounds"), cast("Absent", source.absent or "censored")
    _check_workers(trace, n_workers, keep)
    config = _config(Path(source.trace).expanduser(), n_workers)
    cost, known = given, given is not None or source.scale_with_load
    if cost is None and config is not None and config.run.engine == "virtual":
        cost, known = config.run.seconds_per_task, config.run.seconds_per_task > 0.0 or known
    cost = cost or 0.0
    drawn = drawn_from(
        trace, n_workers, keep, absent, cost, scale_with_load=source.scale_with_load, warn=screen.warn,
        source=str((folder / TRACE).absolute()),
    )  # fmt: skip
    said = f"{drawn.said}, {n_workers:,} workers"
    if drawn.block > 1:
        said += f" ({drawn.block} successive rounds at a time, as they are alike)"
    before = None if current is not None or config is None else config.scheme
    return Planned(drawn.delays, n_workers, said, drawn.trace, before, cost, known)


def _check_workers(trace: Trace, n_workers: int, keep: str) -> None:
    """Raise if the delays of a trace cannot be drawn for so many workers."""
    if trace.n_workers == 1 and n_workers > 1 and keep != "pooled":
        raise invalid("--workers", "must be 1, as in the trace", n_workers, "--keep pooled draws for any number")
    if n_workers < 2:
        raise invalid(
            "--workers", "must be at least 2", n_workers,
            "one worker has nobody to wait for; --keep pooled draws for any number from one worker's delays",
        )  # fmt: skip
    if keep != "pooled" and n_workers > trace.n_workers:
        raise invalid(
            "--workers", f"must be at most the {trace.n_workers} workers of the trace", n_workers,
            "--keep pooled draws for any number",
        )  # fmt: skip


def _config(place: Path, n_workers: int) -> Config | None:
    """Return the configuration of the run that a trace is of, if it is one with as many workers."""
    from erasurehead.runs.config import read_config

    file = (place if place.is_dir() else place.parent) / CONFIG
    if place.suffix not in ("", ".jsonl") or not file.is_file():
        return None
    try:
        config = read_config(file)
    except (DataError, ValueError):
        return None
    return config if config.run.workers == n_workers else None
