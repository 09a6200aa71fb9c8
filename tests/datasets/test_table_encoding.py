from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead.datasets._encoded import Encoded
from erasurehead.datasets._preprocessing.design import Numeric
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._preprocessing.table_encoding import TableEncoding
from erasurehead.datasets._preprocessing.target import Target, fit_target
from erasurehead.datasets._readers.layouts import TableLayout
from erasurehead.datasets._readers.table import Table
from erasurehead.datasets._readers.values import table_of_rows
from erasurehead.errors import DataError

from .fitting import fit_table

ROWS: list[dict[str, object]] = [
    {"age": 30, "town": "Ely", "shop": "a", "bought": "yes"},
    {"age": 50, "town": "Rye", "shop": "b", "bought": "no"},
    {"age": None, "town": "Ely", "shop": "b", "bought": "no"},
    {"age": 40, "town": "Ayr", "shop": "a", "bought": "yes"},
]
NAMES = ("age", "town", "shop", "bought")


def _fit(rows: Sequence[Mapping[str, object]] = ROWS, **options: bool) -> TableEncoding:
    table = table_of_rows(rows)
    target = fit_target(table.column("bought"), "bought", None, table.place)
    groups = [("town",), ("shop",), ("town", "shop")]
    return fit_table(table, target, TableLayout(NAMES), numeric=["age"], one_hot=groups, **options)


def _dense(encoded: Encoded) -> list[list[float]]:
    X = encoded.X
    return (X if isinstance(X, np.ndarray) else X.toarray()).tolist()


def test_numbers_come_first_then_values_then_combinations_then_the_constant() -> None:
    encoding = _fit(standardize=False)
    encoded = encoding.apply(ROWS)
    #         age | Ayr Ely Rye | a b | Ayr-a Ely-a Ely-b Rye-b | 1
    assert _dense(encoded) == [
        [30, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1],
        [50, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1],
        [40, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1],  # the age is missing: the mean of 30, 50 and 40
        [40, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1],
    ]
    assert encoded.y is not None
    assert encoded.y.tolist() == [1, -1, -1, 1]
    assert encoding.n_columns == 11
    assert (encoded.report.unseen, encoded.report.missing) == ({}, {"age": 1})


def test_numbers_are_standardized_over_the_rows_that_were_fitted() -> None:
    encoding = _fit()
    age = encoding.features[0]
    assert age == Numeric("age", mean=40.0, scale=math.sqrt(200 / 3), fill=40.0)
    column = np.array(_dense(encoding.apply(ROWS)))[:, 0]
    np.testing.assert_allclose(column, np.array([-10, 10, 0, 0]) / math.sqrt(200 / 3))


def test_a_column_that_does_not_vary_is_shifted_only() -> None:
    table = table_of_rows([{"a": 0.1}] * 3)
    encoding = fit_table(table, Target("y", "least_squares"), TableLayout(("a",)), numeric=["a"])
    np.testing.assert_allclose(encoding.encode(table)[0].X, [[0, 1]] * 3, atol=1e-15)


def test_only_the_chosen_rows_are_fitted() -> None:
    table = table_of_rows(ROWS)
    target = Target("bought", "least_squares")
    encoding = fit_table(table, target, TableLayout(NAMES), numeric=["age"], one_hot=[("town",)], rows=np.array([0, 1]))
    assert encoding.vocabularies["town"].labels() == ["Ely", "Rye"]
    train, test = encoding.encode(table, [np.array([0, 1]), np.array([2, 3])])
    assert (train.report.unseen, test.report.unseen) == ({}, {"town": 1})
    assert _dense(test) == [[0, 1, 0, 1], [0, 0, 0, 1]]


