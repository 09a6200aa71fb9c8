"""The ErasureHead paper as one command: which figures there are, making them, and the page that shows them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from erasurehead._internal.atomic_files import write_whole
from erasurehead.papers import selection
from erasurehead.papers.erasurehead.bench import Bench
from erasurehead.papers.erasurehead.convergence import convergence
from erasurehead.papers.erasurehead.published import SETS
from erasurehead.papers.erasurehead.speed_ups import speed_ups
from erasurehead.papers.erasurehead.step_times import step_times_of
from erasurehead.papers.erasurehead.table1 import table1
from erasurehead.papers.erasurehead.theory_bounds import bounds, constants_table
from erasurehead.papers.erasurehead.theory_times import step_time, time_to_error
from erasurehead.papers.exhibit import Exhibit, Plate
from erasurehead.papers.numbers import load_arrow
from erasurehead.papers.settings import ReproductionSettings
from erasurehead.reports import canvas
from erasurehead.runs.jsonl import to_text
from erasurehead.runs.names import RUNS, check_free, make_folder, next_free

_Maker = Callable[[Mapping[str, Bench]], Exhibit]

_PLATES: Mapping[str, tuple[str, int]] = {
    "2": ("Figure 2: convergence and time per step, with simulated stragglers", 3),
    "3": ("Figure 3: speed-ups over uncoded gradient descent, with simulated stragglers", 3),
    "4": ("Figure 4: convergence and time per step, without simulated stragglers", 3),
    "theory": ("Theory: convergence bounds, time of a step, time to an error", 3),
}
"""Figures of several panels: title, and panels in a row."""

PAGE = "reproduction.md"
FACTS = "reproduction.json"


def _panels(figure: str, delayed: bool) -> dict[str, _Maker]:
    made: dict[str, _Maker] = {}
    for letter, name in zip("abc", SETS, strict=True):
        made[f"{figure}{letter}"] = lambda benches, n=name, i=f"{figure}{letter}": convergence(benches[n], i, delayed)
    for letter, name in zip("def", SETS, strict=True):
        made[f"{figure}{letter}"] = lambda benches, n=name, i=f"{figure}{letter}": step_times_of(benches[n], i, delayed)
    return made


_MAKERS: Mapping[str, _Maker] = {
    "table1": table1,
    **_panels("2", delayed=True),
    **{
        f"3{letter}": lambda benches, n=name, i=f"3{letter}": speed_ups(benches[n], i)
        for letter, name in zip("abc", SETS, strict=True)
    },
    **_panels("4", delayed=False),
    "theory-bound": lambda benches: bounds("theory-bound"),
    "theory-step": lambda benches: step_time("theory-step"),
    "theory-time": lambda benches: time_to_error("theory-time"),
    "theory-data": lambda benches: constants_table("theory-data", benches),
}

EXHIBITS = tuple(_MAKERS)
"""The names of the exhibits, in the paper's order; `2`, `3`, `4` and `theory` stand for all of their panels."""


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The exhibits and plates that `reproduce` made.

    Attributes:
        settings: the settings it was made with.
        folder: the folder with all files.
        exhibits: the exhibits made, each with its files.
        plates: the pictures of whole figures.
        seconds: the wall-clock time it took.
    """

    settings: ReproductionSettings
    folder: Path
    exhibits: Sequence[tuple[Exhibit, Sequence[Path]]]
    plates: Sequence[tuple[Plate, Sequence[Path]]]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the reproduction as plain data."""
        return {
            "paper": "erasurehead",
            "engine": self.settings.engine,
            "steps": self.settings.steps,
            "late": "preempt",
            "seconds": self.seconds,
            "exhibits": [exhibit.as_dict(files) for exhibit, files in self.exhibits],
            "figures": [str(path) for _, files in self.plates for path in files],
            "folder": str(self.folder),
        }

    def command(self, id: str) -> str:
        """Return the command that makes an exhibit again."""
        words = ["erasurehead reproduce erasurehead", f"--figure {id}"]
        for name in ("engine", "steps", "path", "synthetic", "rows"):
            value = getattr(self.settings, name)
            if value != getattr(ReproductionSettings, name):
                words.append(f"--{name} {shlex.quote(str(value))}")
        return " ".join(words)

    def to_markdown(self) -> str:
        """Return the page that shows everything."""
        beside = "Every picture has its numbers beside it, as CSV and as Parquet."
        parts = ["# The ErasureHead paper, reproduced\n", f"Made in {self.seconds:.0f} s. {beside}\n"]
        parts += [f"![{plate.title}]({files[0].name})\n" for plate, files in self.plates]
        for exhibit, files in self.exhibits:
            parts.append(f"## {exhibit.title}\n")
            parts += [f"![{exhibit.title}]({path.name})\n" for path in files if path.suffix == ".png"]
            parts.append(exhibit.summary.to_markdown())
            parts.append(f"Made by `{self.command(exhibit.id)}`\n")
            parts.append("".join(f"- {note}\n" for note in exhibit.notes))
            parts.append("Files: " + ", ".join(f"[{path.name}]({path.name})" for path in files) + "\n")
        return "\n".join(parts)


