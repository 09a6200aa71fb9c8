from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead.datasets import read, shard
from erasurehead.datasets._preprocessing.array_encoding import ArrayEncoding
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._preprocessing.target import fit_target
from erasurehead.datasets._readers.table import NumberColumn
from erasurehead.datasets._readers.values import table_of_rows
from erasurehead.errors import DataError

TARGET = fit_target(NumberColumn(np.array([0.0, 1.0])), "", None, str)
X = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_matrices_stay_as_they_are_and_get_the_constant() -> None:
    encoding = ArrayEncoding(2, TARGET)
    encoded = encoding.apply(X)
    assert (encoding.n_columns, encoded.y) == (3, None)
    np.testing.assert_array_equal(encoded.X, [[1, 2, 1], [3, 4, 1]])
    thin: Any = ArrayEncoding(2, TARGET, constant=False).apply(sparse.csc_array(X)).X
    assert isinstance(thin, sparse.csr_array)
    np.testing.assert_array_equal(thin.toarray(), X)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_number_too_large_to_square_is_named_where_it_stands(tmp_path: Path, form: Any) -> None:
    large = X.copy()
    large[1, 0] = -1e300
    with pytest.raises(DataError, match=r"the matrix, row 1, column '0': -1e\+300 is too large to square; correct it"):
        ArrayEncoding(2, TARGET).apply(form(large))
    path = tmp_path / "x.svm"
    path.write_text("1 1:2\n\n0 1:3 2:1e300\n" * 3)
    for make in (lambda: read(path), lambda: shard(path, 2, tmp_path / "shards")):
        with pytest.raises(DataError, match=r"x\.svm, line [369], column '2': 1e\+300 is too large to square"):
            make()


def test_labels_may_be_the_last_column_or_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.array([1, 0]))
    np.save(tmp_path / "both.npy", np.column_stack([X, [1, 0]]))
    beside = ArrayEncoding(2, TARGET).apply(tmp_path / "x.npy", labels="y.npy")
    last = ArrayEncoding(2, TARGET, labels_last=True).apply(tmp_path / "both.npy")
    for encoded in (beside, last):
        assert encoded.y is not None
        assert encoded.y.tolist() == [1, -1]
        np.testing.assert_array_equal(encoded.X, [[1, 2, 1], [3, 4, 1]])
    assert ArrayEncoding(2, TARGET, labels_last=True).apply(tmp_path / "x.npy").y is None
    assert ArrayEncoding(2, TARGET, labels_last=True).apply(tmp_path / "both.npy", labels=False).y is None


def test_svmlight_files_keep_the_base_of_the_training_file_and_new_columns_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "new.svm"
    path.write_text("1 1:5\n0 0:7 2:9\n")
    zero: Any = ArrayEncoding(2, TARGET, base=0, constant=False).apply(path)
    np.testing.assert_array_equal(zero.X.toarray(), [[0, 5], [7, 0]])
    assert zero.y.tolist() == [1, -1]
    assert zero.report.unseen == {"columns beyond 2": 1}
    assert ArrayEncoding(2, TARGET).apply(path, labels=False).y is None


def test_wrong_widths_and_sources_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(DataError, match=r"x\.npy has 2 columns, but the model was trained on 5\."):
        ArrayEncoding(5, TARGET).apply(tmp_path / "x.npy")
    with pytest.raises(DataError, match=r"The matrix has 2 columns, but .* on 5 \(or 6 with labels\)"):
        ArrayEncoding(5, TARGET, labels_last=True).apply(X)
    for source in ([{"a": 1}], table_of_rows([{"a": 1}])):
        with pytest.raises(DataError, match="This encoding reads matrices"):
            ArrayEncoding(2, TARGET).apply(source)


def test_labels_that_are_no_class_say_where(tmp_path: Path) -> None:
    path = tmp_path / "new.svm"
    path.write_text("1 1:5\n# note\n3 1:7\n")
    with pytest.raises(DataError, match=r"new\.svm, line 3: the label must be one of the classes 0, 1, but it is '3'"):
        ArrayEncoding(2, TARGET, base=1).apply(path)


def test_it_survives_json() -> None:
    encoding = ArrayEncoding(7, TARGET, constant=False, base=1, labels_last=True)
    again = Encoding.from_json(encoding.to_json())
    assert isinstance(again, ArrayEncoding)
    assert again.to_json() == encoding.to_json()
    assert (again.n_features, again.constant, again.base, again.labels_last) == (7, False, 1, True)
