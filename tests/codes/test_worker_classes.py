"""Repetition without divisibility."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes import GradientCode
from erasurehead.codes._repetition import binary_repetition
from erasurehead.errors import InvalidArgument

from .oracles import worst_residual


@st.composite
def codes(draw: st.DrawFn) -> GradientCode:
    n = draw(st.integers(1, 30))
    s = draw(st.integers(0, n - 1))
    return binary_repetition(n, s, draw(st.integers(-(-n // (s + 1)), 40)))


@given(codes())
def test_each_class_covers_every_task_once(code: GradientCode) -> None:
    classes = code.structure.classes
    assert set(classes.tolist()) == set(range(code.tolerance + 1))
    for member in range(code.tolerance + 1):
        assert (code.encoding[np.flatnonzero(classes == member)].sum(axis=0) == 1).all()
    assert set(code.replication.tolist()) == {code.tolerance + 1}
    assert code.loads.min() >= 1
    assert (code.encoding.data == 1).all()


@pytest.mark.parametrize(("n", "s"), [(11, 3), (7, 2), (9, 2), (5, 4), (4, 0)])
def test_exact_for_every_straggler_set(n: int, s: int) -> None:
    assert worst_residual(binary_repetition(n, s), s) < 1e-15


@st.composite
def unequal(draw: st.DrawFn) -> GradientCode:
    speeds = draw(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20))
    return binary_repetition(len(speeds), draw(st.integers(0, len(speeds) - 1)), draw(st.integers(1, 60)), speeds)


@given(unequal())
def test_each_class_covers_every_task_once_by_speed(code: GradientCode) -> None:
    for member in range(code.tolerance + 1):
        assert (code.encoding[np.flatnonzero(code.structure.classes == member)].sum(axis=0) == 1).all()
    assert set(code.replication.tolist()) == {code.tolerance + 1}
    assert (code.encoding.data == 1).all()


@pytest.mark.parametrize(("n", "s"), [(7, 2), (5, 4), (6, 1)])
def test_exact_for_every_straggler_set_with_speeds(n: int, s: int) -> None:
    speeds = np.random.default_rng(n).uniform(0.1, 4.0, n)
    assert worst_residual(binary_repetition(n, s, speeds=speeds.tolist()), s) < 1e-15


def test_time_over_the_ideal_with_speeds() -> None:
    found: list[float] = []
    for seed in range(50):
        speeds = np.random.default_rng(seed).uniform(1.0, 4.0, 30)
        code = binary_repetition(30, 2, speeds=speeds.tolist())
        found.append(float((code.loads / speeds).max() / (3 * code.n_tasks / speeds.sum())))
    assert max(found) <= 1.08


def test_loads_of_the_source() -> None:  # SCHEMES 1e
    assert (binary_repetition(11, 3).loads.min(), binary_repetition(11, 3).loads.max()) == (3, 6)


def test_messages_of_errors() -> None:
    with pytest.raises(InvalidArgument, match="stragglers must be at most 3, but it is 4"):
        binary_repetition(4, 4)
    with pytest.raises(
        InvalidArgument, match="n_tasks must be at least 4, the workers of the largest class, but it is 3"
    ):
        binary_repetition(7, 1, n_tasks=3)


def test_speeds_may_be_as_large_as_numbers_are() -> None:
    assert (
        binary_repetition(4, 2, speeds=[1e308] * 4).loads.tolist()
        == binary_repetition(4, 2, speeds=[1.0] * 4).loads.tolist()
    )
