"""Figures of the convergence bounds (Lemma 1, Theorems 1 and 2), beside training that meets their assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from erasurehead import problems, schemes
from erasurehead._internal.arrays import Array
from erasurehead.delays import Exponential
from erasurehead.engines import VirtualEngine
from erasurehead.optimizers import GradientDescent
from erasurehead.papers._erasurehead.bench import Bench
from erasurehead.papers._erasurehead.published import DELAYS_MEAN, N_WORKERS, TITLES, WAITS, Family, colour_of
from erasurehead.papers._exhibit import Exhibit, dress
from erasurehead.papers._numbers import Cell, FigureTable
from erasurehead.planning import Constants
from erasurehead.planning._constants import estimate_constants
from erasurehead.planning._convergence import Bound, lemma1, theorem1, theorem2
from erasurehead.planning._erasures import Erasures
from erasurehead.problems._linear import LinearProblem
from erasurehead.reports._canvas import Axes
from erasurehead.training import train

LOAD = 3
WAIT_FOR = WAITS[LOAD]
_ROWS, _COLUMNS, _STEPS, _SEEDS = 3_000, 20, 30, 20


@dataclass(frozen=True)
class _Curve:
    """A bound or a measurement, with the line it is drawn with."""

    label: str
    family: Family
    line: str
    values: Array


def example() -> tuple[LinearProblem, Constants]:
    """Return least squares on well-conditioned random data, and its constants when split into 30 tasks."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((_ROWS, _COLUMNS))
    y = X @ rng.standard_normal(_COLUMNS) + 0.1 * rng.standard_normal(_ROWS)
    problem = problems.LeastSquares(X, y, test=(X, y))  # so that `mse` is the objective itself
    return problem, estimate_constants(problem, N_WORKERS)


def bounds(id: str) -> Exhibit:
    """Return the bounds against steps, with the errors of real training under their assumptions."""
    problem, constants = example()
    erasures = Erasures(N_WORKERS, LOAD, WAIT_FOR)
    steps = np.arange(_STEPS + 1)

    def along(bound: Bound) -> Array:
        return np.array([bound.after(int(step)) for step in steps])

    exact = _measured(problem, constants, schemes.uncoded(N_WORKERS), 1.0 / constants.beta, seeds=1)
    scheme = schemes.erasurehead(N_WORKERS, LOAD, WAIT_FOR, rescale="expectation")
    rate = (1.0 - erasures.p) / constants.beta
    approximate = _measured(problem, constants, scheme, rate, _SEEDS)
    first = theorem1(constants, erasures, N_WORKERS)
    second = theorem2(constants, N_WORKERS, LOAD, WAIT_FOR)
    curves = [
        _Curve("Theorem 2, bound", "erasurehead", ":", along(second)),
        _Curve("Theorem 1, bound", "erasurehead", "--", along(first)),
        _Curve(f"ErasureHead, measured ({_SEEDS} seeds)", "erasurehead", "-", approximate),
        _Curve("Lemma 1, bound: exact gradient", "uncoded", "--", along(lemma1(constants))),
        _Curve("uncoded, measured", "uncoded", "-", exact),
    ]
    numbers = FigureTable.of(
        ("curve", "step", "error"),
        [(curve.label, int(step), float(curve.values[step])) for curve in curves for step in steps],
    )
    summary = FigureTable.of(
        ("curve", f"error after {_STEPS} steps"), [(curve.label, float(curve.values[-1])) for curve in curves]
    )
    notes = [
        f"Data: synthetic, least squares on {_ROWS:,} x {_COLUMNS} normal numbers; well-conditioned, so that the "
        f"bounds say something (mu = {constants.mu:.3g}, beta = {constants.beta:.3g}, sigma = {constants.sigma:.3g}).",
        f"{N_WORKERS} workers and tasks, c = {LOAD}, r = {WAIT_FOR}: p = {erasures.p:.3g}, q = {erasures.q:.3g}; "
        "exponential delays, late work is dropped (preempt), virtual engine.",
        "As in the theorems: plain gradient descent, the estimate divided by 1 - p, step (1 - p)/beta; uncoded: "
        "1/beta.",
        "The floors are loose: sigma is the longest gradient of a task on the whole way, which is that at its "
        "beginning, and Theorem 2 gives away another factor.",
    ]
    title = "Theory: the convergence bounds of Theorems 1 and 2, and what training does"
    return Exhibit(id, id, title, notes, numbers, summary, partial(_draw, curves=curves), "Convergence bounds")


def _measured(problem: LinearProblem, constants: Constants, scheme: schemes.Scheme, rate: float, seeds: int) -> Array:
    """Return f - f* after 0, 1, ... steps, the mean over the seeds."""
    lowest = problem.objective(problem.initial()) - constants.gap
    errors = np.zeros(_STEPS + 1)
    for seed in range(seeds):
        engine = VirtualEngine(Exponential(mean=DELAYS_MEAN, seed=seed))
        run = train(problem, scheme, GradientDescent(problem.initial(), rate), engine, _STEPS, tolerance=None)
        errors += np.array([point.metrics["mse"] - lowest for point in run.evaluations])
    return errors / seeds


def _draw(axes: Axes, curves: list[_Curve]) -> None:
    for curve in curves:
        # Below this, the error is that of f* itself.
        values = np.where(curve.values > 1e-9, curve.values, np.nan)
        axes.semilogy(values, curve.line, color=colour_of(curve.family), linewidth=2.0, label=curve.label)
    axes.set_ylim(1e-6, None)
    powers = [10.0**power for power in range(-6, 2)]
    axes.set_yticks(powers, [f"{value:g}" for value in powers])
    axes.set_xlim(0, _STEPS)
    heights = "error f(x) - f* (lower is better)"
    dress(axes, "steps", heights, loc="upper right", bbox_to_anchor=(1.0, 0.75), fontsize=9)


def constants_table(benches: Mapping[str, Bench], id: str) -> Exhibit:
    """Return what the bounds say about the paper's data sets, with constants estimated from them."""
    erasures = Erasures(N_WORKERS, LOAD, WAIT_FOR)
    rows: list[dict[str, Cell]] = []
    for name, bench in benches.items():
        of = estimate_constants(bench.experiment.problem, N_WORKERS)
        first, second = theorem1(of, erasures, N_WORKERS), theorem2(of, N_WORKERS, LOAD, WAIT_FOR)
        rows.append(
            {
                "data set": TITLES[name],
                "data": bench.kind,
                "mu": of.mu,
                "beta": of.beta,
                "sigma": of.sigma,
                "f(x0) - f*": of.gap,
                "floor of Theorem 1": first.floor,
                "floor of Theorem 2": second.floor,
                "is Theorem 1 informative?": "yes"
                if first.floor < of.gap
                else "no: its floor is above the first error",
            }
        )
    notes = [
        *(bench.described for bench in benches.values()),
        f"c = {LOAD}, r = {WAIT_FOR} of {N_WORKERS}; constants of the region that 50 steps of gradient descent cross.",
    ]
    numbers = FigureTable.of(tuple(rows[0]), [tuple(row.values()) for row in rows])
    return Exhibit(id, id, "Theory: what the bounds say of the data sets", notes, numbers, numbers)
