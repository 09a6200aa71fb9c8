"""`erasurehead predict`: apply a trained model to new rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from erasurehead.cli._options import ALLOW_UNSEEN, OutputOptions, argument
from erasurehead.cli._screen import Screen
from erasurehead.cli._streams import check_open

if TYPE_CHECKING:
    from erasurehead.runs._predictor import Predictions

HELP = """
Apply a trained model to rows that need no labels.

[bold]erasurehead predict runs/houses new_houses.csv > predictions.csv[/bold]
  One line per row: the predicted class and the probability of each, or the
  predicted number. Labels are written as they are; on a terminal, what cannot
  be seen in them is written as escapes.

The encoding of the training data is saved with the model, and the file may
have another format than the training data. Values that training never saw
are counted and reported on stderr, column by column; where more than half of
the rows have one, this is an error, unless --allow-unseen is given.
"""


def run(
    *,
    folder: str = argument("RUN", "The run folder."),
    file: str = argument("FILE", "Rows with the columns of the training file."),
    allow_unseen: bool = ALLOW_UNSEEN,
    output: OutputOptions,
) -> None:
    """Apply a trained model to new rows."""
    from erasurehead.runs import TrainedModel

    check_open()
    screen = Screen(output)
    predictions = TrainedModel.load(folder).predict(file, allow_unseen=allow_unseen)
    for sentence in predictions.report.sentences():
        screen.warn(sentence)
    if output.as_json:
        screen.result(predictions.as_dict())
    else:
        screen.lines(_lines(predictions))


def _lines(predictions: Predictions) -> Iterator[str]:
    """Return the predictions as lines of CSV."""
    yield _line("prediction", *(f"probability of {name}" for name in predictions.classes))
    for row, value in enumerate(predictions.values):
        shares: list[float] = [] if predictions.probabilities is None else predictions.probabilities[row].tolist()
        yield _line(value, *shares)


def _line(*fields: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()
