"""Tables of codes: what they cost, and what is lost to stragglers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.decoding._analysis import Analysis
from erasurehead.decoding._base import EXACT
from erasurehead.errors import invalid
from erasurehead.reports._units import NOTHING

if TYPE_CHECKING:
    from rich.table import Table

SHARES = (0.1, 0.2, 0.3, 0.5)
"""Default fractions of stragglers in tables."""

_COSTS = (
    "Code",
    "Workers",
    "Tasks",
    "Load",
    "Copies of\nthe data",
    "Sent per step\n(gradients)",
    "Tolerates any\n(stragglers)",
    "Rounding\n(times)",
    "Decoder",
)
_RESIDUALS = (
    "Code",
    "Stragglers",
    "Share of\nworkers (%)",
    "Random\n(%)",
    "±",
    "One-step\n(%)",
    "Adversary\n(%)",
    "Bound\n(%)",
)

COST_NOTES = (
    "Load: tasks of the busiest worker. Sent: by each worker. Rounding: worst factor from the rounding of messages to "
    "the error of the gradient (≥: the worst that a search found; ≤: a bound)."
)
RESIDUAL_NOTES = (
    "Share of the gradient that is lost: residual over tasks. 0 is the full gradient, 100% is none at all. "
    "Random: mean over random stragglers, decoded optimally, ± its standard error where it is sampled. One-step: the "
    "same, with one weight for all, which may be farther off than none at all. Adversary: the worst stragglers (≥: the "
    "worst that a search found). Bound: spectral, for any stragglers."
)


def cost_table(analyses: Mapping[str, Analysis]) -> Table:
    """Return a table of the costs of codes, one row per code.

    Arguments:
        analyses: the analysis of each code, by the name to show; at least one.
    """
    return _table(
        _COSTS, [[name, *_costs(analysis)] for name, analysis in check_analyses(analyses).items()], COST_NOTES
    )


def residual_table(analyses: Mapping[str, Analysis], shares: Sequence[float] | None = None) -> Table:
    """Return a table of what is lost to stragglers, in percent: one row per code and number of stragglers.

    The name of a single code is left out.

    Arguments:
        analyses: the analysis of each code, by the name to show; at least one.
        shares: fractions of the workers, for which the nearest numbers of stragglers are shown; None for all numbers
            that were analysed.
    """
    rows: list[list[str]] = []
    for name, analysis in check_analyses(analyses).items():
        indices = range(len(analysis.curves.stragglers)) if shares is None else nearest(analysis, shares)
        rows += [[name if not row else "", *_residuals(analysis, index)] for row, index in enumerate(indices)]
    single = int(len(analyses) == 1)
    return _table(_RESIDUALS[single:], [row[single:] for row in rows], RESIDUAL_NOTES)


def nearest(analysis: Analysis, shares: Iterable[float]) -> list[int]:
    """Return the indices of the analysed numbers of stragglers that are nearest to fractions of the workers."""
    counts: IntArray = analysis.curves.stragglers
    wanted = [share * analysis.code.n_workers for share in shares]
    return sorted({int(np.argmin(np.abs(counts - value))) for value in wanted})


def percent(part: float) -> str:
    """Return a fraction in percent with two decimals, such that only zero is shown as zero."""
    if part != part:
        return NOTHING
    if abs(part) <= EXACT:
        return "0"
    return "< 0.01" if part < 0.5e-4 else f"{100 * part:.2f}"


def times(factor: float) -> str:
    """Return a factor with two digits, or without decimals if it is at least 100."""
    return f"{factor:.2g}" if factor < 100 else f"{factor:,.0f}"


def check_analyses(analyses: Mapping[str, Analysis]) -> Mapping[str, Analysis]:
    """Check that there is at least one analysis, and return them.

    Raises:
        InvalidArgument: if there is none.
    """
    if not analyses:
        raise invalid("analyses", "must have at least one code", dict(analyses))
    return analyses


def _costs(analysis: Analysis) -> list[str]:
    code, cost = analysis.code, analysis.cost
    tolerance = "none stated" if code.tolerance is None else str(code.tolerance)
    conditioning = analysis.conditioning
    rounding = (
        f"≥ {times(conditioning.amplification)}" if conditioning.bound is None else f"≤ {times(conditioning.bound)}"
    )
    return [
        str(code.n_workers),
        str(code.n_tasks),
        str(cost.load),
        f"{cost.storage:.3g}",
        f"{cost.upload:.3g}",
        tolerance,
        times(conditioning.amplification) if conditioning.proven else rounding,
        cost.decoder,
    ]


def _residuals(analysis: Analysis, index: int) -> list[str]:
    curves, tasks = analysis.curves, analysis.code.n_tasks
    count = int(curves.stragglers[index])
    worst = percent(float(curves.worst[index]) / tasks)
    bound = percent(float(curves.bound[index]) / tasks)
    error = float(curves.mean_error[index]) / tasks
    return [
        str(count),
        f"{100 * count / analysis.code.n_workers:.1f}",
        percent(float(curves.mean[index]) / tasks),
        percent(error) if error > EXACT else "",
        percent(float(curves.one_step[index]) / tasks),
        worst if curves.worst_proven[index] else f"≥ {worst}",
        bound,
    ]


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], notes: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), caption=notes, caption_justify="left")
    for header in headers:
        left = header in ("Code", "Decoder")
        table.add_column(header, justify="left" if left else "right", no_wrap=header != "Code", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
