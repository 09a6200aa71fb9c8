"""What a plan takes the delays of a trace to be: draws from its rounds, or a distribution that was fitted to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from erasurehead.delays import Bootstrap, Delays, Trace, fit_trace, slow_workers
from erasurehead.delays.absences import Absent, completed
from erasurehead.delays.bootstrap import Keep
from erasurehead.delays.fitting import Uncertain
from erasurehead.delays.stationarity import block_length, drift
from erasurehead.errors import DataError

Warn: TypeAlias = Callable[[str], None]
"""Takes a sentence for people on what is odd about a trace."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the delays of a trace are taken to be.

    Attributes:
        delays: the model.
        said: what it is, for people.
        trace: what is drawn from; None where a distribution was fitted to it.
        block: so many successive rounds are drawn at a time.
    """

    delays: Delays
    said: str
    trace: Trace | None = None
    block: int = 1


def drawn_from(
    trace: Trace,
    n_workers: int,
    keep: Keep,
    absent: Absent,
    seconds_per_task: float,
    scale_with_load: bool,
    warn: Warn,
    source: str = "",
) -> Drawn:
    """Return what a plan takes the delays of a trace to be.

    Arguments:
        trace: with at least two workers, unless they are pooled.
        n_workers: how many the plan is for.
        keep: what stays together: see `Bootstrap.from_trace`.
        absent: what became of workers that a round has no row of.
        seconds_per_task: computing time of a task, which is taken out of measured times; 0 for none.
        scale_with_load: whether delays grow with the tasks of a message.
        warn: told what a person should know: who is slow, who has gone, drift, censored delays.
        source: where the model says that it draws from.
    """
    trace = _without_computing(trace, seconds_per_task, warn)
    _name_the_slow(trace, warn)
    whole = completed(trace, absent)
    if whole.gone:
        warn(
            f"Stopped answering for good: {', '.join(trace.names[worker] for worker in whole.gone)}. The plan is made "
            "for the others alone; --absent late says that they were only late."
        )
    moved = drift(whole.seconds)
    if moved is not None:
        left = trace.n_steps - moved.since
        warn(
            f"Delays drift: from round {moved.since} on they are {moved.factor:.3g} times as long as before. The plan "
            f"is made from the last {left:,} rounds; it is as good as they are like the next ones."
        )
        trace = trace.steps(moved.since, trace.n_steps)
    if trace.censored.any():
        fitted = _fitted(trace, scale_with_load, warn)
        if fitted is not None:
            return Drawn(fitted, f"a distribution fitted to {trace.source}")
    model = Bootstrap.from_trace(trace, keep, scale_with_load=scale_with_load, absent=absent)
    block = 1 if keep == "pooled" else min(block_length(model.table), len(model.table))
    said = f"{len(model.table):,} rounds of {trace.source}"
    return Drawn(replace(model, source=source or model.source, block=block), said, trace, block)


def shorter_than_computing(trace: Trace, seconds_per_task: float) -> float:
    """Return the share of a trace's times that are shorter than computing their tasks takes.

    Arguments:
        trace: with whole step times, and the load that each worker had.
        seconds_per_task: what computing a task takes.
    """
    return float((trace.seconds < (1.0 - 1e-9) * seconds_per_task * trace.load).mean())


def _without_computing(trace: Trace, seconds_per_task: float, warn: Warn) -> Trace:
    """Return a trace without the time that its workers computed, which a plan adds for the load of each setting.

    Arguments:
        trace: with whole step times, and the load that each worker had.
        seconds_per_task: what computing a task takes.
        warn: told what a person should know.
    """
    if not seconds_per_task:
        return trace
    short = shorter_than_computing(trace, seconds_per_task)
    if short > 0.0:
        warn(
            f"{short:.1%} of the measured times are shorter than computing their tasks takes at "
            f"{seconds_per_task:g} s a task (--seconds-per-task): those workers are taken to have no delay."
        )
    return trace.without_computing(seconds_per_task)


def _name_the_slow(trace: Trace, warn: Warn) -> None:
    slow = slow_workers(trace)
    if slow:
        named = ", ".join(f"{item.name} ({item.factor:.3g} times the others)" for item in slow[:5])
        more = f" and {len(slow) - 5} more" if len(slow) > 5 else ""
        warn(f"Persistently slow: {named}{more}. What only they hold is missing where nobody waits for them.")


def _fitted(trace: Trace, scale_with_load: bool, warn: Warn) -> Delays | None:
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
        warn(
            f"{begin} No distribution fits (the best, {best.short}, has a P-P gap of {best.gap:.3f}): the plan "
            "is drawn from the trace itself, with what is censored drawn from what took longer; settings that wait "
            "for longer than the trace has seen are taken never to end."
        )
        return None
    warn(
        f"{begin} The plan is made for the distribution that fits best, {best.short} (P-P gap {best.gap:.3f}), "
        "and bands have the uncertainty of its parameters; times of settings that wait for more workers than this "
        "trace did are extrapolated."
    )
    return Uncertain(best.model, best.drawn())
