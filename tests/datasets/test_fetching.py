from __future__ import annotations

import socket
import urllib.error
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from erasurehead.datasets._published.fetching import fetch_public
from erasurehead.datasets._published.recipes import (
    AMAZON,
    AMAZON_COLUMNS as COLUMNS,
    COVERTYPE,
    HOUSE_COLUMNS,
    KC_HOUSING,
)
from erasurehead.datasets._readers.table import TextColumn
from erasurehead.errors import DataError


def test_openml_is_asked_for_arrays_and_nominal_columns_get_their_values_back() -> None:
    asked: dict[str, Any] = {}

    def answer(**options: Any) -> Any:
        asked.update(options)
        names = ["target", *COLUMNS]
        codes = np.array([[1.0, *[0.0] * 9], [0.0, *[1.0] * 9], [1.0, *[np.nan] * 9]])
        categories = {name: ["117961", "42"] for name in COLUMNS} | {"target": ["0", "1"]}
        return SimpleNamespace(data=codes, feature_names=names, categories=categories)

    table = fetch_public(AMAZON, answer)
    assert (asked["data_id"], asked["target_column"], asked["as_frame"]) == (4135, None, False)
    np.testing.assert_array_equal(table.numbers("MGR_ID"), [117961, 42, np.nan])
    np.testing.assert_array_equal(table.numbers("target"), [1, 0, 1])
    assert table.place(2) == "scikit-learn's fetch_openml (OpenML 4135), row 2"


def test_openml_columns_of_numbers_stay_numbers() -> None:
    names = ["id", "price", *HOUSE_COLUMNS]
    data = np.arange(2 * len(names), dtype=np.float64).reshape(2, -1)
    answer = SimpleNamespace(data=data, feature_names=names, categories=None)
    table = fetch_public(KC_HOUSING, lambda **options: answer)
    np.testing.assert_array_equal(table.numbers("price"), data[:, 1])
    assert "id" not in table.columns


def test_sets_with_texts_are_asked_for_as_a_frame() -> None:
    class Frame(dict[str, Any]):
        columns = ("price", *HOUSE_COLUMNS)

    frame = Frame({name: np.array(["1", "1.5", "1"], dtype=object) for name in HOUSE_COLUMNS})
    frame["price"] = np.array([1.0, 2.0, 3.0])

    def answer(as_frame: bool, **options: Any) -> Any:
        if not as_frame:
            raise ValueError("STRING attributes are not supported for array representation. Try as_frame=True")
        return SimpleNamespace(data=frame)

    table = fetch_public(KC_HOUSING, answer)
    assert isinstance(table.column("floors"), TextColumn)
    np.testing.assert_array_equal(table.numbers("floors"), [1, 1.5, 1])
    np.testing.assert_array_equal(table.numbers("price"), [1, 2, 3])


def test_covertype_comes_as_two_arrays() -> None:
    data = np.arange(3 * 54, dtype=np.float64).reshape(3, 54)
    table = fetch_public(COVERTYPE, lambda **options: SimpleNamespace(data=data, target=np.array([5, 1, 2])))
    np.testing.assert_array_equal(table.numbers("Elevation"), data[:, 0])
    np.testing.assert_array_equal(table.numbers("Soil_Type_39"), data[:, 53])
    np.testing.assert_array_equal(table.numbers("Cover_Type"), [5, 1, 2])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (urllib.error.URLError("Name or service not known"), r"failed \(URLError: Name or service not known\)"),
        (TimeoutError("timed out"), r"failed \(TimeoutError: timed out\)"),
        (ImportError("requires pandas"), r"failed \(ImportError: requires pandas\)"),
        (ValueError("wrong checksum"), r"failed \(ValueError: wrong checksum\)"),
    ],
)
def test_what_goes_wrong_is_said_in_one_sentence(error: Exception, said: str) -> None:
    def answer(**options: Any) -> Any:
        raise error

    with pytest.raises(DataError, match=said):
        fetch_public(AMAZON, answer)


def test_an_answer_without_the_columns_is_refused() -> None:
    answer = SimpleNamespace(data=np.zeros((2, 1)), feature_names=["RESOURCE"], categories=None)
    with pytest.raises(DataError, match="came without the column 'MGR_ID'"):
        fetch_public(AMAZON, lambda **options: answer)


def test_a_silent_network_is_given_up_and_the_time_out_put_back() -> None:
    seen: list[float | None] = []

    def answer(**options: Any) -> Any:
        seen.append(socket.getdefaulttimeout())
        warnings.warn("Retrying", stacklevel=1)
        raise TimeoutError("timed out")

    before = socket.getdefaulttimeout()
    with pytest.raises(DataError):
        fetch_public(COVERTYPE, answer)
    assert socket.getdefaulttimeout() == before
    assert seen[0] is not None
    assert 0 < seen[0] <= 60
