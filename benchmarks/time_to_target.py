"""How soon training comes how deep: with nothing set, against the best tuned setting of every published method.

`--search` tunes the published methods in every cell (data set, law of the delays, late work), on a seed of its own,
and writes the best setting of each to `time_to_target.json`; it goes on where it stopped, and ends after `--minutes`.
The plain run times these winners and `adaptive` on `--seeds` other seeds, with the paper's own setting and one machine
alone beside them, and searches nothing; `--quick` does so for one data set and two seeds. It needs the real data: set
ERASUREHEAD_DATA to their folder.

A time is that of the engine's virtual clock at the first step whose model is within the level: the delays of thirty
workers, the measured time of each task, and all rounds that the method asks for. The model is the newest one, of every
method alike, whether the method knows its objective yet or not. The coordinator's own work takes no time on that clock;
it is measured, and printed, apart. The gap is (f(x) - f*) / (f(x0) - f*), evaluated off the clock.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from common import report
from erasurehead import delays, engines, optimizers, training
from erasurehead._internal.arrays import Array
from erasurehead.datasets import Dataset
from erasurehead.errors import Diverged
from erasurehead.planning import measure_tasks
from erasurehead.problems.base import Problem
from erasurehead.runs import Experiment
from erasurehead.schemes.text import parse_rate, parse_scheme
from erasurehead.training.optimum import Optimum, find_optimum

WORKERS = 30
LEVELS = {"1e-1": 1e-1, "1e-2": 1e-2, "1e-3": 1e-3, "1e-6": 1e-6}
TUNED = ("1e-1", "1e-2", "1e-3")
DATA = ("covertype", "kc_housing", "amazon")
LAWS = ("exponential", "by load")
LATE = ("carry", "preempt")
SEARCH_SEED = 1000
PAPER = "erasurehead(load=3, wait_for=11)"
TABLE = Path(__file__).with_name("time_to_target.json")
MOST_SECONDS, MOST_STEPS = 600.0, 4000
_BEHIND = 20.0  # times that `adaptive` took: what takes longer to a level is not tuned any further for it
_RUNAWAY = 1e6  # of a gap, beyond which a run is given up
_STALLED = 200  # steps, over the last half of which the best gap must fall by a twentieth


@dataclass(frozen=True)
class Setting:
    """A published method with all that it lets one set: scheme, optimizer, and rate over that of the bound."""

    scheme: str
    optimizer: str
    rate: float

    @property
    def text(self) -> str:
        return f"{self.scheme}, {self.optimizer}, {self.rate:g}x"


@dataclass
class Reached:
    """When each level was reached, in seconds of the virtual clock, and what the coordinator itself took."""

    times: dict[str, float] = field(default_factory=dict[str, float])
    steps: int = 0
    own: float = 0.0  # seconds of the optimizer's own work a step
    best: float = 1.0  # the least gap
    diverged: bool = False


class Clocked(optimizers.Optimizer):
    """Any optimizer, with a clock beside it: all is as that one has it, and `seconds` is what its `tell` took."""

    def __init__(self, timed: optimizers.Optimizer) -> None:
        super().__init__(timed.x)
        self.timed, self.seconds = timed, 0.0
        for name in ("kinds", "proximal", "remedy", "max_points"):  # of the class, that is
            setattr(self, name, getattr(timed, name))

    def begin(self, problem: Problem) -> None:
        self.timed.early = self.early
        self.timed.begin(problem)
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
        return self.timed.ask()

    def tell(self, estimate: Array | None) -> None:
        for name in ("share", "value", "exact", "curvature", "parts"):
            setattr(self.timed, name, getattr(self, name))
        begin = time.perf_counter()
        self.timed.tell(estimate)
        self.seconds += time.perf_counter() - begin
        self._follow()


class _Enough(Exception):
    """Nothing more can come of a run."""


@cache
def experiment(data: str) -> Experiment:
    tables = {"data": {"source": data}, "run": {"engine": "virtual", "preset": "paper", "workers": WORKERS}}
    return Experiment.from_config(tables)


SORTED = "sorted "  # before the name of a data set: its rows in the order of what is to be predicted


@cache
def problem_of(data: str) -> Problem:
    """Return what is minimised; of `"sorted NAME"` the same, with tasks that differ as much as they can."""
    found = experiment(data.removeprefix(SORTED))
    if not data.startswith(SORTED):
        return found.problem
    assert isinstance(found.data, Dataset)
    rows = np.argsort(found.data.y_train, kind="stable")
    return type(found.problem)(found.data.X_train[rows], found.data.y_train[rows], l2=found.problem.l2)  # type: ignore[call-arg]


@cache
def optimum(data: str) -> Optimum:
    if data.startswith(SORTED):
        return optimum(data.removeprefix(SORTED))
    problem = problem_of(data)
    return find_optimum(problem, problem.initial())


@cache
def bound_rate(data: str) -> float:
    """Return one over the largest curvature: the safe step size, which rates are multiples of."""
    found = experiment(data)
    from erasurehead.runs.config.parts import safe_rate

    return safe_rate(found.data, str(found.config.problem.loss), found.problem.l2)


@cache
def task_seconds(data: str) -> float:
    return measure_tasks(problem_of(data.removeprefix(SORTED)), WORKERS).typical


def law(name: str, seed: int) -> delays.Delays:
    return delays.Exponential(0.5, seed=seed, scale_with_load=name == "by load")


class _Watch(training.Callback):
    """Takes the time of each level, and ends a run of which nothing more can come."""

    def __init__(self, data: str, limits: Mapping[str, float]) -> None:
        self.problem, self.optimum, self.limits = problem_of(data), optimum(data), dict(limits)
        self.found = Reached()
        self._best: list[float] = []

    def on_step_end(self, row: training.StepRow, x: Array) -> None:
        gap = self.optimum.gap(self.problem.objective(x))
        self.found.steps = row.step + 1
        for level, depth in LEVELS.items():
            if gap <= depth and level not in self.found.times:
                self.found.times[level] = row.end
        self._best.append(min(gap, self._best[-1] if self._best else gap))
        self.found.best, self.found.diverged = self._best[-1], gap > _RUNAWAY
        open_ = [limit for level, limit in self.limits.items() if level not in self.found.times]
        done = len(self._best)
        stalled = done >= _STALLED and self._best[-1] > 0.95 * self._best[done // 2]
        if not open_ or row.end > max(open_) or stalled or gap > _RUNAWAY:
            raise _Enough


def timed(data: str, late: str, model: delays.Delays, scheme: str, optimizer: optimizers.Optimizer,
          limits: Mapping[str, float], wire: str | None = None) -> Reached:  # fmt: skip
    """Train until nothing more can come of it, and return when each level was reached."""
    watch, clocked = _Watch(data, limits), Clocked(optimizer)
    engine = engines.VirtualEngine(model, late=late, seconds_per_task=task_seconds(data))
    try:
        training.train(problem_of(data), parse_scheme(scheme, WORKERS), clocked, engine, MOST_STEPS, [watch],
                       evaluate_every=0, tolerance=None, wire=wire)  # fmt: skip
    except _Enough:
        pass
    except Diverged:
        watch.found.diverged = True
    watch.found.own = clocked.seconds / max(1, watch.found.steps)
    return watch.found


def of_setting(data: str, late: str, model: delays.Delays, setting: Setting, limits: Mapping[str, float]) -> Reached:
    made = optimizers.Nesterov if setting.optimizer == "nesterov" else optimizers.GradientDescent
    x = experiment(data).problem.initial()
    return timed(data, late, model, setting.scheme, made(x, setting.rate * bound_rate(data)), limits)


def of_adaptive(data: str, late: str, model: delays.Delays) -> Reached:
    x = problem_of(data).initial()
    return timed(data, late, model, "adaptive()", optimizers.QuasiNewton(x), dict.fromkeys(LEVELS, MOST_SECONDS))


def of_paper(data: str, late: str, model: delays.Delays, most: float = MOST_SECONDS / 4) -> Reached:
    """Return what the paper's own setting comes to: its scheme, its optimizer, its rate."""
    rate = experiment(data.removeprefix(SORTED)).config.optimizer.rate
    assert rate is not None
    moved = optimizers.Nesterov(problem_of(data).initial(), parse_rate(rate))
    return timed(data, late, model, PAPER, moved, dict.fromkeys(LEVELS, most))


