"""What the ErasureHead paper says of its experiments (section 5), the choices that it leaves open, and how it looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from erasurehead.reports._canvas import RunStyle, run_style

Family = Literal["uncoded", "exact", "erasurehead"]

N_WORKERS = 30
DELAYS_MEAN = 0.5
"""Seconds. The paper has "an exponential distribution with parameter lambda = 1/2", and draws with numpy's
`exponential(0.5)`, whose argument is the mean."""

SETS = ("amazon", "covertype", "kc_housing")
"""In the order of the panels."""

TITLES: Mapping[str, str] = {"amazon": "Amazon", "covertype": "Covertype", "kc_housing": "KC Housing"}


_COLOURS: Mapping[Family, str] = {
    "uncoded": run_style(0).colour,
    "exact": run_style(1).colour,
    "erasurehead": run_style(2).colour,
}
_MARKERS: Mapping[Family, str] = {"uncoded": "o", "exact": "s", "erasurehead": "^"}


def colour_of(family: Family) -> str:
    """Return the colour of a family: grey for uncoded, blue for exact codes, orange for ErasureHead."""
    return _COLOURS[family]


@dataclass(frozen=True)
class Method:
    """A method that the paper compares: one curve of its figures.

    Arguments:
        family: who computes what, and when to stop.
        load: c, the number of tasks per worker.
        wait_for: r, the most workers to wait for; 0 to wait for as many as are needed.
    """

    family: Family
    load: int = 1
    wait_for: int = 0

    @property
    def label(self) -> str:
        """The name used in legends, with the paper's abbreviations."""
        if self.family == "uncoded":
            return "uncoded GD"
        if self.family == "exact":
            return f"exact code (EGC), c = {self.load}"
        return f"ErasureHead (AGC), c = {self.load}, first {self.wait_for}"

    @property
    def short(self) -> str:
        """The same in a few letters."""
        return {"uncoded": "uncoded", "exact": f"EGC c = {self.load}", "erasurehead": f"AGC c = {self.load}"}[
            self.family
        ]

    @property
    def text(self) -> str:
        """The scheme as a run file writes it; ErasureHead's sum is not rescaled, as in Algorithm 1."""
        if self.family == "uncoded":
            return "uncoded()"
        if self.family == "exact":
            return f"exact(load={self.load})"
        return f"erasurehead(load={self.load}, wait_for={self.wait_for}, rescale='none')"

    @property
    def look(self) -> RunStyle:
        """How it is drawn: the colour says who computes what, the line and the marker how much."""
        line = "--" if self.load == 2 else "-" if self.load in (1, 3) else ":"
        return RunStyle(_COLOURS[self.family], line, _MARKERS[self.family])


UNCODED = Method("uncoded")
WAITS: Mapping[int, int] = {2: 11, 3: 11, 5: 7}
"""c -> r. "For both choice of c, we wait for at most 11/30 of the workers" (Amazon, c = 2 and 3); the paper says
nothing of the other sets, for which the same is taken. For c = 5, which is not in its figures 2 and 4, 7/30: as
large a share of the gradient as with c = 3 is then expected to be in, and the paper has delta fall with c."""


def methods(loads: tuple[int, ...]) -> tuple[Method, ...]:
    """Return uncoded gradient descent, then exact codes, then ErasureHead, with each of the loads."""
    coded = [Method("exact", load) for load in loads]
    return UNCODED, *coded, *(Method("erasurehead", load, WAITS[load]) for load in loads)


CURVES = methods((2, 3))
"""Those of Figures 2 and 4."""

BARS = methods((2, 3, 5))
"""Those of Figure 3."""


@dataclass(frozen=True)
class Printed:
    """A column of Table 1.

    Arguments:
        rows: "# data points".
        dimension: after one-hot encoding.
        model: as printed.
        rate: the learning rate as printed.
        remark: a note on how to read the numbers.
    """

    rows: int
    dimension: int
    model: str
    rate: str
    remark: str


TABLE1: Mapping[str, Printed] = {
    "amazon": Printed(26_215, 241_915, "logistic", "10", "the rows are those of the training part"),
    "covertype": Printed(
        495_141,
        15_509,
        "logistic",
        "0.1",
        "the rows are those before a fifth is set aside: 396,112 are left for training",
    ),
    "kc_housing": Printed(
        17_290,
        27_654,
        "least squares",
        "0.1 * 0.99^t",
        "the rows are those of the training part; the authors' code has 0.98^t",
    ),
}
