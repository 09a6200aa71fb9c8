"""DRACO: the checks vanish on honest messages, locate liars, and the rest decodes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from erasurehead.codes import GradientCode
from erasurehead.codes._draco import draco_cyclic, draco_repetition
from erasurehead.errors import InvalidArgument

from ..inspecting import inspect
from .oracles import worst_residual


def complex_rows(code: GradientCode) -> np.ndarray:
    rows = np.zeros((code.n_workers, code.n_tasks), dtype=complex)
    part = code.structure.complex_part
    for message, row in enumerate(code.encoding.toarray()):
        rows[code.owner[message]] += row * (1j if part[message] else 1)
    return rows


@pytest.mark.parametrize(("n", "s"), [(9, 2), (7, 1), (5, 2), (15, 3), (3, 1)])
def test_checks_vanish_and_supports_are_cyclic(n: int, s: int) -> None:
    code = draco_cyclic(n, s)
    rows = complex_rows(code)
    assert code.structure.parity.shape == (2 * s, n)
    assert np.abs(code.structure.parity @ rows).max() < 1e-12 * np.abs(rows).max()
    assert [code.tasks_of(w).tolist() for w in range(n)] == [
        sorted((w - shift) % n for shift in range(2 * s + 1)) for w in range(n)
    ]


@pytest.mark.parametrize(("n", "s"), [(9, 2), (7, 1), (5, 2)])
def test_exact_without_twice_as_many(n: int, s: int) -> None:
    code = draco_cyclic(n, s)
    assert code.tolerance == 2 * s
    assert worst_residual(code, 2 * s) < 1e-15


def test_syndromes_tell_any_two_sets_of_liars_apart() -> None:
    checks = draco_cyclic(9, 2).structure.parity
    for first in combinations(range(9), 4):  # two disjoint pairs of liars together: the columns are independent
        assert np.linalg.svd(checks[:, first], compute_uv=False)[-1] > 1e-3


@pytest.mark.parametrize(("n", "s"), [(60, 6), (100, 5), (100, 7), (300, 3), (3000, 2), (100_000, 40)])
def test_liars_that_float64_cannot_tell_are_refused(n: int, s: int) -> None:
    with pytest.raises(
        InvalidArgument, match=rf"corrupted must be few enough .* use draco_repetition\({n}, corr.*={s}\)"
    ):
        draco_cyclic(n, s)


def test_repetition_has_room_for_a_majority() -> None:
    for n, s in ((12, 1), (11, 2), (7, 3)):
        code = draco_repetition(n, s)
        assert np.bincount(code.groups).min() >= 2 * s + 1
        assert code.tolerance >= 2 * s
        assert code.replicas
        assert worst_residual(code, code.tolerance) < 1e-15


def test_too_many_liars() -> None:
    for build in (draco_cyclic, draco_repetition):
        with pytest.raises(InvalidArgument, match=r"corrupted must leave 2 corrupted \+ 1 .* got 2; use corrupted=1"):
            build(4, 2)
        with pytest.raises(InvalidArgument, match="corrupted must be at least 1, but it is 0"):
            build(4, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "s"), [(9, 2), (15, 3), (31, 5), (50, 4), (100, 2)])
def test_lies_as_large_as_is_stated_are_named_whatever_they_are_and_nobody_honest(n: int, s: int) -> None:
    """Every other lie is random, turns the message round, or is all in one number of one of the two messages."""
    code, random = draco_cyclic(n, s), np.random.default_rng(0)
    for trial in range(9):
        said = code.encoding @ random.standard_normal((n, 40))
        honest = float(np.median(np.linalg.norm(said.reshape(n, -1), axis=1)))
        corrupt = sorted({(3 * trial + place) % n for place in range(s)})
        for worker in corrupt:
            mine = code.messages_of(worker)
            point = np.zeros((2, 40))
            point[0, trial] = 1.0
            lie = (random.standard_normal((2, 40)), -said[mine], point)[trial % 3]
            said[mine] += lie * code.structure.located * honest / np.linalg.norm(lie)
        assert inspect(code, range(code.n_messages), said, seed=trial).suspects.tolist() == corrupt
