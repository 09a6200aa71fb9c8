"""Singular values and least squares are right whichever routine of LAPACK finds them, and whichever of them fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import linalg

from erasurehead import codes, decoding
from erasurehead._internal import factors


def failing(*_: Any, **__: Any) -> Any:
    raise np.linalg.LinAlgError("SVD did not converge")


@pytest.fixture
def broken() -> Iterator[None]:
    """LAPACK without divide and conquer, as for the matrices that it gives up on."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("svd", "lstsq", "pinv", "matrix_rank", "eigvalsh"):
            patch.setattr(np.linalg, name, failing)
        yield


def matrix(rows: int, columns: int, rank: int, seed: int, complex_ones: bool, spread: float = 1.0) -> Any:
    random = np.random.default_rng(seed)

    def part(*shape: int) -> Any:
        return random.standard_normal(shape) + (1j * random.standard_normal(shape) if complex_ones else 0.0)

    return part(rows, rank) * spread ** -np.arange(rank) @ part(rank, columns)


shapes = st.tuples(st.integers(1, 7), st.integers(1, 7)).flatmap(
    lambda shape: st.tuples(st.just(shape), st.integers(0, min(shape)))
)


@given(shape=shapes, seed=st.integers(0, 999), complex_ones=st.booleans(), full=st.booleans())
@pytest.mark.usefixtures("broken")
def test_decompositions_are_right_whatever_fails(shape, seed, complex_ones, full):
    (rows, columns), rank = shape
    table = matrix(rows, columns, rank, seed, complex_ones, spread=10.0)
    left, values, right = factors.svd(table, full)
    count = min(rows, columns)
    assert left.shape == (rows, rows if full else count)
    assert right.shape == (columns if full else count, columns)
    size = max(1.0, float(np.abs(table).max(initial=0.0)))
    np.testing.assert_allclose(left[:, :count] * values @ right[:count], table, atol=1e-13 * size)
    np.testing.assert_allclose(left.conj().T @ left, np.eye(left.shape[1]), atol=1e-12)
    np.testing.assert_allclose(right @ right.conj().T, np.eye(len(right)), atol=1e-12)
    assert (np.diff(values) <= 1e-14 * size).all()
    np.testing.assert_allclose(factors.singular_values(table), values, atol=1e-13 * size)
    if rank:
        assert factors.rank_of(table) == rank
        wanted = matrix(rows, 2, 2, seed + 1, complex_ones)
        found = factors.least_squares(table, wanted, 1e-10)
        assert found.rank == rank
        inverse = factors.pseudo_inverse(table, 1e-10)
        np.testing.assert_allclose(found.solution, inverse @ wanted, rtol=1e-9, atol=1e-9 / values[rank - 1])
        np.testing.assert_allclose(table @ inverse @ table, table, atol=1e-9 * size)


def test_they_agree_with_numpy_where_one_of_a_stack_fails(monkeypatch: pytest.MonkeyPatch):
    stack = np.stack([matrix(4, 3, 3, seed, False) for seed in range(6)]).reshape(2, 3, 4, 3)
    wanted, whole = np.linalg.svd(stack, compute_uv=False), np.linalg.svd

    def failing_at_the_second(table: Any, *args: Any, **kwargs: Any) -> Any:
        if table.ndim > 2 or (table == stack[0, 1]).all():
            raise np.linalg.LinAlgError
        return whole(table, *args, **kwargs)

    monkeypatch.setattr(np.linalg, "svd", failing_at_the_second)
    left, values, right = factors.svd(stack)
    np.testing.assert_allclose(values, wanted, atol=1e-13)
    np.testing.assert_allclose(left * values[..., None, :] @ right, stack, atol=1e-13)


def test_what_is_not_finite_is_no_failure_of_lapack():
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        factors.svd(np.full((2, 2), np.nan))


BUILT = {
    "draco_cyclic": lambda: codes.build("draco_cyclic", n_workers=12, corrupted=2),
    "reed_solomon": lambda: codes.build("reed_solomon", n_workers=12, load=4),
    "cyclic_repetition": lambda: codes.cyclic_repetition(12, 3),
    "communication_efficient_groups": lambda: codes.build(
        "communication_efficient_groups", n_workers=12, load=6, n_pieces=3
    ),
    "custom": lambda: codes.custom(
        codes.build("nested", n_workers=8, stragglers=2).encoding,
        codes.build("nested", n_workers=8, stragglers=2).owner,
    ),
    "bernoulli": lambda: codes.build("bernoulli", n_workers=12, load=4),
}


@pytest.mark.parametrize("family", BUILT)
@pytest.mark.usefixtures("broken")
def test_codes_are_built_and_decoded_whatever_fails(family):
    code = BUILT[family]()
    gone = np.arange(0, 2 * (code.tolerance or 2), 2) % code.n_workers
    messages = code.messages_without(np.unique(gone))
    found = decoding.make_decoder(code).decode(messages)
    rows = code.encoding.toarray()[messages]
    solution = linalg.lstsq(rows.T, code.target.T, lapack_driver="gelsy")[0]
    best = float(((solution.T @ rows - code.target) ** 2).sum()) / code.n_pieces
    assert found.residual == pytest.approx(best, abs=1e-9)


def test_erasures_that_divide_and_conquer_gave_up_on_decode():
    # numpy.linalg.lstsq does not converge here with some builds of OpenBLAS, in one thread.
    gone = [3, 4, 8, 11, 12, 14, 17, 20, 22, 24, 25, 26, 27, 28, 29, 33, 38, 43, 46, 50, 54, 55, 56, 57, 60, 61, 62, 63]
    gone += [64, 69, 72, 75, 78, 80, 81, 83, 84, 86, 89, 94, 97, 99]
    code = codes.build("draco_cyclic", n_workers=100, corrupted=4)
    found = decoding.make_decoder(code).decode(code.messages_without(gone))
    rows = code.encoding.toarray()[found.messages]
    solution = linalg.lstsq(rows.T, code.target.T, cond=1e-11, lapack_driver="gelsy")[0]
    assert found.residual <= float(((solution.T @ rows - 1.0) ** 2).sum()) * (1 + 1e-6) + 1e-10