def schemes_to_tune(late: str) -> Iterator[str]:
    """Yield the published schemes with their settings, likely winners first."""
    waits = (1, 2, 3, 5, 8, 11, 15)
    for wait in waits[:3]:
        yield f"ignore_stragglers(wait_for={wait})"
        yield f"erasurehead(load=3, wait_for={wait})"
    if late == "carry":
        yield "asynchronous()"
    yield from ("exact(load=3)", "exact(load=2)")
    for wait in waits[3:]:
        yield f"erasurehead(load=3, wait_for={wait})"
        yield f"ignore_stragglers(wait_for={wait})"
    for wait in waits:
        yield f"erasurehead(load=2, wait_for={wait})"
    yield from ("exact(load=3, code='cyclic')", "exact(load=2, code='cyclic')", "uncoded()")


def search(minutes: float, only: str) -> None:
    """Tune every cell; write the table after each scheme."""
    end = time.monotonic() + 60.0 * minutes
    table: dict[str, Any] = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    for data, name, late in itertools.product(DATA, LAWS, LATE):
        cell = f"{data} | {name} | {late}"
        if only not in cell:
            continue
        row = table.setdefault(cell, {"seed": SEARCH_SEED, "commit": _commit(), "done": [], "best": {}})
        for scheme, optimizer in itertools.product(schemes_to_tune(late), ("nesterov", "gradient_descent")):
            label = f"{scheme}, {optimizer}"
            if label in row["done"]:
                continue
            _tune(data, name, late, scheme, optimizer, row["best"])
            row["done"].append(label)
            TABLE.write_text(json.dumps(table, indent=1) + "\n")
            print(f"{cell}: {label}: best so far {_bests(row['best'])}", flush=True)
            if time.monotonic() > end:
                return


