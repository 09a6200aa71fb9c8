"""The public files themselves, where they are there: the shapes of the paper, and the same matrix as scikit-learn's."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from erasurehead.datasets import load
from erasurehead.datasets._preprocessing.encoding import Encoding


def _load(name: str, folder: Path, file: str) -> Any:
    if not (folder / name / file).is_file():
        pytest.skip(f"no real data: {folder / name / file} is not there")
    return load(name, folder, fetch=None)


@pytest.fixture(scope="module")
def amazon(data_folder: Path) -> Any:
    return _load("amazon", data_folder, "train.csv")


def _same_columns_somewhere(found: Any, expected: Any) -> None:
    """Assert that two one-hot matrices are the same but for the order of their columns."""
    assert found.shape == expected.shape
    keys = np.random.default_rng(0).random(found.shape[0])
    np.testing.assert_allclose(np.sort(found.T @ keys), np.sort(expected.T @ keys), rtol=1e-9)
    np.testing.assert_array_equal(np.diff(found.indptr), np.diff(expected.indptr))


@pytest.mark.slow
def test_amazon_has_the_shape_of_the_paper(amazon: Any) -> None:
    assert amazon.X_train.shape == (26_215, 241_915)
    assert amazon.X_test.shape == (6554, 241_915)
    for X in (amazon.X_train, amazon.X_test):
        assert (np.diff(X.indptr) == 44).all()
        assert (X.data == 1.0).all()
        assert (X.dtype, X.indices.dtype) == (np.float64, np.int32)
        assert X.has_canonical_format
    assert set(amazon.y_train.tolist()) == {-1.0, 1.0}
    assert amazon.task == "logistic"


@pytest.mark.slow
def test_amazon_is_what_scikit_learn_makes_of_it(amazon: Any, data_folder: Path) -> None:
    raw = np.loadtxt(data_folder / "amazon" / "train.csv", delimiter=",", skiprows=1, dtype=np.int64)
    columns = [raw[:, 1 + i] for i in range(9)]
    columns += [
        raw[:, 1 + i] * 10**6 + raw[:, 1 + j]
        for i in range(9)
        for j in range(i + 1, 9)
        if (i, j) not in {(2, 3), (5, 7)}
    ]
    columns.append(np.ones(len(raw), dtype=np.int64))
    onehot = OneHotEncoder().fit_transform(np.column_stack(columns))
    X_train, X_test, y_train, y_test = train_test_split(onehot, 2.0 * raw[:, 0] - 1, test_size=0.2, random_state=0)
    _same_columns_somewhere(amazon.X_train, X_train)
    _same_columns_somewhere(amazon.X_test, X_test)
    np.testing.assert_array_equal(amazon.y_train, y_train)
    np.testing.assert_array_equal(amazon.y_test, y_test)


@pytest.mark.slow
def test_the_saved_encoding_of_amazon_reads_the_raw_file(amazon: Any, data_folder: Path) -> None:
    text = amazon.encoding.to_json()
    assert len(text) < 1_200_000
    encoded: Any = Encoding.from_json(text).apply(data_folder / "amazon" / "train.csv")
    assert encoded.X.shape == (32_769, 241_915)
    assert (encoded.report.unseen, encoded.report.missing) == ({}, {})
    train, _ = train_test_split(np.arange(32_769), test_size=0.2, random_state=0)
    assert (encoded.X[train] != amazon.X_train).nnz == 0
    np.testing.assert_array_equal(encoded.y[train], amazon.y_train)


@pytest.mark.slow
def test_kc_housing_has_the_shape_of_the_paper(data_folder: Path) -> None:
    data = _load("kc_housing", data_folder, "kc_house_data.csv")
    assert data.X_train.shape == (17_290, 27_654)
    assert data.X_test.shape == (4323, 27_654)
    assert (np.diff(data.X_train.indptr) == 19).all()
    with (data_folder / "kc_housing" / "kc_house_data.csv").open() as stream:
        rows = list(csv.reader(stream))[1:]
    values = np.array([[*(float(field) for field in row[3:]), 1.0] for row in rows])
    price = np.array([float(row[2]) for row in rows]) / 1e6
    expected = train_test_split(OneHotEncoder().fit_transform(values), price, test_size=0.2, random_state=0)
    _same_columns_somewhere(data.X_train, expected[0])
    np.testing.assert_array_equal(data.y_train, expected[2])
    encoded = data.encoding.apply(data_folder / "kc_housing" / "kc_house_data.csv")
    assert (encoded.X.nnz, encoded.report.unseen) == (21_613 * 19, {})


@pytest.mark.slow
def test_part_of_covertype_has_its_shape_and_is_said_to_be_a_part(data_folder: Path) -> None:
    data = _load("covertype", data_folder, "covtype.20k.data.gz")
    if data.X_train.shape[0] > 10_000:
        pytest.skip("the folder holds the whole file")
    assert (data.n_train + data.n_test, data.n_columns) == (8964, 10_720)
    assert (data.n_train, data.n_test) == (7171, 1793)
    assert (np.diff(data.X_train.indptr) == 55).all()
    assert data.notes[0].startswith("covtype.20k.data.gz holds only the first 20,000 rows")
    assert set(data.y_train.tolist()) == {-1.0, 1.0}
    encoded = data.encoding.apply(data_folder / "covertype" / "covtype.20k.data.gz")
    assert (encoded.X.shape, encoded.report.dropped) == ((8964, 10_720), 11_036)
