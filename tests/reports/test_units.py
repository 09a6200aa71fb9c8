"""One unit and one number of decimals a column."""

from __future__ import annotations

import math

import pytest

from erasurehead.reports._units import NOTHING, byte_unit, plain_unit, seconds_text, time_unit


@pytest.mark.parametrize(
    ("values", "name", "written"),
    [
        ([1.9024, 0.2495, 0.523], "s", ["1.90", "0.25", "0.52"]),
        ([27.4, 3.96], "s", ["27.4", "4.0"]),
        ([0.0123, 0.0017], "ms", ["12.3", "1.7"]),
        ([2e-6], "µs", ["2.00"]),
        ([1234.5, 12.0], "s", ["1,234", "12"]),
        ([0.0, 0.0], "s", ["0", "0"]),
        ([], "s", []),
    ],
)
def test_seconds(values: list[float], name: str, written: list[str]) -> None:
    unit = time_unit(values)
    assert unit.name == name
    assert [unit.write(value) for value in values] == written


def test_bytes_and_plain_numbers() -> None:
    unit = byte_unit([57_800_000.0, 1_930_000.0])
    assert (unit.name, unit.write(57_800_000.0), unit.write(1_930_000.0)) == ("MB", "57.8", "1.9")
    assert byte_unit([12.0]).name == "B"
    assert plain_unit([1.0, 7.346]).write(7.346) == "7.35"


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_no_number(missing: float | None) -> None:
    assert time_unit([missing, 1.0]).write(missing) == NOTHING


def test_the_smallest_number_does_not_get_more_than_four_decimals() -> None:
    assert time_unit([100.0, 1e-9]).write(100.0) == "100.0000"


def test_numbers_beyond_counting_are_written_with_an_exponent() -> None:
    assert time_unit([0.1, 3e40]).write(3e40) == "3.00e+40"
    assert time_unit([2e-20, 4e-20]).write(2e-20) == "2.00e-14"
    assert time_unit([100.0, 1e-9]).write(1e-9) == "1.00e-09"
    assert time_unit([100.0, 1e-9]).write(0.0) == "0.0000"


@pytest.mark.parametrize(
    ("seconds", "said"), [(1e308, "1e+308 s"), (4.8e9, "4.8e+09 s"), (999_999_999.0, "999999999.0 s")]
)
def test_a_time_beyond_all_lifetimes_is_no_row_of_digits(seconds: float, said: str) -> None:
    assert seconds_text(seconds) == said
