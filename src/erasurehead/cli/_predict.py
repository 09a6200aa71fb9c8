"""`erasurehead predict`: apply a trained model to new rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from erasurehead.cli._options import ALLOW_UNSEEN, THRESHOLD, OutputOptions, argument, option, value_of
from erasurehead.cli._output import Screen
from erasurehead.cli._streams import check_open

if TYPE_CHECKING:
    from erasurehead.runs._predictor import Predictions

HELP = """
Apply a trained model to rows that need no labels.

[bold]erasurehead predict runs/houses new_houses.csv > predictions.csv[/bold]
  One line per row: the predicted class and the probability of each, or the
  predicted number. Labels are written as they are; on a terminal, invisible
  characters in them are escaped.

[bold]erasurehead predict runs/houses new_houses.csv --keep id,town[/bold]
  The same with columns of the file before them; with --keep all, all of them.

The encoding of the training data is saved with the model, and the file may
have another format than the training data. Values that training never saw
are counted and reported on stderr, column by column; where more than half of
the rows have one, this is an error, unless --allow-unseen is given.
"""


def run(
    *,
    folder: str = argument("RUN", "The run folder."),
    file: str = argument("FILE", "Rows with the columns of the training file."),
    keep: list[str] | None = option(
        "--keep",
        "Columns of the file to write before the predictions, such as an identifier; or all.",
        panel="Data",
        metavar="A,B,...",
    ),
    threshold: float | None = THRESHOLD,
    allow_unseen: bool = ALLOW_UNSEEN,
    output: OutputOptions,
) -> None:
    """Apply a trained model to new rows."""
    from erasurehead.datasets._readers.forms import opened
    from erasurehead.runs import TrainedModel

    check_open()
    screen, model = Screen(output), TrainedModel.load(folder)
    rows = opened(file) if keep else file  # which may be a pipe, and is read twice
    predictions = model.predict(rows, allow_unseen=allow_unseen, threshold=threshold)
    kept: dict[str, list[str]] = {}
    if keep:
        kept = model.encoding.texts(rows, () if keep == ["all"] else value_of("drop", keep))
    for sentence in predictions.report.sentences():
        screen.warn(sentence)
    if output.as_json:
        screen.result({**predictions.as_dict(), **({"kept": kept} if keep else {})})
    else:
        screen.lines(_lines(predictions, kept))


def _lines(predictions: Predictions, kept: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Return the predictions as lines of CSV, behind the columns that are kept; no two have the same name."""
    names = [*kept]
    for name in ("prediction", *(f"probability of {name}" for name in predictions.classes)):
        while name in names:
            name += ".1"
        names.append(name)
    yield _line(*names)
    for row, value in enumerate(predictions.values):
        shares: list[float] = [] if predictions.probabilities is None else predictions.probabilities[row].tolist()
        yield _line(*(column[row] for column in kept.values()), value, *shares)


def _line(*fields: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()
