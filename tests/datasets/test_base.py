from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from erasurehead.datasets import read, shard
from erasurehead.datasets._base import split_rows
from erasurehead.datasets._encoded import EncodingReport
from erasurehead.datasets._published.public import published
from erasurehead.errors import DataError, InvalidArgument


@pytest.mark.parametrize(
    ("n_rows", "fraction", "seed"), [(32_769, 0.2, 0), (21_613, 0.2, 0), (11, 0.5, 3), (2, 0.1, 1)]
)
def test_the_split_is_that_of_scikit_learn(n_rows: int, fraction: float, seed: int) -> None:
    from sklearn.model_selection import train_test_split  # takes a second

    train, test = split_rows(n_rows, fraction, seed)
    expected = train_test_split(np.arange(n_rows), test_size=fraction, random_state=seed)
    np.testing.assert_array_equal(train, expected[0])
    np.testing.assert_array_equal(test, expected[1])


@pytest.mark.parametrize("fraction", [None, 0, 0.0])
def test_without_a_test_part_the_rows_keep_their_order(fraction: float | None) -> None:
    train, test = split_rows(4, fraction)
    assert (train.tolist(), test.tolist()) == ([0, 1, 2, 3], [])


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2.0, float("nan")])
def test_fractions_out_of_range_are_refused(fraction: float) -> None:
    with pytest.raises(InvalidArgument, match=r"test_fraction must lie in \[0, 1\), but it is"):
        split_rows(10, fraction)


def test_too_few_rows_to_split_are_refused() -> None:
    with pytest.raises(DataError, match=r"1 row is too few to set 0\.2 of them aside"):
        split_rows(1, 0.2)


def test_a_file_with_too_few_rows_to_split_is_named(tmp_path: Path) -> None:
    path = tmp_path / "houses.csv"
    path.write_text("size,price\n1,2\n")
    for make in (lambda: read(path, test_fraction=0.2), lambda: shard(path, 1, tmp_path / "s", test_fraction=0.2)):
        with pytest.raises(DataError, match=r"houses\.csv: 1 row is too few to set 0\.2 of them aside"):
            make()


def test_the_published_settings() -> None:
    rates = {
        name: (published(name).rate, published(name).rate_factor) for name in ("amazon", "kc_housing", "covertype")
    }
    assert rates == {"amazon": (10.0, 1.0), "kc_housing": (0.1, 0.99), "covertype": (0.1, 1.0)}
    assert [published(name).loss for name in rates] == ["logistic", "least_squares", "logistic"]
    assert [published(name).metric for name in rates] == ["auc", "mse", "auc"]
    assert {(published(name).steps, published(name).n_workers) for name in rates} == {(100, 30)}


def test_a_report_speaks_of_unseen_values_by_column_and_of_missing_ones_together() -> None:
    report = EncodingReport(10, {"a": 2, "a x b": 3, "a x c": 4}, {"c": 1, "a x c": 1}, dropped=5)
    assert report.sentences() == (
        "a: 2 of 10 rows have a value that training never saw",
        "combinations of columns: 7 entries have values that training never saw together",
        "missing values: c in 1 of 10 rows",
        "5 rows left out: their label is not one of the classes",
    )
    assert EncodingReport(10, {}, {}).sentences() == ()
    many = {f"c{number}": 1000 + number for number in range(12)}
    (sentence,) = EncodingReport(2000, {}, many).sentences()
    assert sentence == (
        "missing values: c11 in 1,011, c10 in 1,010, c9 in 1,009, c8 in 1,008, c7 in 1,007, c6 in 1,006, c5 in 1,005, "
        "c4 in 1,004, and 4 further columns of 2,000 rows"
    )
