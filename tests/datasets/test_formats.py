"""One table in every format: CSV, Parquet, and frames of pandas, polars and pyarrow mean the same."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasurehead import datasets
from erasurehead.datasets.readers import csv
from erasurehead.datasets.sharded import shard, table_sources

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

N = 40
BIG = 2**60
NAMED = ("id", "nullable", "huge", "money", "flag2", "group", "numbered", "day")
"""Columns of the table below that are one-hot encoded."""


def table(rng: np.random.Generator, n: int = N) -> dict[str, Any]:
    """A table with columns of many types; each is an array of pyarrow."""

    def holes(values: Sequence[Any], share: float = 0.2) -> list[Any]:
        there = [None if rng.random() < share else value for value in values]
        return [values[0], *there[1:]]

    ids = [BIG + int(step) for step in rng.integers(0, 3, n)]
    flags = [bool(flag) for flag in rng.random(n) < 0.5]
    towns = rng.choice(["Ely", "Rye", "NA"], n).tolist()
    return {
        "size": pa.array(holes(rng.normal(size=n).tolist()), pa.float64()),
        "rooms": pa.array(holes(rng.integers(0, 9, n).tolist()), pa.int16()),
        "flag": pa.array(holes(flags), pa.bool_()),
        "id": pa.array(ids, pa.int64()),
        "nullable": pa.array(holes(ids[::-1]), pa.int64()),
        "huge": pa.array(holes([2**63 + 10 * value % 7 for value in ids]), pa.uint64()),
        "money": pa.array(holes([Decimal(value % 5) / 4 for value in ids]), pa.decimal128(22, 2)),
        "account": pa.array([Decimal(value) for value in ids], pa.decimal128(30, 0)),
        "flag2": pa.array(holes([not flag for flag in flags]), pa.bool_()),
        "group": pa.array(holes(towns)).dictionary_encode(),
        "numbered": pa.array(holes(ids)).dictionary_encode(),
        "day": pa.array(holes([datetime.date(2020, 1, 1 + value % 3) for value in ids]), pa.date32()),
        "y": pa.array([bool(flag) for flag in rng.permutation(np.arange(n) % 2 == 0)]),
    }


def every_format(columns: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The table as a file or a frame, by its format."""
    arrow = pa.table(dict(columns))
    pq.write_table(arrow, folder / "t.parquet", row_group_size=7)
    plain = {name: column.to_pylist() for name, column in columns.items()}
    rows = zip(*plain.values(), strict=True)
    lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
    (folder / "t.csv").write_text("\n".join([",".join(plain), *lines]) + "\n")
    nullable = {"bool": "boolean", "int16": "Int16", "int64": "Int64", "uint64": "UInt64"}
    frame = pd.DataFrame({name: pd.Series(values, dtype=nullable.get(str(columns[name].type), object))
                          for name, values in plain.items()})  # fmt: skip
    for name in ("group", "numbered"):
        if name in frame:
            frame[name] = frame[name].astype("category")
    return {
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
        "arrow": arrow,
        "chunks": pa.concat_tables([arrow.slice(0, 3), arrow.slice(3)]).unify_dictionaries(),
        "pandas": frame,
        "pandas of arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.from_arrow(arrow),
    }


def matrix(data: Any) -> np.ndarray[Any, Any]:
    return data.toarray() if hasattr(data, "toarray") else np.asarray(data)


@given(st.integers(0, 10_000))
@settings(max_examples=3, deadline=None)
def test_a_table_means_the_same_in_every_format(seed: int) -> None:
    columns = table(np.random.default_rng(seed))
    with tempfile.TemporaryDirectory() as folder:
        made = every_format(columns, Path(folder))
        named = {"one_hot": NAMED, "drop": ["account"]}
        read = {name: datasets.read(source, "y", **named) for name, source in made.items()}
        for data in read.values():
            assert data.encoding.to_json() == read["csv"].encoding.to_json()
            np.testing.assert_array_equal(matrix(data.X_train), matrix(read["csv"].X_train))
            np.testing.assert_array_equal(data.y_train, read["csv"].y_train)
            assert [use.as_dict() for use in data.uses] == [use.as_dict() for use in read["csv"].uses]
        known = matrix(read["csv"].encoding.apply(made["csv"]).X)
        for source in made.values():
            np.testing.assert_array_equal(matrix(read["parquet"].encoding.apply(source).X), known)
        rows = pa.table(dict(columns)).to_pylist()
        np.testing.assert_array_equal(matrix(read["csv"].encoding.apply(rows).X), known)
        with pytest.MonkeyPatch.context() as small:
            small.setattr(csv, "_CHUNK_FIELDS", 9 * len(columns))
            small.setattr(table_sources, "BLOCK_ROWS", 9)
            for name in ("csv", "parquet"):
                held = shard(made[name], 2, Path(folder) / name, "y", **named)
                assert held.encoding.to_json() == read["csv"].encoding.to_json()
                rows = [matrix(held.task(place).X) for place in (0, 1)]
                np.testing.assert_array_equal(np.concatenate(rows), matrix(read["csv"].X_train))
