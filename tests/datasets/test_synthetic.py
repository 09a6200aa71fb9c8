from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from erasurehead.datasets import load, synthetic
from erasurehead.errors import InvalidArgument


@pytest.fixture(scope="module")
def amazon() -> Any:
    return synthetic("amazon")


def _descend(data: Any, rate: float, nesterov: bool = False) -> np.ndarray:
    """Full gradient descent with the published settings, written out in numpy: the scores of the test rows."""
    X, y, n = data.X_train, data.y_train, data.n_train
    transposed = X.T.tocsr()
    x = np.zeros(data.n_columns)
    u = np.zeros(data.n_columns)
    for step in range(100):
        margins = y * (X @ x)
        gradient = transposed @ (-y / (1 + np.exp(margins))) / n + 2 * x / n
        if nesterov:
            theta = 2 / (step + 2)
            forward = (1 - theta) * x + theta * u - rate * gradient
            u = x + (forward - x) / theta
            x = forward
        else:
            x = x - rate * gradient
    return data.X_test @ x


def _auc(scores: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores))


@pytest.mark.slow
def test_amazon_has_the_shape_of_the_paper(amazon: Any) -> None:
    assert (amazon.n_train, amazon.n_test) == (26_215, 6554)
    assert amazon.n_columns == pytest.approx(241_915, rel=0.02)
    assert amazon.X_test.shape == (6554, amazon.n_columns)
    assert (np.diff(amazon.X_train.indptr) == 44).all()
    assert (np.diff(amazon.X_test.indptr) == 44).all()
    assert (amazon.X_train.data == 1.0).all()
    assert amazon.X_train.indices.dtype == np.int32
    granted = np.concatenate([amazon.y_train, amazon.y_test]) > 0
    assert granted.sum() == 32_769 - 1897


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_amazon_has_it_for_other_seeds(seed: int) -> None:
    data = synthetic("amazon", seed)
    assert data.n_train == 26_215
    assert data.n_columns == pytest.approx(241_915, rel=0.02)


@pytest.mark.slow
def test_the_columns_of_amazon_have_as_many_values_as_the_public_ones(amazon: Any) -> None:
    sizes = [vocabulary.size for vocabulary in amazon.encoding.vocabularies.values()]
    assert sizes == [7518, 4243, 128, 177, 449, 343, 2358, 67, 343]


@pytest.mark.slow
def test_shards_of_amazon_touch_as_many_columns_as_those_of_the_public_file(amazon: Any) -> None:
    """The shares of the columns that c/30 of the rows touch: measured on the public file."""
    for tasks, share in {1: 0.09, 2: 0.15, 3: 0.21, 5: 0.30, 10: 0.46}.items():
        rows = amazon.X_train[: amazon.n_train * tasks // 30]
        assert len(np.unique(rows.indices)) / amazon.n_columns == pytest.approx(share, abs=0.03)


def test_common_values_of_amazon_are_common(amazon: Any) -> None:
    uses = np.sort(np.bincount(amazon.X_train.indices, minlength=amazon.n_columns))[::-1]
    assert uses[0] == amazon.n_train  # the constant
    assert uses[1] > 0.5 * amazon.n_train  # the rollup that most are in: 65 % in the public file
    assert (uses <= 1).mean() > 0.6  # 79 % in the public file


@pytest.mark.slow
def test_amazon_is_learned_by_the_published_settings_as_well_as_the_public_file(amazon: Any) -> None:
    """Public file: AUC 0.858 by gradient descent, 0.883 by Nesterov's, after 100 steps from zero."""
    assert 0.84 < _auc(_descend(amazon, 10.0), amazon.y_test) < 0.89
    assert 0.86 < _auc(_descend(amazon, 10.0, nesterov=True), amazon.y_test) < 0.91


def test_kc_housing_has_the_shape_and_scale_of_the_public_file() -> None:
    data: Any = synthetic("kc_housing")
    assert data.X_train.shape == (17_290, 27_654)
    assert data.X_test.shape == (4323, 27_654)
    assert (np.diff(data.X_train.indptr) == 19).all()
    sizes = [vocabulary.size for vocabulary in data.encoding.vocabularies.values()]
    assert sizes == [13, 30, 1038, 9782, 6, 2, 5, 5, 12, 946, 306, 116, 70, 70, 5034, 752, 777, 8689]
    assert data.y_train.mean() == pytest.approx(0.54, abs=0.02)
    assert data.y_train.std() == pytest.approx(0.367, abs=0.06)
    assert (data.y_train > 0).all()


def test_covertype_in_small_has_55_entries_a_row_and_both_classes() -> None:
    data: Any = synthetic("covertype", rows=5000)
    assert (data.n_train, data.n_test) == (4000, 1000)
    assert (np.diff(data.X_train.indptr) == 55).all()
    assert (data.y_train > 0).mean() == pytest.approx(283_301 / 495_141, abs=0.03)
    assert 0.65 < _auc(_descend(data, 0.1), data.y_test) < 0.85


@pytest.mark.slow
def test_covertype_in_full_has_the_shape_of_the_paper() -> None:
    data: Any = synthetic("covertype")
    assert data.X_train.shape == (396_112, 15_509)
    assert data.X_test.shape == (99_029, 15_509)
    assert (np.diff(data.X_train.indptr) == 55).all()


@pytest.mark.parametrize("name", ["amazon", "kc_housing", "covertype"])
def test_the_same_seed_gives_the_same_data_and_another_other(name: str) -> None:
    first, again, other = (synthetic(name, seed, rows=700) for seed in (5, 5, 6))
    for part in ("X_train", "X_test"):
        a, b, c = (getattr(data, part) for data in (first, again, other))
        np.testing.assert_array_equal(a.indices, b.indices)
        assert not np.array_equal(a.indices, c.indices)
    np.testing.assert_array_equal(first.y_train, again.y_train)
    assert first.encoding.to_json() == again.encoding.to_json()
    whole = {"amazon": 32_769, "kc_housing": 21_613, "covertype": 495_141}[name]
    assert f"700 of {whole} rows: the shapes differ from those of the paper" in first.notes


@pytest.mark.parametrize("rows", [499, 10**7, 500.5])
def test_numbers_of_rows_out_of_range_are_refused(rows: Any) -> None:
    with pytest.raises(InvalidArgument, match="rows must be"):
        synthetic("amazon", rows=rows)


def test_other_names_and_seeds_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="name must be one of amazon, kc_housing, covertype, but it is 'mnist'"):
        synthetic("mnist")
    with pytest.raises(InvalidArgument, match="seed must be at least 0"):
        synthetic("amazon", -1)


def test_the_encoding_of_a_stand_in_reads_files_of_its_columns(tmp_path: Any) -> None:
    data: Any = synthetic("kc_housing", rows=600)
    columns = data.encoding.columns
    path = tmp_path / "new.csv"
    path.write_text(",".join(columns) + "\n" + ",".join(["1"] * len(columns)) + "\n")
    encoded: Any = data.encoding.apply(path)
    assert encoded.X.shape == (1, data.n_columns)
    assert encoded.y.tolist() == [1e-6]


@pytest.mark.slow
def test_load_and_stand_in_have_the_same_settings(amazon: Any) -> None:
    assert amazon.published == load("amazon", fallback="synthetic", fetch=None).published
