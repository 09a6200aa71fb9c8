"""Columns that are made from others: dates, orders, counts, and the words of texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfTransformer

from erasurehead.datasets import Dataset, read, shard
from erasurehead.datasets._preprocessing.derived import BUCKETS, looks_like_a_date
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.errors import DataError, InvalidArgument

from ..arrays import Array

SETTINGS: dict[str, Any] = {
    "target": "y",
    "count": ["zip"],
    "text": ["said"],
    "ordinal": ["size=small<medium<large"],
}
N = 120


def written(path: Path) -> Path:
    """Return a CSV file with a column of each kind, and missing values in all of them."""
    rng = np.random.default_rng(0)
    words = ["good", "bad", "quick", "slow", "red", "blue"]
    lines = ["when,zip,size,said,x,y"]
    for row in range(N):
        when = f"2023-{1 + row % 12:02d}-{1 + row % 28:02d}" if row % 9 else ""
        size = ("small", "medium", "large", "")[row % 4]
        said = " ".join(rng.choice(words, rng.integers(0, 5)))
        lines.append(f"{when},{100 + row % 7 if row % 11 else ''},{size},{said},{rng.normal():.3f},{row % 2}")
    path.write_text("\n".join(lines) + "\n")
    return path


def columns_of(data: Dataset) -> dict[str, Array]:
    """Return the columns of the training rows by name."""
    matrix: Any = data.X_train
    return dict(zip(data.encoding.column_names, matrix.toarray().T, strict=True))


def test_dates_become_days_and_categories_with_a_note_and_without_being_named(tmp_path: Path) -> None:
    data = read(written(tmp_path / "t.csv"), **SETTINGS, standardize=False, test_fraction=None)
    columns = columns_of(data)
    assert "dates became parts: when (day, month, weekday); --one-hot when makes each date a category" in data.notes
    days = columns["when (day)"]
    assert days[1] == np.datetime64("2023-02-02").astype(int)
    assert days[0] == pytest.approx(np.mean([day for row, day in enumerate(days) if row % 9]))  # a missing one
    assert [columns[f"when (month)={month}"][1] for month in (1, 2, 3)] == [0, 1, 0]
    assert columns["when (weekday)=Thu"][1] == 1
    assert not any(name.startswith("when (hour)") for name in columns)
    assert not any(columns[f"when (month)={month}"][0] for month in range(1, 13))
    named = read(tmp_path / "t.csv", **SETTINGS, one_hot=["when"], test_fraction=None)
    assert "when=2023-02-02" in named.encoding.column_names


def test_times_have_hours_and_what_is_no_date_is_refused_later(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("at,y\n" + "".join(f"2023-01-02 {row % 24:02d}:30,{row % 2}\n" for row in range(60)))
    data = read(path)
    assert {"at (day)", "at (hour)=7"} <= set(data.encoding.column_names)
    with pytest.raises(DataError, match="row 0, column 'at': 'soon' is not a date, as those of the training data are"):
        data.encoding.apply([{"at": "soon"}], labels=False)
    path.write_text("at,y\n2023-01-02,1\nsoon,0\n" * 9)
    with pytest.raises(DataError, match="'2023-01-02' is not a number; name the column in one_hot"):
        read(path)
    assert "at=soon" in read(path, categorical=True).encoding.column_names


@pytest.mark.parametrize(
    ("text", "whether"),
    [
        ("2024-02-29", True),
        ("2024-02-29T12:00:01Z", True),
        ("2024-02-29 12:00:00.5+01:00", True),
        ("2023-02-29", False),
        ("2024-2-9", True),
        ("2024/02/09", True),
        ("31.12.2024", True),
        ("12/31/2024 09:30", True),
        ("1/2/2024", True),
        ("31/12/24", False),  # of which year?
        ("31/13/2024", False),
        ("31.12-2024", False),
        ("20240229T093000", True),
        ("20240230T093000", False),
        ("20240229", False),
        ("2024", False),
        ("29 Feb 2024", True),
        ("29-feb-2024 9:30", True),
        ("Sept 3, 2024", True),
        ("30 February 2024", False),
        ("3 Ma 2024", False),  # March, or May?
        ("3 Marble 2024", False),
        ("12/31/2024 9:30 PM", True),
        ("12/31/2024 13:30 PM", False),
        ("7:41 PM", False),
    ],
)
def test_what_a_date_is(text: str, whether: bool) -> None:
    assert looks_like_a_date(text) is whether


@pytest.mark.parametrize(
    ("dates", "order"),
    [
        (("31/12/2024", "01/02/2024"), "day-first"),
        (("31.12.2024", "1.2.2024"), "day-first"),
        (("12/31/2024", "02/01/2024"), "month-first"),
        (("12-31-2024 10:00", "02-01-2024"), "month-first"),
        (("Dec 31 2024", "1 February 2024"), "month-in-words"),
    ],
)
def test_one_date_of_a_column_settles_how_all_are_written(tmp_path: Path, dates: tuple[str, ...], order: str) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{dates[1 if row < 30 else 0]},{row % 7},{row % 2}" for row in range(60)]  # at its end
    path.write_text("\n".join(["when,x,y", *rows]) + "\n")
    data = read(path, standardize=False, test_fraction=None)
    days = columns_of(data)["when (day)"]
    assert days[0] == np.datetime64("2024-02-01").astype(int)
    assert int(days[59]) == np.datetime64("2024-12-31").astype(int)
    assert any(note.startswith("dates became parts: when (day, month") and order in note for note in data.notes)
    again = Encoding.from_json(data.encoding.to_json())
    third = "3 April 2024" if order == "month-in-words" else "3.4.2024"
    (row,) = np.asarray(again.apply([{"when": third, "x": 0}], labels=False).X.toarray())  # pyright: ignore
    expected = "2024-03-04" if order == "month-first" else "2024-04-03"
    assert row[again.column_names.index("when (day)")] == np.datetime64(expected).astype(int)
    other = again.apply([{"when": "2024-04-03", "x": 0}], labels=False)  # as a column of dates of a frame is read
    assert np.asarray(other.X.toarray())[0, 0] == np.datetime64("2024-04-03").astype(int)  # pyright: ignore
    folder = shard(path, 3, tmp_path / "s", standardize=False, test_fraction=None, block=300)
    assert folder.encoding.to_json() == data.encoding.to_json()


@pytest.mark.parametrize("wrong", ["never", "31.02.2024", "1/13/2024", "2024-01-05"])
@pytest.mark.parametrize("at", [0, 28])
def test_a_few_texts_among_dates_are_refused_by_name(tmp_path: Path, wrong: str, at: int) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{wrong if row == at else f'{row + 1:02}/01/2024'},{row % 7},{row % 2}" for row in range(30)]
    path.write_text("\n".join(["when,x,y", *rows]) + "\n")
    said = (
        rf"column 'when': '{wrong}' is not a date written as the column's 29 others are \(day-first\); correct it, "
        rf"leave the field empty .*--missing {wrong} says so\), or name the column in one_hot \(--one-hot when\)"
    )
    with pytest.raises(DataError, match=said):
        read(path, categorical=True)
    assert f"when={wrong}" in read(path, one_hot=["when"], test_fraction=None).encoding.column_names
    data = read(path, missing=[wrong], test_fraction=None)
    assert any(note.startswith("dates became parts: when (day, weekday; written day-first)") for note in data.notes)


def test_dates_that_may_be_read_in_two_ways_are_refused_until_it_is_said_which(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,y\n" + "".join(f"0{1 + row % 5}/0{1 + row % 4}/2024,{row % 2}\n" for row in range(60)))
    said = (
        r"t.csv, column 'when': '01/02/2024' may be 2024-02-01 or 2024-01-02, and no date of the column tells; say "
        r"which it is \(--dates day-first, or --dates month-first\), or name the column in one_hot \(--one-hot when\)"
    )
    for reading in (lambda: read(path), lambda: read(path, categorical=True), lambda: shard(path, 2, tmp_path / "s")):
        with pytest.raises(DataError, match=said):
            reading()
    assert "when=01/01/2024" in read(path, one_hot=["when"], test_fraction=None).encoding.column_names
    month = {}
    for dates in ("day-first", "month-first"):
        data = read(path, dates=dates, test_fraction=None, standardize=False)
        month[dates] = {name[-1] for name in columns_of(data) if "month" in name}
    assert month == {"day-first": {*"1234"}, "month-first": {*"12345"}}
    with pytest.raises(InvalidArgument, match="dates must be day-first or month-first, but it is 'dmy'"):
        read(path, dates="dmy")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("clock", ["12:05 AM", "1:05 a.m.", "12:05 pm", "9:05PM"])
def test_hours_before_and_after_noon_are_told_apart(tmp_path: Path, clock: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,y\n" + "".join(f"2024-01-{day:02d} {clock},{day % 3}\n" for day in range(1, 29)))
    hour = {"12:05 AM": 0, "1:05 a.m.": 1, "12:05 pm": 12, "9:05PM": 21}[clock]
    data = read(path, standardize=False, test_fraction=None)
    first = columns_of(data)["when (day)"][0]
    assert first == pytest.approx(np.datetime64("2024-01-01").astype(int) + (hour + 5 / 60) / 24)


@pytest.mark.parametrize("text", ["15/01/2{}", "28-Mar-2{}", "15.1.2{} 9:30", "7:1{}", "7:1{}:05 PM"])
def test_short_dates_and_times_alone_are_refused_with_advice_or_noted_as_categories(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,x,y\n" + "".join(f"{text.format(row % 3)},{row % 5},{row}\n" for row in range(30)))
    with pytest.raises(DataError, match="is not a number; write dates with years of four digits, and times of day as"):
        read(path)
    said = f"column 'when' looks like dates or times, such as '{text.format(0)}', but each of its texts is a category"
    assert any(note.startswith(said) for note in read(path, categorical=True).notes)
    assert any(note.startswith(said) for note in shard(path, 2, tmp_path / "s", categorical=True).manifest.notes)
    assert not any("looks like" in note for note in read(path, one_hot=["when"]).notes)


@pytest.mark.parametrize("other", ["31.1.2024", "31 Jan 2024", "1/31/2024"])
def test_dates_of_which_half_are_written_in_another_way_are_categories(tmp_path: Path, other: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,y\n" + f"2024-01-05,1\n{other},2\n" * 10)
    data = read(path, categorical=True)
    assert data.encoding.column_names[:2] == tuple(sorted(["when=2024-01-05", f"when={other}"]))


def test_equal_days_and_months_are_not_in_doubt(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,y\n" + "".join(f"0{1 + row % 5}/0{1 + row % 5}/2024,{row % 2}\n" for row in range(60)))
    assert "when (day)" in read(path).encoding.column_names


def test_orders_are_numbers_and_other_texts_are_refused_in_training_and_counted_later(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv")
    data = read(path, **SETTINGS, standardize=False, test_fraction=None)
    size = columns_of(data)["size"]
    assert size[:4].tolist() == [0.0, 1.0, 2.0, 1.0]  # the last one is missing, and the mean
    later = data.encoding.apply([{"when": None, "zip": "100", "size": "huge", "said": "", "x": 1.0}], labels=False)
    assert later.report.unseen == {"size": 1}
    with pytest.raises(DataError, match="line 4, column 'size': 'large' is not in the order small<medium; name all"):
        read(path, **{**SETTINGS, "ordinal": ["size=small<medium"]})


def test_values_become_how_often_training_rows_have_them(tmp_path: Path) -> None:
    data = read(written(tmp_path / "t.csv"), **SETTINGS, standardize=False)
    raw = [line.split(",")[1] for line in (tmp_path / "t.csv").read_text().splitlines()[1:]]
    values = {float(value) for value in columns_of(data)["zip (count)"]}
    encoded = data.encoding.apply(
        [{"when": None, "zip": value, "size": None, "said": "", "x": 0.0} for value in ("100", "nowhere")], labels=False
    )
    matrix: Any = encoded.X
    place = data.encoding.column_names.index("zip (count)")
    assert matrix[1, place] == 0.0
    assert matrix[0, place] in values
    assert np.expm1(matrix[0, place]) <= raw.count("100")


def test_words_are_weighted_as_scikit_learn_weights_them(tmp_path: Path) -> None:
    data = read(written(tmp_path / "t.csv"), **SETTINGS, test_fraction=None)
    matrix: Any = data.X_train
    first = data.encoding.column_names.index(next(n for n in data.encoding.column_names if n.startswith("said~")))
    found = matrix[:, first : first + BUCKETS].toarray()
    texts = [line.split(",")[3] for line in (tmp_path / "t.csv").read_text().splitlines()[1:]]
    names = [f"said~{word}" for word in ("good", "bad", "quick", "slow", "red", "blue")]
    counts = np.array([[text.split().count(name[5:]) for name in names] for text in texts])
    filled = counts[[bool(text) for text in texts]]  # empty texts are missing, and no documents
    expected: Any = TfidfTransformer().fit(filled).transform(counts)
    places = [data.encoding.column_names.index(name) - first for name in names]
    np.testing.assert_allclose(found[:, places], expected.toarray(), atol=1e-12)
    assert np.count_nonzero(found) == np.count_nonzero(counts)


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
@pytest.mark.parametrize("test_fraction", [None, 0.2])
def test_every_format_and_a_folder_of_shards_have_the_same_columns(
    tmp_path: Path, kind: str, test_fraction: float | None
) -> None:
    pandas = pytest.importorskip("pandas")
    path = written(tmp_path / "t.csv")
    data = read(path, **SETTINGS, test_fraction=test_fraction)
    source: Any = path
    if kind != "csv":
        source = pandas.read_csv(path, dtype={"zip": "string"}, parse_dates=["when"])
    if kind == "parquet":
        source.to_parquet(tmp_path / "t.parquet")
        source = tmp_path / "t.parquet"
    other = read(source, **SETTINGS, test_fraction=test_fraction)
    encoding = json.loads(data.encoding.to_json())
    assert json.loads(other.encoding.to_json()) == encoding
    assert abs(data.X_train - other.X_train).max() == 0.0  # pyright: ignore[reportOperatorIssue]
    again = Encoding.from_json(data.encoding.to_json()).apply(source)
    whole: Any = data.encoding.apply(path).X
    assert abs(again.X - whole).max() == 0.0
    if kind != "frame":
        folder = shard(source, 3, tmp_path / "s", **SETTINGS, test_fraction=test_fraction, block=3000)
        assert json.loads(folder.encoding.to_json()) == encoding
        rows = np.vstack([folder.rows_of(task).X.toarray() for task in range(3)])  # pyright: ignore
        np.testing.assert_array_equal(rows, data.X_train.toarray())  # pyright: ignore


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ordinal": ["size"]}, "ordinal must name a column, and its texts from the least to the greatest"),
        ({"ordinal": ["size=a<a"]}, "ordinal must name a column"),
        ({"count": ["nope"]}, "count must name columns of t.csv"),
        ({"text": ["y"]}, "text must not name the column of the labels"),
        ({"text": ["zip"], "count": ["zip"]}, "count must not name a column that text names"),
        ({"count": ["zip"], "one_hot": ["zip"]}, "must not name a column that"),
        ({"count": ["zip"], "drop": ["zip"]}, "drop must not name a column that count names"),
    ],
)
def test_columns_are_named_once_and_exist(tmp_path: Path, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        read(written(tmp_path / "t.csv"), "y", categorical=True, **settings)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("derived", [{"name": "a", "source": "b", "kind": "year"}], "kind must be one of day, month, weekday, hour"),
        ("derived", [{"name": "a", "source": "b", "kind": "count", "texts": ["x"]}], "counts must have a number for"),
        ("features", [{"words": "a", "weights": [1.0], "names": []}], "names must have a name for each weight"),
    ],
)
def test_a_damaged_encoding_is_refused(tmp_path: Path, key: str, value: Any, sentence: str) -> None:
    facts = json.loads(read(written(tmp_path / "t.csv"), **SETTINGS).encoding.to_json())
    with pytest.raises(DataError, match=sentence):
        Encoding.from_json(json.dumps({**facts, key: value}))
