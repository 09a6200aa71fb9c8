"""What stands around the fields of a text table: titles, comments, last delimiters, quotes, decimal commas, strays."""

from __future__ import annotations

import contextlib
import csv
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import datasets
from erasurehead.datasets import shard
from erasurehead.datasets._readers import csv as csvfile
from erasurehead.datasets._readers.dialects import Dialect
from erasurehead.datasets._readers.layouts import look
from erasurehead.errors import DataError, InvalidArgument

from .everywhere import read_everywhere, write

ROWS = [(f"{row % 9}.5", f"{(row * 7) % 11}.25", str(row % 2)) for row in range(40)]
X = np.array([[float(a), float(b)] for a, b, _ in ROWS])
Y = np.array([2.0 * float(y) - 1.0 for _, _, y in ROWS])


def text(delimiter: str = ",", end: str = "\n", header: str = "a,b,y", quote: str = "") -> str:
    names = header.replace(",", delimiter)
    return (names + end if header else "") + "".join(
        delimiter.join(f"{quote}{field}{quote}" for field in row) + end for row in ROWS
    )


def dense(matrix: Any) -> np.ndarray[Any, Any]:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def same(path: Path, **arguments: Any) -> datasets.Dataset:
    """Read the table above from a file that has something else around it."""
    data = read_everywhere(path, standardize=False, **arguments)
    np.testing.assert_array_equal(dense(data.X_train), np.column_stack([X, np.ones(40)]))
    np.testing.assert_array_equal(data.y_train, Y)
    return data


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (text(end=",\n"), "left out, as there is no name above: 'Unnamed: 3'"),
        (text(end=",,,\n"), "'Unnamed: 3', 'Unnamed: 4', 'Unnamed: 5'"),
        ("a,b,y\n" + text(end=",\n", header=""), ""),
        ("a,b,y,\n" + text(header=""), ""),
        (text(";", end=";\r\n"), "'Unnamed: 3'"),
        ("sep=;\n" + text(";"), ""),
        ("\ufeffsep=\t\r\n" + text("\t", end="\r\n"), ""),
        ("# made by x\n# version 2\n" + text(), "2 lines of comments before the table left out"),
        ("# a,b,y\n" + text(header=""), "the columns' names are those of the comment before the table"),
        ("# made by x\n#\n# a b y\n" + text(" ", header=""), "2 lines of comments before the table left out"),
        ("Report 2021\n\n" + text(), "1 line before the table left out as a title: 'Report 2021'"),
        (
            "Report, second quarter\n" + text(";"),
            "1 line before the table left out as a title: 'Report, second quarter'",
        ),
        ("Report:,,\nMade,2024-01-01,\n" + text(), "2 lines before the table left out as titles: 'Report:'"),
        ("Report 2021,,\n,,\n" + text(), "1 line before the table left out as a title: 'Report 2021'"),
        ("Report\nof all\n\n" + text("\t"), "2 lines before the table left out as titles: 'Report'"),
        ("\n\n" + text(), ""),
    ],
)
def test_what_is_around_a_table_does_not_change_it(tmp_path: Path, content: str, note: str) -> None:
    data = same(write(tmp_path, content, "t.txt"))
    assert any(note in said for said in data.notes)
    assert not any("no header" in said for said in data.notes)


def test_row_names_that_r_writes_have_no_name_in_the_header(tmp_path: Path) -> None:
    lines = text(header="", quote="").splitlines()
    content = '"a","b","y"\n' + "".join(f'"{row + 1}",{line}\n' for row, line in enumerate(lines))
    assert "left out as an index: 'Unnamed: 0'" in same(write(tmp_path, content)).notes
    content = '"a","b","y"\n' + "".join(f'"row {row}",{line}\n' for row, line in enumerate(lines))
    same(write(tmp_path, content, "named.csv"))


def test_a_file_that_is_cut_off_or_wrong_in_its_first_lines_is_not_taken_for_a_title(tmp_path: Path) -> None:
    for content, line in (("a,b,c\n1,2,3\n1,2\n", 3), ("a,b,c\n1,2\n1,2,3\n4,5,6\n", 2), ("1,2\n1,2,3\n4,5,6\n", 1)):
        path = write(tmp_path, content)
        with pytest.raises(DataError, match=rf"line {line}: \d fields instead of \d"):
            datasets.read(path, test_fraction=None)


