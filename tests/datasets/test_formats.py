"""One table in every format: CSV, Parquet, and frames of pandas, polars and pyarrow mean the same."""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import datasets
from erasurehead.datasets import shard
from erasurehead.datasets._base import split_rows
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._readers import csv
from erasurehead.datasets._sources import tables as table_sources
from erasurehead.errors import DataError, InvalidArgument, MissingExtra

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
        "typed": pa.array(holes([f"{value % 7:02}" for value in ids]), pa.string()),
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
    frame = pd.DataFrame(
        {name: pd.Series(values, dtype=nullable.get(str(columns[name].type), object)) for name, values in plain.items()}
    )
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


@pytest.mark.slow
@given(st.integers(0, 10_000))
@settings(max_examples=2, deadline=None)
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
                rows = [matrix(held.rows_of(place).X) for place in (0, 1)]
                np.testing.assert_array_equal(np.concatenate(rows), matrix(read["csv"].X_train))


@given(st.integers(0, 10_000))
@settings(max_examples=2, deadline=None)
def test_the_order_of_the_rows_does_not_change_what_a_column_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = table(rng)
    order = rng.permutation(N)
    turned = {name: column.take(pa.array(order)) for name, column in columns.items()}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        before, after = every_format(columns, Path(one)), every_format(turned, Path(other))
        for name in before:
            read = [
                datasets.read(made[name], "y", one_hot=NAMED, drop=["account"], test_fraction=None)
                for made in (before, after)
            ]
            assert read[0].encoding.to_json() == read[1].encoding.to_json()
            np.testing.assert_array_equal(matrix(read[0].X_train)[order], matrix(read[1].X_train))


@pytest.mark.parametrize("last", ["7", "north", None])
def test_texts_that_all_are_numbers_are_numbers_whatever_the_type_of_their_column(
    last: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "_CHUNK_FIELDS", 15)
    monkeypatch.setattr(table_sources, "BLOCK_ROWS", 5)
    columns = {
        "x": pa.array([*[None, *(f"{row % 3}" for row in range(N - 2))], last]),
        "a": pa.array(np.arange(N) ** 0.5),
        "y": pa.array([f"{row * 10}" for row in range(N)]),
    }
    made, numbers = every_format(columns, tmp_path), last != "north"
    said = "is of a type of texts, but holds numbers only, which count as such in every format"
    told = [f"column 'x' {said}; if they are categories, name it in one_hot (--one-hot x)"] if numbers else []
    told.append(f"the label 'y' {said}; if they name classes, train with softmax (task, --loss softmax)")
    read = {name: datasets.read(source, categorical=True) for name, source in made.items()}
    for name, data in read.items():
        assert data.task == "least_squares"
        assert data.encoding.to_json() == read["csv"].encoding.to_json()
        assert [use.becomes for use in data.uses] == ["number" if numbers else "one-hot", "number", "label"]
        assert [note for note in data.notes if "type of texts" in note] == ([] if name == "csv" else told)
        if not numbers:
            with pytest.raises(DataError, match=rf"{'line' if name == 'csv' else 'row'} .*'north' is not a number"):
                datasets.read(made[name])
    for name in ("csv", "parquet"):
        held = shard(made[name], 2, tmp_path / name, categorical=True)
        assert held.encoding.to_json() == read["csv"].encoding.to_json()
        assert list(held.manifest.notes)[: len(read[name].notes)] == list(read[name].notes)
    named = [datasets.read(source, one_hot="all") for source in made.values()]
    assert {data.encoding.to_json() for data in named} == {named[0].encoding.to_json()}


def unreadable() -> dict[str, Any]:
    """Columns that are neither of numbers nor of texts, each an array of pyarrow."""
    return {
        "duration": pa.array([datetime.timedelta(days=row) for row in range(N)]),
        "time": pa.array([datetime.time(row % 24) for row in range(N)]),
        "binary": pa.array([b"x"] * N),
        "list": pa.array([[1]] * N),
        "struct": pa.array([{"a": 1}] * N),
        "dictionary of times": pa.array([datetime.time(row % 24) for row in range(N)]).dictionary_encode(),
    }


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_moments_are_the_same_parts_in_every_format(zone: str | None, tmp_path: Path) -> None:
    moments = pa.array((np.arange(N) * 7 + 100).astype("datetime64[h]").astype("datetime64[us]"))
    columns = {"x": moments.cast(pa.timestamp("us", zone)), "y": pa.array(np.arange(N) % 2)}
    read = [datasets.read(source, "y") for source in every_format(columns, tmp_path).values()]
    assert {data.encoding.to_json() for data in read} == {read[0].encoding.to_json()}
    assert {use.name for use in read[0].uses} >= {"x (day)", "x (weekday)", "x (hour)", "y"}


