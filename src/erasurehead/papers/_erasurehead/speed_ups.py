"""Figure 3: how many times faster than uncoded gradient descent, by redundancy."""

from __future__ import annotations

from functools import partial
from statistics import median

import numpy as np

from erasurehead.papers._erasurehead.bench import Bench
from erasurehead.papers._erasurehead.published import BARS, UNCODED, WAITS, Family, colour_of
from erasurehead.papers._exhibit import Exhibit, dress
from erasurehead.papers._numbers import FigureTable
from erasurehead.reports import _measures as measures
from erasurehead.reports._canvas import INK, Axes
from erasurehead.runs._targets import common_target

_SEEDS = {"virtual": 3, "processes": 1}
"""How often each run is repeated with other delays; on processes every simulated second would be a real one."""

_FAMILIES: tuple[tuple[Family, str], ...] = (("exact", "exact code (EGC)"), ("erasurehead", "ErasureHead (AGC)"))


def speed_ups(bench: Bench, id: str) -> Exhibit:
    """Return one panel: speed-ups of exact codes and ErasureHead, to a common target and per step."""
    seeds = _SEEDS[bench.settings.engine]
    runs = {(method, seed): bench.run(method, True, seed) for method in BARS for seed in range(seeds)}
    target = common_target(list(runs.values()), bench.metric)
    rows: list[tuple[str, str, int, int, int, float | None, float, float | None, float]] = []
    for (method, seed), run in runs.items():
        plain = runs[UNCODED, seed]
        reached = None if target is None else run.time_to(*target)
        uncoded = None if target is None else plain.time_to(*target)
        rows.append(
            (
                method.label,
                method.family,
                method.load,
                method.wait_for,
                seed,
                reached,
                run.seconds_per_step,
                uncoded / reached if uncoded and reached else None,
                plain.seconds_per_step / run.seconds_per_step,
            )
        )
    names = (
        "method",
        "family",
        "load",
        "wait_for",
        "seed",
        "seconds_to_target",
        "seconds_per_step",
        "speed_up_to_target",
        "speed_up_per_step",
    )
    numbers = FigureTable.of(names, rows)
    compared = "time per step" if target is None else f"time to {measures.target_name(target)}"
    notes = [
        *bench.conditions(True, seeds),
        f"Bars are medians over {seeds} seeds of the delays, thin lines go from the least to the greatest."
        if seeds > 1
        else "Bars are of one run each.",
        "ErasureHead waits for at most "
        + ", ".join(f"{wait} of 30 workers with c = {load}" for load, wait in WAITS.items())
        + ".",
    ]
    title = f"Figure {id[0]}({id[1]}), {bench.title}: speed-up over uncoded"
    draw = partial(_draw, numbers=numbers, compared=compared)
    summary = _summary(numbers, compared)
    return Exhibit(id, f"figure-{id}", title, notes, numbers, summary, draw, f"({id[1]}) {bench.title}")


def _summary(numbers: FigureTable, compared: str) -> FigureTable:
    rows: list[tuple[str, float, float, float, float]] = []
    for method in BARS[1:]:
        by_target, by_step = _gains(numbers, method.family, method.load)
        rows.append((method.label, median(by_target), min(by_target), max(by_target), median(by_step)))
    return FigureTable.of(("method", f"speed-up by {compared}", "least", "greatest", "speed-up by time per step"), rows)


def _gains(numbers: FigureTable, family: Family, load: int) -> tuple[list[float], list[float]]:
    """Return the speed-ups of a method, one per seed: to the target (per step where there is none), and per step."""
    by_step = numbers.column("speed_up_per_step", family=family, load=load).tolist()
    to_target = numbers.column("speed_up_to_target", family=family, load=load).tolist()
    return [gain if gain > 0.0 else step for gain, step in zip(to_target, by_step, strict=True)], by_step


def _draw(axes: Axes, numbers: FigureTable, compared: str) -> None:
    width, highest = 0.36, 1.0
    for side, (family, label) in enumerate(_FAMILIES):
        for place, load in enumerate(WAITS):
            gains = _gains(numbers, family, load)[0]
            x, height, most = place + (side - 0.5) * width, median(gains), max(gains)
            axes.bar(x, height, width=0.94 * width, color=colour_of(family), label=label if not place else None)
            axes.vlines(x, min(gains), most, color=INK, linewidth=1.4)
            highest = max(highest, most)
            axes.annotate(f"{height:.1f}×", (x, most), (0, 4), textcoords="offset points", ha="center")
    axes.axhline(1.0, color=colour_of("uncoded"), linewidth=1.5, linestyle="--", label="uncoded GD (1×)")
    axes.set_xticks(np.arange(len(WAITS)), [f"c = {load}" for load in WAITS])
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(0, 1.15 * highest)
    y_label = f"times as fast as uncoded, by {compared}"
    dress(axes, "redundancy: tasks per worker", y_label, "y", loc="upper left", fontsize=9)
