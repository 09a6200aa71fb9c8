"""Tandon's cyclic repetition: supports, exactness for every straggler set, and the choice among draws."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.codes import cyclic_repetition
from erasurehead.codes._assemble import generator_of
from erasurehead.codes._cyclic import _coefficients
from erasurehead.errors import InvalidArgument

from .oracles import worst_residual


@pytest.mark.parametrize(("n", "s"), [(1, 0), (4, 0), (5, 1), (6, 2), (7, 3), (9, 4), (6, 5), (12, 3)])
def test_exact_for_every_straggler_set(n: int, s: int) -> None:
    code = cyclic_repetition(n, stragglers=s)
    assert code.tolerance == s
    assert set(code.loads.tolist()) == set(code.replication.tolist()) == {s + 1}
    assert worst_residual(code, s) < 1e-14
    if s + 1 < n:
        assert worst_residual(code, s + 1) > 1e-3  # the tolerance is not understated: n - s is needed


def test_support_goes_around_the_circle() -> None:
    code = cyclic_repetition(7, load=3)
    assert [code.tasks_of(worker).tolist() for worker in (0, 5, 6)] == [[0, 1, 2], [0, 5, 6], [0, 1, 6]]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "s", "median_of_one"), [(12, 3, 23.0), (30, 5, 59.0), (60, 5, 132.0)])
def test_the_best_of_many_draws_beats_one_draw(n: int, s: int, median_of_one: float) -> None:
    ones = [np.abs(_coefficients(n, s, generator_of(seed))).max() for seed in range(60)]
    assert np.median(ones) == pytest.approx(median_of_one, rel=0.5)  # SCHEMES 1b, Monte Carlo
    kept = cyclic_repetition(n, s)
    assert np.abs(kept.encoding.data).max() == kept.structure.largest_coefficient < median_of_one / 2.5


def test_same_seed_same_code_and_another_seed_another() -> None:
    first, second, other = (cyclic_repetition(9, 2, seed=seed).encoding.data for seed in (3, 3, 4))
    assert (first == second).all()
    assert not np.allclose(first, other)


def test_messages_of_errors() -> None:
    with pytest.raises(InvalidArgument, match="either stragglers or load"):
        cyclic_repetition(5)
    with pytest.raises(InvalidArgument, match="either stragglers or load"):
        cyclic_repetition(5, 2, 3)
    with pytest.raises(InvalidArgument, match="stragglers must be at most 4, but it is 5"):
        cyclic_repetition(5, 5)
    with pytest.raises(InvalidArgument, match="load must be at most 5, but it is 6"):
        cyclic_repetition(5, load=6)
    with pytest.raises(InvalidArgument, match="draws must be at least 1"):
        cyclic_repetition(5, 1, draws=0)
    with pytest.raises(InvalidArgument, match="draws must be at most 10000"):
        cyclic_repetition(5, 1, draws=10**12)