def _tune(data: str, name: str, late: str, scheme: str, optimizer: str, best: dict[str, Any]) -> None:
    """Try rates, coarse and then fine, and further where an end wins; keep what is the fastest to a level."""
    known: dict[float, dict[str, float]] = {}
    ours = _ours(data, late, name)

    def tried(power: float) -> None:
        if power in known or not -10 <= power <= 12:
            return
        setting = Setting(scheme, optimizer, 2.0**power)
        limits = {level: best[level]["seconds"] if level in best else _BEHIND * ours[level] for level in TUNED}
        known[power] = of_setting(data, late, law(name, SEARCH_SEED), setting, limits).times
        for level in TUNED:
            seconds = known[power].get(level)
            if seconds is not None and seconds < limits[level]:
                best[level] = {"seconds": seconds, "scheme": scheme, "optimizer": optimizer, "rate": 2.0**power}

    for power in (-4.0, -1.0, 2.0):
        tried(power)
    for _ in range(6):
        before = len(known)
        for level in TUNED:
            there = {power: times[level] for power, times in known.items() if level in times}
            if there:
                at = min(there, key=lambda power: there[power])
                near = [power for power in known if power != at]
                width = min(abs(power - at) for power in near)
                for power in (at - max(1.0, width // 2), at + max(1.0, width // 2)):
                    tried(power)
        if len(known) == before:
            return


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=TABLE.parent)
    return found.stdout.strip()


@cache
def _ours(data: str, late: str, name: str) -> dict[str, float]:
    """Return the times of `adaptive`, from which the search takes how long a published method may try."""
    return of_adaptive(data, late, law(name, SEARCH_SEED)).times


def _bests(best: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{level} {found['seconds']:.1f} s ({found['scheme']}, {found['optimizer']}, {found['rate']:g}x)"
        for level, found in sorted(best.items())
    )


def alone(data: str, levels: Mapping[str, float]) -> dict[str, float]:
    """Return the real seconds in which one machine, with all data and no delays, comes to each level by L-BFGS."""
    from scipy.optimize import minimize

    problem, least = experiment(data).problem, optimum(data)
    begin, found = time.perf_counter(), dict[str, float]()
    paused = [0.0]

    def both(x: Array) -> tuple[float, Array]:
        (exact,) = problem.exact([x])
        value = exact.loss + problem.penalty(x)
        for level, depth in levels.items():
            if least.gap(value) <= depth and level not in found:
                found[level] = time.perf_counter() - begin - paused[0]
        return value, exact.gradient + problem.penalty_gradient(x)

    minimize(both, problem.initial(), jac=True, method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 6000, "ftol": 0})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", action="store_true", help="tune the published methods, and write the table")
    parser.add_argument("--minutes", type=float, default=180.0, help="of the search, at most")
    parser.add_argument("--only", default="", metavar="WORD", help="cells with this word in their names")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    if chosen.search:
        search(chosen.minutes, chosen.only)
        return
    table: dict[str, Any] = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    seeds = range(2 if chosen.quick else chosen.seeds)
    ratios: dict[str, float] = {}
    for data in DATA[:1] if chosen.quick else DATA:
        print(f"{data}: {task_seconds(data) * 1e3:.2f} ms a task; alone, one machine: {_seconds(alone(data, LEVELS))}")
        for name, late in itertools.product(LAWS[:1] if chosen.quick else LAWS, LATE):
            cell = f"{data} | {name} | {late}"
            if chosen.only in cell:
                ratios |= _compared(cell, data, name, late, table.get(cell, {}).get("best", {}), seeds)
    targets = {
        key: by_data[key.partition(", ")[0]]
        for key in ratios
        for (level, kind), by_data in _TARGETS.items()
        if "carry" in key and key.endswith(f"{kind} {level}")
    }
    report("time_to_target", ratios, targets)


