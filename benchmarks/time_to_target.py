"""How soon training comes how deep: with nothing set, against the best tuned setting of every published method.

    python benchmarks/time_to_target.py                         all cells, five seeds
    python benchmarks/time_to_target.py --only amazon           cells with this in their names
    python benchmarks/time_to_target.py --search --minutes 60   go on tuning what is compared with
    python benchmarks/time_to_target.py --measure               measure anew how long a task takes
    python benchmarks/time_to_target.py --solver --first 300    adaptive alone: what two versions of it take, compared

A cell is a data set, a law of the delays and a kind of late work. In each, on `--seeds` seeds that nothing was tuned
on, `adaptive` with nothing set is timed beside the paper's own setting and beside the best of the search, on the clock
of `target_cells.py`, to which the work of the optimizer itself is added, of every method alike. Rows named `tuned` are
of the published methods; `scaled` of these with the solver's diagonal scaling, and of L-BFGS on exact gradients
(`target_methods.py`); `uncoded` and `exact` of the solver's own optimizer where all workers, or one of each group, are
waited for: what is gained over these is the waiting's work alone; `a message per task` of the solver with
`multi_message`. A method that does not come to a level is counted with the time at which it was given up, and its ratio
is said to be `at least` so much.

Then a cell that is drawn is searched once more, for a few minutes, and the run fails if that differs from the table.
It needs the real data: set ERASUREHEAD_DATA to their folder.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import secrets
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor

from common import report
from erasurehead._internal.arrays import Array
from erasurehead.runs._heard_once import shares, soonest
from erasurehead.schemes import parse_scheme
from target_cells import (
    DATA,
    LAWS,
    LEVELS,
    MOST_SECONDS,
    PAPER,
    WORKERS,
    Reached,
    experiment,
    law,
    of_adaptive,
    of_paper,
    optimum,
    task_seconds,
)
from target_methods import KINDS, of_setting
from target_search import BEHIND, TUNED, Best, Cell, best_of, cells, done_of, halved_of, measure, search, search_again

_WAITING = {  # with the solver's optimizer
    "uncoded": "uncoded()",
    "exact": "exact(load=3)",
    "a message per task": "adaptive(multi_message=True)",
}
_AGAIN = 4.0  # times what a winner took on the search's seed, after which it is given up on another
_COLUMNS = {"published": "tuned", "scaled": "scaled"}
_TARGETS = {
    ("tuned", "1e-2", "carry"): {"kc_housing": ">= 12", "covertype": ">= 10", "amazon": ">= 1.2"},
    ("tuned", "1e-3", "carry"): {"kc_housing": ">= 12", "covertype": ">= 6", "amazon": ">= 3.5"},
    ("paper", "1e-1", "carry"): dict.fromkeys(DATA, ">= 3"),
    ("paper", "1e-1", "preempt"): dict.fromkeys(DATA, ">= 10"),
}
"""Of medians over the laws of the delays."""


def compared(cell: Cell, seeds: range) -> tuple[list[str], dict[tuple[str, str], float]]:
    """Return what is printed of a cell, and how many times sooner `adaptive` was, by column and level.

    The latter are medians over the seeds.
    """
    ours = [of_adaptive(cell.data, cell.late, law(cell.law, seed), own=True) for seed in seeds]
    said = [f"{cell.name}: adaptive, {statistics.median(one.own for one in ours) * 1e3:.1f} ms of its own a step"]
    ratios: dict[tuple[str, str], float] = {}
    tuned = {kind: best_of(cell, kind) for kind in KINDS}
    paper = [of_paper(cell.data, cell.late, law(cell.law, seed), own=True) for seed in seeds]
    waiting = {
        name: [of_adaptive(cell.data, cell.late, law(cell.law, seed), scheme, own=True, levels=TUNED) for seed in seeds]
        for name, scheme in _WAITING.items()
    }
    limits = heard_once(cell)
    for level in LEVELS:
        mine = [one.times[level] for one in ours if level in one.times]
        if len(mine) < len(ours):
            said.append(f"  {level}: reached by adaptive on {len(mine)} of {len(ours)} seeds")
            continue
        said.append(
            f"  {level}: adaptive {_range(mine)}; enough data can have been heard once in {limits[level]:.2g} s"
        )
        columns: dict[str, tuple[str, list[Reached]]] = {}
        if level in TUNED:
            columns["paper"] = PAPER, paper
            columns |= {name: (f"{_WAITING[name]}, the same optimizer", runs) for name, runs in waiting.items()}
        for kind, best in tuned.items():
            if level in best:
                columns[_COLUMNS[kind]] = (best[level].setting.label, _again(cell, best[level], level, seeds))
            elif level in TUNED and done_of(cell, kind):
                said.append(f"    {_COLUMNS[kind]}: nothing that was tuned came to it in {BEHIND:g} times as long")
                ratios[_COLUMNS[kind], f"{level}, at least"] = BEHIND
        for column, (label, runs) in columns.items():
            there = [one.times[level] for one in runs if level in one.times]
            few = f", on {len(there)} of {len(runs)} seeds" if len(there) < len(runs) else ""
            said.append(f"    {column}: {_range(there)}{few} ({label})")
            if any(level in one.times or not one.stalled for one in runs):
                spent = [one.times.get(level, one.seconds) for one in runs]
                bound = ", at least" if len(there) < len(runs) else ""
                ratios[column, level + bound] = statistics.median(a / b for a, b in zip(spent, mine, strict=True))
    return said, ratios


def heard_once(cell: Cell) -> dict[str, float]:
    """Return the physical limit of each level: when enough of the data can have been heard once by `adaptive`."""
    problem, code = experiment(cell.data).problem, parse_scheme("adaptive()", WORKERS).code
    found = shares(problem, problem.initial(), optimum(cell.data).objective, WORKERS, math.inf)
    late, spent = law(cell.law, 0), WORKERS * task_seconds(cell.data)
    return {level: soonest(code, late, share, spent) for level, (_, share) in zip(LEVELS, found, strict=True)}


def _again(cell: Cell, best: Best, level: str, seeds: range) -> list[Reached]:
    limits = {level: min(MOST_SECONDS, _AGAIN * best.seconds)}
    return [of_setting(cell.data, cell.late, law(cell.law, seed), best.setting, limits, own=True) for seed in seeds]


def named(cell: Cell) -> str:
    """Return the name of a cell for a table, in which a bar would end a column."""
    return cell.name.replace(" | ", ", ")


def over_laws(ratios: Mapping[tuple[Cell, str, str], float], of_all: bool) -> tuple[dict[str, float], dict[str, str]]:
    """Return what is reported, with targets: each cell, and of all of them medians over the laws of the delays."""
    found: dict[str, float] = {}
    targets: dict[str, str] = {}
    for (cell, column, level), value in ratios.items():
        key = f"{named(cell)}: {column} {level}"
        found[key] = value
        if column == "tuned" and _level(level) == "1e-1":
            targets[key] = ">= 0.9"
    if not of_all:
        return found, targets
    for (column, level, late), by_data in _TARGETS.items():
        for data, target in by_data.items():
            there = [
                (value, said != level)
                for (cell, which, said), value in ratios.items()
                if (which, _level(said), cell.data, cell.late) == (column, level, data, late)
            ]
            if there:
                bounds = sum(bound for _, bound in there)
                laws = f"{len(there)} laws" + (f", {bounds} bounds" if bounds else "")
                key = f"{data}, {late}, median of {laws}: {column} {level}"
                found[key], targets[key] = statistics.median(value for value, _ in there), target
    near = [value for (_, column, level), value in ratios.items() if column == "tuned" and _level(level) == "1e-1"]
    if near:
        found["all rows, median: tuned 1e-1"] = statistics.median(near)
        targets["all rows, median: tuned 1e-1"] = ">= 1.5"
    return found, targets


def _effort(cell: Cell, kind: str) -> str:
    """Return how many methods were tuned, and of how many that were tried, as text."""
    tried = halved_of(cell, kind)
    levels = f", the best of {max(tried.values())} for {', '.join(tried)}" if tried else ""
    return f"{len(done_of(cell, kind))} methods tuned for {_COLUMNS[kind]}{levels}"


def _level(said: str) -> str:
    return said.partition(",")[0]


def alone(data: str, levels: Mapping[str, float]) -> dict[str, float]:
    """Return the real seconds in which one machine, with all data and no delays, comes to each level by L-BFGS."""
    from scipy.optimize import minimize

    problem, least = experiment(data).problem, optimum(data)
    begin, found = time.perf_counter(), dict[str, float]()

    def both(x: Array) -> tuple[float, Array]:
        (exact,) = problem.exact([x])
        value = exact.loss + problem.penalty(x)
        for level, depth in levels.items():
            if least.gap(value) <= depth and level not in found:
                found[level] = time.perf_counter() - begin
        return value, exact.gradient + problem.penalty_gradient(x)

    minimize(both, problem.initial(), jac=True, method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 6000, "ftol": 0})
    return found


def _range(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})" if seconds else "never"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add: Callable[..., object] = parser.add_argument
    add("--search", action="store_true", help="tune the published methods, and write the table")
    add("--minutes", type=float, default=180.0, help="of the search, at most")
    add("--measure", action="store_true", help="measure how long a task takes, and write it into the table")
    add("--only", default="", metavar="WORD", help="cells with this in their names")
    add("--seeds", type=int, default=5)
    add("--again", type=float, default=4.0, metavar="MINUTES", help="for which a cell is searched once more")
    add("--draw", type=int, default=None, metavar="SEED", help="of the cell that is; by default another each time")
    add("--solver", action="store_true", help="adaptive alone, without its own work: the same figures on any machine")
    add("--first", type=int, default=0, metavar="SEED", help="the first of the seeds")
    add("--quick", action="store_true", help="one data set, one law of the delays, two seeds")
    return parser


def main() -> None:
    """Measure and report."""
    chosen = _parser().parse_args()
    if chosen.search:
        search(chosen.minutes, chosen.only)
        return
    if chosen.measure:
        measure()
        return
    seeds = range(chosen.first, chosen.first + (2 if chosen.quick else chosen.seeds))
    wanted = [
        cell for cell in cells() if chosen.only in cell.name and not (chosen.quick and (cell.data, cell.law) != _FIRST)
    ]
    if chosen.solver:
        of_level: dict[str, float | list[float]] = {}
        for cell in wanted:
            runs = [of_adaptive(cell.data, cell.late, law(cell.law, seed)) for seed in seeds]
            for level in LEVELS:
                times = [run.times.get(level, math.inf) for run in runs]
                of_level[f"{named(cell)}: {level}"] = statistics.median(times)
                of_level[f"{named(cell)}: {level}, from and to"] = [min(times), max(times)]
            print(f"{cell.name} is timed", flush=True)
        report("time_to_target solver", of_level, {})
        return
    for data in dict.fromkeys(cell.data for cell in wanted):
        reached = ", ".join(f"{level} in {seconds:.2f} s" for level, seconds in alone(data, LEVELS).items())
        print(f"{data}: {task_seconds(data) * 1e3:.3g} ms a task; alone, one machine: {reached}")
    for cell in wanted:
        counts = ", ".join(_effort(cell, kind) for kind in KINDS)
        print(f"{cell.name}: {counts}")
    ratios: dict[tuple[Cell, str, str], float] = {}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for cell, (said, found) in zip(wanted, pool.map(compared, wanted, itertools.repeat(seeds)), strict=True):
            print("\n".join(said), flush=True)
            ratios |= {(cell, *where): value for where, value in found.items()}
    drawn = secrets.randbelow(10_000) if chosen.draw is None else chosen.draw
    print(f"to search the same cell again: --draw {drawn}")
    differ = search_again(drawn, chosen.again)
    reported, targets = over_laws(ratios, of_all=not chosen.only)
    report("time_to_target", reported, targets)
    if differ:
        raise SystemExit("the search comes out otherwise than in the table:\n" + "\n".join(differ))


_FIRST = (DATA[1], LAWS[0])


if __name__ == "__main__":
    main()