def test_a_comment_within_the_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 42: 1 fields instead of 3; comments may only stand before the table"):
        datasets.read(write(tmp_path, text() + "# the end\n"))


def test_labels_of_numbers_and_texts_are_classes_in_any_order(tmp_path: Path) -> None:
    for order in (1, -1):
        rows = [f"{row}.5,{['1', '2', '3+'][row % 3]}\n" for row in range(30)][::order]
        data = read_everywhere(write(tmp_path, "a,rooms\n" + "".join(rows)))
        assert (data.task, data.encoding.target.meaning()) == ("softmax", "0 is 1, 1 is 2, 2 is 3+")
        assert any("column 'rooms' holds numbers and texts, such as '3+'" in note for note in data.notes)
    quantities = "".join(f"{row}.5,{row}\n" for row in range(40))
    for content in (quantities + "40.5,much\n", "40.5,much\n" + quantities):
        with pytest.raises(DataError, match="column 'p': 'much' is not a number, but 40 of the column's 41 values are"):
            read_everywhere(write(tmp_path, "a,p\n" + content))


def test_a_last_column_without_a_name_that_is_filled_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,\n" + text(header=""))
    with pytest.raises(DataError, match=r"line 1: column 3 has no name; name the columns yourself \(--names\)"):
        datasets.read(path)
    same(path, header=True, names=["a", "b", "y"])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_quotes_behind_backslashes_are_read(tmp_path: Path, delimiter: str) -> None:
    rows = "".join(
        delimiter.join((f'"say \\"{"hi" if row % 3 else "ho"}\\", C:\\\\x"', f"{row}.5", str(row % 2))) + "\n"
        for row in range(30)
    )
    path = write(tmp_path, delimiter.join("tby") + "\n" + rows)
    for arguments in ({}, {"quotes": "backslash"}):
        data = read_everywhere(path, one_hot=["t"], **arguments)
        assert data.encoding.column_names[1:3] == ('t=say "hi", C:\\x', 't=say "ho", C:\\x')


def test_quotes_may_be_letters_like_any_others(tmp_path: Path) -> None:
    path = write(tmp_path, "size,b,y\n" + "".join(f'"{row % 3},{row}.5,{row % 2}\n' for row in range(30)))
    with pytest.raises(DataError, match=r"line \d: .*\(--quotes none, quotes=\"none\"\)"):
        datasets.read(path)
    data = read_everywhere(path, one_hot=["size"], quotes="none")
    assert data.encoding.column_names[1:4] == ('size="0', 'size="1', 'size="2')
    late = write(tmp_path, "t,b,y\n" + "ab,1.5,0\n" * 30 + '"7\\" disk",1.5,1\n', "late.csv")
    assert look(late).quotes == "backslash"
    with pytest.raises(DataError, match=r"line 32: .* behind a backslash, say so \(--quotes backslash\)"):
        datasets.read(late, one_hot=["t"], quotes="doubled")
    opened = write(tmp_path, 't,b,y\n"ab,1.5,0\n' + "ab,1.5,1\n" * 30, "opened.csv")
    with pytest.raises(DataError, match="line 2: a quote that opens here is never closed; if quotes are letters"):
        datasets.read(opened)


def test_fields_may_be_as_long_as_a_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "w " * 70_000
    rows = "".join(f"{long if row == 3 else 'short'},{row % 7}.5,{row % 2}\n" for row in range(40))
    assert read_everywhere(write(tmp_path, "body,a,y\n" + rows), drop=["body"]).n_train == 40
    csv.field_size_limit(1000)
    monkeypatch.setattr(csvfile, "_LONGEST", 100_000)
    with pytest.raises(DataError, match="line 5: a field has more than 100,000 letters; if quotes are letters"):
        datasets.read(tmp_path / "t.csv", drop=["body"])
    csv.field_size_limit(131_072)


