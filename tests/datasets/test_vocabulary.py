from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.datasets._preprocessing.array_encoding import ArrayEncoding
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._preprocessing.vocabulary import (
    NumberVocabulary,
    TextVocabulary,
    Vocabulary,
    distinct,
    vocabulary_of,
)
from erasurehead.datasets._readers.table import Column, NumberColumn, TextColumn
from erasurehead.datasets._readers.values import column_of
from erasurehead.errors import DataError

_VALUES = st.one_of(st.integers(-2000, 2000).map(float), st.floats(-1e12, 1e12))


def _texts(*values: str | None) -> TextColumn:
    column = column_of(list(values), "it", "here")
    assert isinstance(column, TextColumn)
    return column


@given(st.lists(_VALUES, max_size=60), st.lists(st.integers(0, 59), max_size=5))
def test_distinct_values_are_those_of_numpy_and_nan_is_none(values: list[float], gaps: list[int]) -> None:
    array = np.array(values, dtype=np.float64)
    array[[gap for gap in gaps if gap < len(array)]] = math.nan
    there = ~np.isnan(array)
    found, codes = distinct(array)
    expected, inverse = np.unique(array[there], return_inverse=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(codes[there], inverse)
    assert (codes[~there] == -1).all()


def test_distinct_whole_numbers_of_a_small_span() -> None:
    values = np.random.default_rng(0).integers(-300, 5000, size=4000).astype(np.float64)
    found, codes = distinct(values)
    expected, inverse = np.unique(values, return_inverse=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(codes, inverse)
    assert codes.dtype == np.int32


def test_texts_that_are_all_different_numbers_are_compared_as_numbers() -> None:
    vocabulary = vocabulary_of(_texts("10", "9.5", "9.5", None, "-1"))
    assert isinstance(vocabulary, NumberVocabulary)
    assert vocabulary.labels() == ["-1", "9.5", "10"]
    assert vocabulary.codes(_texts("10.0", "-1.00", "9", "nine", None)).tolist() == [2, 0, -1, -1, -1]


@pytest.mark.parametrize("values", [("1", "1.0"), ("1", "one"), ("1", "inf")])
def test_other_texts_are_compared_as_they_are_written(values: tuple[str, ...]) -> None:
    vocabulary = vocabulary_of(_texts(*values))
    assert isinstance(vocabulary, TextVocabulary)
    assert vocabulary.labels() == sorted(values)
    assert vocabulary.codes(_texts(*values, "1.00")).tolist()[-1] == -1


def test_numbers_are_looked_up_among_texts_as_they_print() -> None:
    vocabulary = TextVocabulary(("1", "2.5", "a"))
    assert vocabulary.codes(NumberColumn(np.array([2.5, 1.0, 7.0, math.nan]))).tolist() == [1, 0, -1, -1]


def test_unseen_and_missing_values_have_no_code() -> None:
    vocabulary = vocabulary_of(NumberColumn(np.array([3.0, 1.0, math.nan, 3.0])))
    assert vocabulary.size == 2
    assert vocabulary.codes(NumberColumn(np.array([1.0, 2.0, 3.0, 4.0, math.nan, -5.0]))).tolist() == [
        0,
        -1,
        1,
        -1,
        -1,
        -1,
    ]


def test_only_values_of_rows_count_not_those_that_a_column_once_had() -> None:
    part = _texts("a", "b", "c").take(np.array([0, 2]))
    assert vocabulary_of(part).labels() == ["a", "c"]


@pytest.mark.parametrize("column", [NumberColumn(np.array([math.nan])), TextColumn(np.array([-1], dtype=np.int32), ())])
def test_a_column_without_values_has_no_vocabulary(column: Column) -> None:
    with pytest.raises(DataError, match="no row has a value"):
        vocabulary_of(column)


def _again(vocabulary: Vocabulary) -> Vocabulary:
    """Return what is read back of the file of an encoding."""
    written = ArrayEncoding(1, Target("y", "softmax", vocabulary)).to_json()
    classes = Encoding.from_json(written).target.classes
    assert classes is not None
    return classes


@given(st.lists(_VALUES, min_size=1, max_size=30))
def test_number_vocabularies_survive_json(values: list[float]) -> None:
    vocabulary = vocabulary_of(NumberColumn(np.array(values)))
    again = _again(vocabulary)
    assert isinstance(again, NumberVocabulary)
    assert again.labels() == vocabulary.labels()
    assert isinstance(vocabulary, NumberVocabulary)
    np.testing.assert_array_equal(again.values, vocabulary.values)


def test_text_vocabularies_survive_json() -> None:
    vocabulary = vocabulary_of(_texts("ü", 'quo"te', "new\nline", "1"))
    again = _again(vocabulary)
    assert isinstance(again, TextVocabulary)
    assert again.labels() == vocabulary.labels()


def test_whole_numbers_are_written_as_steps() -> None:
    for values, written in (
        ([118300.0, 117961.0, 118301.0], {"whole": [117961, 339, 1]}),
        ([0.5, 2.0], {"numbers": [0.5, 2.0]}),
    ):
        vocabulary = vocabulary_of(NumberColumn(np.array(values)))
        assert isinstance(vocabulary, NumberVocabulary)
        assert vocabulary.as_plain() == written


def test_spellings_of_a_truth_value_are_one_value() -> None:
    column = _texts("TRUE", "false", "true", None, "True", "False")
    vocabulary = vocabulary_of(column)
    assert vocabulary.labels() == ["false", "true"]
    assert vocabulary.codes(column).tolist() == [1, 0, 1, -1, 1, 0]


def test_a_truth_value_is_known_however_a_later_file_spells_it() -> None:
    vocabulary = vocabulary_of(_texts("True", "False"))
    assert vocabulary.labels() == ["False", "True"]
    again = _again(vocabulary)
    assert again.codes(_texts("true", "FALSE", "tRuE", "yes")).tolist() == [1, 0, -1, -1]


def test_beside_other_texts_spellings_are_distinct() -> None:
    vocabulary = vocabulary_of(_texts("True", "true", "maybe"))
    assert vocabulary.labels() == ["True", "maybe", "true"]
    assert vocabulary.codes(_texts("TRUE", "true")).tolist() == [-1, 2]
