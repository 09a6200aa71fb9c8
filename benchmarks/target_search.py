"""The search behind `time_to_target.py`: every method of every cell, tuned on a seed of its own, and kept in a table.

A cell is a data set, a law of the delays and a kind of late work. Cells take turns, a method each, so that a search
that is cut short has looked at the likely winners of all of them; it goes on where it stopped. A run is given up when
its clock has passed the best time that is known for every level it has not reached, or when it has stalled.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import Any

from common import commit
from target_cells import DATA, LATE, LAWS, TABLE, law, measured, of_adaptive, table
from target_methods import KINDS, Method, Setting, at_rate, methods, of_setting

TUNED = ("1e-1", "1e-2", "1e-3")
SEED = 1000
BEHIND = 20.0  # times that `adaptive` took: what takes longer to a level is not tuned any further for it
_COARSE = (-4.0, -1.0, 2.0)  # powers of two, of the rate
_ENDS = (-10.0, 12.0)
_SAME = 1e-6  # of a time: rounding of other machines' sums


@dataclass(frozen=True)
class Cell:
    """What is compared with what else alike."""

    data: str
    law: str
    late: str

    @property
    def name(self) -> str:
        return f"{self.data} | {self.law} | {self.late}"


@dataclass(frozen=True)
class Best:
    """The fastest setting to a level, with the seconds that it took on the search's seed."""

    setting: Setting
    seconds: float

    def to_json(self) -> dict[str, Any]:
        one = self.setting
        return {"seconds": self.seconds, "scheme": one.scheme, "optimizer": one.optimizer, "rate": one.rate}


def cells() -> Iterator[Cell]:
    """Yield all cells, those of the headline first."""
    for late, name, data in itertools.product(LATE, LAWS, DATA):
        yield Cell(data, name, late)


def best_of(cell: Cell, kind: str) -> dict[str, Best]:
    """Return the fastest settings of a kind that are known, by level."""
    kept: Mapping[str, Any] = table()["cells"].get(cell.name, {}).get(kind, {}).get("best", {})
    return {
        level: Best(Setting(one["scheme"], one["optimizer"], one["rate"]), one["seconds"])
        for level, one in kept.items()
    }


def done_of(cell: Cell, kind: str) -> list[str]:
    """Return the labels of the methods of a kind that have been tuned."""
    done: list[str] = table()["cells"].get(cell.name, {}).get(kind, {}).get("done", [])
    return done


def measure() -> None:
    """Measure how long a task takes, and write it into the table."""
    table()["tasks"] = {data: float(f"{measured(data):.3g}") for data in DATA}
    TABLE.write_text(json.dumps(table(), indent=1) + "\n")
    print(", ".join(f"{data}: {seconds * 1e3:.3g} ms a task" for data, seconds in table()["tasks"].items()))


def search(minutes: float, only: str) -> None:
    """Tune for so many minutes, on all cores; write the table after each method."""
    end, head = time.monotonic() + 60.0 * minutes, commit()  # before the table itself is changed
    wanted = [(cell, kind) for cell in cells() for kind in KINDS if only in f"{cell.name} | {kind}"]
    cores = len(os.sched_getaffinity(0))
    under_way: dict[Future[dict[str, Best]], tuple[Cell, str, Method]] = {}
    with ProcessPoolExecutor(cores) as pool:
        while wanted or under_way:
            while wanted and len(under_way) < cores and time.monotonic() < end:
                cell, kind = wanted.pop(0)
                method = next(_left(cell, kind), None)
                if method is not None:
                    under_way[pool.submit(tune, cell, method, best_of(cell, kind))] = (cell, kind, method)
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                cell, kind, method = under_way.pop(future)
                _keep(cell, kind, method, future.result(), head)
                wanted.append((cell, kind))


def _left(cell: Cell, kind: str) -> Iterator[Method]:
    """Yield the methods that are left to be tuned, first those that are the best somewhere else."""
    known = {method.label: method for method in methods(kind, cell.late)}
    elsewhere = [
        Method(best.setting.scheme, best.setting.optimizer).label
        for other in cells()
        for best in best_of(other, kind).values()
    ]
    done = set(done_of(cell, kind))
    for label in sorted(known, key=lambda label: -elsewhere.count(label)):  # which keeps the order of equals
        if label not in done:
            yield known[label]


