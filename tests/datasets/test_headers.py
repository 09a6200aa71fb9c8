"""Whether the first line of a text table holds names, and what a user can say about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import datasets
from erasurehead.datasets._readers.dialects import Dialect
from erasurehead.datasets._readers.headers import verdict
from erasurehead.datasets._readers.layouts import look
from erasurehead.errors import DataError, InvalidArgument

from .everywhere import read_everywhere, write

N = 60
RNG = np.random.default_rng(0)
START = RNG.bit_generator.state
Cell = Callable[[int], object]
SMALL: Cell = lambda row: f"{RNG.uniform(0.05, 0.2):.5f}"  # noqa: E731
LARGE: Cell = lambda row: f"{RNG.uniform(500, 5000):.1f}"  # noqa: E731
COUNT: Cell = lambda row: RNG.integers(0, 10)  # noqa: E731
PERCENT: Cell = lambda row: RNG.integers(0, 100)  # noqa: E731
COLOUR: Cell = lambda row: ["red", "blue", "green"][row % 3]  # noqa: E731
KIND: Cell = lambda row: "ab"[row % 2]  # noqa: E731
PLACE: Cell = lambda row: f"Place {row}"  # noqa: E731
TRUTH: Cell = lambda row: row % 3 == 0  # noqa: E731
ROW: Cell = lambda row: row  # noqa: E731


def lines(*cells: Cell, n: int = N) -> list[list[str]]:
    RNG.bit_generator.state = START  # so that no test depends on those before it
    return [[str(cell(row)) for cell in cells] for row in range(n)]


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("908.1,914.3,920.5,grade", (SMALL, SMALL, SMALL, KIND)),
        ("908.1,914.3,920.5,grade", (SMALL, SMALL, SMALL, COUNT)),
        (",908.1,914.3,920.5", (ROW, SMALL, SMALL, SMALL)),
        ("id,908.1,914.3,920.5", (ROW, SMALL, SMALL, SMALL)),
        ("sample,908.1,914.3", (PLACE, SMALL, SMALL)),
        ("1100,1102,1104", (SMALL, SMALL, SMALL)),
        ("0,1,2", (SMALL, SMALL, SMALL)),
        ("0,1", (SMALL, SMALL)),
        ("0,1,2,3", (COUNT, COUNT, COUNT, COUNT)),
        (",0,1,2", (ROW, COUNT, COUNT, COUNT)),
        ("1,2,3,4,5", (SMALL, LARGE, SMALL, LARGE, SMALL)),
        ("2019,2020,2021", (LARGE, LARGE, LARGE)),
        ("2019.0,2020.0,2021.0", (LARGE, LARGE, LARGE)),
        ("country,2019,2020", (PLACE, LARGE, LARGE)),
        ("country,2020", (PLACE, SMALL)),
        ("2021,2020,2019", (SMALL, SMALL, SMALL)),
        ("150,4,setosa,versicolor,virginica", (SMALL, LARGE, SMALL, SMALL, COUNT)),
        ("colour,kind", (COLOUR, KIND)),
        ("red,blue", (TRUTH, TRUTH)),
        ("country,2000,2010,2013", (PLACE, LARGE, LARGE, LARGE)),
        ("401.2,402.3,403.9,405.1,407,409,411,413.5,415", (SMALL,) * 9),
        ("10,20,30,40,50,60,70,80,90", (PERCENT,) * 9),
        ("1,2,3,4,y", (COUNT,) * 5),
        ("2015,2016,2017,2018", (lambda row: RNG.integers(1900, 2200),) * 4),
        ("a,b,y", (SMALL, SMALL, COUNT)),
        ("name,0,age,size", (PLACE, COUNT, LARGE, COUNT)),
        ("type,cap,odour", (KIND, COLOUR, COLOUR)),
    ],
)
def test_a_header_is_told_by_what_only_it_has(header: str, cells: tuple[Cell, ...]) -> None:
    first = header.split(",")
    assert verdict(first, lines(*cells)).header
    assert verdict(first, [*lines(*cells), first, *lines(*cells)]).header  # files that were joined repeat it


@pytest.mark.parametrize(
    ("first", "cells"),
    [
        ("2,red,1", (COUNT, COLOUR, COUNT)),
        ("red,2,Place 7", (COLOUR, COUNT, PLACE)),
        ("Place 99,0.12", (PLACE, SMALL)),
        ("a,green", (KIND, COLOUR)),
        ("True,False", (TRUTH, TRUTH)),
        ("False,Place 99", (TRUTH, PLACE)),
        ("0.1,0.12,0.07,a", (SMALL, SMALL, SMALL, KIND)),
        ("60,0.1", (ROW, SMALL)),
        ("-1,0.1,b", (ROW, SMALL, KIND)),
        ("5,6", (COUNT, COUNT)),
        ("0,tcp,0,0,0.1", (COUNT, PLACE, COUNT, COUNT, SMALL)),
        ("unknown,red,3,5", (COUNT, COLOUR, COUNT, COUNT)),
        ("?,red,3", (COUNT, COLOUR, COUNT)),
        (",red,3", (COUNT, COLOUR, COUNT)),
        ("1999,Place 99", (lambda row: 1950 + row, PLACE)),
        ("1,10,100", (lambda row: row + 2, lambda row: 10 * row + 20, lambda row: row + 101)),  # rising, as in a series
        ("10,20,30,40", (PERCENT,) * 4),
        ("2,3,4", (COUNT,) * 3),
        ("2001,2002,2004", (PERCENT,) * 3),
        ("2001,2004", (PERCENT,) * 2),
        ("7000.2,8888.1,9999.5", (SMALL, COUNT, SMALL)),
        ("2001,2002,2004,a", (PERCENT, PERCENT, PERCENT, KIND)),
        ("1,2,3", (lambda row: row + 2, lambda row: row + 3, lambda row: row + 4)),
    ],
)
def test_data_in_the_first_line_are_not_lost(first: str, cells: tuple[Cell, ...]) -> None:
    assert not verdict(first.split(","), lines(*cells)).header


@given(
    kinds=st.lists(st.sampled_from([SMALL, LARGE, COUNT, COLOUR, KIND]), min_size=2, max_size=8),
    seed=st.integers(0, 10_000),
)
def test_any_row_of_a_table_is_data_and_names_above_numbers_are_a_header(kinds: list[Cell], seed: int) -> None:
    table = lines(*kinds)
    row = seed % N
    assert not verdict(table[row], table[:row] + table[row + 1 :]).header or all(
        kind in (COLOUR, KIND) for kind in kinds
    )
    if any(kind in (SMALL, LARGE, COUNT) for kind in kinds):
        found = verdict([f"name {place}" for place in range(len(kinds))], table)
        assert (found.header, found.obvious) == (True, True)


def body(*cells: Cell, n: int = N) -> str:
    return "".join(",".join(row) + "\n" for row in lines(*cells, n=n))


def test_what_was_decided_is_said_unless_it_is_obvious(tmp_path: Path) -> None:
    path = write(tmp_path, "908.1,914.3,920.5,grade\n" + body(SMALL, SMALL, SMALL, KIND))
    data = read_everywhere(path)
    assert (data.n_train, data.encoding.target.name) == (N, "grade")
    assert data.notes[0].startswith(
        "line 1 is taken for the header, as its numbers are far from those below (--header no"
    )
    plain = read_everywhere(write(tmp_path, "a,b,y\n" + body(SMALL, SMALL, COUNT), "plain.csv"))
    assert not any("header" in note for note in plain.notes)
    bare = read_everywhere(
        write(tmp_path, "2,red,1\n" + body(COUNT, COLOUR, lambda row: row % 2), "bare.csv"), categorical=True
    )
    assert bare.n_train == N + 1
    assert bare.notes[0].startswith("no header: the columns are called 1 to 3 (line 1 is data, as ")
    assert "--header yes takes it for their names" in bare.notes[0]


def test_the_user_has_the_last_word_and_new_files_are_read_likewise(tmp_path: Path) -> None:
    rows = body(COUNT, SMALL, KIND)
    path = write(tmp_path, "7,0.1,a\n" + rows)
    forced = read_everywhere(path, header=True)
    assert (forced.n_train, forced.encoding.target.name) == (N, "a")
    named = read_everywhere(path, names=["size", "share", "kind"])
    assert (named.n_train, named.encoding.target.name) == (N + 1, "kind")
    assert "(--header yes leaves it out)" in named.notes[0]
    replaced = read_everywhere(path, header="yes", names=["size", "share", "kind"])
    assert (replaced.n_train, replaced.encoding.target.name) == (N, "kind")
    headed = write(tmp_path, "size,share,kind\n" + rows, "headed.csv")
    lost = datasets.read(headed, header="no", one_hot=["1", "2"], test_fraction=None)
    assert lost.n_train == N + 1
    # one row, of which nobody could tell whether it is a header
    new = write(tmp_path, "908,914\n", "new.csv")
    assert named.encoding.apply(new, labels=False).X.shape[0] == 1
    one = write(tmp_path, "8,0.2,b\n9,0.1,a\n", "two.csv")
    assert (named.encoding.apply(one).X.shape[0], replaced.encoding.apply(one).X.shape[0]) == (2, 1)
    numbers = datasets.read(
        write(tmp_path, "1100,1102,1104\n" + body(SMALL, SMALL, SMALL), "nir.csv"), test_fraction=None
    )
    one = write(tmp_path, "1100,1102\n1101,1102\n", "one.csv")
    assert numbers.encoding.apply(one, labels=False).X.shape[0] == 1
    with pytest.raises(
        DataError, match=r"line 1: there must be a header with the columns' names, such as '1100'; it has '5', '6'"
    ):
        numbers.encoding.apply(write(tmp_path, "5,6\n7,8\n", "bad.csv"), labels=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"names": ["a", "b"]},
            r"names must name all 3 columns of t\.csv, got \['a', 'b'\]; its first line is 7, 0.1, a",
        ),
        ({"names": ["a", "b", "a"]}, "names must give each column a name of its own"),
        ({"names": "a,b,c"}, "names must be a list of texts"),
        ({"header": "maybe"}, r"header must be yes or no \(True or False\), but it is 'maybe'"),
        ({"decimal": ";"}, "decimal must be . or ,, but it is ';'"),
        ({"quotes": "single"}, "quotes must be one of doubled, backslash, none"),
    ],
)
def test_what_cannot_be_said_of_a_text_table_is_refused(tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    path = write(tmp_path, "7,0.1,a\n" + body(COUNT, SMALL, KIND))
    with pytest.raises(InvalidArgument, match=said):
        datasets.read(path, **arguments)
    np.save(tmp_path / "t.npy", np.eye(3))
    if len(said) > 60 and "first line" in said:
        with pytest.raises(InvalidArgument, match="names is for CSV files"):
            datasets.read(tmp_path / "t.npy", **arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,a\n1,2,3\n", "line 1: column 3 has the same name 'a' as an earlier one"),
        ("a,,y\n1,2,3\n", "line 1: column 2 has no name"),
    ],
)
def test_a_wrong_header_comes_with_what_would_work(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=rf"{said}.*\(--names\), or, if that line is data, .* \(--header no\)"):
        look(path)
    assert look(path, Dialect(names=("p", "q", "r"))).names == ("p", "q", "r")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
def test_the_decision_does_not_depend_on_how_fields_stand_apart(tmp_path: Path, delimiter: str) -> None:
    rows = body(COUNT, COLOUR, SMALL).replace(",", delimiter)
    for first, header in (("7,red,0.1", False), ("size,colour,share", True)):
        path = write(tmp_path, "\ufeff" + first.replace(",", delimiter) + "\n" + rows, "t.txt")
        found = look(path)
        assert (found.header, len(found.names), found.delimiter) == (header, 3, delimiter)


def test_numbers_in_quotes_and_a_single_column_are_no_exception(tmp_path: Path) -> None:
    quoted = "".join(f'"{row[0]}","{row[1]}"\n' for row in lines(COUNT, SMALL))
    assert look(write(tmp_path, '"a","b"\n' + quoted)).header
    assert not look(write(tmp_path, '"3","0.1"\n' + quoted)).header
    assert look(write(tmp_path, '"3","0.1"\n' + body(COUNT, SMALL))).header  # as writers of numbers quote names alone
    assert look(write(tmp_path, "x\n" + body(SMALL))).names == ("x",)
    assert look(write(tmp_path, "0.11\n" + body(SMALL))).names == ("1",)


def test_a_header_above_new_rows_is_no_row_of_a_model_without_one(tmp_path: Path) -> None:
    def encoding(*cells: Cell) -> Any:
        path = write(tmp_path, body(*cells), "model.csv")
        return datasets.read(path, header=False, categorical=True, test_fraction=None).encoding

    said = r"line 1: '{}' looks like a header, but the model was trained on a file without one; leave that line out"
    words, mixed = encoding(COLOUR, KIND, TRUTH), encoding(COLOUR, SMALL, KIND)
    for model, header, rows in (
        (words, "colour,kind", "red,a\nblue,b\n"),
        (words, "colour,kind", "red,a\n"),
        (mixed, "colour,size", "red,0.1\n"),
        (encoding(SMALL, SMALL, SMALL), "0,1", "0.1,0.1\n0.15,0.2\n0.3,0.5\n"),
    ):
        new = write(tmp_path, f"{header}\n{rows}", "new.csv")
        with pytest.raises(DataError, match=said.format(header.replace(",", ", "))):
            model.apply(new, labels=False)
    for model, rows in (
        (words, "red,c\nblue,d\n"),
        (words, "green,b\n"),
        (words, "pink,c\n"),
        (mixed, "red,\npink,3\n"),
    ):
        new = write(tmp_path, rows, "new.csv")
        assert model.apply(new, labels=False).X.shape[0] == rows.count("\n")
