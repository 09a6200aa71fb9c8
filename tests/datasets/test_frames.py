"""DataFrames of any library: the same numbers as the same rows in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import datasets
from erasurehead.datasets._readers.frames import is_frame, read_frame
from erasurehead.datasets._readers.table import TextColumn
from erasurehead.errors import DataError, InvalidArgument

from .frames import HeldFrame

N = 60


def columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    return {
        "size": [None if row % 11 == 5 else float(value) for row, value in enumerate(rng.integers(60, 300, N))],
        "rooms": rng.integers(1, 9, N).tolist(),
        "garden": (rng.random(N) < 0.5).tolist(),
        "town": [
            None if row % 13 == 4 else str(value) for row, value in enumerate(rng.choice(["Ely", "Rye", "Ayr"], N))
        ],
        "price": rng.normal(300.0, 20.0, N).tolist(),
    }


def in_a_file(path: Path) -> Path:
    held = columns()
    rows = zip(*held.values(), strict=True)
    plain = [
        ",".join("" if v is None else repr(float(v)) if not isinstance(v, str) else v for v in row) for row in rows
    ]
    path.write_text("\n".join([",".join(held), *plain]) + "\n")
    return path


def frames() -> list[Any]:
    found = [HeldFrame(columns()), HeldFrame(columns(), rows=N), Silent(columns())]
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(columns())
    spread = arrow.concat_tables([table.slice(0, 17), table.slice(17, 1), table.slice(18)])  # slices have offsets
    return [*found, table, spread, spread.slice(0)]


class Series(list[Any]):
    """A column of a frame that speaks no protocol, as in polars 2."""

    dtype = "String"

    def to_list(self) -> list[Any]:
        return list(self)


class Silent:
    """A frame that speaks no protocol, as in polars 2."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = {name: Series(values) for name, values in columns.items()}

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name: str) -> Series:
        return self._columns[name]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("needs pyarrow")


def dense(matrix: Any) -> np.ndarray[Any, Any]:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def test_a_frame_gives_what_a_file_of_the_same_rows_gives(tmp_path: Path) -> None:
    read = datasets.read(in_a_file(tmp_path / "houses.csv"), "price", categorical=True)
    for frame in frames():
        own = datasets.read(frame, "price", categorical=True)
        np.testing.assert_array_equal(dense(own.X_train), dense(read.X_train))
        np.testing.assert_array_equal(own.y_test, read.y_test)
        assert own.encoding.to_json() == read.encoding.to_json()
        assert [use.as_dict() for use in own.uses] == [use.as_dict() for use in read.uses]
        applied = read.encoding.apply(frame)
        np.testing.assert_array_equal(dense(applied.X), dense(read.encoding.apply(tmp_path / "houses.csv").X))
        assert applied.report.missing == {"size": 5, "town": 5}


def test_a_column_of_categorical_type_needs_no_naming() -> None:
    held = columns()
    frame = HeldFrame(held, {"town": ["Rye", "Ely", "Ayr", "never"]})
    table = read_frame(frame)
    town = table.column("town")
    assert isinstance(town, TextColumn)
    assert [None if code < 0 else town.values[code] for code in town.codes] == held["town"]
    assert table.categories == {"town"}
    assert datasets.read(frame, "price").n_columns == 3 + 3 + 1
    with pytest.raises(DataError, match=r"the tests HeldFrame, row 0, column 'town': '\w+' is not a number; name"):
        datasets.read(HeldFrame(held), "price")


def test_a_dictionary_of_arrow_is_categorical() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"town": arrow.array(["b", None, "a", "b"]).dictionary_encode(), "y": [1.0, 2.5, 3.0, 4.0]})
    read = read_frame(table)
    town = read.column("town")
    assert isinstance(town, TextColumn)
    assert [None if code < 0 else town.values[code] for code in town.codes] == ["b", None, "a", "b"]
    assert read.categories == {"town"}


def test_columns_that_are_not_wanted_need_not_be_readable() -> None:
    pa: Any = pytest.importorskip("pyarrow")
    held = pa.table(columns()).append_column("when", pa.array([1] * N, pa.duration("ns")))
    said = r"column 'when' cannot be read: its type \(duration\[ns\]\) is neither .* leave it out \(drop, --drop\)"
    with pytest.raises(DataError, match=said):
        datasets.read(held, "price", categorical=True)
    data = datasets.read(held, "price", categorical=True, drop=["when"])
    assert data.encoding.apply(held).X.shape[0] == N


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"a": [1.0, float("inf")], "y": [1, 2]}, "row 1, column 'a': inf is not a finite number"),
        ({1: [1.0], "1": [2.0]}, "two columns with the name '1'"),
        ({}, "has no columns"),
        ({"a": [], "y": []}, "has no rows"),
        ({"y": [1.0, 2.0]}, "has one column only"),
    ],
)
def test_frames_that_cannot_be_used_say_why(held: dict[Any, list[Any]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        datasets.read(HeldFrame(held), rows_for_testing := None, test_fraction=rows_for_testing)


def test_a_frame_of_arrow_data_alone_is_read_through_pyarrow(tmp_path: Path) -> None:
    read = datasets.read(in_a_file(tmp_path / "houses.csv"), "price", categorical=True)
    own = datasets.read(HeldFrame(columns()), "price", categorical=True)
    assert own.encoding.to_json() == read.encoding.to_json()


def test_what_is_no_frame_is_none_and_what_is_for_files_is_refused() -> None:
    assert not is_frame("a.csv")
    assert not is_frame(HeldFrame)
    assert is_frame(HeldFrame({}))
    assert not is_frame(columns())
    with pytest.raises(InvalidArgument, match="delimiter is for CSV files"):
        datasets.read(HeldFrame(columns()), delimiter=",")
    with pytest.raises(InvalidArgument, match="target must name columns of the tests HeldFrame, got 'prise'"):
        datasets.read(HeldFrame(columns()), "prise")


def test_a_frame_of_a_pandas_that_hands_out_no_arrow_data_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.delattr(pandas.DataFrame, "__arrow_c_stream__")
    assert datasets.read(pandas.DataFrame(columns()), "price", categorical=True).source == "pandas DataFrame"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_the_libraries_that_are_installed(library: str, tmp_path: Path) -> None:
    frames = pytest.importorskip(library)
    read = datasets.read(in_a_file(tmp_path / "houses.csv"), "price", categorical=True)
    own = datasets.read(frames.DataFrame(columns()), "price", categorical=True)
    np.testing.assert_array_equal(dense(own.X_train), dense(read.X_train))
    assert own.encoding.to_json() == read.encoding.to_json()
    assert own.source == f"{library} DataFrame"
