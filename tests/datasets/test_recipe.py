"""The loaders on whole and on damaged files; the files here are made, the real ones are in test_real_files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.datasets import load
from erasurehead.datasets._published.recipes import AMAZON_COLUMNS as COLUMNS, AMAZON_PAIRS as PAIRS
from erasurehead.errors import DataError

HEADER = ",".join(("ACTION", *COLUMNS))


def _amazon(n_rows: int = 60) -> list[str]:
    rng = np.random.default_rng(0)
    values = rng.integers(1, 6, size=(n_rows, 9)) * 1000
    return [HEADER, *(f"{row % 3 and 1}," + ",".join(map(str, values[row])) for row in range(n_rows))]


def _write(folder: Path, lines: list[str], name: str = "train.csv", end: str = "\n") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + end)
    return path


def test_amazon_is_nine_columns_34_pairs_and_a_constant(tmp_path: Path) -> None:
    lines = _amazon()
    data: Any = load("amazon", _write(tmp_path, lines))
    assert len(PAIRS) == 34
    rows = [line.split(",")[1:] for line in lines[1:]]
    distinct = sum(len({row[j] for row in rows}) for j in range(9))
    pairs = [(COLUMNS.index(a), COLUMNS.index(b)) for a, b in PAIRS]
    assert (2, 3) not in pairs
    assert (5, 7) not in pairs
    distinct += sum(len({(row[i], row[j]) for row in rows}) for i, j in pairs)
    assert data.X_train.shape == (48, distinct + 1)
    assert data.X_test.shape == (12, distinct + 1)
    assert (np.diff(data.X_train.indptr) == 44).all()
    assert (data.X_train.data == 1.0).all()
    assert set(data.y_train.tolist()) == {-1.0, 1.0}
    assert "60 of 32769 rows: the shapes differ from those of the paper" in data.notes
    assert data.published.rate == 10


def test_a_file_of_the_competition_without_labels_can_be_encoded(tmp_path: Path) -> None:
    lines = _amazon()
    data = load("amazon", _write(tmp_path, lines))
    blind = ["id," + ",".join(COLUMNS), *(f"{n}," + line.split(",", 1)[1] for n, line in enumerate(lines[1:]))]
    blind.append("99," + ",".join(["7"] * 9))
    encoded: Any = data.encoding.apply(_write(tmp_path, blind, "test.csv"))
    assert (encoded.X.shape, encoded.y) == ((61, data.n_columns), None)
    assert encoded.report.unseen["RESOURCE"] == 1
    assert encoded.report.unseen["RESOURCE x MGR_ID"] == 1
    assert encoded.X[[60]].nnz == 1
    assert (np.diff(encoded.X.indptr)[:60] == 44).all()


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (5, "1,2,3", "line 6: 3 fields instead of 10; the file is cut off there"),
        (7, "1,1,2,3,x,5,6,7,8,9", "line 8, column 'ROLE_ROLLUP_2': 'x' is not a number"),
        (7, "1,1,2,inf,4,5,6,7,8,9", "line 8, column 'ROLE_ROLLUP_1': 'inf' is not a finite number"),
        (9, "2,1,2,3,4,5,6,7,8,9", "line 10: the label 'ACTION' must be one of the classes 0, 1, but it is '2'"),
        (9, ",1,2,3,4,5,6,7,8,9", "line 10: the label 'ACTION' is missing"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: int, text: str, said: str) -> None:
    lines = _amazon()
    lines[line] = text
    with pytest.raises(DataError, match=rf"train\.csv, {said}"):
        load("amazon", _write(tmp_path, lines))


def test_a_file_of_something_else_is_told_by_its_header(tmp_path: Path) -> None:
    path = _write(tmp_path, ["id,date,price", "1,2,3"])
    with pytest.raises(
        DataError, match=r"train\.csv, line 1: there is no column 'RESOURCE'; the header of amazon must"
    ):
        load("amazon", path)
    path = _write(tmp_path, [",".join(COLUMNS), ",".join(["1"] * 9)])
    with pytest.raises(DataError, match="there is no column 'ACTION'"):
        load("amazon", path)


def test_a_file_cut_off_in_its_last_field_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"train\.csv, line 61: the file is cut off there, 60 of 32769 rows and no newline"
    ):
        load("amazon", _write(tmp_path, _amazon(), end=""))


def test_labels_of_one_class_are_refused(tmp_path: Path) -> None:
    lines = [line if line == HEADER else "1" + line[1:] for line in _amazon()]
    with pytest.raises(DataError, match="there must be rows of both labels, 0 and 1, but one of them is missing"):
        load("amazon", _write(tmp_path, lines))


def test_covertype_keeps_two_classes_and_needs_no_header(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [[*rng.integers(0, 3, 54).tolist(), number % 7 + 1] for number in range(70)]
    text = "\n".join(",".join(map(str, row)) for row in rows) + "\n"
    path = tmp_path / "covtype.data.gz"
    path.write_bytes(gzip.compress(text.encode()))
    data: Any = load("covertype", tmp_path)
    assert (data.n_train, data.n_test) == (16, 4)
    kept = [row for row in rows if row[-1] <= 2]
    assert data.n_columns == sum(len({row[j] for row in kept}) for j in range(54)) + 1
    assert (np.diff(data.X_train.indptr) == 55).all()
    assert "50 rows of other classes left out" in data.notes
    encoded = data.encoding.apply(path)
    assert (len(encoded.y), encoded.report.dropped) == (20, 50)
    assert data.encoding.apply(path, labels=False).X.shape[0] == 70
    blind = _write(tmp_path, [",".join(map(str, row[:-1])) for row in rows], "blind.csv")
    np.testing.assert_array_equal(data.encoding.apply(blind).X.toarray(), data.encoding.apply(path, False).X.toarray())


def test_house_prices_are_in_millions(tmp_path: Path) -> None:
    from erasurehead.datasets._published.recipes import HOUSE_COLUMNS

    rows = [
        [f'"{n}"', '"20141013T000000"', str(100_000 + n), *[str((n + j) % 4 / 2) for j in range(18)]] for n in range(20)
    ]
    lines = [",".join(("id", "date", "price", *HOUSE_COLUMNS)), *(",".join(row) for row in rows)]
    data: Any = load("kc_housing", _write(tmp_path, lines, "kc_house_data.csv"))
    assert data.X_train.shape == (16, 4 * 18 + 1)
    assert ((data.y_train >= 0.1) & (data.y_train < 0.101)).all()
    assert data.task == "least_squares"
