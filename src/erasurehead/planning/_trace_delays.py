"""The delay model that a plan derives from a trace: draws from its rounds, or a distribution fitted to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from erasurehead.delays import Bootstrap, Delays, Trace, fit_trace, slow_workers
from erasurehead.delays._bootstrap import Keep
from erasurehead.delays._fitting import Uncertain
from erasurehead.delays._stationarity import block_length, drift
from erasurehead.delays._unobserved import Absent, completed
from erasurehead.errors import DataError, counted, some

Warn: TypeAlias = Callable[[str], None]
"""Receives a sentence for the user about an anomaly of a trace."""


@dataclass(frozen=True, eq=False)
class TraceDelays:
    """The delay model that was derived from a trace.

    Attributes:
        delays: the delay model.
        text: description of the model for the user.
        trace: the trace whose rounds are drawn; None if a distribution was fitted to it.
        block: number of successive rounds that are drawn together.
    """

    delays: Delays
    text: str
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
    of_network: bool = False,
) -> TraceDelays:
    """Return the delay model that a plan derives from a trace.

    Rounds before a drift are left out; if delays are censored, a distribution is fitted where one fits.

    Arguments:
        trace: the trace, of at least two workers unless they are pooled.
        n_workers: number of workers of the plan.
        keep: what is drawn together: see `Bootstrap.from_trace`.
        absent: how workers are treated that are absent from a round.
        seconds_per_task: computing time of a task, which is subtracted from measured times; 0 to subtract nothing.
        scale_with_load: whether delays grow with the number of tasks in a message.
        warn: called with sentences for the user: on slow workers, workers that have gone, drift, censored delays.
        source: text that names the source of the draws in the model; by default that of `Bootstrap.from_trace`.
        of_network: whether ranks train a network, so that a task is a rank's share of a batch.
    """
    asked = (
        "--seconds-per-sample says"
        if of_network
        else f"their tasks takes at {seconds_per_task:g} s a task (--seconds-per-task)"
    )
    trace = _without_computing(trace, seconds_per_task, asked, warn)
    _name_the_slow(trace, warn)
    if not scale_with_load:
        _tell_of_growth(trace, warn)
    whole = completed(trace, absent)
    if whole.gone:
        warn(
            f"These workers stopped answering for good: {', '.join(trace.names[worker] for worker in whole.gone)}. The "
            f"plan is made without them{'' if of_network else '; if they were only late, add --absent late'}."
        )
    moved = drift(whole.seconds)
    if moved is not None:
        left = trace.n_steps - moved.since
        warn(
            f"Delays drift: from round {moved.since} on they are {moved.factor:.3g} times as long as before. The plan "
            f"is made from the last {counted('round', left)} only, and holds if the next rounds are like them."
        )
        trace = trace.steps(moved.since, trace.n_steps)
    if trace.censored.any():
        fitted = _fitted(trace, scale_with_load, warn)
        if fitted is not None:
            return TraceDelays(fitted, f"a distribution fitted to {trace.source}")
    model = Bootstrap.from_trace(trace, keep, scale_with_load=scale_with_load, absent=absent)
    block = 1 if keep == "pooled" else min(block_length(model.table), len(model.table))
    text = f"{counted('round', len(model.table))} of {trace.source}"
    return TraceDelays(replace(model, source=source or model.source, block=block), text, trace, block)


def shorter_than_computing(trace: Trace, seconds_per_task: float) -> float:
    """Return the share of a trace's times that are shorter than the computing time of their tasks, from 0 to 1.

    Arguments:
        trace: a trace of whole step times, with the load of each worker.
        seconds_per_task: computing time of a task.
    """
    return float((trace.seconds < (1.0 - 1e-9) * seconds_per_task * trace.load).mean())


def _without_computing(trace: Trace, seconds_per_task: float, asked: str, warn: Warn) -> Trace:
    """Return a trace without computing times, which a plan adds again for the load of each setting.

    Arguments:
        trace: a trace of whole step times, with the load of each worker.
        seconds_per_task: computing time of a task; 0 returns the trace unchanged.
        asked: where that is from, for the warning.
        warn: called with sentences for the user.
    """
    if not seconds_per_task:
        return trace
    short = shorter_than_computing(trace, seconds_per_task)
    if short > 0.0:
        warn(
            f"{short:.1%} of the measured times are shorter than computing {asked}: those workers are assumed to have "
            "had no delay."
        )
    return trace.without_computing(seconds_per_task)


def _name_the_slow(trace: Trace, warn: Warn) -> None:
    slow = slow_workers(trace)
    if slow:
        named = some([f"{item.name} ({_times(item.factor)})" for item in slow], 5)
        warn(
            f"Persistently slow: {named}. Data that only they hold are missing from the gradient whenever "
            "nobody waits for them."
        )


def _tell_of_growth(trace: Trace, warn: Warn) -> None:
    """Say that delays grow with the load, where a trace has several loads and they rather do than not."""
    ends = [float(end) for end in (trace.load.min(), trace.load.max())]
    few, many = (float(np.median(trace.seconds[trace.load == load])) for load in ends)
    if few > 0.0 and many / few > math.sqrt(ends[1] / ends[0]) > 1.0:
        warn(
            f"Times grow with the load: with {counted('task', ends[1])} they are {many / few:.3g} times as long as "
            f"with {counted('task', ends[0])}, in the median. The plan draws them whatever the load: give "
            "--scale-with-load, or --seconds-per-task if it is computing that takes longer."
        )


def _fitted(trace: Trace, scale_with_load: bool, warn: Warn) -> Delays | None:
    """Return a distribution fitted to a trace with censored delays; None if none fits, so that rounds are drawn."""
    hidden, total = int(trace.censored.sum()), len(trace.seconds)
    begin = f"{hidden:,} of {total:,} delays are censored: how slow those workers were is not known."
    try:
        fits = fit_trace(trace, scale_with_load=scale_with_load)
    except DataError:
        return None
    # Censored delays are extrapolated: of families that fit equally well (AIC within 2), the simplest is the safest.
    best = min((item for item in fits if item.aic - fits[0].aic < 2.0), key=lambda item: len(item.parameters))
    if best.bad:
        warn(
            f"{begin} No distribution fits (the best, {best.short}, has a P-P gap of {best.gap:.3f}): the plan "
            "draws from the trace itself, and replaces censored delays by longer ones that were measured; settings "
            "that wait for longer than anything in the trace are assumed never to finish."
        )
        return None
    warn(
        f"{begin} The plan is made for the distribution that fits best, {best.short} (P-P gap {best.gap:.3f}), "
        "and the bands include the uncertainty of its parameters; times of settings that wait for more workers than "
        "this trace did are extrapolated."
    )
    return Uncertain(best.model, best.drawn())


def _times(factor: float) -> str:
    return f"{factor:.3g} times the others" if math.isfinite(factor) else "the others have no delay in most steps"
