"""Cyclic MDS codes: generators, exactness for every straggler set, conditioning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes._assemble import generator_of
from erasurehead.codes._cyclic import _coefficients, complex_cyclic_mds, cyclic_mds, exact_cyclic
from erasurehead.errors import InvalidArgument

from .oracles import residuals, worst_residual

# SCHEMES 2a, test_vectors.json: cyclic_mds_real_generator.
GENERATORS = {
    (5, 2): [1, 1.618033988749895, 1],
    (7, 2): [1, 1.8019377358048383, 1],
    (6, 3): [1, 2, 2, 1],
    (12, 3): [1, 2.7320508075688776, 2.7320508075688776, 1],
}


@pytest.mark.parametrize(("size", "expected"), GENERATORS.items())
def test_generators_of_the_source(size: tuple[int, int], expected: list[float]) -> None:
    code = cyclic_mds(*size)
    assert code.structure.generator == pytest.approx(expected, abs=1e-14)
    assert code.encoding.toarray()[1, 1 : size[1] + 2] == pytest.approx(expected, abs=1e-14)
    assert code.structure.largest_coefficient == pytest.approx(max(expected))


@pytest.mark.slow
@given(st.integers(1, 40), st.data())
def test_the_generator_vanishes_at_its_roots_and_not_at_one(n: int, data: st.DataObject) -> None:
    s = data.draw(st.integers(0, n - 1).filter(lambda s: (n - s) % 2 == 1))
    code = cyclic_mds(n, s)
    roots = np.exp(2j * np.pi * code.structure.roots / n)
    generator = code.structure.generator
    assert len(roots) == s
    assert np.abs(np.polynomial.polynomial.polyval(roots, generator)).max(initial=0) < 1e-12 * generator.sum()
    assert (generator > 0).all()
    assert (generator == generator[::-1]).all()
    assert set(code.replication.tolist()) == set(code.loads.tolist()) == {s + 1}


@pytest.mark.parametrize("n", range(1, 10))
def test_real_and_complex_are_exact_for_every_straggler_set(n: int) -> None:
    for s in range(n):
        assert worst_residual(complex_cyclic_mds(n, s), s) < 1e-15
        if (n - s) % 2:
            code = cyclic_mds(n, s)
            assert code.tolerance == s
            assert worst_residual(code, s) < 1e-15
            if s + 1 < n:
                assert worst_residual(code, s + 1) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("n", "s", "largest"), [(12, 3, 2.7), (30, 5, 9.4)])
def test_coefficients_are_smaller_than_those_of_random_codes(n: int, s: int, largest: float) -> None:
    real = np.abs(cyclic_mds(n, s).encoding.data).max()  # SCHEMES 1b: 2.7 and 9.4 against medians of 22 and 59
    random = [np.abs(_coefficients(n, s, generator_of(seed))).max() for seed in range(9)]
    assert real == pytest.approx(largest, abs=0.05)
    assert real < np.median(random)


@pytest.mark.parametrize(("n", "s"), [(30, 5), (60, 11)])
def test_large_codes_decode_to_rounding(n: int, s: int) -> None:
    assert residuals(cyclic_mds(n, s), s, at_most=100).max() < 1e-12 * n


def test_complex_rows_are_two_real_messages_of_one_owner() -> None:
    code = complex_cyclic_mds(8, stragglers=2)
    assert code.n_messages == 16
    assert code.owner.tolist() == [worker for worker in range(8) for _ in range(2)]
    assert code.structure.complex_part.tolist() == [0, 1] * 8
    rows = code.encoding.toarray()
    first = rows[0, :3] + 1j * rows[1, :3]
    roots = np.exp(2j * np.pi * code.structure.roots / 8)
    assert np.abs(np.polynomial.polynomial.polyval(roots, first)).max() < 1e-13


def test_all_stragglers_but_one_needs_no_imaginary_part() -> None:
    code = complex_cyclic_mds(5, stragglers=4)  # the generator is 1 + x + ... + x^4
    assert code.n_messages == 5
    assert code.encoding.toarray() == pytest.approx(np.ones((5, 5)))


def test_exact_cyclic_prefers_the_deterministic_code() -> None:
    assert exact_cyclic(7, 2).name == "cyclic_mds"
    assert exact_cyclic(7, 3).name == "cyclic_repetition"
    assert exact_cyclic(7, 3).tolerance == 3


def test_messages_of_errors() -> None:
    with pytest.raises(InvalidArgument, match=r"stragglers must leave an odd number of the 6 workers .* got 2; use st"):
        cyclic_mds(6, 2)
    with pytest.raises(InvalidArgument, match=r"use stragglers=3 \(load 4\), or complex_cyclic_mds"):
        cyclic_mds(6, load=3)
    with pytest.raises(InvalidArgument, match="load must be at most 6, but it is 7"):
        complex_cyclic_mds(6, load=7)
