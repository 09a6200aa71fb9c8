from __future__ import annotations

import math
from datetime import date

import numpy as np
import pytest

from erasurehead.datasets._readers.fields import MISSING, plain
from erasurehead.datasets._readers.table import NumberColumn, TextColumn
from erasurehead.datasets._readers.values import TextCoder, column_of, table_of_rows
from erasurehead.errors import DataError


def test_rows_become_columns_of_numbers_or_texts() -> None:
    table = table_of_rows(
        [{"age": 4, "town": "Ely", "on": True}, {"age": None, "town": ""}, {"age": 2.5, "town": "Ely"}]
    )
    np.testing.assert_array_equal(table.numbers("age"), [4, math.nan, 2.5])
    np.testing.assert_array_equal(table.numbers("on"), [1, math.nan, math.nan])
    town = table.column("town")
    assert isinstance(town, TextColumn)
    assert (town.codes.tolist(), town.values) == ([0, -1, 0], ("Ely",))
    assert town.missing().tolist() == [False, True, False]


def test_texts_that_read_as_numbers_are_numbers_where_numbers_are_wanted() -> None:
    table = table_of_rows([{"a": "1.5"}, {"a": "NA"}, {"a": "2"}])
    np.testing.assert_array_equal(table.numbers("a"), [1.5, math.nan, 2])


def test_a_text_that_is_no_number_is_named_with_row_and_column() -> None:
    table = table_of_rows([{"a": "1.5"}, {"a": ""}, {"a": "two"}], "my rows")
    with pytest.raises(DataError, match=r"my rows, row 2, column 'a': 'two' is not a finite number"):
        table.numbers("a")


@pytest.mark.parametrize("wrong", [math.inf, "inf"])
def test_numbers_that_are_not_finite_are_refused(wrong: object) -> None:
    with pytest.raises(DataError, match=r"rows, row 1, column 'a': '?inf'? is not a finite number"):
        table_of_rows([{"a": 1.0}, {"a": wrong}], "rows").numbers("a")


@pytest.mark.parametrize("mark", [*MISSING, " NaN ", None, math.nan, np.float32("nan")])
def test_every_mark_of_a_missing_value_is_missing_among_numbers_and_among_texts(mark: object) -> None:
    for other in (1.5, "Ely"):
        assert column_of([other, mark], "a", "rows").missing().tolist() == [False, True]


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(DataError, match="has no column 'c'; its columns are a, b"):
        table_of_rows([{"a": 1, "b": 2}]).column("c")


def test_taking_rows_keeps_where_they_came_from() -> None:
    table = table_of_rows([{"a": k, "b": str(k)} for k in range(5)], "it").take(np.array([4, 1]))
    np.testing.assert_array_equal(table.numbers("a"), [4, 1])
    np.testing.assert_array_equal(table.numbers("b"), [4, 1])
    assert (table.n_rows, table.place(0)) == (2, "it, row 4")


def test_the_coder_numbers_texts_by_first_appearance_and_passes_over_outer_spaces() -> None:
    coder = TextCoder()
    assert [coder[text] for text in ["b", " a", "b ", "", "NA", "a"]] == [0, 1, 0, -1, -1, 1]
    assert coder.texts() == ("b", "a")


def test_in_a_column_of_texts_numbers_are_as_they_print_and_nan_is_missing() -> None:
    column = column_of(["a", 3.0, np.float32(2.5), math.nan, date(2014, 10, 13)], "a", "rows")
    assert isinstance(column, TextColumn)
    assert column.codes.tolist() == [0, 1, 2, -1, 3]
    assert column.values == ("a", "3", "2.5", "2014-10-13")


def test_numbers_print_as_people_write_them() -> None:
    assert [plain(value) for value in (3.0, -2.0, 0.1, 1e22)] == ["3", "-2", "0.1", "10000000000000000000000"]


def test_missing_numbers_are_those_that_are_nan() -> None:
    assert NumberColumn(np.array([1.0, math.nan])).missing().tolist() == [False, True]
