"""Pages of `erasurehead delays`: traces, fits and summaries as plain data, tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from erasurehead._internal.documents import PlainData
from erasurehead.delays import Trace
from erasurehead.delays._fitting import Fit
from erasurehead.delays._slow_workers import SlowWorker
from erasurehead.delays._summaries import Summary
from erasurehead.errors import counted, some
from erasurehead.reports._units import NOTHING, Unit, time_unit

if TYPE_CHECKING:
    from rich.table import Table

    from erasurehead.delays._fitting import Ranking

_TIMES = ("mean", "scale", "median", "shift", "minimum")
_LISTED = 10  # largest number of slow workers to list
_RATIO = Unit(1.0, "", decimals=2)


def trace_facts(trace: Trace) -> PlainData:
    """Return the description of a trace as plain data."""
    return {
        "source": trace.source,
        "workers": trace.n_workers,
        "steps": trace.n_steps,
        "samples": len(trace.seconds),
        "censored": int(trace.censored.sum()),
        "remarks": list(trace.remarks()),
    }


def title(trace: Trace) -> str:
    """Return the description of a trace in one line."""
    n_censored = int(trace.censored.sum())
    hidden = f", {n_censored:,} of them censored" if n_censored else ""
    return (
        f"{trace.source}: {counted('delay', len(trace.seconds))} of {counted('worker', trace.n_workers)} in "
        f"{counted('step', trace.n_steps)}{hidden}"
    )


def fit_facts(item: Fit, best: Fit) -> PlainData:
    """Return a fit as plain data.

    Arguments:
        item: the fit.
        best: the best fit of the ranking, with which its AIC is compared.
    """
    return {
        "family": item.family,
        "parameters": dict(item.parameters),
        "intervals": {name: list(ends) for name, ends in item.intervals.items()},
        "model": str(item.model),
        "log_likelihood": item.log_likelihood,
        "aic": item.aic,
        "aic_above_best": item.aic - best.aic,
        "gap": item.gap,
        "gap_by_chance": chance(item),
        "n": item.n,
        "n_censored": item.n_censored,
    }


def chance(item: Fit) -> float:
    """Return the P-P gap that 95% of samples from the fitted distribution itself would not exceed."""
    return 1.36 / math.sqrt(max(1, item.n - item.n_censored))


def fits_table(fits: Sequence[Fit]) -> Table:
    """Return the ranking of the families as a table."""
    table = _table(
        ("Family", "left"),
        ("AIC", "right"),
        ("above best", "right"),
        ("P-P gap", "right"),
        ("Parameters, with 95% intervals", "left"),
    )
    for item in fits:
        parameters = "\n".join(_parameter(item, name) for name in item.parameters)
        table.add_row(item.family, f"{item.aic:,.1f}", f"{item.aic - fits[0].aic:,.1f}", f"{item.gap:.3f}", parameters)
    return table


def fit_notes(fits: Ranking) -> list[str]:
    """Return sentences on a ranking: how good the best fit is, which others are as good, and how to use it."""
    best, limit = fits[0], chance(fits[0])
    close = [item.family for item in fits[1:] if item.aic - best.aic < 2.0]
    notes = [f"Best: {best.short}"]
    if best.gap > 2.0 * limit:
        notes.append(
            f"No family fits well: a gap of {best.gap:.3f} is more than chance alone leaves with the right "
            f"family, about "
            f"{limit:.3f}. To plan, draw from the trace itself: erasurehead plan --trace."
        )
    else:
        notes.append(f"Its gap is {best.gap:.3f}; chance alone leaves about {limit:.3f} of the right family.")
    if close:
        notes.append(f"As good, by AIC: {', '.join(close)}.")
    exponent = best.parameters.get("exponent", math.inf)
    if exponent <= 1.0:
        notes.append("Its mean is infinite: the longer one waits for all workers, the longer the mean step becomes.")
    for reason in dict.fromkeys(fits.ruled_out.values()):
        names = [name for name, own in fits.ruled_out.items() if own == reason]
        notes.append(f"Ruled out ({', '.join(names)}): {reason}.")
    return notes


def slow_lines(slow: Sequence[SlowWorker]) -> list[str]:
    """Return sentences on workers that are always slow."""
    if not slow:
        return ["No worker is persistently slow."]
    named = some([f"{item.name} ({_times(item.factor)})" for item in slow], _LISTED)
    return [f"Persistently slow, by median over that of the others: worker {named}."]


def _times(factor: float) -> str:
    return f"{_RATIO.write(factor)} times" if math.isfinite(factor) else "theirs is 0"


def summary_facts(summary: Summary) -> PlainData:
    """Return a summary as plain data."""
    return {
        "workers": summary.n_workers,
        "steps": summary.n_steps,
        "samples": summary.n_samples,
        "censored": summary.n_censored,
        "mean": summary.mean,
        "quantiles": {f"{share:g}": value for share, value in summary.quantiles.items()},
        "longest_over_median": dict(zip(("median", "p95", "max"), _spread(summary), strict=True)),
        "slow_workers": [asdict(item) for item in summary.slow],
    }


def summary_table(summary: Summary) -> Table:
    """Return a summary as a table."""
    usual = [value for share, value in summary.quantiles.items() if share <= 0.5]
    # If most delays are 0, the unit is chosen from those that are not, as they would otherwise be rounded away.
    unit = time_unit(usual if any(usual) else [summary.mean, *(v for v in summary.quantiles.values() if v > 0.0)])
    table = _table(("Delay", "left"), (f"({unit.name})", "right"))
    names = {0.0: "shortest", 0.5: "median", 1.0: "longest"}
    for share, value in summary.quantiles.items():
        longer = "never" if not summary.n_censored else "not waited for"
        table.add_row(names.get(share, f"{share:.0%}"), unit.write(value) if math.isfinite(value) else longer)
    table.add_row("mean", "infinite" if math.isinf(summary.mean) else unit.write(summary.mean))
    typical, often, most = _spread(summary)
    at_least = "at least " if summary.n_censored else ""
    for name, value in (("median step", typical), ("95% of steps", often), ("worst step", most)):
        times = "never" if math.isinf(value) else f"{at_least}{_RATIO.write(value)} times"
        shown = NOTHING if math.isnan(value) else times
        table.add_row(f"longest over median, {name}", shown)
    return table


def _spread(summary: Summary) -> tuple[float, float, float]:
    spread = np.sort(summary.spread[~np.isnan(summary.spread)])
    if not len(spread):
        return math.nan, math.nan, math.nan
    median, high = (float(spread[math.ceil(share * len(spread)) - 1]) for share in (0.5, 0.95))
    return median, high, float(spread[-1])


def _parameter(item: Fit, name: str) -> str:
    unit = " s" if name in _TIMES else ""
    value = f"{name} {item.parameters[name]:.4g}{unit}"
    if name not in item.intervals:
        return value
    low, high = item.intervals[name]
    return f"{value} ({low:.4g} to {high:.4g})"


def _table(*columns: tuple[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for header, justify in columns:
        table.add_column(header, justify=justify, overflow="fold")
    return table
