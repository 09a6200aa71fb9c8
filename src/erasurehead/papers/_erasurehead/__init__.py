"""The ErasureHead paper (Wang, Charles, Papailiopoulos, 2019): figures of its experiments and of its theory.

The formulas of the theory are those of `erasurehead.planning`: `_erasures`, `_step_times` and `_convergence`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from erasurehead.papers._erasurehead.bench import Bench
from erasurehead.papers._erasurehead.bounds_figures import bounds, constants_table
from erasurehead.papers._erasurehead.convergence import convergence
from erasurehead.papers._erasurehead.published import SETS
from erasurehead.papers._erasurehead.speed_ups import speed_ups
from erasurehead.papers._erasurehead.step_times import step_times_of
from erasurehead.papers._erasurehead.table1 import table1
from erasurehead.papers._erasurehead.times_figures import step_time, time_to_error
from erasurehead.papers._exhibit import Exhibit
from erasurehead.papers._reproduction import Paper, ReproductionSettings

_PANELS: Sequence[tuple[str, str, Callable[[Bench, str], Exhibit]]] = (
    ("2", "abc", partial(convergence, delayed=True)),
    ("2", "def", partial(step_times_of, delayed=True)),
    ("3", "abc", speed_ups),
    ("4", "abc", partial(convergence, delayed=False)),
    ("4", "def", partial(step_times_of, delayed=False)),
)
"""Panels that show one data set each, in the order of `SETS`: figure, letters, and what makes one."""

_OF_ONE_SET = {
    f"{figure}{letter}": (make, name)
    for figure, letters, make in _PANELS
    for letter, name in zip(letters, SETS, strict=True)
}
_FIGURES = ("table1", *_OF_ONE_SET, "theory-bound", "theory-step", "theory-time", "theory-data")


def _begin(settings: ReproductionSettings) -> Callable[[str], Sequence[Exhibit]]:
    benches = {name: Bench(name, settings) for name in SETS}
    makers: Mapping[str, Callable[[str], Exhibit]] = {
        "table1": partial(table1, benches),
        **{id: partial(make, benches[name]) for id, (make, name) in _OF_ONE_SET.items()},
        "theory-bound": bounds,
        "theory-step": step_time,
        "theory-time": time_to_error,
        "theory-data": partial(constants_table, benches),
    }
    return lambda id: [makers[id](id)]


_PLATES = {
    "2": ("Figure 2: convergence and time per step, with simulated stragglers", 3),
    "3": ("Figure 3: speed-ups over uncoded gradient descent, with simulated stragglers", 3),
    "4": ("Figure 4: convergence and time per step, without simulated stragglers", 3),
    "theory": ("Theory: convergence bounds, time of a step, time to an error", 3),
}

ERASUREHEAD = Paper(
    "erasurehead",
    "# The ErasureHead paper, reproduced\n\n"
    "Made in {seconds} s. Every picture has its numbers beside it, as CSV and as Parquet.\n",
    _FIGURES,
    {plate: [id for id in _FIGURES if id.startswith(plate)] for plate in _PLATES},
    _begin,
    _PLATES,
)
"""Table 1, Figures 2, 3 and 4, and the theory's curves."""