@pytest.mark.parametrize("what", list(unreadable()))
def test_a_column_that_cannot_be_read_is_named_and_the_table_is_read_without_it(what: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {"x": unreadable()[what], "a": pa.array(rng.normal(size=N)), "y": pa.array(np.arange(N) % 2)}
    made = every_format(columns, tmp_path)
    for name in made.keys() - {"csv"}:
        with pytest.raises(DataError, match=r"column 'x' cannot be read: its type \(.*\) is neither of numbers nor of"):
            datasets.read(made[name], "y", categorical=True)
        data = datasets.read(made[name], "y", drop=["x"])
        assert data.n_columns == 2
        assert data.encoding.apply(made[name]).X.shape == (N, 2)
    rows = pa.table(columns).to_pylist()
    assert data.encoding.apply(rows).X.shape == (N, 2)


def test_all_columns_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    columns = unreadable() | {"a": pa.array(np.arange(N) ** 0.5), "y": pa.array(np.arange(N) % 2)}
    made = every_format({name: columns[name] for name in ("list", "time", "a", "y")}, tmp_path)
    for name in made.keys() - {"csv"}:
        with pytest.raises(DataError, match=r", columns 'list' \(list.*\), 'time' \(time.*--drop list,time\)\.$"):
            datasets.read(made[name], "y")


@pytest.mark.slow
@pytest.mark.parametrize(("categorical", "one_hot"), [(False, ()), (True, ("x",))])
def test_a_column_with_nothing_in_it_is_told_to_be_left_out(
    categorical: bool, one_hot: Sequence[str], tmp_path: Path
) -> None:
    kinds = [
        pa.nulls(N),
        *(pa.nulls(N, kind) for kind in (pa.string(), pa.int64(), pa.bool_(), pa.timestamp("us"))),
        pa.nulls(N, pa.dictionary(pa.int8(), pa.string())),
        pa.array(["NA", None, " ", "?"] * (N // 4)),
        pa.array([float("nan")] * N),
    ]
    for place, kind in enumerate(kinds):
        columns = {"x": kind, "a": pa.array(np.arange(N) ** 0.5), "y": pa.array(np.arange(N) % 2)}
        folder = tmp_path / str(place)
        folder.mkdir()
        made = every_format(columns, folder)
        for source in made.values():
            with pytest.raises(DataError, match="no row has a value in column 'x'; leave the column out"):
                datasets.read(source, "y", one_hot=one_hot, categorical=categorical)
            assert datasets.read(source, "y", drop=["x"]).n_columns == 2
        for name in ("csv", "parquet"):
            with pytest.raises(DataError, match="no row has a value in column 'x'; leave the column out"):
                shard(made[name], 2, folder / name, "y", one_hot=one_hot, categorical=categorical)
        with pytest.raises(DataError, match="the label 'x' is missing"):
            datasets.read(made["parquet"], "x")


@pytest.mark.parametrize("source", ["csv", "parquet", "pandas", "polars", "arrow"])
def test_a_column_that_is_empty_in_some_blocks_is_read(source: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Its kind is decided by the blocks that have values."""
    values = [None] * 20 + ["Ely", "Rye"] * 10
    columns = {"x": pa.array(values), "a": pa.array(np.arange(N) ** 0.5), "y": pa.array(np.arange(N) % 2)}
    made = every_format(columns, tmp_path)
    data = datasets.read(made[source], "y", categorical=True)
    assert data.n_columns == 4
    if source in ("csv", "parquet"):
        monkeypatch.setattr(csv, "_CHUNK_FIELDS", 15)
        monkeypatch.setattr(table_sources, "BLOCK_ROWS", 5)
        held = shard(made[source], 2, tmp_path / "shards", "y", categorical=True)
        assert held.encoding.to_json() == data.encoding.to_json()


def test_truth_values_are_told_apart_from_texts_and_numbers_by_the_whole_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=N).tolist()
    for last, n_columns in (("True", 3), ("maybe", 5)):
        lines = [f"{'TRUE' if row % 2 else 'false'},{a[row]},{row % 3}" for row in range(N)]
        for rows in ([*lines, f"{last},1.5,0"], [f"{last},1.5,0", *lines]):
            (tmp_path / "a.csv").write_text("\n".join(["x,a,y", *rows]) + "\n")
            data = datasets.read(tmp_path / "a.csv", categorical=True, test_fraction=None)
            assert data.n_columns == n_columns
    (tmp_path / "a.csv").write_text("\n".join(["x,a,y", *lines, "2.5,1.5,0"]) + "\n")
    with pytest.raises(DataError, match=r"line 42, column 'x': '2\.5' is a number among truth values; write all of"):
        datasets.read(tmp_path / "a.csv")


@pytest.mark.parametrize("text", [True, False])
def test_blocks_and_test_rows_count_for_what_a_column_is(
    text: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of truth values but for one row, which is for testing, or comes later than all of a block."""
    monkeypatch.setattr(csv, "_CHUNK_FIELDS", 15)
    _, test = split_rows(N, 0.2, 0)
    fields = ["True", "False"] * (N // 2)
    fields[max(test)] = "maybe" if text else "2.5"
    lines = [f"{field},{row**0.5},{row % 2}" for row, field in enumerate(fields)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["x,a,y", *lines]) + "\n")
    if text:
        whole = datasets.read(path, categorical=True)
        assert shard(path, 2, tmp_path / "shards", categorical=True).encoding.to_json() == whole.encoding.to_json()
        assert whole.encoding.column_names == ("a", "x=False", "x=True", "(constant)")
    else:
        for read in (datasets.read, lambda path: shard(path, 2, tmp_path / "shards")):
            with pytest.raises(
                DataError, match=r"column 'x': .*numbers.* truth values; write all of them as numbers|among"
            ):
                read(path)


@pytest.mark.parametrize("trained", ["csv", "parquet"])
def test_a_label_of_truth_values_is_one_in_every_format(trained: str, tmp_path: Path) -> None:
    made = every_format(table(np.random.default_rng(3)), tmp_path)
    data = datasets.read(made[trained], "y", drop=NAMED)
    assert data.encoding.target.classes is not None
    assert data.encoding.target.classes.labels() == ["False", "True"]
    for source in made.values():
        np.testing.assert_array_equal(data.encoding.apply(source).y, data.encoding.apply(made["csv"]).y)
    quantity = datasets.read(made[trained], "y", drop=NAMED, task="least_squares", test_fraction=None)
    assert set(quantity.y_train) == {0.0, 1.0}


def test_encodings_of_the_first_version_are_read_right_or_refused(tmp_path: Path) -> None:
    """Truth values were texts in CSV and numbers in Parquet, and large whole numbers of Parquet were rounded."""
    made = every_format(table(np.random.default_rng(3)), tmp_path)
    other = {
        "header": True,
        "features": [{"one_hot": ["flag"], "keys": None}],
        "constant": False,
        "kind": "table",
        "columns": ["flag", "y"],
        "format": "erasurehead-encoding",
        "version": 1,
        "target": {"name": "y", "task": "logistic", "unit": 1.0, "others": "refuse", "aliases": []},
    }
    for truths in ({"texts": ["False", "True"]}, {"texts": ["false", "true"]}, {"whole": [0, 1]}):
        old = other | {"vocabularies": {"flag": truths}, "target": other["target"] | {"classes": truths}}  # type: ignore[operator]
        encoding = Encoding.from_json(json.dumps(old))
        first = encoding.apply(made["csv"])
        assert not first.report.unseen
        assert matrix(first.X).sum() == N - first.report.missing["flag"]
        for source in made.values():
            again = encoding.apply(source)
            np.testing.assert_array_equal(matrix(again.X), matrix(first.X))
            np.testing.assert_array_equal(again.y, first.y)
    old = other | {"vocabularies": {"flag": {"numbers": [0.0, float(BIG)]}}, "target": old["target"]}
    with pytest.raises(
        DataError, match=r"could take different whole numbers beyond .* in column 'flag' for one; train"
    ):
        Encoding.from_json(json.dumps(old))


def test_a_number_that_was_never_seen_is_not_taken_for_its_neighbour(tmp_path: Path) -> None:
    """Also where float64 is exact for all numbers that were seen."""
    rng = np.random.default_rng(0)
    seen = {
        "id": pa.array([BIG, BIG + 1024] * (N // 2)),
        "a": pa.array(rng.normal(size=N)),
        "y": pa.array(rng.random(N)),
    }
    later = seen | {"id": pa.array([BIG, BIG + 1] * (N // 2))}
    made = every_format(seen, tmp_path)
    (tmp_path / "later").mkdir()
    for source in made.values():
        encoding = datasets.read(source, "y", one_hot=["id"]).encoding
        for other in every_format(later, tmp_path / "later").values():
            assert encoding.apply(other).report.unseen == {"id": N // 2}


def test_large_whole_numbers_as_numbers_are_warned_of_and_never_merged(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "id": pa.array([BIG + int(row) for row in rng.permutation(N)]),
        "few": pa.array(np.arange(N) % 3),
        "y": pa.array(rng.random(N)),
    }
    made = every_format(columns, tmp_path)
    for name, source in made.items():
        data = datasets.read(source, "y")
        assert data.warnings[0].startswith("id: whole numbers beyond 9,007,199,254,740,992 are rounded; if they are")
        with pytest.raises(
            DataError, match=r"column 'id': whole numbers beyond .* cannot be told apart as numbers; name"
        ):
            datasets.read(source, "y", interactions=[["id", "few"]])
        with pytest.raises(
            DataError, match=r"the label 'id': whole numbers beyond .* cannot be told apart as numbers; if"
        ):
            datasets.read(source, "id")
        assert datasets.read(source, "id", task="least_squares").task == "least_squares"
        if name in ("csv", "parquet"):
            assert data.warnings[0] in shard(source, 2, tmp_path / f"of {name}", "y").manifest.notes


def test_the_index_of_pandas_is_no_label(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"a": np.arange(N) ** 0.5, "y": np.arange(N) % 2}, index=pd.Index(np.arange(N)[::-1], name="id")
    )
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv")
    read = [datasets.read(tmp_path / name) for name in ("a.parquet", "a.csv")]
    assert read[0].encoding.to_json() == read[1].encoding.to_json()
    data = datasets.read(frame)
    assert [use.name for use in data.uses] == ["a", "y"]
    assert "the index 'id' is left out: reset_index() makes a column of it" in data.notes


def test_odd_frames_are_read_or_refused_in_a_sentence() -> None:
    values = np.c_[np.arange(N) ** 0.5, np.arange(N) % 2]
    assert datasets.read(pd.DataFrame(values), 1).n_columns == 2  # pyright: ignore[reportArgumentType]
    wide = pd.DataFrame(np.c_[values[:, 1], values, values[:, 1]])
    assert datasets.read(wide, 3, drop=[0], one_hot=[2]).n_columns == 4  # pyright: ignore[reportArgumentType]
    assert datasets.read(wide, drop=[1], interactions=[[0, 2]]).n_columns == 5  # pyright: ignore[reportArgumentType]
    names = pd.MultiIndex.from_tuples([("u", "a"), ("u", "y")])
    assert datasets.read(pd.DataFrame(values, columns=names), "('u', 'y')").n_columns == 2
    with pytest.raises(DataError, match="two columns with the name 'a'; rename one of them"):
        datasets.read(pd.DataFrame(np.c_[values, values], columns=["a", "y", "a", "b"]))
    for kind in (float, object):
        endless = pd.DataFrame({"a": np.r_[np.inf, values[1:, 0]].astype(kind), "y": values[:, 1]})
        with pytest.raises(DataError, match="row 0, column 'a': inf is not a finite number; replace it, or make the"):
            datasets.read(endless)
    objects = pd.DataFrame({"x": pd.Series([1, "a", 2.5, True] * 10, dtype=object), "y": values[:, 1]})
    assert datasets.read(objects, "y", categorical=True).encoding.column_names[:4] == ("x=1", "x=2.5", "x=True", "x=a")
    sparse = pd.DataFrame({"x": pd.arrays.SparseArray(values[:, 1] * values[:, 0]), "y": values[:, 1]})
    assert datasets.read(sparse, "y").n_columns == 2
    for none in (pl.DataFrame({"a": [1], "y": [2]}).lazy(), pd.Series([1, 2]), {"a": [1]}):
        with pytest.raises(
            InvalidArgument, match="path must be a file, or a frame of pandas, polars or pyarrow, but it"
        ):
            datasets.read(none)  # type: ignore[arg-type]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_read_alike_without_pyarrow(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = every_format(table(np.random.default_rng(5)), tmp_path)
    before = datasets.read(made[library], "y", one_hot=NAMED)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    after = datasets.read(made[library], "y", one_hot=NAMED)
    assert after.encoding.to_json() == before.encoding.to_json()
    with pytest.raises(MissingExtra, match=r"needs pyarrow: pip install 'erasurehead\[report\]'; or give a frame of"):
        datasets.read(made["arrow"], "y")
