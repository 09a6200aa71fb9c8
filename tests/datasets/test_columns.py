"""Which columns of a table are read, how its fields stand apart, and what becomes of each column."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import datasets
from erasurehead.datasets import shard
from erasurehead.datasets._preprocessing.column_uses import ColumnUse
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._readers.delimiters import check_delimiter
from erasurehead.datasets._readers.layouts import look
from erasurehead.datasets._readers.table import Table
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.errors import DataError, InvalidArgument


def rows(n: int = 60) -> list[list[Any]]:
    rng = np.random.default_rng(1)
    return [["id", "name", "town", "size", "price"]] + [
        [row, f"Mr {row}", rng.choice(["Ely", "Queen Anne"]), round(rng.normal(50, 9), 3), round(rng.normal(), 3)]
        for row in range(1, n + 1)
    ]


def write(path: Path, lines: list[list[Any]], delimiter: str = ",") -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)
    return path


def dense(matrix: Any) -> np.ndarray[Any, Any]:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def test_what_is_dropped_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.csv", rows())
    less = write(tmp_path / "less.csv", [[*row[2:]] for row in rows()])
    own = datasets.read(whole, categorical=True, drop=["name", "id"])
    want = datasets.read(less, categorical=True)
    np.testing.assert_array_equal(dense(own.X_train), dense(want.X_train))
    for file in (whole, less):  # new files may have the columns or not
        np.testing.assert_array_equal(dense(own.encoding.apply(file).X), dense(want.encoding.apply(less).X))
    folder = shard(whole, 4, tmp_path / "shards", drop=["name", "id"], categorical=True)
    assert ShardFolder.open(folder.path).encoding.to_json() == own.encoding.to_json()


def test_the_label_is_the_last_column_that_is_left(tmp_path: Path) -> None:
    data = datasets.read(write(tmp_path / "a.csv", rows()), categorical=True, drop=["price"])
    assert data.encoding.target.name == "size"


def test_what_becomes_of_a_column_is_told_from_that_column_and_the_label_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise thousands of columns would take the square of the time."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "".join(f"{k / 7:.3f},{'uvw'[k % 3]},{k % 2}\n" for k in range(60)))
    taken: list[int] = []
    whole = Table.take
    monkeypatch.setattr(Table, "take", lambda table, rows: taken.append(len(rows)) or whole(table, rows))
    found = datasets.read(path, "y", one_hot=["b"])
    before = len(taken)
    path.write_text(
        f"{','.join(f'{name}{k}' for k in range(9) for name in 'ab')},y\n"
        + "".join(",".join([f"{k / 7:.3f},{'uvw'[k % 3]}"] * 9) + f",{k % 2}\n" for k in range(60))
    )
    wide = datasets.read(path, "y", one_hot=[f"b{k}" for k in range(9)])
    assert (len(found.uses), len(wide.uses)) == (3, 19)
    assert len(taken) == 2 * before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"drop": ["nam"]}, r"drop must name columns of a.csv, got 'nam'; they are id, name, town, size, price"),
        ({"drop": "name"}, "drop must be a list of column names"),
        ({"drop": ["price"], "target": "price"}, "drop must not name the column of the labels"),
        ({"drop": ["town"], "one_hot": ["town"]}, "drop must not name a column that one_hot names"),
        ({"drop": ["town"], "interactions": [["town", "id"]]}, "drop must not name a column that interactions names"),
        ({"one_hot": ["price"]}, "one_hot must not name the column of the labels"),
    ],
)
def test_what_cannot_be_dropped_is_said(tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    path = write(tmp_path / "a.csv", rows())
    with pytest.raises(InvalidArgument, match=said):
        datasets.read(path, **arguments)
    with pytest.raises(InvalidArgument, match=said):
        shard(path, 2, tmp_path / "shards", **arguments)


def test_one_column_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="one column only, 'price', when id, name, size, town are left out"):
        datasets.read(write(tmp_path / "a.csv", rows()), drop=["id", "name", "size", "town"])


def test_zeros_before_numbers_are_not_lost_without_a_warning(tmp_path: Path) -> None:
    codes = ["90210", "01234 ", "00123"]
    lines = [["zip", "share", "y"], *([codes[row % 3], f"0.{row % 5}", row] for row in range(30))]
    path = write(tmp_path / "a.csv", lines)
    (said,) = read_warnings = datasets.read(path).warnings
    assert said.startswith("zip: '01234' and others have lost the zeros before them, as they are read as numbers")
    assert said.endswith("name the column in one_hot (--one-hot zip), or leave the column out (--drop zip)")
    assert set(read_warnings) < set(shard(path, 2, tmp_path / "shards").manifest.notes)
    named = datasets.read(path, one_hot=["zip"])
    assert (named.warnings, named.encoding.column_names[1]) == ((), "zip=00123")


@pytest.mark.parametrize("order", ["ascending", "shuffled", "shuffled from 0"])
def test_shards_warn_of_row_numbers_as_whole_files_do(order: str, tmp_path: Path) -> None:
    names, *lines = [[row[0], row[3], row[4]] for row in rows()]
    if order != "ascending":
        np.random.default_rng(0).shuffle(lines)
    if order == "shuffled from 0":
        lines = [[row[0] - 1, *row[1:]] for row in lines]
    path = write(tmp_path / "a.csv", [names, *lines])
    (said,) = datasets.read(path).warnings
    folder = shard(path, 3, tmp_path / "shards", block=20)
    assert said.startswith("id: every training row has a whole number of its own")
    assert said in folder.manifest.notes
    assert not any("whole number" in note for note in shard(path, 3, tmp_path / "b", drop=["id"]).manifest.notes)


def test_whole_numbers_that_number_no_rows_are_not_called_row_numbers(tmp_path: Path) -> None:
    counts = [[name] for name in ["n", *np.random.default_rng(0).integers(1, 61, 60).tolist()]]
    path = write(tmp_path / "a.csv", [[*one, *row[3:]] for one, row in zip(counts, rows(), strict=True)])
    assert not any("rows were numbered" in note for note in shard(path, 3, tmp_path / "shards").manifest.notes)


def test_a_number_too_large_to_square_is_named_where_it_stands(tmp_path: Path) -> None:
    encoding = datasets.read(write(tmp_path / "a.csv", rows()), drop=["id", "name"], categorical=True).encoding
    path = write(tmp_path / "b.csv", [["town", "size"], ["Ely", 50], ["Ely", "1e300"]])
    with pytest.raises(DataError, match=r"b\.csv, line 3, column 'size': 1e\+300 is too large to square; correct it"):
        encoding.apply(path, labels=False)


def test_what_becomes_of_each_column_is_told(tmp_path: Path) -> None:
    lines = rows()
    lines[3][2] = lines[4][3] = ""
    data = datasets.read(write(tmp_path / "a.csv", lines), categorical=True, test_fraction=0.2)
    assert [(use.name, use.becomes, use.width, use.missing, use.nearly_unique) for use in data.uses] == [
        ("id", "number", 1, 0, True),
        ("name", "one-hot", 48, 0, True),
        ("town", "one-hot", 2, 1, False),
        ("size", "number", 1, 1, False),
        ("price", "label", 0, 0, False),
    ]
    assert sum(use.width for use in data.uses) + 1 == data.n_columns
    numbered, named = data.warnings
    assert "as if rows were numbered; leave the column out (--drop id)" in numbered
    assert "name: 48 of 48 training rows have a value that no other row has" in named
    assert named.endswith("(--drop name)")
    dropped = datasets.read(tmp_path / "a.csv", categorical=True, drop=["id", "name"])
    assert dropped.uses[0] == ColumnUse("id", "left out", 0)
    assert not dropped.warnings


def test_a_row_a_day_is_no_numbering(tmp_path: Path) -> None:
    days = np.datetime64("2024-01-01") + np.arange(50)
    (tmp_path / "a.csv").write_text("day,y\n" + "".join(f"{day},{n * n % 7 + 0.5}\n" for n, day in enumerate(days)))
    assert not datasets.read(tmp_path / "a.csv").warnings


@given(share=st.floats(0.0, 1.0), n=st.integers(30, 80))
def test_a_column_is_nearly_unique_if_most_rows_have_a_value_of_their_own(
    share: float, n: int, tmp_path_factory: Any
) -> None:
    alone = round(share * n)
    lines = [["x", "y"]] + [[f"v{row}" if row < alone else f"w{row % 2}", row % 2] for row in range(n)]
    data = datasets.read(write(tmp_path_factory.mktemp("x") / "a.csv", lines), one_hot=["x"], test_fraction=None)
    own = alone + (n - alone == 2) * 2 + (n - alone == 1)
    own += sum(sum(row % 2 == kind for row in range(alone, n)) == 1 for kind in (0, 1)) if n - alone > 2 else 0
    assert data.uses[0].nearly_unique == (2 * own > n)


@pytest.mark.parametrize(
    ("mark", "name"), [(",", "comma"), (";", None), ("\t", "tab"), ("|", "bar"), (":", ":"), ("~", "~")]
)
def test_a_delimiter_is_found_out_or_said_and_new_files_have_the_same(
    tmp_path: Path, mark: str, name: str | None
) -> None:
    want = datasets.read(write(tmp_path / "want.csv", rows()), one_hot=["town", "name"])
    path = write(tmp_path / "a.txt", rows(), mark)
    data = datasets.read(path, one_hot=["town", "name"], delimiter=name)
    np.testing.assert_array_equal(dense(data.X_train), dense(want.X_train))
    again = Encoding.from_json(data.encoding.to_json())
    np.testing.assert_array_equal(dense(again.apply(path).X), dense(want.encoding.apply(tmp_path / "want.csv").X))
    folder = shard(path, 4, tmp_path / "shards", one_hot=["town", "name"], delimiter=name)
    assert ShardFolder.open(folder.path).encoding.to_json() == data.encoding.to_json()


def test_blanks_in_any_number_are_one_delimiter(tmp_path: Path) -> None:
    (tmp_path / "auto.data").write_text('18.0   8   307.0\t"chevelle malibu"\n 15.0  8   350.0\t"buick  skylark"\n')
    (tmp_path / "words.csv").write_text("mpg  cylinders   name\n18 8 a\n\n   \n15   8  b\n")
    for delimiter in (None, "blanks"):
        data = datasets.read(tmp_path / "auto.data", "1", one_hot=["4"], test_fraction=None, delimiter=delimiter)
        assert data.n_columns == 2 + 2 + 1
        assert data.encoding.vocabularies["4"].labels() == ["buick  skylark", "chevelle malibu"]  # type: ignore[attr-defined]
        named = datasets.read(tmp_path / "words.csv", "mpg", one_hot=["name"], test_fraction=None, delimiter=delimiter)
        assert named.n_columns == 4
    (tmp_path / "a.tsv").write_text("a  b\tc\n1\t2\n")
    assert look(tmp_path / "a.tsv").names == ("a  b", "c")


@pytest.mark.parametrize("wrong", ["", "a", "1", '"', "ab", "\n", "."])
def test_what_can_be_no_delimiter_is_refused(wrong: str) -> None:
    with pytest.raises(
        InvalidArgument, match="delimiter must be one character that stands between fields, or one of comma"
    ):
        check_delimiter(wrong)


def test_a_delimiter_is_for_text_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(4))
    for name in ("a.npy", "a.svm"):
        (tmp_path / "a.svm").write_text("1 1:2\n0 1:3\n")
        with pytest.raises(InvalidArgument, match=f"delimiter is for CSV files, got ';'; {name} is none"):
            datasets.read(tmp_path / name, delimiter=";")


@pytest.mark.parametrize("header", [",a,b,y", "Unnamed: 0,a,b,y", ",Unnamed: 0,a,b,y", ",,a,b,y", '"",a,b,y'])
def test_an_index_that_pandas_wrote_is_left_out_and_it_is_said(tmp_path: Path, header: str) -> None:
    count = header.count(",") - 2
    body = [f"{','.join([str(row)] * count)},{row % 3},{row * row},{row % 2}" for row in range(20)]
    (tmp_path / "a.csv").write_text("\n".join([header, *body]))
    (tmp_path / "b.csv").write_text("\n".join(["a,b,y", *(line.split(",", count)[count] for line in body)]))
    own, want = (datasets.read(tmp_path / name, test_fraction=None) for name in ("a.csv", "b.csv"))
    np.testing.assert_array_equal(dense(own.X_train), dense(want.X_train))
    np.testing.assert_array_equal(dense(own.encoding.apply(tmp_path / "b.csv").X), dense(want.X_train))
    assert any(note.startswith("left out as an index: 'Unnamed: 0") for note in own.notes)
    assert own.uses[0].becomes == "left out"


def test_an_index_that_is_named_is_a_column_and_frames_may_have_numbers_for_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Unnamed: 0,a,y\n1,2,0\n3,4,1\n")
    assert datasets.read(tmp_path / "a.csv", one_hot=["Unnamed: 0"], test_fraction=None).n_columns == 4
    (tmp_path / "b.csv").write_text(",0,1,2\n0,5.5,6,0\n1,7.5,8,1\n")
    assert look(tmp_path / "b.csv").names == ("Unnamed: 0", "0", "1", "2")
    assert datasets.read(tmp_path / "b.csv", test_fraction=None).n_columns == 3
    (tmp_path / "c.csv").write_text("5,NaN,0\n6,7,1\n8,?,1\n")
    assert look(tmp_path / "c.csv").names == ("1", "2", "3")
    (tmp_path / "d.csv").write_text("a,,y\n1,2,3\n")
    with pytest.raises(DataError, match="line 1: column 2 has no name"):
        datasets.read(tmp_path / "d.csv")


def test_the_index_in_a_parquet_file_is_left_out(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(
        arrow.table({"a": [1.0, 2.0, 4.0], "y": [0, 1, 1], "__index_level_0__": [3, 5, 8]}), tmp_path / "a.parquet"
    )
    data = datasets.read(tmp_path / "a.parquet", test_fraction=None)
    assert (data.encoding.target.name, data.n_columns) == ("y", 2)