def test_unseen_and_missing_values_have_no_entry_and_are_counted_by_column() -> None:
    encoding = _fit()
    encoded = encoding.apply(
        [
            {"age": 40, "town": "Ely", "shop": "a"},
            {"age": 40, "town": "Rye", "shop": "a"},  # both known, never together
            {"age": 40, "town": "York", "shop": "a"},
            {"age": 40, "town": None, "shop": "z"},
        ]
    )
    assert _dense(encoded) == [
        [0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1],
        [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    ]
    assert encoded.y is None
    assert encoded.report.unseen == {"town": 1, "shop": 1, "town x shop": 2}
    assert encoded.report.missing == {"town": 1, "town x shop": 1}


def test_it_survives_json_to_the_bit() -> None:
    encoding = _fit()
    again = Encoding.from_json(encoding.to_json())
    assert isinstance(again, TableEncoding)
    assert again.to_json() == encoding.to_json()
    assert _dense(again.apply(ROWS)) == _dense(encoding.apply(ROWS))
    assert again.n_columns == encoding.n_columns


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "This is not an encoding that erasurehead wrote"),
        ("no json", "This is not an encoding that erasurehead wrote"),
        ("[1]", "This is not an encoding that erasurehead wrote"),
        ('{"format":"erasurehead-encoding","version":9,"kind":"table"}', "of version 2, but it is .* of version 9"),
        ('{"format":"erasurehead-encoding","version":1,"kind":"table"}', "damaged: columns is missing"),
        ('{"format":"erasurehead-encoding","version":1,"kind":"cake"}', "This is not an encoding"),
    ],
)
def test_other_json_is_refused(text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        Encoding.from_json(text)


def test_json_that_was_edited_until_its_parts_do_not_fit_is_refused() -> None:
    def said(change: Callable[[dict[str, Any]], object]) -> str:
        data = json.loads(_fit().to_json())
        change(data)
        with pytest.raises(DataError) as raised:
            Encoding.from_json(json.dumps(data))
        return str(raised.value)

    town, both = (
        next(
            place
            for place, one in enumerate(json.loads(_fit().to_json())["features"])
            if len(one.get("one_hot", ())) == n
        )
        for n in (1, 2)
    )
    assert "labels of two kinds have two classes, but there are 1" in said(
        lambda data: data["target"]["classes"]["texts"].pop()
    )
    assert "one_hot must name a column, or several with keys" in said(
        lambda data: data["features"][town]["one_hot"].clear()
    )
    assert "one_hot must name a column, or several with keys" in said(lambda data: data["features"][both].pop("keys"))
    assert "there are 6 combinations of town x shop, and a key beyond them" in said(
        lambda data: data["features"][both]["keys"].append(9)
    )


def _write(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def test_files_may_have_other_columns_in_any_order_and_no_labels(tmp_path: Path) -> None:
    encoding = _fit()
    full = [[row[name] for name in ("shop", "bought", "town", "age")] + ["more"] for row in ROWS]
    path = _write(tmp_path / "all.csv", [["shop", "bought", "town", "age", "other"], *full])
    assert _dense(encoding.apply(path)) == _dense(encoding.apply(ROWS))
    assert encoding.apply(path).y is not None
    assert encoding.apply(path, labels=False).y is None
    blind = _write(tmp_path / "blind.csv", [["shop", "town", "age"], ["a", "Ely", 30]])
    assert encoding.apply(blind).y is None
    empty = _write(tmp_path / "empty.csv", [["shop", "town", "age", "bought"], ["a", "Ely", 30, ""]])
    assert encoding.apply(empty).y is None


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "new.csv", [["age", "town", "colour"], [1, "Ely", "red"]])
    with pytest.raises(DataError, match=r"new\.csv has no column 'shop'; its columns are age, town, colour\."):
        _fit().apply(path)


def test_errors_of_files_say_where(tmp_path: Path) -> None:
    header = ["age", "town", "shop", "bought"]
    path = _write(tmp_path / "a.csv", [header, [1, "Ely", "a", "yes"], ["old", "Ely", "a", "no"]])
    with pytest.raises(DataError, match=r"a\.csv, line 3, column 'age': 'old' is not a number"):
        _fit().apply(path)
    path = _write(tmp_path / "b.csv", [header, [1, "Ely", "a", "yes"], [1, "Ely", "a", "perhaps"]])
    with pytest.raises(
        DataError, match=r"b\.csv, line 3: the label 'bought' must be one of .* no, yes, but it is 'perhaps'"
    ):
        _fit().apply(path)
    path = _write(tmp_path / "c.csv", [[1, 2, 3, 4], [5, 6, 7, 8]])
    with pytest.raises(DataError, match=r"c\.csv, line 1: there must be a header"):
        _fit().apply(path)


def test_files_without_header_may_lack_the_label(tmp_path: Path) -> None:
    table = table_of_rows([{"1": 5.0, "2": 0, "3": 7}, {"1": 6.0, "2": 1, "3": 9}])
    target = fit_target(table.column("2"), "2", None, table.place)
    encoding = fit_table(table, target, TableLayout(("1", "2", "3"), header=False), one_hot=[("1",), ("3",)])
    whole = encoding.apply(_write(tmp_path / "whole.csv", [[6, 0, 7], [5, 1, 9]]))
    assert whole.y is not None
    assert (_dense(whole), whole.y.tolist()) == ([[0, 1, 1, 0, 1], [1, 0, 0, 1, 1]], [-1, 1])
    blind = encoding.apply(_write(tmp_path / "blind.csv", [[6, 7]]))
    assert (_dense(blind), blind.y) == ([[0, 1, 1, 0, 1]], None)
    with pytest.raises(DataError, match="line 1: 4 fields instead of 3"):
        encoding.apply(_write(tmp_path / "wide.csv", [[6, 7, 8, 9]]))


def test_rows_of_other_classes_are_dropped_with_their_labels_only() -> None:
    classes = fit_target(table_of_rows([{"y": 1}, {"y": 2}]).column("y"), "y", None, str).classes
    table = table_of_rows([{"a": value, "y": y} for value, y in ((1, 1), (2, 7), (3, 2))])
    target = Target("y", "logistic", classes, others="drop")
    encoding = fit_table(table, target, TableLayout(("a", "y")), one_hot=[("a",)], constant=False)
    encoded = encoding.apply(table)
    assert _dense(encoded) == [[1, 0, 0], [0, 0, 1]]
    assert (encoded.report.n_rows, encoded.report.dropped) == (2, 1)
    assert len(_dense(encoding.apply(table, labels=False))) == 3


def test_other_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="This encoding reads tables"):
        _fit().apply(sparse.csr_array(np.eye(3)))
    with pytest.raises(DataError, match="Labels of a table are a column of it"):
        _fit().apply(ROWS, labels=tmp_path / "y.npy")


