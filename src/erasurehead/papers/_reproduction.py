"""Reproducing a paper: what a user may choose, which exhibits there are, making them, and the page that shows them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from erasurehead._internal.documents import PlainData
from erasurehead.errors import check_choice, check_count, invalid
from erasurehead.papers._exhibit import Exhibit, Plate
from erasurehead.training import Callback


@dataclass(frozen=True)
class ReproductionSettings:
    """Settings of a reproduction; everything else is as in the paper.

    Arguments:
        engine: `"virtual"`, which simulates waiting on a virtual clock, or `"processes"` on this machine.
        steps: number of steps of each training run; the published runs have 100.
        path: the file of the public data, or the folder that holds it; None for the usual places (see `datasets.load`).
        synthetic: `"fallback"` for synthetic stand-ins where public data are not available, `"always"`, or `"never"`.
        rows: number of rows of the synthetic stand-ins, only with `"always"`; None for as many as the originals have.
        callbacks: hooks that watch every training run.
    """

    engine: Literal["virtual", "processes"] = "virtual"
    steps: int = 100
    path: str | None = None
    synthetic: Literal["never", "fallback", "always"] = "fallback"
    rows: int | None = None
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        for argument, value, names in (
            ("engine", self.engine, ("virtual", "processes")),
            ("synthetic", self.synthetic, ("never", "fallback", "always")),
        ):
            check_choice(argument, value, names)
        if self.rows is not None and self.synthetic != "always":
            raise invalid(
                "rows",
                "is for synthetic data only",
                self.rows,
                "take the synthetic stand-in (--synthetic always), or all rows",
            )


@dataclass(frozen=True, eq=False)
class Paper:
    """A paper that can be reproduced.

    Arguments:
        name: as the command line has it.
        heading: the beginning of its page; `{seconds}` stands for how long everything took.
        figures: the names of what can be asked for, in the paper's order.
        several: name of a group -> the figures in it.
        begin: given the settings, returns what makes the exhibits of a figure.
        plates: figures of several panels: the beginning of their panels' names -> title, and panels in a row.
    """

    name: str
    heading: str
    figures: Sequence[str]
    several: Mapping[str, Sequence[str]]
    begin: Callable[[ReproductionSettings], Callable[[str], Sequence[Exhibit]]]
    plates: Mapping[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def select(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the figures asked for, in the paper's order; all of them if none is named.

        Arguments:
            wanted: names of figures, or of groups of figures, in upper or lower case.

        Raises:
            InvalidArgument: for an unknown name; the message lists the known ones.
        """
        chosen: set[str] = set()
        for name in wanted:
            key = name.strip().lower()
            if key not in self.figures and key not in self.several:
                raise invalid("figure", f"must be one of {', '.join((*self.figures, *self.several))}", name)
            chosen.update(self.several.get(key, (key,)))
        return tuple(figure for figure in self.figures if figure in chosen or not wanted)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The exhibits and plates that `reproduce` made.

    Attributes:
        paper: the paper.
        settings: the settings it was made with.
        folder: the folder with all files.
        exhibits: the exhibits made, each with its files.
        plates: the pictures of whole figures.
        seconds: the wall-clock time it took.
    """

    paper: Paper
    settings: ReproductionSettings
    folder: Path
    exhibits: Sequence[tuple[Exhibit, Sequence[Path]]]
    plates: Sequence[tuple[Plate, Sequence[Path]]]
    seconds: float

    def as_dict(self) -> PlainData:
        """Return the reproduction as plain data."""
        return {
            "paper": self.paper.name,
            "engine": self.settings.engine,
            "steps": self.settings.steps,
            "late": "preempt",
            "seconds": self.seconds,
            "exhibits": [exhibit.as_dict(files) for exhibit, files in self.exhibits],
            "figures": [str(path) for _, files in self.plates for path in files],
            "folder": str(self.folder),
        }

    def command(self, exhibit: Exhibit) -> str:
        """Return the command that makes an exhibit again, which may be one of several of its figure."""
        figure = next(figure for figure in self.paper.figures if exhibit.id.startswith(figure))
        words = [f"erasurehead reproduce {self.paper.name}", f"--figure {figure}"]
        for name in ("engine", "steps", "path", "synthetic", "rows"):
            value = getattr(self.settings, name)
            if value != getattr(ReproductionSettings, name):
                words.append(f"--{name} {shlex.quote(str(value))}")
        return " ".join(words)

    def to_markdown(self) -> str:
        """Return the page that shows everything."""
        parts = [self.paper.heading.format(seconds=f"{self.seconds:.0f}")]
        parts += [f"![{plate.title}]({files[0].name})\n" for plate, files in self.plates]
        for exhibit, files in self.exhibits:
            parts.append(f"## {exhibit.title}\n")
            parts += [f"![{exhibit.title}]({path.name})\n" for path in files if path.suffix == ".png"]
            parts.append(exhibit.summary.to_markdown())
            parts.append(f"Made by `{self.command(exhibit)}`\n")
            parts.append("".join(f"- {note}\n" for note in exhibit.notes))
            parts.append("Files: " + ", ".join(f"[{path.name}]({path.name})" for path in files) + "\n")
        return "\n".join(parts)
