from __future__ import annotations

import bz2
import csv
import gzip
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.datasets._readers import csv as csvfile
from erasurehead.datasets._readers.csv import Kind, Mixed, csv_blocks, read_csv
from erasurehead.datasets._readers.layouts import TableLayout, look
from erasurehead.datasets._readers.table import Table, TextColumn
from erasurehead.errors import DataError


def _file(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _read(path: Path, kinds: dict[str, Kind] | Kind = "auto") -> Table:
    layout = look(path)
    each = dict.fromkeys(layout.names, kinds) if isinstance(kinds, str) else kinds
    try:
        return read_csv(path, layout, each.get)
    except Mixed as mixed:  # as a source of rows does
        return read_csv(path, layout, {**each, **dict.fromkeys(mixed.names, "text")}.get)


def _texts(table: Table, name: str) -> list[str | None]:
    column = table.column(name)
    assert isinstance(column, TextColumn)
    return [None if code < 0 else column.values[code] for code in column.codes]


def test_columns_are_read_as_asked(tmp_path: Path) -> None:
    table = _read(_file(tmp_path, "a,b,c\n1,x,9\n,,8\n2.5,7,NA\n"), {"a": "number", "b": "text"})
    np.testing.assert_array_equal(table.numbers("a"), [1, math.nan, 2.5])
    assert _texts(table, "b") == ["x", None, "7"]
    assert set(table.columns) == {"a", "b"}
    assert table.n_rows == 3


def test_an_auto_column_is_what_its_first_value_is(tmp_path: Path) -> None:
    table = _read(_file(tmp_path, "a,b,c\n?,NA,\n1,one,\n2,2,\n"))
    np.testing.assert_array_equal(table.numbers("a"), [math.nan, 1, 2])
    assert _texts(table, "b") == [None, "one", "2"]
    np.testing.assert_array_equal(table.numbers("c"), [math.nan] * 3)


@pytest.mark.parametrize("order", [1, -1])
def test_an_auto_column_of_numbers_and_texts_is_one_of_texts_in_any_order(tmp_path: Path, order: int) -> None:
    table = _read(_file(tmp_path, "a,b\n" + "".join(f"{a},1\n" for a in ["500", "0500", "A4"][::order])))
    assert _texts(table, "a") == ["500", "0500", "A4"][::order]
    np.testing.assert_array_equal(table.numbers("b"), [1, 1, 1])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    path = _file(tmp_path, "a,b,c\n1,2,3\n".replace(",", delimiter))
    assert look(path) == TableLayout(("a", "b", "c"), True, delimiter, skip=1)
    np.testing.assert_array_equal(_read(path).numbers("c"), [3])


def test_a_first_line_of_numbers_is_data(tmp_path: Path) -> None:
    path = _file(tmp_path, "5,6\n7,8\n")
    assert look(path) == TableLayout(("1", "2"), False, ",")
    np.testing.assert_array_equal(_read(path).numbers("2"), [6, 8])


def test_quotes_blank_lines_a_byte_order_mark_and_windows_newlines_are_borne(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b'\xef\xbb\xbf"a", b\r\n\r\n"1,5\n6", 2\r\n\r\n"x""y",3\r\n\r\n')
    table = _read(path, {"a": "text", "b": "number"})
    assert _texts(table, "a") == ["1,5\n6", 'x"y']
    np.testing.assert_array_equal(table.numbers("b"), [2, 3])
    assert table.place(0).endswith("line 4")
    assert table.place(1).endswith("line 6")


@pytest.mark.parametrize(
    ("line", "said"),
    [("4,5", r"line 4: 2 fields instead of 3"), ("4,5,6,7", r"line 4: 4 fields instead of 3")],
)
def test_a_line_of_another_width_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(DataError, match=rf"data\.csv, {said}; the file is cut off there, or that line is wrong"):
        _read(_file(tmp_path, f"a,b,c\n1,2,3\n1,2,3\n{line}\n1,2,3\n"))


def test_a_file_that_is_cut_off_in_a_line_says_which(tmp_path: Path) -> None:
    text = "a,b,c\n" + "10,20,30\n" * 1000
    with pytest.raises(DataError, match="line 501: 2 fields instead of 3; the file is cut off there"):
        _read(_file(tmp_path, text[: 6 + 9 * 500 - 4]))


def test_a_last_line_without_newline_is_read_and_noted(tmp_path: Path) -> None:
    table = _read(_file(tmp_path, "a,b\n1,2\n3,4"))
    np.testing.assert_array_equal(table.numbers("b"), [2, 4])
    assert "ends without a newline" in table.notes[0]
    assert _read(_file(tmp_path, "a,b\n1,2\n")).notes == ()


@pytest.mark.parametrize("wrong", ["inf", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused_with_line_and_column(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(
        DataError, match=rf"line 3, column 'b': '{wrong}' is not a finite number; leave the field empty"
    ):
        _read(_file(tmp_path, f"a,b\n1,2\n3,{wrong}\n"))


def test_a_text_among_numbers_is_named_and_the_hint_given(tmp_path: Path) -> None:
    path = _file(tmp_path, "a,b\n1,2\n3,4\n5,six\n")
    with pytest.raises(DataError, match="line 4, column 'b': 'six' is not a number; call a doctor"):
        next(csv_blocks(path, look(path), lambda name: "number", "; call a doctor"))


def test_an_open_quote_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.csv, line 3: a quote that opens here is never closed"):
        _read(_file(tmp_path, 'a,b\n1,2\n"3,4\n'))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "has no rows of data"),
        ("a,,c\n1,2,3\n", "line 1: column 2 has no name"),
        ("a,b,a\n1,2,3\n", "line 1: column 3 has the same name 'a' as an earlier one"),
    ],
)
def test_files_without_data_or_names_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        _read(_file(tmp_path, text))


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_compressed_files_are_read(tmp_path: Path, ending: str, pack: object) -> None:
    path = tmp_path / f"data.csv.{ending}"
    assert callable(pack)
    path.write_bytes(pack(b"a,b\n1,2\n3,4\n"))
    np.testing.assert_array_equal(_read(path).numbers("a"), [1, 3])


_FIELDS = st.one_of(
    st.sampled_from(["", "NA", "red", "light blue", 'say "hi"', "a,b", "7"]),
    st.floats(-1e6, 1e6).map(repr),
)


@pytest.mark.slow
@given(st.lists(st.tuples(_FIELDS, st.floats(-1e9, 1e9), _FIELDS), min_size=1, max_size=40), st.integers(1, 9))
def test_what_is_read_does_not_depend_on_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float, str]], fields: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([("x", "y", "z"), *rows])
    kinds: dict[str, Kind] = {"x": "text", "y": "number", "z": "text"}
    whole = _read(path, kinds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csvfile, "_CHUNK_FIELDS", fields)
        parts = _read(path, kinds)
    for table in (whole, parts):
        assert _texts(table, "x") == [None if row[0] in ("", "NA") else row[0] for row in rows]
        assert _texts(table, "z") == [None if row[2] in ("", "NA") else row[2] for row in rows]
        assert table.numbers("y").tolist() == [row[1] for row in rows]


def test_errors_name_the_line_in_later_chunks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvfile, "_CHUNK_FIELDS", 6)
    text = io.StringIO()
    text.write("a,b\n")
    for number in range(50):
        text.write(f"{number},{'oops' if number == 37 else number}\n")
    with pytest.raises(DataError, match="line 39, column 'b': 'oops'"):
        _read(_file(tmp_path, text.getvalue()), "number")


def test_values_missing_for_several_chunks_stay_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvfile, "_CHUNK_FIELDS", 4)
    table = _read(_file(tmp_path, "a,b\n" + ",1\n" * 7 + "red,1\n"))
    assert _texts(table, "a") == [None] * 7 + ["red"]
