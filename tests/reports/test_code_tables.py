"""Tables of codes: what they cost and what stragglers take away, as analysed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from erasurehead import codes
from erasurehead.decoding import analyse
from erasurehead.errors import InvalidArgument
from erasurehead.reports._code_tables import SHARES, cost_table, nearest, percent, residual_table, times


@pytest.fixture(scope="module")
def analyses() -> Mapping[str, Any]:
    """A design, repetition, a code without any promise, and one with several messages in pieces."""
    built = {
        "design": codes.build("projective_plane", order=3),
        "repetition": codes.fractional_repetition(12, load=4),
        "coins": codes.build("bernoulli", n_workers=12, load=3),
        "pieces": codes.build("communication_efficient_groups", n_workers=12, load=4, n_pieces=2),
    }
    return {name: analyse(code, range(7), samples=30, effort=30) for name, code in built.items()}


def cells(table: Table) -> list[list[str]]:
    return [[str(cell) for cell in column.cells] for column in table.columns]


def test_costs_are_those_of_the_codes(analyses: Mapping[str, Any]) -> None:
    names, workers, tasks, load, copies, sent, tolerated, rounding, decoder = cells(cost_table(analyses))
    assert names == list(analyses)
    assert workers == ["13", "12", "12", "12"]
    assert tasks == ["13", "12", "12", "12"]
    assert load == ["4", "4", str(analyses["coins"].code.load), "4"]
    assert copies[:2] == ["4", "4"]
    assert sent == ["1", "1", "1", "0.5"]
    assert tolerated == ["0", "3", "none stated", "2"]
    assert rounding[1] == "1"
    assert decoder[:2] == ["UniformOverlap", "FirstPerGroup"]


def test_residuals_are_parts_of_the_tasks(analyses: Mapping[str, Any]) -> None:
    names, counts, shares, random, errors, one_step, worst, bound = cells(residual_table(analyses))
    assert names[::7] == list(analyses)
    assert counts[:7] == list("0123456")
    assert shares[7:14] == ["0.0", "8.3", "16.7", "25.0", "33.3", "41.7", "50.0"]
    for s in range(7):  # SCHEMES 5: b - r^2 (v - s) / (r + lambda (v - s - 1)), over b
        expected = percent(1 - 16 * (13 - s) / (4 + 12 - s) / 13)
        assert (random[s], worst[s], bound[s]) == (expected, expected, expected)
    assert not any(errors[:14])
    assert float(errors[20]) > 0
    assert worst[7:14] == ["0", "0", "0", "0", "33.33", "33.33", "33.33"]
    assert bound[14:] == ["–"] * 14
    assert one_step[21:] == ["–"] * 7


def test_what_was_searched_only_is_marked_as_such(analyses: Mapping[str, Any]) -> None:
    found = analyse(codes.build("regular", n_workers=20, load=3), [2, 10], samples=5, effort=20)
    *_, worst, _ = cells(residual_table({"regular": found}))
    assert worst[0].replace(".", "").isdigit()  # 190 sets: all were tried
    assert worst[1].startswith("≥ ")


def test_a_table_may_show_parts_of_the_workers_only(analyses: Mapping[str, Any]) -> None:
    assert cells(residual_table(analyses, SHARES))[1][4:8] == ["1", "2", "4", "6"]
    assert nearest(analyses["design"], (0.0, 0.01, 0.5, 1.0)) == [0, 6]


def test_the_name_of_a_single_code_is_left_out(analyses: Mapping[str, Any]) -> None:
    table = residual_table({"design": analyses["design"]})
    assert str(table.columns[0].header) == "Stragglers"


def test_tables_fit_a_terminal_of_100_columns(analyses: Mapping[str, Any]) -> None:
    console = Console(width=100)
    with console.capture() as printed:
        console.print(cost_table(analyses))
        console.print(residual_table(analyses))
    assert "…" not in printed.get()
    assert "UniformOverlap" in printed.get()


@pytest.mark.parametrize(
    ("part", "shown"),
    [(0.0, "0"), (1e-14, "0"), (1e-6, "< 0.01"), (0.25, "25.00"), (0.76923, "76.92"), (2.5, "250.00"), (np.nan, "–")],
)
def test_nothing_but_zero_reads_as_zero(part: float, shown: str) -> None:
    assert percent(part) == shown


@pytest.mark.parametrize(("factor", "shown"), [(1.0, "1"), (0.4459, "0.45"), (15.3, "15"), (1389.2, "1,389")])
def test_factors_are_short(factor: float, shown: str) -> None:
    assert times(factor) == shown


def test_there_must_be_a_code() -> None:
    with pytest.raises(InvalidArgument, match="analyses must have at least one code"):
        cost_table({})
    with pytest.raises(InvalidArgument, match="analyses must have at least one code"):
        residual_table({})