@pytest.mark.parametrize("name", ["town", "age"])
def test_a_column_without_values_is_named(name: str) -> None:
    rows = [{**row, name: None} for row in ROWS]
    with pytest.raises(DataError, match=f"no row has a value in column '{name}'; leave the column out"):
        _fit(rows)


def test_numbers_too_small_to_be_squared_are_standardized_all_the_same() -> None:
    plain, small = (
        _fit([{**row, "age": factor * value} for row, value in zip(ROWS, (30, 20, 50, 40), strict=True)])
        for factor in (1.0, 1e-200)
    )
    (one,), (other,) = (
        [feature for feature in made.features if isinstance(feature, Numeric) and feature.column == "age"]
        for made in (plain, small)
    )
    assert (other.mean, other.scale) == (pytest.approx(1e-200 * one.mean), pytest.approx(1e-200 * one.scale))


def test_numbers_too_large_to_standardize_are_refused() -> None:
    rows = [{**row, "age": value} for row, value in zip(ROWS, (1e308, -1e308, 1e308, 0), strict=True)]
    with pytest.raises(DataError, match="the numbers of column 'age' are too large to square"):
        _fit(rows)


def test_columns_that_never_have_values_together_are_not_combined() -> None:
    table = table_of_rows([{"a": "x", "b": None}, {"a": None, "b": "y"}])
    with pytest.raises(DataError, match="no row has a value in all of a, b; do not combine them"):
        fit_table(table, Target("y", "least_squares"), TableLayout(("a", "b")), one_hot=[("a", "b")])


def test_a_table_may_be_encoded_as_it_is() -> None:
    table: Table = table_of_rows(ROWS)
    assert _dense(_fit().apply(table)) == _dense(_fit().apply(ROWS))