@pytest.mark.parametrize("missing", ["None", "-nan", "NAN", "\\N", "-nan(ind)", "1.#QNAN", "#N/A N/A"])
def test_texts_of_other_programs_for_nothing_are_missing(tmp_path: Path, missing: str) -> None:
    path = write(tmp_path, text() + f"{missing},1.0,1\n")
    data = datasets.read(path, test_fraction=None)
    assert data.uses[0].missing == 1


def test_a_user_says_what_else_is_missing(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a,b,y\n"
        + "".join(f"{-999 if row < 2 else row + 0.5},{'.' if row < 3 else 'x'},{row % 2}\n" for row in range(40)),
    )
    data = read_everywhere(path, missing=["-999", "."], one_hot=["b"])
    assert [use.missing for use in data.uses] == [2, 3, 0]
    assert data.encoding.standardization["a"][0] == pytest.approx(np.mean(np.arange(2, 40) + 0.5))
    again = data.encoding.apply(write(tmp_path, "a,b,y\n-999.0,.,1\n", "new.csv"))
    assert (again.report.missing, again.report.unseen) == ({"a": 1, "b": 1}, {})


NUMBERS = st.lists(st.decimals(-1000, 1000, places=2), min_size=6, max_size=30, unique=True)


@given(values=NUMBERS, delimiter=st.sampled_from([";", "\t", "|", ","]), named=st.booleans())
def test_decimal_commas_are_read_as_points_are(
    values: list[Any], delimiter: str, named: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("decimal")
    values = [*values, values[0] + 1]
    rows = [[str(value), f"{row}", f"{value * value:.1f}"] for row, value in enumerate(values)]
    want = [[float(field) for field in row] for row in rows]
    path = folder / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows(
            [*([["p", "n", "q"]] if named else []), *([field.replace(".", ",") for field in row] for row in rows)]
        )
    data = datasets.read(path, task="least_squares", standardize=False, test_fraction=None, header=named)
    np.testing.assert_array_equal(dense(data.X_train)[:, :2], np.array(want)[:, :2])
    np.testing.assert_array_equal(data.y_train, np.array(want)[:, 2])
    assert any(note.startswith("numbers have decimal commas, such as ") for note in data.notes)
    new = folder / "new.csv"
    new.write_text(delimiter.join(["p", "n"]) * named + "\n" * named + delimiter.join(rows[0][:2]) + "\n")
    np.testing.assert_array_equal(dense(data.encoding.apply(new, labels=False).X)[0, :2], want[0][:2])


def penguins(comma: bool) -> str:
    rng = np.random.default_rng(5)
    rows = [["kind", "bill", "mass", "island"]]
    for row in range(90):
        kind = row % 3
        bill, mass = f"{38 + 5 * kind + rng.normal():.1f}", f"{rng.integers(3000, 5000)}"
        rows.append([("Adelie", "Gentoo", "Chinstrap")[kind], bill, mass, ("Biscoe", "Dream")[row * 7 % 4 // 2]])
    rows[7][1] = "NA"
    return "".join(";".join(row).replace(".", ",") + "\n" if comma else ",".join(row) + "\n" for row in rows)


def test_decimal_commas_do_not_become_categories_without_a_word(tmp_path: Path) -> None:
    points, commas = write(tmp_path, penguins(False), "p.csv"), write(tmp_path, penguins(True), "c.csv")
    want = read_everywhere(points, target="kind", categorical=True)
    data = read_everywhere(commas, target="kind", categorical=True)
    np.testing.assert_array_equal(dense(data.X_train), dense(want.X_train))
    assert data.notes[0].startswith("numbers have decimal commas, such as '3")
    for model, files in ((data, (points, commas)), (want, (points, commas))):  # models read the other one, too
        for file in files:
            np.testing.assert_array_equal(dense(model.encoding.apply(file).X), dense(want.X_train))
    with pytest.raises(DataError, match=r"column 'bill': '3\d,\d' is not a number; .*\(--decimal ,\)"):
        datasets.read(commas, "kind", categorical=True, decimal=".")
    codes = datasets.read(commas, "kind", categorical=True, one_hot=["bill"], decimal=".")
    assert codes.uses[1].becomes == "one-hot"


@pytest.mark.parametrize(
    ("field", "others"),
    [("1,234", "5,678"), ("1,234", "12"), ("1,234.5", "1,000.0"), ("1.234,5", "12,5"), ("1,234,567", "1,000,000")],
)
@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("categorical", [False, True])
def test_thousands_are_never_misread(
    tmp_path: Path, field: str, others: str, delimiter: str, categorical: bool
) -> None:
    rows = [["x", "y"], *([f'"{others}"', str(row % 2)] for row in range(30)), [f'"{field}"', "1"]]
    path = write(tmp_path, "".join(delimiter.join(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="is not a number; write the column's numbers with nothing between"):
        datasets.read(path, categorical=categorical)


def test_points_in_a_file_of_decimal_commas_are_not_guessed_at(tmp_path: Path) -> None:
    path = write(tmp_path, "x;z;y\n" + "".join(f"{row},5;1.{row + 100};{row % 2}\n" for row in range(30)))
    with pytest.raises(
        DataError, match=r"line 2, column 'z': '1\.100' has a decimal point, but the numbers of this file"
    ):
        datasets.read(path)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_points_that_may_stand_between_thousands_are_asked_about(tmp_path: Path, delimiter: str) -> None:
    def rows(values: list[str]) -> Path:
        lines = [f"{row}|{value}|{row % 2}" for row, value in enumerate(values * 4)]
        return write(tmp_path, "\n".join(["a|pop|y", *lines, ""]).replace("|", delimiter))

    for values in (["97", "776", "873", "1.067", "12.164"], ["-970", "-1.067.000"]):
        with pytest.raises(DataError, match=r"column 'pop': the point in '-?1[.\d]+' may stand before decimals or "):
            datasets.read(rows(values))
    assert dense(read_everywhere(rows(["776", "1.067"]), decimal=".", standardize=False).X_train)[1, 1] == 1.067
    for values in (["776", "1.067", "1.5"], ["1776", "1.067"], ["97", "1.067"], ["24.011", "16.963"], ["776", "0.123"]):
        model = read_everywhere(rows(values), standardize=False)
        assert dense(model.X_train)[1, 1] == float(values[1])
    assert dense(model.encoding.apply(rows(["776", "1.067"])).X)[1, 1] == 1.067  # as in the file of the model


def stray(texts: dict[int, str], n: int = 200) -> str:
    rng = np.random.default_rng(3)
    values = [f"{value:.4f}" for value in rng.normal(size=n)]
    return "kg,y\n" + "".join(f"{texts.get(row, value)},{row % 2}\n" for row, value in enumerate(values))


@pytest.mark.parametrize("first", [0, 150])
@pytest.mark.parametrize("categorical", [False, True])
def test_a_few_texts_among_numbers_are_named_before_they_make_categories(
    tmp_path: Path, first: int, categorical: bool
) -> None:
    path = write(tmp_path, stray({first: "12 kg", 160: "unknown", 170: "unknown", 5: "?", 6: "n/a"}))
    said = (
        rf"line {first + 2}, column 'kg': '12 kg' is not a number, nor is 'unknown' \(line 162\), but 195 of the "
        r"column's 198 values are; correct it, name what stands for a missing value \(--missing '12 kg,unknown'\), "
    )
    with pytest.raises(DataError, match=said):
        read_everywhere(path, categorical=categorical)
    data = read_everywhere(path, categorical=categorical, missing=["12 kg", "unknown"])
    assert (data.uses[0].becomes, data.uses[0].missing) == ("number", 5)
    assert read_everywhere(path, one_hot=["kg"]).uses[0].becomes == "one-hot"
    model = datasets.read(write(tmp_path, stray({}), "clean.csv")).encoding
    with pytest.raises(DataError, match=r"'12 kg' is not a number, .*; correct it, or leave the field empty"):
        model.apply(path)


@pytest.mark.slow
@settings(max_examples=20)
@given(order=st.permutations(["A4", "500", "0500", "A6", "500", "7", "A4", "B"] * 3))
def test_what_a_mixed_column_becomes_does_not_depend_on_the_order(
    order: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(
        tmp_path_factory.mktemp("mixed"), "m,y\n" + "".join(f"{model},{row % 2}\n" for row, model in enumerate(order))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csvfile, "_CHUNK_FIELDS", 6)
        data = read_everywhere(path, categorical=True)
    assert data.encoding.column_names == ("m=0500", "m=500", "m=7", "m=A4", "m=A6", "m=B", "(constant)")
    assert any(note.startswith("column 'm' holds numbers and texts, such as ") for note in data.notes)


def test_names_and_values_are_the_same_in_either_form_of_unicode(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "größe") for form in ("NFC", "NFD"))
    rows = "".join(f"{'Zoë' if row % 3 else 'Ada'},{row}.5,{row % 2}\n" for row in range(30))
    files = {name: write(tmp_path, f"{name},b,y\n{rows}", f"{len(name)}.csv") for name in (composed, decomposed)}
    files[decomposed].write_text(unicodedata.normalize("NFD", files[decomposed].read_text()))
    for own in (composed, decomposed):
        for named in (composed, decomposed):
            assert datasets.read(files[own], "y", drop=[named]).n_columns == 2
            data = read_everywhere(files[own], target="y", one_hot=[named])
            for new in files.values():
                encoded = data.encoding.apply(new)
                assert (encoded.report.unseen, encoded.X.shape) == ({}, (30, 4))


def test_the_names_that_are_there_are_said_if_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"drop must name columns of t\.csv, got 'size'; they are a, b, y"):
        datasets.read(write(tmp_path, text()), drop=["size"])
    assert look(tmp_path / "t.csv", Dialect(header=False)).names == ("1", "2", "3")


FIELDS = st.sampled_from(
    [
        "1",
        "2.5",
        "1,5",
        "-3",
        "a",
        "",
        "NA",
        '"q"',
        '"a,b"',
        "#",
        "True",
        "1.234,5",
        "1,234",
        "é",
        "2020",
        '"',
        '\\"',
        "7 %",
    ]
)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    rows=st.lists(st.lists(FIELDS, min_size=1, max_size=4), max_size=7),
    delimiter=st.sampled_from([",", ";", "\t", " "]),
    before=st.sampled_from(["", "Title\n", "# c\n", "sep=;\n", "\n"]),
    arguments=st.sampled_from([{}, {"header": True}, {"header": False}, {"decimal": ","}, {"quotes": "none"}]),
)
def test_whatever_stands_in_a_file_it_is_read_or_refused_with_a_sentence(
    rows: list[list[str]],
    delimiter: str,
    before: str,
    arguments: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_text(before + "\n".join(map(delimiter.join, rows)) + "\n")
    for categorical in (False, True):
        with contextlib.suppress(DataError):
            data = datasets.read(path, categorical=categorical, test_fraction=None, **arguments)
            assert data.n_train <= len(rows)


def test_strays_are_named_in_frames_and_parquet_files_too(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = [f"{row}.5" for row in range(60)] + ["12 kg"]
    table = pa.table({"kg": values, "y": [row % 2 for row in range(61)]})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        with pytest.raises(
            DataError, match=r"row 60, column 'kg': '12 kg' is not a number, but 60 of .* or name the column"
        ):
            datasets.read(source, categorical=True)
        assert datasets.read(source, one_hot=["kg"]).uses[0].becomes == "one-hot"


@pytest.mark.parametrize(
    ("content", "names", "delimiter"),
    [
        ("place, state\tkind\n" + "Town1, WA\tb\nTown2, WA\ta\n" * 9, ("place, state", "kind"), "\t"),
        ("ham\tWell, yes, no 3\n" + "ham\tOh,no,no\nspam\tWell,yes,no 1\n" * 9, ("1", "2"), "\t"),
        ("lat, lon;y\n" + "0, 1;0.5\n1, 1;0.7\n" * 9, ("lat, lon", "y"), ";"),
        ("lat, lon|y\n" + "0, 1|0.5\n1, 1|0.7\n" * 9, ("lat, lon", "y"), "|"),
        ("red|blue,5,x,1\n" + "green|red,5,x,1\nblue|red,6,y,2\n" * 9, ("1", "2", "3", "4"), ","),
    ],
)
def test_a_file_that_two_delimiters_would_cut_alike_is_not_cut_within_its_texts(
    tmp_path: Path, content: str, names: tuple[str, ...], delimiter: str
) -> None:
    for name in ("t.csv", "t.txt", "t.tsv"):
        found = look(write(tmp_path, content, name))
        assert (found.names, found.delimiter) == (names, delimiter)
        assert "fields are taken to stand between" in found.notes[0]
        assert "--delimiter" in found.notes[0]


@pytest.mark.parametrize(
    "content", ["1,5;2\n2,5;3\n" * 9, "a, b\n1, 2\n", "a\tb\n1,5\tx, y\n2,5\tz\n", '"a, b",1;8\n' * 9]
)
def test_one_delimiter_that_can_be_is_not_worth_a_note(tmp_path: Path, content: str) -> None:
    assert not any("stand between" in note for note in look(write(tmp_path, content)).notes)


def test_doubled_tabs_are_blanks_and_an_ending_speaks_for_single_ones(tmp_path: Path) -> None:
    content = "14.1\t13.6\t\t1\n13.4\t13.5\t2\n14.7\t14.2\t\t1\n14.0\t13.2\t2\n"
    assert (look(write(tmp_path, content, "seeds.txt")).delimiter, len(look(tmp_path / "seeds.txt").names)) == (" ", 3)
    assert look(write(tmp_path, "a, b, c\td\n1\t2\t3\n", "t.tsv")).delimiter == "\t"


@pytest.mark.parametrize("sign", ["#", "# ", "##  "])
def test_only_a_comment_of_nothing_but_names_is_a_header(tmp_path: Path, sign: str) -> None:
    rows = "".join(f"{row}.5,{row % 7},{row % 3}.25,red\n" for row in range(9))
    for comments, names in (
        (["id,a,y,kind"], ("id", "a", "y", "kind")),
        (["id,a,y,kind", "units C, bar, kg, none"], ("id", "a", "y", "kind")),
        (["made by x, in Rome, on paper, twice", "id,a,y,kind", "2024-05-01, 3, 4, ok"], ("id", "a", "y", "kind")),
        ([",a,y,kind"], ("Unnamed: 0", "a", "y", "kind")),
        (["2024-05-01, run 7, ok, x"], ("1", "2", "3", "4")),
        (["-0.5,1,1.25,blue"], ("1", "2", "3", "4")),
        (["a,b,c,red"], ("a", "b", "c", "red")),
    ):
        path = write(tmp_path, "".join(f"{sign}{line}\n" for line in comments) + rows)
        found = look(path)
        assert (found.names, found.skip) == (names, len(comments))
        assert any("comment before the table (--header no" in note for note in found.notes) == (names[1] != "2")
        assert look(path, Dialect(header=False)).names == ("1", "2", "3", "4")
    texts = write(tmp_path, f"{sign}red,big\n" + "red,small\n" + "red,big\nblue,big\nblue,small\n" * 9)
    assert (look(texts).header, look(texts).skip) == (False, 1)  # a row that was commented out


def test_none_is_a_class_and_a_category_where_only_the_empty_field_is_missing(tmp_path: Path) -> None:
    kinds = ["NA,None", "EU,Apnea", "NA,Apnea", "EU,None"]
    rows = "".join(f"{'' if row < 2 else row},{kinds[row % 4]}\n" for row in range(20))
    path = write(tmp_path, "hours,region,disorder\n" + rows)
    with pytest.raises(DataError, match=r"is missing \(texts such as None and NA count as .* --missing '' makes"):
        datasets.read(path, one_hot=["region"])
    data = read_everywhere(path, one_hot=["region"], missing=[""])
    assert [use.missing for use in data.uses] == [2, 0, 0]
    assert (data.encoding.column_names[1:3], data.n_train) == (("region=EU", "region=NA"), 20)
    pa = pytest.importorskip("pyarrow")
    frame = pytest.importorskip("pandas").DataFrame(
        {"hours": [3.0, 4.0], "region": ["NA", ""], "disorder": ["None", "Apnea"]}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet", frame.to_dict("records"), pa.Table.from_pandas(frame)):
        new = data.encoding.apply(source)
        assert (new.report.missing, new.y.tolist()) == ({"region": 1}, [1.0, -1.0])
    marked = write(tmp_path, ("hours,region,disorder\n" + rows).replace("\n,", "\n-,"), "marked.csv")
    again = read_everywhere(marked, one_hot=["region"], missing=["", "-"])
    np.testing.assert_array_equal(dense(again.X_train), dense(data.X_train))
    with pytest.raises(DataError, match="'-' is not a number"):
        datasets.read(marked, one_hot=["region"], missing=[""])


@pytest.mark.parametrize("title", ["|1x3 Cross validator", "Run 7", "made by x"])
def test_a_line_of_one_field_above_rows_without_names_is_a_title(tmp_path: Path, title: str) -> None:
    data = same(write(tmp_path, f"{title}\n" + text(header="")))
    assert f"1 line before the table left out as a title: {title!r}" in data.notes


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_at_the_end_with_nothing_in_any_field_are_left_out(tmp_path: Path, delimiter: str) -> None:
    blank = (2 * delimiter + "\n") * 3
    data = same(write(tmp_path, text(delimiter) + blank))
    assert "3 rows at the end of t.csv left out, as nothing is in any field" in data.notes
    within = text(delimiter) + blank + text(delimiter, header="")
    with pytest.raises(DataError, match="line 42: the label 'y' is missing"):
        datasets.read(write(tmp_path, within, "within.csv"))


def test_a_message_names_what_would_help_with_that_column(tmp_path: Path) -> None:
    prices = "".join(f'{row},"2,{100 + row},166"\n' for row in range(30))
    path = write(tmp_path, "area,price\n" + prices)
    for read in (datasets.read, lambda path: shard(path, 2, tmp_path / "shards")):
        with pytest.raises(DataError, match="column 'price': '2,100,166' is not a number") as found:
            read(path)
        assert "one_hot" not in str(found.value)
    with pytest.raises(DataError, match=r"line 1, column '1': 'a' .* columns' names, if it does \(--header yes"):
        datasets.read(write(tmp_path, text(), "headed.csv"), header=False)
    quoted = write(tmp_path, text(";", quote='"', header=""), "quoted.csv")
    with pytest.raises(DataError, match=r"line 1: a quote ends within a field, if ',' stands .*name another delimiter"):
        datasets.read(quoted, delimiter=",")
    with pytest.raises(DataError, match="has one column only, 'a,b,y'; there must be a target"):
        datasets.read(write(tmp_path, text(), "cut.csv"), delimiter="tab")


def test_one_column_with_decimal_commas_is_no_index_and_whole_numbers(tmp_path: Path) -> None:
    lines = [f"{n % 7},{n % 10};{n},5" for n in range(20)]
    data = datasets.read(write(tmp_path, "x;y\n" + "\n".join(lines) + "\n"), test_fraction=None, standardize=False)
    alone = data.encoding.apply(write(tmp_path, "x\n1,5\n2,5\n", "alone.csv"), labels=False).X
    assert np.asarray(alone)[:, 0].tolist() == [1.5, 2.5]
    indexed = data.encoding.apply(write(tmp_path, '"","x"\n1,5\n2,6\n', "indexed.csv"), labels=False).X
    assert np.asarray(indexed)[:, 0].tolist() == [5.0, 6.0]


def test_names_with_commas_are_shown_as_options_take_them(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n * n % 11 + 0.5},{n % 2}\n" for n in range(40))
    path = write(tmp_path, '"no, name","size, m2",sold\n' + rows)
    assert datasets.read(path).warnings[0].endswith("""(--drop '"no, name"')""")
    with pytest.raises(InvalidArgument, match='got \'size\'; they are "no, name", "size, m2", sold'):
        datasets.read(path, drop=["size"])
