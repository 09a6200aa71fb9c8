"""Encodings of tables that are in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from erasurehead.datasets._preprocessing.feature_fit import FeatureFit
from erasurehead.datasets._preprocessing.table_encoding import TableEncoding
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._readers.layouts import TableLayout
from erasurehead.datasets._readers.table import Table


def fit_table(
    table: Table,
    target: Target,
    layout: TableLayout,
    *,
    numeric: Iterable[str] = (),
    one_hot: Iterable[Sequence[str]] = (),
    rows: NDArray[np.int64] | None = None,
    standardize: bool = True,
    constant: bool = True,
) -> TableEncoding:
    """Fit an encoding to some rows of a table."""
    numeric, groups = list(numeric), [tuple(group) for group in one_hot]
    names = dict.fromkeys(name for group in groups for name in group)
    chosen = np.arange(table.n_rows) if rows is None else rows
    fit = FeatureFit(groups, table.source)
    fit.add(
        {name: table.numbers(name)[chosen] for name in numeric},
        {name: table.column(name).take(chosen) for name in names},
    )
    vocabularies, features = fit.features(numeric, groups, standardize)
    return TableEncoding(layout.names, layout.header, vocabularies, features, target, constant)
