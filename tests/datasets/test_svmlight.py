from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from erasurehead.datasets._readers import files, svmlight
from erasurehead.datasets._readers.arrays import read_arrays
from erasurehead.datasets._readers.svmlight import looks_like_svmlight, matrix, read_svmlight, zero_based
from erasurehead.errors import DataError


def _file(folder: Path, text: str) -> Path:
    path = folder / "data.svm"
    path.write_text(text)
    return path


@given(st.integers(1, 30), st.integers(1, 20), st.floats(0, 1), st.booleans(), st.integers(0, 500), st.integers(1, 99))
def test_it_agrees_with_scikit_learn(
    tmp_path_factory: pytest.TempPathFactory,
    n_rows: int,
    n_columns: int,
    density: float,
    zero: bool,
    seed: int,
    block: int,
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < density)
    y = rng.integers(-1, 2, n_rows).astype(np.float64)
    path = tmp_path_factory.mktemp("svm") / "data.svm"
    dump_svmlight_file(X, y, str(path), zero_based=zero)
    expected, labels = load_svmlight_file(str(path), n_features=n_columns, zero_based=zero)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svmlight, "blocks", lambda path: files.blocks(path, size=block))
        rows = read_svmlight(path)
    found, beyond = matrix(rows, n_columns, base=0 if zero else 1)
    np.testing.assert_array_equal(found.toarray(), expected.toarray())
    np.testing.assert_array_equal(rows.labels, labels)
    assert (beyond, found.indices.dtype) == (0, np.int32)


def test_comments_queries_blank_lines_and_odd_blanks_are_borne(tmp_path: Path) -> None:
    text = "# made by hand\n1 qid:3 1:0.5 3:2 # first\n\n  -1\t2:1e-3  \r\n+1\n-1 4:7"
    rows = read_svmlight(_file(tmp_path, text))
    assert rows.labels.tolist() == [1, -1, 1, -1]
    assert rows.counts.tolist() == [2, 1, 0, 1]
    assert rows.indices.tolist() == [1, 3, 2, 4]
    assert rows.values.tolist() == [0.5, 2, 1e-3, 7]
    assert rows.lines.tolist() == [2, 4, 5, 6]


@pytest.mark.parametrize(("text", "zero"), [("1 0:1\n", True), ("1 1:1\n-1 5:1\n", False), ("1\n", False)])
def test_columns_are_counted_from_zero_if_a_zero_comes_up(tmp_path: Path, text: str, zero: bool) -> None:
    assert zero_based(read_svmlight(_file(tmp_path, text))) is zero


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x 1:2", "the label 'x' is not a finite number"),
        ("nan 1:2", "the label 'nan' is not a finite number"),
        ("3:1 4:2", "the label '3:1' is not a finite number; a line begins with its label: write 0 where it"),
        ("1 99999999999:3", "the index of '99999999999:3' is not a whole number from 0 to 2,147,483,646"),
        ("1_0 1:2", "the label '1_0' is not a finite number"),
        ("1 1:2_5", "the pair '1:2_5' is not of the form index:value"),
        ("1 2", "the pair '2' is not of the form index:value"),
        ("1 2:", "the pair '2:' is not of the form index:value"),
        ("1 :2", "the pair ':2' is not of the form index:value"),
        ("1 2:3:4 5", "the pair '2:3:4' is not of the form index:value"),
        ("1 2:inf", "the pair '2:inf' is not of the form index:value with finite numbers"),
        ("1 a:3", "the pair 'a:3' is not of the form index:value"),
        ("1 1.5:3", "the index of '1.5:3' is not a whole number from 0 to"),
        ("1 -2:3", "the index of '-2:3' is not a whole number from 0 to"),
        ("1 3:1 2:1", "indices must ascend, but 2 comes after 3"),
        ("1 3:1 3:1", "indices must ascend, but 3 comes after 3"),
        ("1,2 3:1", "the label '1,2' is not a finite number"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(DataError, match=rf"data\.svm, line 4: {said}"):
        read_svmlight(_file(tmp_path, f"1 1:1\n\n-1 2:1\n{line}\n1 1:1\n"))


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no rows of data"):
        read_svmlight(_file(tmp_path, "# nothing\n\n"))


@pytest.mark.parametrize("text", ["1\n-1\n" * 5, "1\n", "1 # 1:2\n-1\n"])
def test_a_file_of_labels_only_is_refused(tmp_path: Path, text: str) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(DataError, match="has labels only: no row has an entry; each is a label, then pairs"):
        read_arrays(path)
    assert read_arrays(path, n_columns=3, base=1).X.shape[1] == 3  # rows to predict may be empty


def test_entries_beyond_the_columns_are_left_out_and_their_rows_counted(tmp_path: Path) -> None:
    rows = read_svmlight(_file(tmp_path, "1 1:1 3:3 4:4\n-1 2:2\n1 9:9\n"))
    found, beyond = matrix(rows, 2, base=1)
    assert isinstance(found, sparse.csr_array)
    assert (found.toarray().tolist(), beyond) == ([[1, 0], [0, 2], [0, 0]], 2)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\n1 3:4\n", True),
        ("-1 1:2 # note\n", True),
        ("a,b\n1,2\n", False),
        ("1,2\n", False),
        ("1 2 3\n", False),
        ("time 12:30\n", False),
        ("", False),
    ],
)
def test_it_is_told_from_other_texts(tmp_path: Path, text: str, answer: bool) -> None:
    assert looks_like_svmlight(_file(tmp_path, text)) is answer
