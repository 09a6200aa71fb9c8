from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from erasurehead.datasets import Dataset, read
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._preprocessing.table_encoding import TableEncoding
from erasurehead.errors import DataError, InvalidArgument

HOUSES = "size,town,rooms,sold\n" + "".join(
    f"{50 + number % 7},{('Ely', 'Rye', 'Ayr')[number % 3]},{number % 4},{('no', 'yes')[number % 5 > 1]}\n"
    for number in range(40)
)


def _file(folder: Path, text: str, name: str = "houses.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _dense(X: Any) -> np.ndarray:
    return X if isinstance(X, np.ndarray) else X.toarray()


def _check(data: Dataset, n_train: int, n_test: int, n_columns: int) -> None:
    assert (data.n_train, data.n_test, data.n_columns) == (n_train, n_test, n_columns)
    assert data.encoding.n_columns == n_columns
    assert len(data.y_train) == n_train
    assert data.X_test is not None
    assert data.y_test is not None
    assert (data.X_test.shape, len(data.y_test)) == ((n_test, n_columns), n_test)


def test_a_csv_file_of_numbers_and_categories(tmp_path: Path) -> None:
    data = read(_file(tmp_path, HOUSES), "sold", one_hot=["town", "rooms"])
    _check(data, 32, 8, 1 + 3 + 4 + 1)
    assert (data.name, data.task, data.n_classes) == ("houses", "logistic", 2)
    assert "label 'sold': logistic, -1 is no, +1 is yes" in data.notes
    X = _dense(data.X_train)
    assert abs(X[:, 0].mean()) < 1e-12
    assert X[:, 0].std() == pytest.approx(1)
    assert (X[:, 1:4].sum(axis=1) == 1).all()
    assert (X[:, 4:8].sum(axis=1) == 1).all()
    assert (X[:, 8] == 1).all()


def test_the_encoding_serves_the_file_it_was_fitted_on(tmp_path: Path) -> None:
    path = _file(tmp_path, HOUSES)
    data = read(path, "sold", one_hot=["town"], interactions=[("town", "rooms")], test_fraction=None)
    again = Encoding.from_json(data.encoding.to_json()).apply(path)
    np.testing.assert_array_equal(_dense(again.X), _dense(data.X_train))
    assert again.y is not None
    np.testing.assert_array_equal(again.y, data.y_train)
    assert (data.X_test, data.y_test, data.n_test) == (None, None, 0)


def test_the_last_column_is_the_target_unless_one_is_named(tmp_path: Path) -> None:
    path = _file(tmp_path, "a,y,b\n" + "1,0,2.5\n2,1,3.5\n3,1,4.5\n" * 10)
    assert read(path).task == "least_squares"
    assert read(path, "y").task == "logistic"


def test_texts_are_categories_on_request_only(tmp_path: Path) -> None:
    path = _file(tmp_path, HOUSES)
    with pytest.raises(
        DataError, match=r"line 2, column 'town': 'Ely' is not a number; name the column in one_hot \(--one-hot\), or"
    ):
        read(path, "sold")
    assert read(path, "sold", categorical=True).n_columns == 1 + 1 + 3 + 1
    assert read(path, "sold", one_hot="all").n_columns == 7 + 3 + 4 + 1


def test_digits_in_groups_are_a_name_and_no_number_wherever_they_stand(tmp_path: Path) -> None:
    """Python takes `2020_01` for 202001."""
    months = "".join(f"2020_{month:02},{month},{month + 0.5}\n" for month in (1, 2, 3, 1, 2, 3, 2, 1))
    path = _file(tmp_path, "month,a,y\n" + months)
    with pytest.raises(
        DataError, match="line 2, column 'month': '2020_01' is not a number; name the column in one_hot"
    ):
        read(path, "y")
    assert read(path, "y", one_hot=["month"]).n_columns == 3 + 1 + 1
    later = _file(tmp_path, "a,y\n" + "1,0.5\n2,1.5\n" * 4 + "1_000,2.5\n")
    with pytest.raises(DataError, match="line 10, column 'a': '1_000' is not a number"):
        read(later, "y")


def test_a_column_combined_but_not_encoded_itself_must_hold_numbers_or_be_categorical(tmp_path: Path) -> None:
    path = _file(tmp_path, HOUSES)
    with pytest.raises(DataError, match="column 'town': 'Ely' is not a number; name the column in one_hot"):
        read(path, "sold", interactions=[("town", "rooms")])
    data = read(path, "sold", one_hot=["town"], interactions=[("town", "rooms")])
    assert data.n_columns == 3 + 2 + 12 - (12 - len({(n % 3, n % 4) for n in range(40)})) + 1


def test_categories_of_the_test_part_alone_are_unseen_and_noted(tmp_path: Path) -> None:
    path = _file(tmp_path, "id,y\n" + "".join(f"{number},{number % 2}\n" for number in range(50)))
    data = read(path, one_hot=["id"])
    _check(data, 40, 10, 41)
    assert _dense(data.X_test)[:, :40].sum() == 0
    assert "test rows: id: 10 of 10 rows have a value that training never saw" in data.notes


def test_missing_numbers_are_the_mean_of_the_training_rows(tmp_path: Path) -> None:
    path = _file(tmp_path, "a,b,y\n1,5,0\n,5,1\n3,,0\nNA,7,1\n8,6,1\n")
    data = read(path, standardize=False, constant=False, test_fraction=None)
    np.testing.assert_allclose(_dense(data.X_train), [[1, 5], [4, 5], [3, 5.75], [4, 7], [8, 6]])
    assert "missing values: a in 2, b in 1 of 5 rows" in data.notes


@pytest.mark.parametrize("values", [("1", "2", "3"), ("a", "b", "c")])
def test_more_than_two_classes_are_softmax(tmp_path: Path, values: tuple[str, ...]) -> None:
    data = read(_file(tmp_path, "x,y\n" + "".join(f"{n},{values[n % 3]}\n" for n in range(30))))
    assert (data.task, data.n_classes, data.y_train.dtype) == ("softmax", 3, np.int64)
    assert set(data.y_train.tolist()) == {0, 1, 2}
    with pytest.raises(DataError, match="Logistic regression needs two classes"):
        read(tmp_path / "houses.csv", task="logistic")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,y\n1,2\n2,2\n", r"line 2: the label 'y' is '2', as in every row"),
        ("x,y\n1,2\n2,\n", r"line 3: the label 'y' is missing"),
        ("x,y\n1,2\n2,inf\n", r"line 3, column 'y': 'inf' is not a finite number"),
        ("x,y\n1,2\ninf,3\n", r"line 3, column 'x': 'inf' is not a finite number"),
        ("x,y\n1,2\n3\n", r"line 3: 1 fields instead of 2"),
        ("x,z,y\n,1,0\n,2,1\n,3,0\n,4,1\n", r"no row has a value in column 'x'; leave the column out"),
        ("y\n1\n0\n", "has one column only"),
    ],
)
def test_files_that_cannot_be_used_say_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(_file(tmp_path, text), seed=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "price"}, r"target must name columns of houses\.csv, got 'price'; they are size, town"),
        ({"one_hot": ["city"]}, r"one_hot must name columns of houses\.csv, got 'city'"),
        ({"one_hot": ["sold"]}, "one_hot must not name the column of the labels, got 'sold'"),
        ({"one_hot": "town"}, 'one_hot must be a list of column names, or "all"'),
        ({"interactions": [("town", "city")]}, "interactions must name columns"),
        ({"interactions": [("town",)]}, "interactions must combine two or more different columns each"),
        ({"interactions": [("town", "town")]}, "interactions must combine two or more different columns each"),
        ({"interactions": "town"}, "interactions must combine two or more different columns each"),
    ],
)
def test_columns_that_are_not_there_are_named(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        read(_file(tmp_path, HOUSES), **options)


def test_files_without_header_have_numbered_columns(tmp_path: Path) -> None:
    path = _file(tmp_path, "".join(f"{n % 4},{n * n % 11},{n % 2}\n" for n in range(30)), "numbers.data")
    data = read(path, one_hot=["1"])
    assert data.notes[0].startswith("no header: the columns are called 1 to 3 (line 1 is data, as it has numbers ")
    assert isinstance(data.encoding, TableEncoding)
    assert (data.encoding.columns, data.encoding.header) == (("1", "2", "3"), False)
    blind = _file(tmp_path, "1,5\n", "new.csv")
    assert data.encoding.apply(blind).X.shape == (1, 4 + 1 + 1)


def test_the_split_follows_the_seed(tmp_path: Path) -> None:
    path = _file(tmp_path, HOUSES)
    first, again, other = (read(path, one_hot=["town"], seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(_dense(first.X_train), _dense(again.X_train))
    assert not np.array_equal(_dense(first.X_train), _dense(other.X_train))


def _svm(folder: Path, name: str) -> Path:
    rng = np.random.default_rng(3)
    X = sparse.random_array((50, 12), density=0.3, rng=rng, format="csr")
    plain = folder / "plain.svm"
    dump_svmlight_file(X, np.arange(50) % 2 * 2 - 1, str(plain), zero_based=False)
    path = folder / name
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(plain.read_bytes()))
    return path


@pytest.mark.parametrize("name", ["a.svm", "a.libsvm.gz", "a.svmlight.bz2", "a.txt", "a.t", "rcv1", "a.data.gz"])
def test_svmlight_files_are_known_by_name_or_look(tmp_path: Path, name: str) -> None:
    path = _svm(tmp_path, name)
    data = read(path, constant=False)
    _check(data, 40, 10, 12)
    assert (data.task, "columns are counted from 1" in data.notes) == ("logistic", True)
    whole = read(path, test_fraction=None)
    again = Encoding.from_json(whole.encoding.to_json()).apply(path)
    np.testing.assert_array_equal(_dense(again.X), _dense(whole.X_train))
    assert again.y is not None
    np.testing.assert_array_equal(again.y, whole.y_train)


def test_svmlight_files_have_their_own_labels(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="target is not for svmlight files, which hold their labels"):
        read(_svm(tmp_path, "a.svm"), "y.npy")


@pytest.mark.parametrize("option", [{"one_hot": ["a"]}, {"categorical": True}, {"interactions": [("a", "b")]}])
def test_columns_of_matrices_cannot_be_encoded(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidArgument, match=r"is for CSV and Parquet files, .*; the columns of a\.svm are taken as they"
    ):
        read(_svm(tmp_path, "a.svm"), **option)


def test_matrices_have_their_labels_in_the_last_column_or_in_a_file(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    y = np.arange(20) % 2
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "both.npy", np.column_stack([X, y]))
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(X))
    sparse.save_npz(tmp_path / "both.npz", sparse.csr_array(np.column_stack([X, y])))
    for name, target in (("x.npy", "y.npy"), ("both.npy", None), ("x.npz", "y.npy"), ("both.npz", None)):
        data = read(tmp_path / name, target, test_fraction=0)
        np.testing.assert_array_equal(_dense(data.X_train), np.column_stack([X, np.ones(20)]))
        np.testing.assert_array_equal(data.y_train, 2.0 * y - 1)
        assert ("the labels are the last column of the matrix" in data.notes) == (target is None)
        again = data.encoding.apply(tmp_path / name, labels=target or True)
        np.testing.assert_array_equal(_dense(again.X), _dense(data.X_train))
        assert again.y is not None
        np.testing.assert_array_equal(again.y, data.y_train)


def test_a_matrix_of_one_column_has_no_labels_in_it(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((5, 1)))
    with pytest.raises(DataError, match="has one column only; name the file that holds the labels as target"):
        read(tmp_path / "x.npy")


@pytest.mark.parametrize(
    "field",
    ["1,234", "1,234,567.5", "1.234,5", "1 234", "1'234", "$12", "-€1,50", "7 %", "€ -5", "(50)", "5,5-", "\u221250"],
)
@pytest.mark.parametrize("first", [True, False])  # the first value tells what a column holds
def test_numbers_as_people_write_them_are_no_categories(tmp_path: Path, field: str, first: bool) -> None:
    rows = [f'"{field}",1', *["2,1"] * 9]
    path = _file(tmp_path, "\n".join(["price,y", *(rows if first else reversed(rows)), ""]))
    with pytest.raises(DataError, match="is not a number; write the column's numbers with nothing between") as error:
        read(path)
    assert repr(field) in str(error.value)
    assert "one-hot" not in str(error.value)


@pytest.mark.parametrize("field", ["2020-13-02", "1.2.3.4", "12a", "A1,234", "10:30"])
def test_other_texts_with_digits_may_be_categories(tmp_path: Path, field: str) -> None:
    with pytest.raises(DataError, match="if its values are categories"):
        read(_file(tmp_path, f'price,y\n"{field}",1\n'))


def test_decimal_commas_are_not_taken_for_classes(tmp_path: Path) -> None:
    file = tmp_path / "german.csv"
    file.write_text("size;price\n" + "".join(f"{n};{n},5\n" for n in range(40)))
    data = read(file, test_fraction=None)
    assert data.task == "least_squares"
    np.testing.assert_array_equal(data.y_train, np.arange(40) + 0.5)
    file.write_text("size;price\n" + "".join(f"{n}.5;{n},5\n" for n in range(40)))
    with pytest.raises(DataError, match=r"line 2, column 'price': '0,5' is not a number; .*\(--decimal ,\)"):
        read(file)
