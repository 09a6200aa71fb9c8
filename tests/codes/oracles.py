"""What the tests of codes hold against: plain dense least squares, and every straggler set of a small code."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from erasurehead.arrays import IntArray
from erasurehead.codes import GradientCode


def optimal_residual(code: GradientCode, messages: IntArray) -> float:
    """Squared distance of the all-ones target from the span of the messages, by pieces averaged: numpy's lstsq."""
    rows = code.encoding.toarray()[messages]
    target = np.tile(np.eye(code.n_pieces), (1, code.n_tasks))
    if not len(rows):
        return float((target**2).sum()) / code.n_pieces
    scale = np.linalg.norm(rows, axis=1, keepdims=True)  # equilibrated, or the default cut-off truncates
    rows = rows / np.where(scale > 0, scale, 1.0)
    weights = np.linalg.lstsq(rows.T, target.T, rcond=1e-13)[0]
    error = weights.T @ rows - target
    return float((error**2).sum()) / code.n_pieces


def messages_without(code: GradientCode, stragglers: tuple[int, ...]) -> IntArray:
    """The messages of everybody but the stragglers."""
    return np.flatnonzero(~np.isin(code.owner, stragglers))


def straggler_sets(code: GradientCode, size: int) -> Iterator[tuple[int, ...]]:
    """All sets of so many stragglers."""
    yield from combinations(range(code.n_workers), size)


def worst_residual(code: GradientCode, stragglers: int) -> float:
    """The largest optimal residual over all sets of so many stragglers."""
    return max(optimal_residual(code, messages_without(code, gone)) for gone in straggler_sets(code, stragglers))
