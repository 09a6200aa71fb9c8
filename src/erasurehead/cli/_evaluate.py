"""`erasurehead evaluate`: measure a trained model on labelled rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead.cli._options import ALLOW_UNSEEN, THRESHOLD, OutputOptions, argument, option
from erasurehead.cli._output import Screen
from erasurehead.cli._streams import check_open
from erasurehead.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

    from erasurehead.runs._predictor import Scores

_MOST_SHOWN = 6
"""Classes up to which a table of what is predicted for each fits on a terminal."""

HELP = """
Measure a trained model on labelled rows that it was not trained on.

[bold]erasurehead evaluate runs/houses sold_since.csv[/bold]
  Areas under the ROC and the precision-recall curve, accuracy and log loss,
  and how many rows of each class are predicted to be of which; or errors and
  R2 of numbers.

[bold]erasurehead evaluate runs/clicks today.csv --threshold 0.2[/bold]
  The second class is predicted wherever its probability is above 0.2.

Values that training never saw are counted and reported on stderr, column by
column; where more than half of the rows have one, this is an error, unless
--allow-unseen is given.
"""


def run(
    *,
    folder: str = argument("RUN", "The run folder."),
    file: str = argument("FILE", "Rows with the columns of the training file."),
    labels: str | None = option(
        "--labels", "The labels, where the training data had them in a file of their own.", panel="Data", metavar="FILE"
    ),
    threshold: float | None = THRESHOLD,
    allow_unseen: bool = ALLOW_UNSEEN,
    output: OutputOptions,
) -> None:
    """Measure a trained model."""
    from erasurehead.runs import TrainedModel

    check_open()
    screen = Screen(output)
    scores = TrainedModel.load(folder).evaluate(file, labels, allow_unseen=allow_unseen, threshold=threshold)
    for sentence in scores.report.sentences():
        screen.warn(sentence)
    shown = "\n".join(f"{name} {value:.6g}" for name, value in scores.metrics.items())
    tables = [] if scores.confusion is None else ["", _by_class(scores)]
    screen.result(scores.as_dict(), f"{counted('row', scores.report.n_rows)}\n{shown}", *tables)


def _by_class(scores: Scores) -> Table:
    """Return how many rows of each class are predicted to be of which, with recall and precision."""
    from erasurehead.reports._rendering import Column, as_table

    counts: list[list[int]] = [] if scores.confusion is None else scores.confusion.tolist()
    columns = [Column(("class",), scores.classes), Column(("rows",), [f"{sum(own):,}" for own in counts])]
    if len(counts) <= _MOST_SHOWN:
        columns += [
            Column(("predicted", name), [f"{count:,}" for count in own])
            for name, own in zip(scores.classes, zip(*counts, strict=True), strict=True)
        ]
    for name, shares in (("recall", scores.recall), ("precision", scores.precision)):
        columns.append(Column((name,), ["" if share is None else f"{share:.1%}" for share in shares.values()]))
    return as_table(columns)
