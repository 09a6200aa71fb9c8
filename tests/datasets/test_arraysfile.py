from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead.datasets._readers.arrays import read_arrays, read_labels
from erasurehead.errors import DataError

DENSE = np.array([[0.0, 1.5], [2.0, 0.0], [0.0, 3.0]])


def test_matrices_of_scipy_and_numpy_are_read(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", sparse.coo_array(DENSE))
    np.save(tmp_path / "x.npy", DENSE.astype(np.int32))
    found: Any = read_arrays(tmp_path / "x.npz").X
    np.testing.assert_array_equal(found.toarray(), DENSE)
    np.testing.assert_array_equal(read_arrays(tmp_path / "x.npy").X, DENSE.astype(np.int32))
    assert read_arrays(tmp_path / "x.npy").y is None


def test_files_that_hold_no_matrix_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("1,2,3\n")
    (tmp_path / "text.npz").write_text("1,2,3\n")
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "objects.npy").read_bytes()[:20])
    for name in ("text.npy", "text.npz", "objects.npy", "cut.npy"):
        with pytest.raises(DataError, match=f"{name} is not a matrix of numbers saved by scipy or numpy"):
            read_arrays(tmp_path / name)


def test_an_archive_of_numpy_is_refused_with_what_would_do(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", X=DENSE, y=DENSE[:, 0])
    with pytest.raises(DataError, match=r"other\.npz is not a sparse matrix .*save_npz; save a dense one, and labels"):
        read_arrays(tmp_path / "other.npz")


def test_the_width_and_the_base_of_svmlight_files_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "data.svm"
    path.write_text("1 1:1 3:3\n-1 2:2\n")
    free, fixed = read_arrays(path), read_arrays(path, n_columns=5, base=0)
    assert (free.X.shape, free.base, free.beyond) == ((2, 3), 1, 0)
    assert (fixed.X.shape, fixed.base) == ((2, 5), 0)
    assert free.place(1).endswith("data.svm, line 2")


def test_labels_are_read_from_arrays_or_texts_beside_the_data(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.array([1, 0, 1]))
    (tmp_path / "y.txt").write_text("1\n0\n1\n")
    for name in ("y.npy", "y.txt", str(tmp_path / "y.txt")):
        assert read_labels(name, tmp_path / "x.npy", 3).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1\n0\n", r"y\.txt holds 2 labels, but .*x\.npy has 3 rows"),
        ("1\n0\nno\n", r"y\.txt does not hold labels as numbers"),
        ("1\nnan\n0\n", r"y\.txt, row 1: the label nan is not a finite number"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "y.txt").write_text(text)
    with pytest.raises(DataError, match=said):
        read_labels("y.txt", tmp_path / "x.npy", 3)


def test_labels_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file 'y\.npy' with the labels of .*x\.npy; name one"):
        read_labels("y.npy", tmp_path / "x.npy", 3)
