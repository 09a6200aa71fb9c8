"""The delays that a plan is made for: a model, or draws from a trace, or what was fitted to one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from erasurehead.cli.delay_pages import short_model
from erasurehead.cli.options import RunOptions
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import TraceOptions, read_model
from erasurehead.delays import Bootstrap, Delays, Trace, fit_trace, slow_workers
from erasurehead.errors import DataError, InvalidArgument, check_count, invalid
from erasurehead.runs.names import CONFIG

if TYPE_CHECKING:
    from erasurehead.cli.plan_options import SourceOptions

TRACE = "trace.csv"
"""The trace beside the run file, that the run draws from."""


@dataclass(frozen=True, eq=False)
class Planned:
    """What a plan is made for.

    Arguments:
        delays: how slow the workers are.
        n_workers: how many.
        said: what the delays are, for people.
        trace: what is drawn from, if it is a trace.
        current: the setting of the run that the trace is of, if it is one.
    """

    delays: Delays
    n_workers: int
    said: str
    trace: Trace | None = None
    current: str | None = None


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
        source, reading, options: of the command.
        current: setting in use that the user named.
        folder: that the trace will be written to.
        screen: to print on what is odd.
    """
    if (source.trace is None) == (options.delays is None):
        raise InvalidArgument("--trace or --delays must be given, and not both.")
    if source.trace is None:
        if options.workers is None:
            raise invalid("--workers", "must be given with --delays", None)
        assert options.delays is not None
        model = read_model(options.delays, screen)
        return Planned(model, options.workers, f"{model}, {options.workers:,} workers")
    keep = source.keep or "rounds"
    if keep not in ("rounds", "workers", "pooled"):
        raise invalid("--keep", "must be rounds, workers or pooled", keep)
    trace = reading.read(source.trace, screen)
    n_workers = trace.n_workers if options.workers is None else check_count("--workers", options.workers)
    if trace.n_workers == 1 and n_workers > 1 and keep != "pooled":
        raise invalid("--workers", "must be 1, as in the trace", n_workers, "--keep pooled draws for any number")
    if n_workers < 2:
        raise invalid(
            "--workers", "must be at least 2", n_workers,
            "one worker has nobody to wait for; --keep pooled draws for any number from one worker's delays",
        )  # fmt: skip
    before = None if current is not None else _current(Path(source.trace).expanduser(), n_workers)
    if trace.censored.any():
        fitted = _fitted(trace, source.scale_with_load, screen)
        return Planned(
            fitted, n_workers, f"a distribution fitted to {trace.source}, {n_workers:,} workers", None, before
        )
    if keep != "pooled" and n_workers > trace.n_workers:
        raise invalid(
            "--workers", f"must be at most the {trace.n_workers} workers of the trace", n_workers,
            "--keep pooled draws for any number",
        )  # fmt: skip
    drawn = Bootstrap.from_trace(trace, keep, scale_with_load=source.scale_with_load)
    model = replace(drawn, source=str((folder / TRACE).absolute()))
    said = f"{len(drawn.table):,} rounds of {trace.source}, {n_workers:,} workers"
    return Planned(model, n_workers, said, trace, before)


def _fitted(trace: Trace, scale_with_load: bool, screen: Screen) -> Delays:
    fits = fit_trace(trace, scale_with_load=scale_with_load)
    # What was not waited for is extrapolated: of families that fit as well (AIC within 2), the simplest errs the least.
    best = min((item for item in fits if item.aic - fits[0].aic < 2.0), key=lambda item: len(item.parameters))
    screen.warn(
        f"{best.n_censored:,} of {best.n:,} delays are censored: how slow those workers were is not known. The plan is "
        f"made for the distribution that fits best, {short_model(best)} (P-P gap {best.gap:.3f}); times of settings "
        "that wait for more workers than this trace did are extrapolated."
    )
    slow = slow_workers(trace)
    if slow:
        screen.warn(
            f"It takes all workers as alike, but {', '.join(item.name for item in slow[:5])} are persistently slow."
        )
    return best.model


def _current(place: Path, n_workers: int) -> str | None:
    """Return the scheme of the run that a trace is of, if it is one with as many workers."""
    from erasurehead.runs.config import read_config

    file = (place if place.is_dir() else place.parent) / CONFIG
    if place.suffix not in ("", ".jsonl") or not file.is_file():
        return None
    try:
        config = read_config(file)
    except (DataError, ValueError):
        return None
    return config.scheme if config.run.workers == n_workers else None
