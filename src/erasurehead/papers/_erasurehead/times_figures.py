"""Figures of run times: Lemma 8 with the exact code's time corrected, beside simulation, and Theorem 3."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from erasurehead import schemes
from erasurehead.delays import ShiftedExponential
from erasurehead.papers._erasurehead.bounds_figures import LOAD, example
from erasurehead.papers._erasurehead.published import Family, colour_of
from erasurehead.papers._exhibit import Exhibit, dress
from erasurehead.papers._numbers import Cell, FigureTable
from erasurehead.planning._convergence import theorem3
from erasurehead.planning._simulation import simulate
from erasurehead.planning._step_times import all_groups, first_arrivals, harmonic, scaled
from erasurehead.reports._canvas import Axes
from erasurehead.schemes import Scheme

_RATE = 1.0 / LOAD
"""lambda, as in Theorem 3."""

_WORKERS = (30, 60, 120, 240, 480, 960)
_MANY = tuple(30 * 10**power for power in range(1, 10))
_SIMULATED = 4_000
_EPSILON = 0.02
"""The error to reach in Theorem 3, as a share of the first one."""

_TheoryCurve: TypeAlias = tuple[str, Family, str]
"""Label, family and line of a curve."""

_STEP: tuple[_TheoryCurve, ...] = (
    ("uncoded, (12)", "uncoded", "-"),
    ("exact code, (13) corrected", "exact", "-"),
    ("exact code, (13) as printed", "exact", ":"),
    ("ErasureHead, r-th arrival, (14)", "erasurehead", "-"),
)
_SIMULATION = "simulated: "
_STEP_TIME, _BOUND = "n times the time of a step", "n times the bound"


def waited(n: int) -> int:
    """Return r, the number of workers to wait for: 11/30 of all `n`."""
    return 11 * n // 30


def step_time(id: str) -> Exhibit:
    """Return the expected time of a step against the number of workers, by Lemma 8 and by simulation."""
    rows: list[Sequence[Cell]] = []
    for n in _WORKERS:
        law = scaled(n, LOAD, _RATE)
        times = (
            first_arrivals(scaled(n, 1, _RATE), n, n),
            all_groups(law, n, LOAD),
            LOAD / n + (harmonic(n) - harmonic(LOAD)) / (_RATE * n),
            first_arrivals(law, n, waited(n)),
        )
        rows += [(label, family, n, n * time, None) for (label, family, _), time in zip(_STEP, times, strict=True)]
        for scheme in (schemes.uncoded(n), schemes.exact(n, LOAD), schemes.erasurehead(n, LOAD, waited(n))):
            rows.append(_simulated(scheme, n))
    numbers = FigureTable.of(("curve", "family", "n", _STEP_TIME, "standard error"), rows)
    small = [row for row in numbers.rows() if row["n"] == _WORKERS[0]]
    summary = FigureTable.of(
        ("curve", f"{_STEP_TIME}, n = {_WORKERS[0]}", "standard error"),
        [(row["curve"], row[_STEP_TIME], row["standard error"]) for row in small],
    )
    notes = [
        f"Law of the paper's section 4: c tasks take c/n + Exp(rate lambda n/c), time in units of a full gradient on "
        f"one machine; c = {LOAD}, lambda = 1/{LOAD}, r = 11 n / 30.",
        f"Points are simulated, {_SIMULATED:,} steps each, every step with idle workers (preempt); no data are needed.",
        "The paper's (13) for the exact code is wrong: the last of n/c groups answers after H_(n/c) / (lambda n), not "
        "(H_n - H_c) / (lambda n).",
        "Simulated ErasureHead stops as its Algorithm 1 does, at r arrivals or all groups; (14) is for r arrivals.",
    ]
    title = "Theory: the expected time of a step (Lemma 8), and what simulation says"
    return Exhibit(
        id, id, title, notes, numbers, summary, partial(_draw_steps, numbers=numbers), "Time of a step, Lemma 8"
    )


def _simulated(scheme: Scheme, n: int) -> Sequence[Cell]:
    delays = ShiftedExponential(1.0 / n, 1.0 / (_RATE * n), seed=0, scale_with_load=True)
    result = simulate(scheme.decoder, scheme.rule, delays, _SIMULATED, residuals=False)
    return f"{_SIMULATION}{scheme.name}", scheme.name, n, n * result.seconds_per_step, n * result.error


def _draw_steps(axes: Axes, numbers: FigureTable) -> None:
    _lines(axes, numbers, _STEP, _STEP_TIME)
    for _, family, _ in (_STEP[0], _STEP[1], _STEP[3]):
        own = f"{_SIMULATION}{family}"
        axes.plot(
            numbers.column("n", curve=own),
            numbers.column(_STEP_TIME, curve=own),
            "o",
            color=colour_of(family),
            markeredgecolor="white",
            markersize=7,
            label="simulated" if family == "uncoded" else None,
        )
    axes.set_xticks(_WORKERS, [str(n) for n in _WORKERS])
    _dress(axes, "n × time of a step (lower is better)")


def _lines(axes: Axes, numbers: FigureTable, curves: Sequence[_TheoryCurve], heights: str, **marks: Any) -> None:
    for label, family, line in curves:
        axes.plot(
            numbers.column("n", curve=label),
            numbers.column(heights, curve=label),
            line,
            color=colour_of(family),
            linewidth=2.0,
            label=label,
            **marks,
        )
    axes.set_xscale("log")


def time_to_error(id: str) -> Exhibit:
    """Return the bounds of Theorem 3 on the time to reach an error, against the number of workers."""
    constants = example()[1]
    rows: list[Sequence[Cell]] = []
    for n in _MANY:
        times = theorem3(constants, n, LOAD, waited(n), _EPSILON * constants.gap)
        bounds = (times.uncoded, times.exact, times.exact_as_printed, times.approximate)
        rows += [
            (label, family, n, n * bound if np.isfinite(bound) else None)
            for (label, family, _), bound in zip(_TIMES, bounds, strict=True)
        ]
    numbers = FigureTable.of(("curve", "family", "n", _BOUND), rows)
    crossed = _crossing(numbers)
    summary = FigureTable.of(
        ("curve", *(f"{_BOUND}, n = {n:,}" for n in (_MANY[2], _MANY[-1]))),
        [
            (
                label,
                *(row[_BOUND] for row in numbers.rows() if row["curve"] == label and row["n"] in (_MANY[2], _MANY[-1])),
            )
            for label, _, _ in _TIMES
        ],
    )
    notes = [
        f"Constants of the least-squares example of the convergence bounds (kappa = {constants.kappa:.3g}); "
        f"c = {LOAD}, lambda = 1/{LOAD}, r = 11 n / 30, error {_EPSILON:.0%} of the first one; no data are needed.",
        "ErasureHead's bound begins where the error is above its noise floor; "
        + (f"it is below uncoded's from n = {crossed:,} on." if crossed else "it is nowhere below uncoded's here."),
        "These are bounds that give away constant factors: measured speed-ups (Figure 3) come with 30 workers.",
        "The exact code's bound rests on (13) as printed, and is no bound; corrected, c + 1 becomes 2 c.",
    ]
    title = "Theory: the time to reach an error (Theorem 3)"
    return Exhibit(
        id, id, title, notes, numbers, summary, partial(_draw_times, numbers=numbers), "Time to an error, Theorem 3"
    )


_TIMES: tuple[_TheoryCurve, ...] = (
    ("uncoded", "uncoded", "-"),
    ("exact code, corrected", "exact", "-"),
    ("exact code, as printed", "exact", ":"),
    ("ErasureHead", "erasurehead", "-"),
)


def _crossing(numbers: FigureTable) -> int | None:
    """Return the smallest n drawn from which ErasureHead's bound stays below uncoded's."""
    below = numbers.column(_BOUND, curve="ErasureHead") < numbers.column(_BOUND, curve="uncoded")
    return next((n for n, is_below in zip(_MANY, below, strict=True) if is_below), None)


def _dress(axes: Axes, heights: str) -> None:
    axes.minorticks_off()
    axes.set_ylim(0, None)
    dress(axes, "workers n", heights, loc="lower right", fontsize=9)


def _draw_times(axes: Axes, numbers: FigureTable) -> None:
    _lines(axes, numbers, _TIMES, _BOUND, marker="o", markersize=4)
    axes.set_xticks([1e2, 1e4, 1e6, 1e8, 1e10], ["100", "10 thousand", "1 million", "100 million", "10 billion"])
    _dress(axes, "n × bound on the time (lower is better)")