def select(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the exhibits asked for, in the paper's order; all of them if none is named.

    Arguments:
        wanted: names from `EXHIBITS`, or `2`, `3`, `4`, `theory` for all of their panels.

    Raises:
        InvalidArgument: for an unknown name; the message lists the known ones.

    >>> select(["3", "2a"])
    ('2a', '3a', '3b', '3c')
    """
    panels = {plate: [id for id in EXHIBITS if id.startswith(plate)] for plate in _PLATES}
    return selection.select(wanted, EXHIBITS, panels)


def reproduce(
    figures: Sequence[str] = (),
    settings: ReproductionSettings | None = None,
    out: str | os.PathLike[str] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Reproduction:
    """Reproduce the ErasureHead paper's Table 1, Figures 2, 3 and 4, and its theory's curves.

    Each exhibit is written as soon as it is made: picture (PNG, SVG), numbers (CSV, Parquet); at the end
    `reproduction.md` shows all of them, and `reproduction.json` has the summaries.

    Arguments:
        figures: see `select`.
        settings: engine, number of steps, folder of the data; None for the defaults.
        out: the folder to write to, which must be empty or missing; None for a new one in `runs`.
        tell: called with a line of text on each thing that is being made.

    Raises:
        InvalidArgument: for an unknown figure, a folder that is not empty, or a setting that does not fit.
        DataError: if the data cannot be used.
        MissingExtra: if matplotlib or pyarrow is not installed.
        KeyboardInterrupt: on Ctrl-C; the exhibits finished by then are in the folder.
    """
    begin = time.perf_counter()
    chosen, settings = select(figures), settings or ReproductionSettings()
    load_arrow()
    with canvas.drawing():  # so that a missing matplotlib is found out before anything is trained
        folder = check_free(out or next_free(RUNS, "reproduce-erasurehead"))
    benches = {name: Bench(name, settings) for name in SETS}
    made: list[tuple[Exhibit, Sequence[Path]]] = []
    for id in chosen:
        tell(f"making {id} ...")
        exhibit = _MAKERS[id](benches)
        if not made:  # leave no empty folder behind if the data cannot be used
            make_folder(folder)
        made.append((exhibit, exhibit.write(folder)))
    plates = [(plate, plate.write(folder)) for plate in _plates([exhibit for exhibit, _ in made])]
    reproduction = Reproduction(settings, folder, made, plates, time.perf_counter() - begin)
    write_whole(folder / PAGE, [reproduction.to_markdown().encode()])
    write_whole(folder / FACTS, [to_text(reproduction.as_dict()).encode()])
    return reproduction


def _plates(exhibits: Sequence[Exhibit]) -> Iterator[Plate]:
    """Yield the figures of which more than one panel was made."""
    for figure, (title, columns) in _PLATES.items():
        panels = [exhibit for exhibit in exhibits if exhibit.id.startswith(figure) and exhibit.draw is not None]
        if len(panels) > 1:
            name = figure if figure == "theory" else f"figure-{figure}"
            yield Plate(name, title, min(columns, len(panels)), panels)
