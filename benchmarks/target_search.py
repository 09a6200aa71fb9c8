"""The search behind `time_to_target.py`: every method of every cell, tuned on a seed of its own, and kept in a table.

A cell is a data set, a law of the delays and a kind of late work. In each, every method is tried, by successive halving
for each level: with a quarter of the best time that is known, then with half of it; each time the half of the methods
that has come less deep is put aside, and the rest is tuned to the end. Methods with whole gradients are tuned in any
case: they may be behind at first, but go on when others, with the noise of few arrivals, level off. A search that is
cut short goes on where it stopped. A run is given up when its clock has passed the best time that is known, or when it
has stalled.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

from common import commit
from target_cells import DATA, LATE, LAWS, LEVELS, TABLE, Reached, law, measured, of_adaptive, table
from target_methods import KINDS, Method, Setting, at_rate, methods, of_setting

TUNED = ("1e-1", "1e-2", "1e-3")
SEED = 1000
HALVED = (0.25, 0.5)  # of the best time that is known, after which the worse half is put aside
_FIRST_RATES = (0.5, 2.0, 8.0)  # winners had 0.25 to 16
WHOLE = ("exact", "uncoded")  # schemes whose gradients have no noise
BEHIND = 20.0  # times that `adaptive` took: what takes longer to a level is not tuned any further for it
_COARSE = (-4.0, -1.0, 2.0)  # powers of two, of the rate
_NEAR = 30.0  # times a level: a rate that comes so near before it is given up may have a better one beside it
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
    """Tune for so many minutes, on all cores; write the table after each level of a cell."""
    end, head = time.monotonic() + 60.0 * minutes, commit()  # before the table itself is changed
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for cell, kind, level in itertools.product(cells(), reversed(KINDS), TUNED):
            if only not in f"{cell.name} | {kind}" or level in halved_of(cell, kind):
                continue
            _time_again(cell, kind, level)
            survivors = _halve(pool, cell, kind, level, end)
            if survivors is None:
                return
            best = best_of(cell, kind)
            for found in pool.map(tune, *_each(cell, survivors), itertools.repeat(best), itertools.repeat((level,))):
                if level in found and (level not in best or found[level].seconds < best[level].seconds):
                    best = best | found
            _keep(cell, kind, level, survivors, best, head)


def _time_again(cell: Cell, kind: str, level: str) -> None:
    """Time the best setting that is known as it is now: an older version may have found it."""
    known = best_of(cell, kind).get(level)
    if known is not None:
        kept, limits = table()["cells"][cell.name][kind]["best"], {level: 2.0 * known.seconds}
        now = of_setting(cell.data, cell.late, law(cell.law, SEED), known.setting, limits).times.get(level)
        kept.pop(level)
        kept |= {} if now is None else {level: Best(known.setting, now).to_json()}


def _each(cell: Cell, those: Sequence[Method]) -> tuple[Iterator[Cell], Sequence[Method]]:
    return itertools.repeat(cell), those


def _halve(pool: ProcessPoolExecutor, cell: Cell, kind: str, level: str, end: float) -> list[Method] | None:
    """Return what is tuned of a kind: the quarter that comes deepest in half of the best time, and whole gradients.

    None if time is up.
    """
    whole = [method for method in methods(kind, cell.late) if method.scheme.startswith(WHOLE)]
    left = [method for method in methods(kind, cell.late) if method not in whole]
    known = best_of(cell, kind).get(level)
    most = known.seconds if known else BEHIND * _ours(cell)[level]
    for share in HALVED:
        runs = [at_rate(method, rate) for method in left for rate in (_FIRST_RATES if method.has_rate else (1.0,))]
        depths: dict[str, float] = {}
        for setting, depth in zip(
            runs, pool.map(_depth, *_each(cell, runs), itertools.repeat(share * most)), strict=True
        ):
            label = Method(setting.scheme, setting.optimizer).label
            depths[label] = min(depth, depths.get(label, math.inf))
        left = sorted(left, key=lambda method: depths[method.label])[: (len(left) + 1) // 2]
        if time.monotonic() > end:
            return None
    return [*whole, *left]


def _depth(cell: Cell, setting: Setting, seconds: float) -> float:
    """Return the least gap to which a setting comes in so many seconds."""
    return of_setting(cell.data, cell.late, law(cell.law, SEED), setting, {"never": seconds}).best


def halved_of(cell: Cell, kind: str) -> Mapping[str, int]:
    """Return from how many methods the best of each level was found by halving."""
    halved: Mapping[str, int] = table()["cells"].get(cell.name, {}).get(kind, {}).get("halved", {})
    return halved


def _keep(cell: Cell, kind: str, level: str, tuned: Sequence[Method], best: Mapping[str, Best], head: str) -> None:
    row = table()["cells"].setdefault(cell.name, {}).setdefault(kind, {"done": [], "best": {}})
    row["done"] += [method.label for method in tuned if method.label not in row["done"]]
    row["best"] |= {level: best.to_json() for level, best in sorted(best.items())}
    row.setdefault("halved", {})[level] = len(list(methods(kind, cell.late)))
    row["commit"], row["seed"] = head, SEED
    TABLE.write_text(json.dumps(table(), indent=1) + "\n")
    said = f"{best[level].seconds:.1f} s ({best[level].setting.label})" if level in best else "nobody comes to it"
    print(f"{cell.name} | {kind}: {level} of {row['halved'][level]} methods: {said}", flush=True)


def tune(cell: Cell, method: Method, best: Mapping[str, Best], levels: Sequence[str] = TUNED) -> dict[str, Best]:
    """Try rates, coarse and then fine, and further where an end wins; return where the method is the best of all.

    Arguments:
        cell: where.
        method: to be tuned.
        best: the fastest settings so far, by level.
        levels: that it is tuned for.
    """
    known: dict[float, Reached] = {}
    found: dict[str, Best] = {}
    ours = _ours(cell)

    def limit(level: str) -> float:
        fastest = found.get(level) or best.get(level)
        return fastest.seconds if fastest else BEHIND * ours[level]

    def tried(power: float) -> None:
        if power in known or not _ENDS[0] <= power <= _ENDS[1]:
            return
        setting, limits = at_rate(method, 2.0**power), {level: limit(level) for level in levels}
        known[power] = of_setting(cell.data, cell.late, law(cell.law, SEED), setting, limits)
        for level in levels:
            seconds = known[power].times.get(level)
            if seconds is not None and seconds < limits[level]:
                found[level] = Best(setting, seconds)

    def rank(power: float, level: str) -> tuple[float, float]:
        """Rank those that came to a level by their times, and after them those that were nearly there."""
        run = known[power]
        if level in run.times:
            return 0.0, run.times[level]
        return (math.inf, 0.0) if run.diverged or run.best > _NEAR * LEVELS[level] else (1.0, run.best)

    if not method.has_rate:
        tried(0.0)
        return found
    for power in _COARSE:
        tried(power)
    for _ in range(6):
        before = len(known)
        for level in levels:
            at = min(known, key=lambda power, level=level: rank(power, level))
            if rank(at, level)[0] < math.inf:
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
