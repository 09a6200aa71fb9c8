"""What arguments must be is checked in one place for all rooms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument, check_choice, check_not_negative, check_positive, check_type


@pytest.mark.parametrize("value", [0.0, -1, math.inf, math.nan, "1", None, True, [1.0], np.ones(2)])
def test_what_is_no_finite_number_above_0_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="rate must be greater than 0 and finite"):
        check_positive("rate", value)


@pytest.mark.parametrize("value", [-1e-300, math.inf, math.nan, "0", None, False])
def test_what_is_no_finite_number_of_at_least_0_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"shift must be at least 0 and finite.*; leave it out"):
        check_not_negative("shift", value, instead="leave it out")


@pytest.mark.parametrize("value", [1, 2.5, 1e-300, Fraction(1, 3), np.float32(0.1), np.array(2.0)])
def test_numbers_of_all_types_are_taken(value: object) -> None:
    check_positive("rate", value)
    check_not_negative("rate", value)


@pytest.mark.parametrize("value", ["ray", "", None, 3, ["mpi"]])
def test_what_is_none_of_the_names_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="engine must be one of processes, mpi"):
        check_choice("engine", value, ("processes", "mpi"))


def test_what_is_of_another_type_is_refused() -> None:
    check_type("code", None, int | None, "must be a number, or None")
    with pytest.raises(InvalidArgument, match="code must be a number, or None, but it is 'x'; such as 3"):
        check_type("code", "x", int | None, "must be a number, or None", "such as 3")
