"""The delays that a plan is made for: a model, or draws from a trace, or what was fitted to one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from erasurehead.cli.delay_pages import short_model
from erasurehead.cli.options import RunOptions
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import TraceOptions, read_model
from erasurehead.delays import Bootstrap, Delays, Trace, fit_trace, slow_workers
from erasurehead.delays.absences import ABSENT, completed
from erasurehead.delays.fitting import Uncertain
from erasurehead.delays.stationarity import block_length, drift
from erasurehead.errors import DataError, InvalidArgument, check_count, invalid
from erasurehead.runs.names import CONFIG

if TYPE_CHECKING:
    from erasurehead.cli.plan_options import SourceOptions
    from erasurehead.runs.config import Config

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
        source, reading, options: of the command.
        current: setting in use that the user named.
        folder: that the trace will be written to.
        screen: to print on what is odd.
    """
    if (source.trace is None) == (options.delays is None):
        raise InvalidArgument("--trace or --delays must be given, and not both.")
    given = source.seconds_per_task
    if given is not None and not 0.0 <= given < math.inf:
        raise invalid("--seconds-per-task", "must be finite and at least 0", given)
    known = given is not None or source.scale_with_load
    if source.trace is None:
        if options.workers is None:
            raise invalid("--workers", "must be given with --delays", None)
        if source.absent is not None:
            raise invalid("--absent", "must come with --trace", source.absent, "a model has no missing rows")
        assert options.delays is not None
        model = read_model(options.delays, screen)
        said = f"{model}, {options.workers:,} workers"
        return Planned(model, options.workers, said, seconds_per_task=given or 0.0, cost_known=known)
    keep = source.keep or "rounds"
    if keep not in ("rounds", "workers", "pooled"):
        raise invalid("--keep", "must be rounds, workers or pooled", keep)
    absent = source.absent or "censored"
    if absent not in ABSENT:
        raise invalid("--absent", "must be censored, dead or late", absent)
    trace = reading.read(source.trace, screen)
    n_workers = trace.n_workers if options.workers is None else check_count("--workers", options.workers)
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
    config = _config(Path(source.trace).expanduser(), n_workers)
    before = None if current is not None or config is None else config.scheme
    cost = given
    if cost is None and config is not None and config.run.engine == "virtual":
        cost, known = config.run.seconds_per_task, config.run.seconds_per_task > 0.0 or known
    cost = cost or 0.0
    trace = _without_computing(trace, cost, screen)
    _name_the_slow(trace, screen)
    whole = completed(trace, absent)
    if whole.gone:
        screen.warn(
            f"Stopped answering for good: {', '.join(trace.names[worker] for worker in whole.gone)}. The plan is made "
            "for the others alone; --absent late says that they were only late."
        )
    moved = drift(whole.seconds)
    if moved is not None:
        left = trace.n_steps - moved.since
        screen.warn(
            f"Delays drift: from round {moved.since} on they are {moved.factor:.3g} times as long as before. The plan "
            f"is made from the last {left:,} rounds; it is as good as they are like the next ones."
        )
        trace = trace.steps(moved.since, trace.n_steps)
    if trace.censored.any():
        fitted = _fitted(trace, source.scale_with_load, screen)
        if fitted is not None:
            said = f"a distribution fitted to {trace.source}, {n_workers:,} workers"
            return Planned(fitted, n_workers, said, None, before, cost, known)
    drawn = Bootstrap.from_trace(trace, keep, scale_with_load=source.scale_with_load, absent=absent)
    block = 1 if keep == "pooled" else min(block_length(drawn.table), len(drawn.table))
    model = replace(drawn, source=str((folder / TRACE).absolute()), block=block)
    said = f"{len(drawn.table):,} rounds of {trace.source}, {n_workers:,} workers"
    if block > 1:
        said += f" ({block} successive rounds at a time, as they are alike)"
    return Planned(model, n_workers, said, trace, before, cost, known)


def _without_computing(trace: Trace, seconds_per_task: float, screen: Screen) -> Trace:
    """Return a trace without the time that its workers computed, which a plan adds for the load of each setting.

    Arguments:
        trace: with whole step times, and the load that each worker had.
        seconds_per_task: what computing a task takes.
        screen: to print on.
    """
    if not seconds_per_task:
        return trace
    short = float((trace.seconds < (1.0 - 1e-9) * seconds_per_task * trace.load).mean())
    if short > 0.0:
        screen.warn(
            f"{short:.1%} of the measured times are shorter than computing their tasks takes at "
            f"{seconds_per_task:g} s a task (--seconds-per-task): those workers are taken to have no delay."
        )
    return trace.without_computing(seconds_per_task)


def _name_the_slow(trace: Trace, screen: Screen) -> None:
    slow = slow_workers(trace)
    if slow:
        named = ", ".join(f"{item.name} ({item.factor:.3g} times the others)" for item in slow[:5])
        more = f" and {len(slow) - 5} more" if len(slow) > 5 else ""
        screen.warn(f"Persistently slow: {named}{more}. What only they hold is missing where nobody waits for them.")


def _fitted(trace: Trace, scale_with_load: bool, screen: Screen) -> Delays | None:
    """Return what is fitted to a trace with censored delays; None if nothing fits, so that it is drawn from itself."""
    hidden, total = int(trace.censored.sum()), len(trace.seconds)
    begin = f"{hidden:,} of {total:,} delays are censored: how slow those workers were is not known."
    try:
        fits = fit_trace(trace, scale_with_load=scale_with_load)
    except DataError:
        return None
    # What was not waited for is extrapolated: of families that fit as well (AIC within 2), the simplest errs the least.
    best = min((item for item in fits if item.aic - fits[0].aic < 2.0), key=lambda item: len(item.parameters))
    if best.bad:
        screen.warn(
            f"{begin} No distribution fits (the best, {short_model(best)}, has a P-P gap of {best.gap:.3f}): the plan "
            "is drawn from the trace itself, with what is censored drawn from what took longer; settings that wait "
            "for longer than the trace has seen are taken never to end."
        )
        return None
    screen.warn(
        f"{begin} The plan is made for the distribution that fits best, {short_model(best)} (P-P gap {best.gap:.3f}), "
        "and bands have the uncertainty of its parameters; times of settings that wait for more workers than this "
        "trace did are extrapolated."
    )
    return Uncertain(best.model, best.drawn())


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
