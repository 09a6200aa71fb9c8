"""`erasurehead reproduce`: reproduce the figures and tables of a published paper."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from erasurehead.cli._options import OutputOptions, argument, folder, option
from erasurehead.cli._output import Screen
from erasurehead.errors import check_count, counted

if TYPE_CHECKING:
    from erasurehead.training import Callback

HELP = """
Reproduce a published paper: figures and tables, with their numbers.

[bold]erasurehead reproduce erasurehead[/bold]
  All of the ErasureHead paper (Wang, Charles, Papailiopoulos, 2019) on a
  virtual clock: Table 1, and Figures 2, 3 and 4.

[bold]erasurehead reproduce erasurehead --figure 2a --figure 3[/bold]
  Figure 2(a), and all panels of Figure 3.

[bold]erasurehead reproduce erasurehead --figure 2 --engine processes[/bold]
  Figure 2 in real time, on 30 processes of this machine.

[bold]erasurehead reproduce dybw --figure mnist-lrm[/bold]
  The setting of cb-DyBW (Xiong, Yan, Singh, Li, 2021), without a coordinator:
  MNIST and CIFAR-10, lrm and 2nn, 6 and 10 workers, in figures of our own.

Real data are used if available, and synthetic stand-ins otherwise; every
picture says which. The folder has a picture (PNG, SVG) and the numbers (CSV)
of each, and a page, reproduction.md, that shows everything.
"""

_WHAT, _DATA, _RUN = "What", "Data", "Workers and steps"


def run(
    *,
    paper: str = argument("PAPER", "The paper: erasurehead or dybw."),
    figure: list[str] | None = option(
        "--figure, -f",
        "table1, 2a to 2f, 3a to 3c, 4a to 4f; or 2, 3, 4 for all of their panels; of dybw, mnist-lrm-6 and the like. "
        "Repeat it for each; by default everything.",
        panel=_WHAT,
        metavar="ID",
    ),
    path: str | None = option(
        "--path", "Folder of the public data (else ERASUREHEAD_DATA, ...).", panel=_DATA, metavar="FOLDER"
    ),
    synthetic: str | None = option(
        "--synthetic",
        "fallback (the default), always or never: whether synthetic data stand in for public data.",
        panel=_DATA,
        metavar="WHEN",
    ),
    rows: int | None = option(
        "--rows", "Rows of the synthetic stand-ins, with --synthetic always.", panel=_DATA, metavar="N"
    ),
    engine: str | None = option(
        "--engine", "virtual (the default), or processes (in real time).", panel=_RUN, metavar="NAME"
    ),
    steps: int | None = option("--steps, -n", "Steps of each run (100).", panel=_RUN, metavar="N"),
    out: str | None = folder("Folder for the results; by default a new one in runs."),
    output: OutputOptions,
) -> None:
    """Reproduce a published paper."""

    if rows is not None:
        check_count("--rows", rows)
    from erasurehead.papers import reproduce

    screen = Screen(output)
    given = {"path": path, "synthetic": synthetic, "rows": rows, "engine": engine, "steps": steps}
    with _watching(screen, engine) as callbacks:
        settings = {key: value for key, value in given.items() if value is not None}
        reproduction = reproduce(paper, figure or (), out, screen.say, callbacks=callbacks, **settings)
    shown = [f"{exhibit.title}\n\n{exhibit.summary.to_markdown()}" for exhibit, _ in reproduction.exhibits]
    last = (
        f"{counted('exhibit', len(reproduction.exhibits))} in {reproduction.seconds:.0f} s; reproduction.md, pictures "
        f"and numbers in {reproduction.folder}"
    )
    screen.result(reproduction.as_dict(), *shown, last)


def _watching(screen: Screen, engine: str | None) -> contextlib.AbstractContextManager[Sequence[Callback]]:
    """Return callbacks for runs; none for the virtual clock, where runs are too short for a progress bar."""
    return screen.watching() if engine == "processes" else contextlib.nullcontext(())
