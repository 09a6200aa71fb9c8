"""The ErasureHead paper (Wang, Charles, Papailiopoulos, 2019): the table and the figures of its experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from erasurehead.papers._erasurehead.bench import Bench
from erasurehead.papers._erasurehead.convergence import convergence
from erasurehead.papers._erasurehead.published import SETS
from erasurehead.papers._erasurehead.speed_ups import speed_ups
from erasurehead.papers._erasurehead.step_times import step_times_of
from erasurehead.papers._erasurehead.table1 import table1
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
_FIGURES = ("table1", *_OF_ONE_SET)


def _begin(settings: ReproductionSettings) -> Callable[[str], Sequence[Exhibit]]:
    benches = {name: Bench(name, settings) for name in SETS}
    makers: Mapping[str, Callable[[str], Exhibit]] = {
        "table1": partial(table1, benches),
        **{id: partial(make, benches[name]) for id, (make, name) in _OF_ONE_SET.items()},
    }
    return lambda id: [makers[id](id)]


_PLATES = {
    "2": ("Figure 2: convergence and time per step, with simulated stragglers", 3),
    "3": ("Figure 3: speed-ups over uncoded gradient descent, with simulated stragglers", 3),
    "4": ("Figure 4: convergence and time per step, without simulated stragglers", 3),
}

ERASUREHEAD = Paper(
    "erasurehead",
    "# The ErasureHead paper, reproduced\n\nMade in {seconds} s. Every picture has its numbers beside it, as CSV.\n",
    _FIGURES,
    {plate: [id for id in _FIGURES if id.startswith(plate)] for plate in _PLATES},
    _begin,
    _PLATES,
)
"""Table 1, and Figures 2, 3 and 4."""
