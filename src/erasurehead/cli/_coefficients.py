"""`erasurehead coefficients`: what a linear model has learned of each column."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from erasurehead._internal.documents import Entries, PlainData
from erasurehead.cli._options import OutputOptions, argument, option
from erasurehead.cli._output import Screen
from erasurehead.cli._streams import check_open

if TYPE_CHECKING:
    from erasurehead.runs import TrainedModel

HELP = """
Print the coefficients of a linear model, the largest first.

[bold]erasurehead coefficients runs/houses[/bold]
  For each column by how much the prediction changes where it is larger by 1,
  and where it is larger by its standard deviation; by the latter they are
  sorted, as it does not depend on units. Where nothing was standardized,
  there is the former only. The constant comes last.

[bold]erasurehead coefficients runs/houses --top 0 --json[/bold]
  All of them, for other programs.

Of two classes, coefficients are of the log odds of the second class against
the first; of more, of the score of each class; and with the losses poisson,
gamma and log_least_squares, of the logarithm of the predicted number.
"""


def run(
    *,
    folder: str = argument("RUN", "The run folder."),
    top: int = option(
        "--top", "How many to print; 0 for all.", panel="Output", metavar="N", shown=True, min=0, default=20
    ),
    output: OutputOptions,
) -> None:
    """Print the coefficients of a linear model."""
    from erasurehead.reports._rendering import Column, as_table
    from erasurehead.runs import TrainedModel

    check_open()
    screen, model = Screen(output), TrainedModel.load(folder)
    rows = _rows(model)
    shown = rows[: top or None]
    columns = [Column(("column",), [row["column"] for row in shown])]
    if any("class" in row for row in shown):
        columns.append(Column(("class",), [row["class"] for row in shown]))
    for name, header in (("coefficient", ("coefficient",)), ("standardized", ("per standard", "deviation"))):
        if name in rows[0]:
            columns.append(Column(header, [f"{row[name]:.4g}" for row in shown]))
    left = len(rows) - len(shown)
    more = [f"and {left:,} more (--top 0 for all)"] if left else []
    screen.result({"of": _meaning(model), "coefficients": shown}, _meaning(model), as_table(columns), *more)


def _rows(model: TrainedModel) -> list[PlainData]:
    """Return the coefficients of a model, the largest first, the constant last."""
    from erasurehead.datasets._preprocessing.encoding import CONSTANT

    raw, standardized = _by_class(model.coefficients()), _by_class(model.coefficients(standardized=True))
    rows: list[PlainData] = []
    for name, own in raw.items():
        of_class = {"class": name} if len(raw) > 1 else {}
        for column, value in own.items():
            rows.append(
                {
                    "column": column,
                    **of_class,
                    "coefficient": value,
                    "standardized": standardized[name].get(column, 0.0),
                }
            )
    rows.sort(key=lambda row: (row["column"] == CONSTANT, -abs(row["standardized"])))
    if all(row["coefficient"] == row["standardized"] for row in rows):  # columns were used as they are
        for row in rows:
            del row["standardized"]
    return rows


def _by_class(coefficients: Entries) -> dict[str, dict[str, float]]:
    """Return coefficients by class, then by column; those of a single output have the class ""."""
    several = any(isinstance(value, dict) for value in coefficients.values())
    return cast("dict[str, dict[str, float]]", coefficients) if several else {"": dict(coefficients)}


def _meaning(model: TrainedModel) -> str:
    """Return what the coefficients add up to."""
    target, loss = model.encoding.target, model.model.sample_loss
    name = target.name or "the label"
    if target.classes is None:
        return f"{'the logarithm of ' if getattr(loss, 'logs', False) else ''}{name}"
    labels = target.classes.labels()
    return (
        f"{name}: log odds of {labels[1]} against {labels[0]}" if loss.n_outputs == 1 else f"{name}: score of a class"
    )
