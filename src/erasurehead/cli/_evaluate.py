"""`erasurehead evaluate`: measure a trained model on labelled rows."""

from __future__ import annotations

from erasurehead.cli._options import ALLOW_UNSEEN, OutputOptions, argument, option
from erasurehead.cli._screen import Screen
from erasurehead.cli._streams import check_open
from erasurehead.errors import counted

HELP = """
Measure a trained model on labelled rows that it was not trained on.

[bold]erasurehead evaluate runs/houses sold_since.csv[/bold]
  AUC, accuracy and log loss, or mean squared error and R2.

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
    allow_unseen: bool = ALLOW_UNSEEN,
    output: OutputOptions,
) -> None:
    """Measure a trained model."""
    from erasurehead.runs import TrainedModel

    check_open()
    screen = Screen(output)
    scores = TrainedModel.load(folder).evaluate(file, labels, allow_unseen=allow_unseen)
    for sentence in scores.report.sentences():
        screen.warn(sentence)
    shown = "\n".join(f"{name} {value:.6g}" for name, value in scores.metrics.items())
    screen.result(scores.as_dict(), f"{counted('row', scores.report.n_rows)}\n{shown}")
