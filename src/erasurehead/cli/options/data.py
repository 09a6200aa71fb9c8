"""Which data, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from erasurehead.cli.options.option import option

_PANEL = "Data"


@dataclass(frozen=True)
class DataOptions:
    """What a run file can say of the data. None is what was not given."""

    data: Annotated[
        str | None,
        option(
            "--data",
            panel=_PANEL,
            metavar="NAME|FILE|FOLDER",
            text="amazon (the default), kc_housing, covertype; your own CSV, Parquet, LIBSVM, .npz or .npy file; or a "
            "folder of shards (erasurehead shard).",
        ),
    ] = None
    path: Annotated[
        str | None,
        option(
            "--path",
            panel=_PANEL,
            metavar="PLACE",
            text="The public file, or a folder that holds it (else ERASUREHEAD_DATA, a cache and the network).",
        ),
    ] = None
    data_at: Annotated[
        str | None,
        option(
            "--data-at",
            panel=_PANEL,
            metavar="FOLDER",
            text="Where the workers see a folder of shards, if elsewhere; {host} stands for the worker's host.",
        ),
    ] = None
    twin: Annotated[
        str | None,
        option(
            "--twin",
            panel=_PANEL,
            metavar="WHEN",
            text="never, fallback or always: whether a synthetic twin of the same shape stands in for the public file.",
        ),
    ] = None
    rows: Annotated[
        int | None, option("--rows", panel=_PANEL, metavar="N", text="Of a twin; by default as many as the original.")
    ] = None
    label: Annotated[
        str | None,
        option(
            "--label",
            panel=_PANEL,
            metavar="COLUMN",
            text="Column to predict (by default the last one).",
        ),
    ] = None
    drop: Annotated[
        str | None,
        option("--drop", panel=_PANEL, metavar="A,B,...", text="Columns that are left out."),
    ] = None
    delimiter: Annotated[
        str | None,
        option(
            "--delimiter",
            panel=_PANEL,
            metavar="CHARACTER",
            text="Of a CSV file, or its name: comma, semicolon, tab, bar, blanks; by default it is found out.",
        ),
    ] = None
    one_hot: Annotated[
        str | None,
        option(
            "--one-hot",
            panel=_PANEL,
            metavar="A,B,...",
            text="Columns whose distinct values become columns, or all.",
        ),
    ] = None
    categorical: Annotated[
        bool | None,
        option(
            "--categorical/--no-categorical",
            panel=_PANEL,
            text="One-hot encode every column of texts.",
        ),
    ] = None
    test_fraction: Annotated[
        float | None,
        option(
            "--test-fraction",
            panel=_PANEL,
            metavar="SHARE",
            text="Share of the rows set aside for testing (0.2).",
        ),
    ] = None
