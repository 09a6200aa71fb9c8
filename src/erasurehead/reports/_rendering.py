"""The comparison table, for terminals and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from erasurehead.errors import counted, invalid
from erasurehead.reports import _html as html, _measures as measures
from erasurehead.reports._table import ComparisonRow
from erasurehead.reports._units import NOTHING, Unit, byte_unit, plain_unit, time_unit

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Arguments:
        header: the lines of the header.
        cells: the text of each cell.
    """

    header: tuple[str, ...]
    cells: Sequence[str]


def render_table(rows: Sequence[ComparisonRow], title: str | None = None) -> Table:
    """Return the table for a terminal, which fits into 80 characters.

    Arguments:
        rows: of `ComparedRuns`, at least one.
        title: title above the table.
    """
    return as_table(_columns(rows), notes(rows), title)


def as_table(columns: Sequence[Column], notes: Sequence[str] = (), title: str | None = None) -> Table:
    """Return columns as a table for a terminal.

    Arguments:
        columns: columns with equally many cells; the first one has names.
        notes: sentences below the table.
        title: title above the table.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title,
        caption="\n".join(notes),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        title_justify="left",
        caption_justify="left",
    )
    for column in columns:
        justify = "left" if column is columns[0] else "right"
        table.add_column("\n".join(column.header), justify=justify, no_wrap=column is not columns[0], overflow="fold")
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    return table


def to_markdown(rows: Sequence[ComparisonRow]) -> str:
    """Return the table as Markdown, with its notes below, ending in a newline.

    Arguments:
        rows: of `ComparedRuns`, at least one.
    """
    return as_markdown(_columns(rows), notes(rows))


def to_html(rows: Sequence[ComparisonRow], title: str = "") -> str:
    """Return the table as HTML for notebooks, with its notes below.

    Arguments:
        rows: of `ComparedRuns`, at least one.
        title: above the table.
    """
    return as_html(_columns(rows), notes(rows), title)


def as_html(columns: Sequence[Column], notes: Sequence[str], title: str) -> str:
    """Return columns as HTML for notebooks.

    Arguments:
        columns: columns with equally many cells.
        notes: sentences below the table.
        title: above the table.
    """
    headers = [" ".join(column.header) for column in columns]
    cells = zip(*(column.cells for column in columns), strict=True)
    return html.table(title, cells, headers, "".join(map(html.note, notes)))


def as_markdown(columns: Sequence[Column], notes: Sequence[str] = ()) -> str:
    """Return columns as a Markdown table, ending in a newline.

    Arguments:
        columns: columns with equally many cells; the first one has names.
        notes: sentences below the table.
    """
    lines = [
        [" ".join(column.header) for column in columns],
        [":--" if column is columns[0] else "--:" for column in columns],
        *zip(*(column.cells for column in columns), strict=True),
    ]
    table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    return "\n\n".join([table, *notes]) + "\n"


def notes(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return the notes below the table: what speed-ups compare, and which runs missed the target or ended early."""
    if not rows:
        raise invalid("rows", "must have at least one row", list(rows))
    basis = rows[0].basis
    target = basis.target
    sentences = [f"Speed-ups compare the {basis.compared}; {basis.baseline} is 1. {workers_text(rows)}."]
    names = [row.scheme for row in rows]
    sentences += measures.target_notes(names, [row.seconds_to_target for row in rows], target)
    # Where the target is reached so soon, speed-ups are due to chance.
    soon = any(row.steps_to_target is not None and row.steps_to_target <= 2 for row in rows)
    if target is not None and basis.by_target and soon:
        sentences.append(
            f"{measures.target_name(target)} was reached within two steps; a harder target would tell more."
        )
    return sentences + measures.early_end_notes(names, [row.stopped for row in rows])


def workers_text(rows: Sequence[ComparisonRow]) -> str:
    """Return how many workers runs had."""
    numbers = sorted({row.n_workers for row in rows})
    return " or ".join([*map(str, numbers[:-1]), counted("worker", numbers[-1])])


def _columns(rows: Sequence[ComparisonRow]) -> list[Column]:
    if not rows:
        raise invalid("rows", "must have at least one row", list(rows))
    basis = rows[0].basis
    columns = [
        Column(("Scheme",), [row.scheme for row in rows]),
        *race_columns(
            [row.seconds_per_step for row in rows],
            [row.seconds_to_target for row in rows],
            [row.speed_up for row in rows],
            basis.target,
        ),
        measured_column(("Residual",), [row.residual for row in rows], plain_unit, "tasks"),
        Column(("Gradient", "left out", "(%)"), [_write(100 * row.left_out, 1) for row in rows]),
        Column(("Waited", "for"), [_write(row.arrivals, 1) for row in rows]),
        measured_column(("Received", "in time,", "per step"), [row.received for row in rows], byte_unit),
    ]
    if basis.metric is not None:
        header = "Final", measures.metric_name(basis.metric)
        columns.append(Column(header, final_values([row.final for row in rows])))
    if any(row.died for row in rows):
        columns.append(Column(("Workers", "died"), [str(row.died) for row in rows]))
    if any(row.incidents for row in rows):
        columns.append(Column(("Other", "failures"), [str(row.incidents) for row in rows]))
    return columns


def race_columns(
    seconds_per_step: Sequence[float],
    seconds_to_target: Sequence[float | None],
    speed_ups: Sequence[float | None],
    target: tuple[str, float] | None,
) -> list[Column]:
    """Return the columns with the times of runs: per step, to the target if there is one, and the speed-up.

    Arguments:
        seconds_per_step: of each run.
        seconds_to_target: of each run; None if it was not reached.
        speed_ups: of each run over the baseline; None if it is unknown.
        target: metric and value; None for none.
    """
    columns = [measured_column(("Time per", "step"), seconds_per_step, time_unit)]
    if target is not None:
        columns.append(measured_column(("Time to", measures.target_name(target)), seconds_to_target, time_unit))
    return [*columns, measured_column(("Speed-up",), speed_ups, plain_unit, "×")]


def measured_column(
    header: tuple[str, ...],
    values: Sequence[float | None],
    unit_of: Callable[[Sequence[float | None]], Unit],
    name: str = "",
) -> Column:
    """Return a column of numbers in one unit.

    Arguments:
        header: the lines of the header, to which the unit is added.
        values: the number of each row; None for none.
        unit_of: chooses the unit.
        name: name of the unit in the header; by default that of the unit.
    """
    unit = unit_of(values)
    return Column((*header, f"({name or unit.name})"), [unit.write(value) for value in values])


def final_values(values: Sequence[float | None]) -> list[str]:
    """Return the texts of final values: four decimals, or five digits if the values are very small or large."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    if largest == 0.0 or 0.01 <= largest < 10_000:
        return [_write(value, 4) for value in values]
    return [NOTHING if value is None or not math.isfinite(value) else f"{value:.5g}" for value in values]


def _write(value: float | None, decimals: int) -> str:
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.{decimals}f}"