def _keep(cell: Cell, kind: str, method: Method, found: Mapping[str, Best], head: str) -> None:
    row = table()["cells"].setdefault(cell.name, {}).setdefault(kind, {"done": [], "best": {}})
    row["done"].append(method.label)
    row["best"] |= {level: best.to_json() for level, best in sorted(found.items())}
    row["commit"], row["seed"] = head, SEED
    TABLE.write_text(json.dumps(table(), indent=1) + "\n")
    said = ", ".join(f"{level} {best.seconds:.1f} s ({best.setting.label})" for level, best in found.items())
    print(f"{cell.name} | {kind}: {method.label}: {said or 'nowhere the best'}", flush=True)


def tune(cell: Cell, method: Method, best: Mapping[str, Best]) -> dict[str, Best]:
    """Try rates, coarse and then fine, and further where an end wins; return where the method is the best of all.

    Arguments:
        cell: where.
        method: to be tuned.
        best: the fastest settings so far, by level.
    """
    known: dict[float, dict[str, float]] = {}
    found: dict[str, Best] = {}
    ours = _ours(cell)

    def limit(level: str) -> float:
        fastest = found.get(level) or best.get(level)
        return fastest.seconds if fastest else BEHIND * ours[level]

    def tried(power: float) -> None:
        if power in known or not _ENDS[0] <= power <= _ENDS[1]:
            return
        setting, limits = at_rate(method, 2.0**power), {level: limit(level) for level in TUNED}
        known[power] = of_setting(cell.data, cell.late, law(cell.law, SEED), setting, limits).times
        for level in TUNED:
            seconds = known[power].get(level)
            if seconds is not None and seconds < limits[level]:
                found[level] = Best(setting, seconds)

    if not method.has_rate:
        tried(0.0)
        return found
    for power in _COARSE:
        tried(power)
    for _ in range(6):
        before = len(known)
        for level in TUNED:
            there = {power: times[level] for power, times in known.items() if level in times}
            if there:
                at = min(there, key=lambda power: there[power])
                width = min(abs(power - at) for power in known if power != at)
                for power in (at - max(1.0, width // 2), at + max(1.0, width // 2)):
                    tried(power)
        if len(known) == before:
            break
    return found


@cache
def _ours(cell: Cell) -> dict[str, float]:
    """Return the times of `adaptive`, from which the search takes how long a published method may try."""
    return of_adaptive(cell.data, cell.late, law(cell.law, SEED)).times


def search_again(seed: int, minutes: float) -> list[str]:
    """Search a cell that is drawn once more, as far as the time goes, and return what differs from the table.

    Its winners have to come out as they stand there, and none of its methods that were tuned may be faster.
    """
    drawn = random.Random(seed)
    end = time.monotonic() + 60.0 * minutes
    known = [(cell, kind) for cell in cells() for kind in KINDS if done_of(cell, kind)]
    if not known:
        return []
    cell, kind = drawn.choice(known)
    best, differ = best_of(cell, kind), list[str]()
    for level, one in best.items():
        limits = {level: 2.0 * one.seconds}
        again = of_setting(cell.data, cell.late, law(cell.law, SEED), one.setting, limits).times.get(level)
        if again is None or abs(again - one.seconds) > _SAME * one.seconds:
            differ.append(f"{cell.name} | {kind}: {one.setting.label} to {level}: {one.seconds} s then, {again} s now")
    labels = done_of(cell, kind)
    tuned = [method for method in methods(kind, cell.late) if method.label in labels]
    drawn.shuffle(tuned)
    count = 0
    while tuned and time.monotonic() < end:
        method, count = tuned.pop(), count + 1
        for level, one in tune(cell, method, best).items():
            if level not in best or one.seconds < (1.0 - _SAME) * best[level].seconds:
                differ.append(f"{cell.name} | {kind}: {one.setting.label} is at {level} after {one.seconds} s")
    print(f"searched again: {cell.name} | {kind}: {len(best)} winners, {count} methods, {len(differ)} differences")
    return differ
