from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.datasets import read, shard
from erasurehead.datasets._readers.parquet import parquet_blocks, parquet_columns, read_parquet
from erasurehead.datasets._readers.table import TextColumn, as_texts
from erasurehead.errors import DataError, MissingExtra

pa: Any = pytest.importorskip("pyarrow")


def _write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    importlib.import_module("pyarrow.parquet").write_table(pa.table(columns), path, **options)
    return path


def test_types_say_what_is_a_number(tmp_path: Path) -> None:
    towns = pa.array(["Ely", None, "Rye"]).dictionary_encode()
    columns = {"i": [1, None, 3], "f": [0.5, 1.5, None], "b": [True, False, None], "t": ["x", "", "x"], "d": towns}
    path = _write(tmp_path / "a.parquet", columns, row_group_size=2)
    assert parquet_columns(path) == ("i", "f", "b", "t", "d")
    table = read_parquet(path, ["i", "f", "b", "t", "d", "other"])
    np.testing.assert_array_equal(table.numbers("i"), [1, np.nan, 3])
    np.testing.assert_array_equal(table.numbers("f"), [0.5, 1.5, np.nan])
    np.testing.assert_array_equal(table.numbers("b"), [1, 0, np.nan])
    text, town = table.column("t"), table.column("d")
    assert isinstance(text, TextColumn)
    assert isinstance(town, TextColumn)
    assert (text.codes.tolist(), text.values) == ([0, -1, 0], ("x",))
    assert (town.codes.tolist(), town.values) == ([0, -1, 1], ("Ely", "Rye"))


def test_nan_is_missing_as_null_is(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", {"a": [1.0, float("nan"), None]})
    assert read_parquet(path, ["a"]).column("a").missing().tolist() == [False, True, True]


def test_numbers_that_are_not_finite_are_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", {"a": [1.0] * 5 + [float("inf")]}, row_group_size=2)
    with pytest.raises(
        DataError, match=r"a\.parquet, column 'a', row 5: inf is not a finite number; replace it, or make"
    ):
        read_parquet(path, ["a"])


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"a\.parquet is not a Parquet file"):
        parquet_columns(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="has no rows of data"):
        read_parquet(_write(tmp_path / "b.parquet", {"a": pa.array([], pa.int64())}), ["a"])


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path / "a.parquet", {"a": [1, 2], "y": [0, 1]})
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(MissingExtra, match=r"Reading Parquet needs pyarrow: pip install 'erasurehead\[report\]'"):
        read(path)


def test_a_data_set_of_a_parquet_file_is_that_of_the_same_csv(tmp_path: Path) -> None:
    columns = {"n": [1.5, 2.5, None, 4.0] * 5, "t": ["a", "b", "c", None] * 5, "y": [0, 1, 1, 0] * 5}
    rows = zip(*columns.values(), strict=True)
    text = "\n".join(",".join("" if field is None else str(field) for field in row) for row in rows)
    (tmp_path / "a.csv").write_text(f"n,t,y\n{text}\n")
    a: Any = read(_write(tmp_path / "a.parquet", columns), categorical=True)
    b: Any = read(tmp_path / "a.csv", categorical=True)
    np.testing.assert_array_equal(a.X_train.toarray(), b.X_train.toarray())
    np.testing.assert_array_equal(a.X_test.toarray(), b.X_test.toarray())
    np.testing.assert_array_equal(a.y_train, b.y_train)
    again: Any = b.encoding.apply(tmp_path / "a.parquet")
    np.testing.assert_array_equal(again.X.toarray(), b.encoding.apply(tmp_path / "a.csv").X.toarray())


def _folder(place: Path, columns: dict[str, list[Any]]) -> Path:
    """Write a table as a folder of three files in folders named after a year, with files beside them that count not."""
    for number, year in enumerate((2022, 2023, 2024)):
        (place / f"year={year}").mkdir(parents=True)
        part = {name: values[number * 20 : number * 20 + 20] for name, values in columns.items()}
        _write(place / f"year={year}" / "part-0.parquet", part, row_group_size=7)
    (place / "_SUCCESS").write_text("")
    return place


