"""What `time_to_target.py`, and the benchmarks beside it, time: data, laws of the delays, and runs on the clock.

A time is that of the engine's virtual clock at the first step whose model is within the level: the delays of thirty
workers, the time of each task, and all rounds that the method asks for. The model is the newest one, of every method
alike, whether the method knows its objective yet or not. The gap is (f(x) - f*) / (f(x0) - f*), evaluated off the
clock.

How long a task takes was measured once, alone, and stands in `time_to_target.json`: all runs, today's and those of the
search, have the same clock to the bit. `python benchmarks/time_to_target.py --measure` measures it anew.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead import delays, engines, optimizers, training
from erasurehead._internal.arrays import Array
from erasurehead.datasets import Dataset
from erasurehead.delays import _clock
from erasurehead.errors import Diverged
from erasurehead.optimizers import _base
from erasurehead.planning._task_times import measure_tasks
from erasurehead.problems import LeastSquares, LogisticRegression, Problem
from erasurehead.runs import Experiment
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.schemes._text import parse_rate
from erasurehead.training import find_optimum
from erasurehead.training._optimum import Optimum

WORKERS = 30
MEAN = 0.5  # seconds that a worker is late, for each law
LEVELS = {"1e-1": 1e-1, "1e-2": 1e-2, "1e-3": 1e-3, "1e-6": 1e-6}
DATA = ("covertype", "kc_housing", "amazon")
LAWS = ("exponential", "by load", "trace desktop", "trace mbp")
LATE = ("carry", "preempt")
PAPER = "erasurehead(load=3, wait_for=11)"
TABLE = Path(__file__).with_name("time_to_target.json")
SORTED = "sorted "  # before the name of a data set: its rows in the order of what is to be predicted
MOST_SECONDS, MOST_STEPS = 600.0, 4000
_TRACES = {"trace desktop": ("desktop_long", "Canada"), "trace mbp": ("mbp", "London")}
_RUNAWAY = 1e6  # of a gap, beyond which a run is given up
_STALLED = 200  # steps, over the last half of which the best gap must fall by a twentieth


@dataclass
class Reached:
    """When each level was reached, in seconds of the virtual clock, and what the coordinator itself took."""

    times: dict[str, float] = field(default_factory=dict[str, float])
    steps: int = 0
    own: float = 0.0  # seconds of the optimizer's own work a step
    best: float = 1.0  # the least gap
    seconds: float = 0.0  # until it was given up, or all was reached
    stalled: bool = False
    diverged: bool = False


@cache
def table() -> dict[str, Any]:
    """Return what was measured and tuned before: the seconds of a task, and the cells of the search."""
    found: dict[str, Any] = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    return {"tasks": {}, "cells": {}, **found}


@cache
def experiment(data: str) -> Experiment:
    tables = {"data": {"source": data}, "run": {"engine": "virtual", "preset": "paper", "workers": WORKERS}}
    return Experiment.from_config(tables)


@cache
def problem_of(data: str) -> Problem:
    """Return what is minimised; of `"sorted NAME"` the same, with tasks that differ as much as they can."""
    found = experiment(data.removeprefix(SORTED))
    if not data.startswith(SORTED):
        return found.problem
    assert isinstance(found.data, Dataset)
    assert isinstance(found.problem, LeastSquares | LogisticRegression)
    rows = np.argsort(found.data.y_train, kind="stable")
    return type(found.problem)(found.data.X_train[rows], found.data.y_train[rows], l2=found.problem.l2)


@cache
def optimum(data: str) -> Optimum:
    if data.startswith(SORTED):
        return optimum(data.removeprefix(SORTED))
    problem = problem_of(data)
    return find_optimum(problem, problem.initial())


def measured(data: str) -> float:
    """Return the seconds of a task as they are now, in one process with nothing beside it: the median of five tries."""
    problem = problem_of(data)
    return float(np.median([measure_tasks(problem, WORKERS).typical for _ in range(5)]))


def task_seconds(data: str) -> float:
    """Return the seconds of a task as they were measured once; as they are now if they never were."""
    known: dict[str, float] = table()["tasks"]
    data = data.removeprefix(SORTED)
    if data not in known:
        known[data] = measured(data)
    return known[data]


def law(name: str, seed: int) -> delays.Delays:
    """Return delays with a mean of half a second: exponential, likewise and growing with the load, or of a trace.

    Traces are two of real AWS Lambda workers, in seconds as they were recorded, scaled; their rounds are half a second
    apart on the clock, whatever the steps are.
    """
    if name in _TRACES:
        rounds = _recorded(*_TRACES[name])
        return _clock.AlongClock(_clock.InOrder(rounds, start=seed * 7 % len(rounds)), every=MEAN)
    return delays.Exponential(MEAN, seed=seed, scale_with_load=name == "by load")


@cache
def _recorded(name: str, region: str) -> Array:
    """Return the rounds of a trace, shape (rounds, 30), with a mean of 0.5 s."""
    folder = Path(os.environ["ERASUREHEAD_DATA"]) / "traces" / "aws_lambda"
    (path,) = folder.glob(f"*{name}*.csv.gz")
    columns = {"step": "round", "seconds": "latency_s"}
    seconds = delays.Trace.read(path, columns, {"region": region, "load": 0.0}).table()[:, :WORKERS]
    whole = seconds[np.isfinite(seconds).all(axis=1)]
    return whole * (MEAN / whole.mean())


class Clocked(optimizers.Optimizer):
    """Any optimizer, with a clock beside it: all is as that one has it, and `seconds` is what its work took."""

    def __init__(self, timed: optimizers.Optimizer) -> None:
        super().__init__(timed.x)
        self.timed, self.seconds = timed, 0.0
        for name in ("kinds", "proximal", "remedy", "max_points"):  # of the class, that is
            setattr(self, name, getattr(timed, name))

    def begin(self, problem: Problem, early: Any = "", lossy: bool = False) -> None:
        self.timed.begin(problem, early, lossy)
        self._follow()

    def _follow(self) -> None:
        inner = self.timed
        self.x, self.step, self.rejected, self.penalty = inner.x, inner.step, inner.rejected, inner.penalty

    @property
    def best(self) -> Array:
        return self.timed.best

    @property
    def known(self) -> Array:
        return self.timed.known

    @property
    def trying(self) -> bool:
        return self.timed.trying

    @property
    def converged(self) -> bool:
        return self.timed.converged

    @property
    def decision(self) -> Mapping[str, Any]:
        return self.timed.decision

    def ask(self) -> engines.Order:
        begin = time.thread_time()  # what other programs take away meanwhile is no work of the coordinator
        order = self.timed.ask()
        self.seconds += time.thread_time() - begin
        return order

    def tell(self, answer: _base.Answer) -> None:
        begin = time.thread_time()
        self.timed.tell(answer)
        self.seconds += time.thread_time() - begin
        self._follow()


class _Enough(Exception):
    """Nothing more can come of a run."""


class _Watch(training.Callback):
    """Takes the time of each level, and ends a run of which nothing more can come."""

    def __init__(self, data: str, limits: Mapping[str, float], clocked: Clocked, own: bool) -> None:
        self.problem, self.optimum, self.limits = problem_of(data), optimum(data), dict(limits)
        self.found = Reached()
        self._clocked, self._own = clocked, own
        self._best: list[float] = []

    def on_step_end(self, row: training.StepRow, x: Array) -> None:
        gap = self.optimum.gap(self.problem.objective(x))
        now = row.end + (self._clocked.seconds if self._own else 0.0)
        self.found.steps, self.found.seconds = row.step + 1, now
        for level, depth in LEVELS.items():
            if gap <= depth and level not in self.found.times:
                self.found.times[level] = now
        self._best.append(min(gap, self._best[-1] if self._best else gap))
        self.found.best, self.found.diverged = self._best[-1], gap > _RUNAWAY
        open_ = [limit for level, limit in self.limits.items() if level not in self.found.times]
        done = len(self._best)
        self.found.stalled = done >= _STALLED and self._best[-1] > 0.95 * self._best[done // 2]
        if not open_ or now > max(open_) or self.found.stalled or gap > _RUNAWAY:
            raise _Enough


def timed(
    data: str,
    late: str,
    model: delays.Delays,
    scheme: str | Scheme,
    optimizer: optimizers.Optimizer,
    limits: Mapping[str, float],
    own: bool = False,
    problem: Problem | None = None,
) -> Reached:
    """Train until nothing more can come of it, and return when each level was reached.

    Arguments:
        data: what of, by name.
        late: what late workers do with old work.
        model: of the delays.
        scheme: as it is, or as a run file has it.
        optimizer: at the first model.
        limits: seconds for each level, after which it is not wanted any more.
        own: whether what the optimizer's own work takes, in processor time of this machine, is on the clock.
        problem: trained on in place of the data set's own.
    """
    clocked = Clocked(optimizer)
    watch = _Watch(data, limits, clocked, own)
    engine = engines.VirtualEngine(model, late=late, seconds_per_task=task_seconds(data))
    try:
        training.train(
            problem or problem_of(data),
            parse_scheme(scheme, WORKERS) if isinstance(scheme, str) else scheme,
            clocked,
            engine,
            MOST_STEPS,
            [watch],
            evaluate_every=0,
            tolerance=None,
        )
    except _Enough:
        pass
    except Diverged:
        watch.found.diverged = True
    watch.found.own = clocked.seconds / max(1, watch.found.steps)
    return watch.found


def of_adaptive(
    data: str,
    late: str,
    model: delays.Delays,
    scheme: str | Scheme = "adaptive()",
    own: bool = False,
    levels: Iterable[str] = tuple(LEVELS),
) -> Reached:
    """Return what the solver comes to with nothing set; or its optimizer with another scheme."""
    x = problem_of(data).initial()
    return timed(data, late, model, scheme, optimizers.QuasiNewton(x), dict.fromkeys(levels, MOST_SECONDS), own)


def of_paper(data: str, late: str, model: delays.Delays, most: float = MOST_SECONDS / 4, own: bool = False) -> Reached:
    """Return what the paper's own setting comes to: its scheme, its optimizer, its rate."""
    rate = experiment(data.removeprefix(SORTED)).config.optimizer.rate
    assert rate is not None
    moved = optimizers.Nesterov(problem_of(data).initial(), parse_rate(rate))
    return timed(data, late, model, PAPER, moved, dict.fromkeys(LEVELS, most), own)
