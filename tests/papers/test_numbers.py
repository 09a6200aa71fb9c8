"""Tables of numbers: what is written is what is there, whatever the format."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from erasurehead.errors import InvalidArgument
from erasurehead.papers._numbers import FigureTable

TABLE = FigureTable.of(("method", "load", "seconds"), [("uncoded, plain", 1, 2.0710678118654755), ("a|b", 3, None)])


def test_csv_has_all_digits_and_empty_fields(tmp_path: Path) -> None:
    TABLE.write_csv(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {"method": "uncoded, plain", "load": "1", "seconds": "2.0710678118654755"}
    assert rows[1]["seconds"] == ""


def test_markdown_is_for_people() -> None:
    lines = TABLE.to_markdown().splitlines()
    assert lines == [
        "| method | load | seconds |",
        "| :-- | --: | --: |",
        "| uncoded, plain | 1 | 2.071 |",
        r"| a\|b | 3 | – |",
    ]


@given(st.lists(st.tuples(st.integers(-9, 9), st.floats(allow_nan=False, allow_infinity=False)), max_size=5))
def test_rows_and_columns_are_the_same_table(rows: list[tuple[int, float]]) -> None:
    table = FigureTable.of(("a", "b"), rows)
    assert [tuple(row.values()) for row in table.rows()] == rows


def test_a_ragged_table_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="equal length"):
        FigureTable({"a": (1, 2), "b": (1,)})
    with pytest.raises(InvalidArgument, match="2 cells"):
        FigureTable.of(("a", "b"), [(1, 2), (1, 2, 3)])
