"""The papers that can be reproduced, and reproducing them: figure by figure, to a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import check_choice
from erasurehead.papers._dybw import DYBW
from erasurehead.papers._erasurehead import ERASUREHEAD
from erasurehead.papers._exhibit import Exhibit, Plate
from erasurehead.papers._reproduction import Paper, Reproduction, ReproductionSettings
from erasurehead.reports import _canvas as canvas
from erasurehead.runs._jsonl import to_text
from erasurehead.runs._names import RUNS, check_free, make_folder, next_free

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (ERASUREHEAD, DYBW)}
"""The papers by their names."""


def reproduce(
    paper: str,
    figures: Sequence[str] = (),
    out: StrPath | None = None,
    tell: Callable[[str], None] = lambda text: None,
    **settings: Any,
) -> Reproduction:
    """Reproduce a paper's tables and figures.

    Each exhibit is written as soon as it is made: picture (PNG, SVG), numbers (CSV); at the end
    `reproduction.md` shows all of them, and `reproduction.json` has the summaries.

    Arguments:
        paper: `"erasurehead"` or `"dybw"`.
        figures: see `Paper.select`.
        out: the folder to write to, which must be empty or missing; None for a new one in `runs`.
        tell: called with a line of text on each thing that is being made.
        settings: what differs from the defaults: `engine` (`"virtual"`, or `"processes"` on this machine), `steps` of
            each training run (100, as published), `path` of the public data, `synthetic` (`"fallback"`, `"always"` or
            `"never"`), `rows` of synthetic stand-ins, and `callbacks`, which watch every training run.

    Raises:
        InvalidArgument: for an unknown paper or figure, a folder that is not empty, or a setting that does not fit.
        DataError: if the data cannot be used.
        MissingExtra: if matplotlib is not installed.
        KeyboardInterrupt: on Ctrl-C; the exhibits finished by then are in the folder.
    """
    check_choice("paper", paper, PAPERS)
    began, chosen, checked = time.perf_counter(), PAPERS[paper], ReproductionSettings(**settings)
    names, make = chosen.select(figures), chosen.begin(checked)
    with canvas.drawing():  # so that a missing matplotlib is found out before anything is trained
        folder = check_free(out or next_free(RUNS, f"reproduce-{paper}"))
    written: list[tuple[Exhibit, Sequence[Path]]] = []
    for figure in names:
        tell(f"making {figure} ...")
        exhibits = make(figure)
        if not written:  # leave no empty folder behind if the data cannot be used
            make_folder(folder)
        written += [(exhibit, exhibit.write(folder)) for exhibit in exhibits]
    plates = [(plate, plate.write(folder)) for plate in _plates(chosen, [exhibit for exhibit, _ in written])]
    reproduction = Reproduction(chosen, checked, folder, written, plates, time.perf_counter() - began)
    write_whole(folder / "reproduction.md", [reproduction.to_markdown().encode()])
    write_whole(folder / "reproduction.json", [to_text(reproduction.as_dict()).encode()])
    return reproduction


def _plates(paper: Paper, exhibits: Sequence[Exhibit]) -> Iterator[Plate]:
    """Yield the figures of which more than one panel was made."""
    for figure, (title, columns) in paper.plates.items():
        panels = [exhibit for exhibit in exhibits if exhibit.id.startswith(figure) and exhibit.draw is not None]
        if len(panels) > 1:
            yield Plate(f"figure-{figure}", title, min(columns, len(panels)), panels)