_TARGETS = {
    ("1e-1", "tuned"): dict.fromkeys(DATA, ">= 0.9"),
    ("1e-2", "tuned"): {"kc_housing": ">= 12", "covertype": ">= 10", "amazon": ">= 1.2"},
    ("1e-3", "tuned"): {"kc_housing": ">= 12", "covertype": ">= 6", "amazon": ">= 3.5"},
    ("1e-1", "paper"): dict.fromkeys(DATA, ">= 3"),
}


def _compared(cell: str, data: str, name: str, late: str, best: Mapping[str, Any], seeds: range) -> dict[str, float]:
    """Print a cell, and return how many times sooner `adaptive` was, in the median over the seeds."""
    ours = [of_adaptive(data, late, law(name, seed)) for seed in seeds]
    paper = [of_paper(data, late, law(name, seed)) for seed in seeds]
    print(f"{cell}: adaptive, {statistics.median(one.own for one in ours) * 1e3:.1f} ms of its own a step")
    named, ratios = cell.replace(" | ", ", "), dict[str, float]()  # a bar would end a column of the table
    for level in LEVELS:
        times = [one.times.get(level) for one in ours]
        if any(seconds is None for seconds in times):
            print(f"  {level}: not reached by adaptive on every seed")
            continue
        mine = [seconds for seconds in times if seconds is not None]
        said = f"  {level}: adaptive {_range(mine)}"
        theirs = [one.times.get(level) for one in paper]
        known = [seconds for seconds in theirs if seconds is not None]
        said += f"; the paper's setting {_range(known)}" if len(known) == len(mine) else "; the paper's setting: never"
        if len(known) == len(mine):
            ratios[f"{named}: paper {level}"] = statistics.median(a / b for a, b in zip(known, mine, strict=True))
        if level in best:
            setting = Setting(best[level]["scheme"], best[level]["optimizer"], best[level]["rate"])
            limit = {level: MOST_SECONDS}
            tuned = [of_setting(data, late, law(name, seed), setting, limit).times.get(level) for seed in seeds]
            reached = [seconds for seconds in tuned if seconds is not None]
            said += f"; tuned {_range(reached)} ({setting.text}, {len(reached)} of {len(tuned)} seeds)"
            if len(reached) == len(mine):
                pairs = zip(reached, mine, strict=True)
                ratios[f"{named}: tuned {level}"] = statistics.median(a / b for a, b in pairs)
        print(said, flush=True)
    return ratios


def _range(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})" if seconds else "never"


def _seconds(found: Mapping[str, float]) -> str:
    return ", ".join(f"{level} in {seconds:.2f} s" for level, seconds in found.items())


if __name__ == "__main__":
    main()