def test_a_folder_of_files_is_one_table_with_the_columns_that_its_folders_are_named_after(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {
        "n": rng.normal(size=60).tolist(),
        "t": rng.choice(["a", "b"], 60).tolist(),
        "y": rng.integers(0, 2, 60).tolist(),
    }
    whole = _write(tmp_path / "whole.parquet", {**columns, "year": [2022] * 20 + [2023] * 20 + [2024] * 20})
    folder = _folder(tmp_path / "events", columns)
    assert parquet_columns(folder) == ("n", "t", "y", "year")
    data, expected = (read(place, "y", one_hot=["t"]) for place in (folder, whole))
    np.testing.assert_array_equal(data.X_train.toarray(), expected.X_train.toarray())
    assert (data.name, data.notes, data.encoding.to_json()) == ("events", expected.notes, expected.encoding.to_json())
    sharded = shard(folder, 4, tmp_path / "shards", "y", one_hot=["t"])
    X = np.concatenate([sharded.rows_of(task).X.toarray() for task in range(4)])
    np.testing.assert_array_equal(X, data.X_train.toarray())
    assert sharded.manifest.origin.bytes == sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    np.testing.assert_array_equal(data.encoding.apply(folder).y, [1.0 if y else -1.0 for y in columns["y"]])
    for other in (tmp_path / "shards", tmp_path / "empty=1", tmp_path):
        other.mkdir(exist_ok=True)
        (tmp_path / "whole.parquet").unlink(missing_ok=True)
        with pytest.raises(DataError, match="is a folder; name a file in it"):
            read(other)


def test_a_folder_of_csv_files_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    with pytest.raises(DataError, match="is a folder of CSV files, which are read one at a time; put their rows into"):
        read(tmp_path)


def test_a_pattern_of_csv_files_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for name in ("part-0.csv", "part-1.csv", "whole[1].csv"):
        (tmp_path / name).write_text("a,y\n" + "".join(f"{n},{0.5 * n * n}\n" for n in range(30)))
    said = r"part-\*\.csv' is a pattern of CSV files, .* \(awk 'NR == 1 \|\| FNR > 1' .*part-\*\.csv > all\.csv"
    with pytest.raises(DataError, match=said):
        read(tmp_path / "part-*.csv")
    with pytest.raises(DataError, match=r"There is no file .*nothing-\*"):
        read(tmp_path / "nothing-*.csv")
    assert read(tmp_path / "whole[1].csv").n_train == 24


def _parts(folder: Path, *parts: dict[str, Any]) -> Path:
    folder.mkdir()
    for number, part in enumerate(parts):
        _write(folder / f"part-{number}.parquet", part)
    return folder


def test_numbers_of_files_of_a_folder_may_have_other_types_or_be_missing(tmp_path: Path) -> None:
    parts = (
        {"a": pa.array([1, 2]), "b": pa.array([None, None], pa.null()), "y": [0.5, 1.5]},
        {"a": pa.array([2.5, None]), "b": pa.array(["s", "t"]), "y": [2.5, 3.5]},
        {"a": pa.array(["7", "8"]), "b": pa.array([None, "t"]), "y": [4.5, 5.5]},
    )
    folder = _parts(tmp_path / "parts", *parts)
    table = read_parquet(folder, ["a", "b"])
    np.testing.assert_array_equal(table.columns["a"].values, [1, 2, 2.5, np.nan, 7, 8])  # type: ignore[union-attr]
    texts = as_texts(table.columns["b"])
    assert [texts.values[code] if code >= 0 else None for code in texts.codes] == [None, None, "s", "t", None, "t"]
    spans = [next(iter(parquet_blocks(folder, ["a"], span=(row, row + 1)))) for row in range(6)]
    assert [block.columns["a"].values[0] for block in spans][:3] == [1, 2, 2.5]  # type: ignore[union-attr]


def test_a_column_that_some_files_of_a_folder_do_not_have_is_named(tmp_path: Path) -> None:
    folder = _parts(tmp_path / "parts", {"a": [1.0], "y": [1.0]}, {"A": [2.0], "y": [2.0]})
    assert parquet_columns(folder) == ("a", "y", "A")
    for name, number in (("a", 1), ("A", 0)):
        with pytest.raises(DataError, match=rf"part-{number}\.parquet has no column '{name}', .*\(--drop {name}\)"):
            read_parquet(folder, [name, "y"])
    assert read_parquet(folder, ["y"]).n_rows == 2


def test_a_file_of_a_folder_that_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    folder = _parts(tmp_path / "parts", {"a": [1.0], "y": [1.0]}, {"a": [2.0], "y": [2.0]})
    for name in ("README.txt", "part-9.parquet"):  # before the others, and behind them
        (folder / name).write_text("what these are")
        with pytest.raises(DataError, match=rf"{name} is not a Parquet file, as the others in .*parts are; move it"):
            parquet_columns(folder)
        (folder / name).rename(folder / f"_{name}")
    assert read_parquet(folder, ["y"]).n_rows == 2
    (folder / "part-1.parquet").write_bytes((folder / "part-1.parquet").read_bytes()[:-20])
    with pytest.raises(DataError, match=r"part-1\.parquet"):
        parquet_columns(folder)


def test_a_column_of_files_and_of_folders_with_other_types_is_named(tmp_path: Path) -> None:
    (tmp_path / "all" / "y=1").mkdir(parents=True)
    _write(tmp_path / "all" / "y=1" / "a.parquet", {"a": [1.0], "y": pa.array([1], pa.int64())})
    with pytest.raises(
        DataError, match=r"that folders within it are named after, too, .*Field y has .*; leave it out of"
    ):
        parquet_columns(tmp_path / "all")


def test_files_in_other_folders_are_neither_read_nor_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _parts(tmp_path / "parts", {"a": [1.0], "y": [1.0]}, {"a": [2.0], "y": [2.0]})
    (folder / "old").mkdir()
    _write(folder / "old" / "part-0.parquet", {"a": [1.0], "y": [1.0]})
    monkeypatch.chdir(tmp_path)
    for place in (folder, Path("parts")):
        with pytest.raises(
            DataError, match=r"^[^ ]*part-0\.parquet is in a folder, 'old', that is not called name=value"
        ):
            parquet_columns(place)
    (folder / "old").rename(folder / "_old")
    for place in (folder, Path("parts")):
        assert read_parquet(place, ["y"]).n_rows == 2
