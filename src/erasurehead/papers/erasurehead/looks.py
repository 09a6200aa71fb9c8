"""How methods look in every panel: the colour says who computes what, the line and the marker how much."""

from __future__ import annotations

from erasurehead.papers.erasurehead.published import Family, Method
from erasurehead.reports.canvas import RunStyle, run_style

_COLOURS: dict[Family, str] = {
    "uncoded": run_style(0).colour,
    "exact": run_style(1).colour,
    "erasurehead": run_style(2).colour,
}
_MARKERS: dict[Family, str] = {"uncoded": "o", "exact": "s", "erasurehead": "^"}


def colour_of(family: Family) -> str:
    """Return the colour of a family: grey for uncoded, blue for exact codes, orange for ErasureHead."""
    return _COLOURS[family]


def look_of(method: Method) -> RunStyle:
    """Return how a method is drawn."""
    line = "--" if method.load == 2 else "-" if method.load in (1, 3) else ":"
    return RunStyle(_COLOURS[method.family], line, _MARKERS[method.family])
