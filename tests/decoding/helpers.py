"""Codes built from plain matrices, so that decoders are tested apart from the constructions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import DTypeLike
from scipy import sparse

from erasurehead.codes import GradientCode
from erasurehead.decoding import Decoder
from erasurehead.decoding._base import Decoding, residual_of
from erasurehead.decoding._rounding import check_rounding

from ..arrays import Array


def code_of(matrix: Array, groups: Iterable[int] | None = None, n_pieces: int = 1, name: str = "plain") -> GradientCode:
    """Return the code with one message a worker whose encoding is `matrix`."""
    matrix = np.asarray(matrix, dtype=np.float64)
    return GradientCode(
        name=name,
        parameters={},
        encoding=sparse.csr_array(matrix),
        owner=np.arange(len(matrix)),
        n_workers=len(matrix),
        n_tasks=matrix.shape[1] // n_pieces,
        n_pieces=n_pieces,
        groups=None if groups is None else np.array(list(groups), dtype=np.int64),
    )


def repetition(n_groups: int, replicas: int, tasks_each: int = 1) -> GradientCode:
    """Return a code of groups of equal messages, each the sum of its own tasks."""
    matrix = np.kron(np.eye(n_groups), np.ones((replicas, tasks_each)))
    return code_of(matrix, groups=np.repeat(np.arange(n_groups), replicas), name="repetition")


def best_residual(code: GradientCode, messages: Iterable[int]) -> float:
    """Return the optimal residual by numpy's least squares on the plain matrix: independent of the library."""
    rows = code.encoding.toarray()[np.sort(np.array(list(messages), dtype=np.int64))]
    if not len(rows):
        return float(code.n_tasks)
    solution = np.linalg.lstsq(rows.T, code.target.T, rcond=None)[0]
    return float(np.sum((solution.T @ rows - code.target) ** 2)) / code.n_pieces


def best_alpha(code: GradientCode, messages: Iterable[int]) -> Array:
    """Return the projection of the target on the row space of the messages, by numpy's least squares."""
    rows = code.encoding.toarray()[np.sort(np.array(list(messages), dtype=np.int64))]
    solution = np.linalg.lstsq(rows.T, code.target.T, rcond=None)[0]
    return solution.T @ rows


def check_dtype(code: GradientCode, dtype: DTypeLike) -> None:
    """Refuse a code whose decoding would amplify the rounding of messages of a type too much."""
    name = np.dtype(dtype).name
    check_rounding(code, float(np.finfo(name).eps) / 2, given=("dtype", name))


def check_consistent(decoding: Decoding, tolerance: float = 1e-9) -> None:
    """Assert what holds of every decoding: messages ascend without repeats, and the residual is the weights' own."""
    assert (np.diff(decoding.messages) > 0).all()
    assert decoding.weights.shape == (decoding.code.n_pieces, len(decoding.messages))
    true = residual_of(decoding.code, decoding.messages, decoding.weights)
    assert abs(true - decoding.residual) <= tolerance * decoding.code.n_tasks


def check_every_arrival(decoder: Decoder, order: Iterable[int]) -> None:
    """Assert that a decoder agrees with numpy's least squares at each arrival, and that no arrival takes anything away.

    Arguments:
        decoder: an optimal one.
        order: in which messages arrive.
    """
    code, session = decoder.code, decoder.begin()
    here, last = list[int](), float(code.n_tasks)
    for message in map(int, order):
        here.append(message)
        session.add(message)
        assert session.residual() == pytest.approx(best_residual(code, here), abs=1e-9)
        assert session.residual() <= last
        last = session.residual()
        decoding = session.decoding()
        check_consistent(decoding)
        np.testing.assert_allclose(decoding.alpha, best_alpha(code, here), atol=1e-9)
