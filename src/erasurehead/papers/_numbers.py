"""The numbers behind a figure: columns of equal length, written as CSV and Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.atomic_files import write_whole
from erasurehead.errors import invalid

Cell: TypeAlias = str | int | float | None
"""A cell: a number or a text; None if it is empty."""


@dataclass(frozen=True)
class FigureTable:
    """A table of numbers and texts, stored by columns.

    Arguments:
        columns: name -> cells, all columns of equal length; a column holds either texts or numbers, and None.
    """

    columns: Mapping[str, Sequence[Cell]]

    def __post_init__(self) -> None:
        lengths = {name: len(cells) for name, cells in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise invalid("columns", "must be of equal length", lengths)

    @classmethod
    def of(cls, names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Self:
        """Return the table of rows, each with a cell for every name."""
        cells = [tuple(row) for row in rows]
        for row in cells:
            if len(row) != len(names):
                raise invalid("rows", f"must have {len(names)} cells each", row)
        return cls({name: tuple(row[place] for row in cells) for place, name in enumerate(names)})

    def rows(self) -> list[dict[str, Cell]]:
        """Return one mapping per row."""
        return [dict(zip(self.columns, cells, strict=True)) for cells in zip(*self.columns.values(), strict=True)]

    def column(self, name: str, **where: Cell) -> Array:
        """Return the numbers of a column, NaN where there is none, in the rows with some cells.

        Arguments:
            name: of the column.
            where: name of a column -> the cell that a row must have there.

        >>> FigureTable.of(("n", "of"), [(1, "a"), (2, "b"), (None, "b")]).column("n", of="b")
        array([ 2., nan])
        """
        rows = [row for row in self.rows() if all(row[key] == cell for key, cell in where.items())]
        return np.array([row[name] for row in rows], dtype=np.float64)

    def write_csv(self, path: Path) -> None:
        """Write a CSV file; numbers have all their digits, None is an empty field."""
        file = io.StringIO(newline="")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows():
            writer.writerow(["" if cell is None else cell for cell in row.values()])
        write_whole(path, [file.getvalue().encode()])

    def to_markdown(self) -> str:
        """Return the table in Markdown, numbers with four significant digits, ending in a newline."""
        lines = [
            list(self.columns),
            [":--" if any(isinstance(cell, str) for cell in cells) else "--:" for cells in self.columns.values()],
            *([_shown(cell) for cell in row.values()] for row in self.rows()),
        ]
        return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def _shown(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return "–"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) else cell
