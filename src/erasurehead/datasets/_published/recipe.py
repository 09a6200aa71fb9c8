"""A recipe: how one of the paper's data sets is made from its public file; plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from erasurehead._internal.user_files import readable
from erasurehead.datasets._base import Dataset, Published, split_rows
from erasurehead.datasets._preprocessing.feature_fit import FeatureFit
from erasurehead.datasets._preprocessing.table_encoding import TableEncoding
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._readers.csv import read_csv
from erasurehead.datasets._readers.dialects import Dialect
from erasurehead.datasets._readers.layouts import look
from erasurehead.datasets._readers.table import Table
from erasurehead.errors import DataError, counted

TEST_FRACTION = 0.2
SEED = 0


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a data set of the paper is made.

    Arguments:
        name: short name, also that of the folder that may hold the file.
        files: names of the public file, the first one found is read; each may also end in `.gz` or `.bz2`.
        parts: names of files that hold only some of the rows, with what they hold; read if there is no complete file.
        columns: all columns of a file without a header, in order; of one with a header, those that are needed.
        header: whether the file has a header.
        one_hot: the groups of columns whose distinct values become columns.
        target: how labels become numbers.
        n_rows: number of rows of the public file.
        openml: id of the data set on OpenML; None if scikit-learn fetches it from elsewhere.
        published: the settings of the paper's runs.
    """

    name: str
    files: tuple[str, ...]
    columns: tuple[str, ...]
    header: bool
    one_hot: tuple[tuple[str, ...], ...]
    target: Target
    n_rows: int
    openml: int | None
    published: Published
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that one-hot features use."""
        return tuple(dict.fromkeys(name for group in self.one_hot for name in group))


def read_recipe(recipe: Recipe, path: Path) -> Table:
    """Read the columns of a recipe from its public file.

    Raises:
        DataError: if a column is missing, a field is not a number, or the file is truncated.
    """
    path = readable(path)
    labels = recipe.target.names
    if recipe.header:
        layout = replace(look(path, Dialect(header=True)), notes=())
        missing = [name for name in recipe.features if name not in layout.names]
        if missing or not any(name in layout.names for name in labels):
            absent = missing[0] if missing else recipe.target.name
            raise DataError(
                f"{path}, line 1: there is no column {absent!r}; the header of {recipe.name} must name"
                f" {', '.join((recipe.target.name, *recipe.features))}."
            )
    else:
        layout = replace(look(path, Dialect(header=False)), names=recipe.columns, notes=())
    wanted = {*recipe.features, *labels}
    table = read_csv(path, layout, lambda name: "number" if name in wanted else None)
    if table.n_rows < recipe.n_rows and table.notes:
        raise DataError(
            f"{table.place(table.n_rows - 1)}: the file is cut off there, {table.n_rows} of {recipe.n_rows} rows and no"
            " newline at the end; copy or download it again."
        )
    return table


def follow(
    recipe: Recipe, table: Table, source: str, notes: Sequence[str] = (), name: str = "", whole: int = 0
) -> Dataset:
    """Make the data set from the raw columns: drop other classes, one-hot, split 80/20.

    The encoding is fitted on both parts, as the original experiments do: no value of the test part is unseen.

    Arguments:
        recipe: the recipe.
        table: the raw columns.
        source: where they came from.
        notes: notes about that.
        name: name of the data set; by default the recipe's.
        whole: number of rows of a complete table; by default that of the public file.
    """
    column = next((name for name in recipe.target.names if name in table.columns), recipe.target.name)
    y, kept = recipe.target.apply(table.column(column), table.place)
    if recipe.target.classes is not None and len(np.unique(y)) < recipe.target.classes.size:
        both = " and ".join(recipe.target.classes.labels())
        raise DataError(f"{source}: there must be rows of both labels, {both}, but one of them is missing.")
    train, test = split_rows(len(kept), TEST_FRACTION, SEED)
    fit = FeatureFit(recipe.one_hot, table.source)
    fit.add({}, {name: table.column(name).take(kept) for name in recipe.features})
    encoding = TableEncoding(
        recipe.columns, recipe.header, *fit.features((), recipe.one_hot, standardize=False), recipe.target
    )
    trained, tested = encoding.encode(table, [kept[train], kept[test]])
    remarks = [*notes, recipe.target.meaning()]
    whole = whole or recipe.n_rows
    if table.n_rows < whole:
        remarks.append(f"{table.n_rows} of {whole} rows: the shapes differ from those of the paper")
    if len(kept) < table.n_rows:
        remarks.append(f"{counted('row', table.n_rows - len(kept))} of other classes left out")
    remarks += [f"training rows: {sentence}" for sentence in trained.report.sentences()]
    return Dataset(
        name or recipe.name,
        trained.X,
        y[train],
        tested.X,
        y[test],
        recipe.target.task,
        encoding,
        source,
        tuple(remarks),
        recipe.published,
    )
