"""What the tests of codes hold against: plain dense least squares, and every straggler set of a small code."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from erasurehead.codes import GradientCode

from ..arrays import Array, IntArray


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


def residuals(code: GradientCode, stragglers: int, at_most: int = 3_000, seed: int = 0) -> Array:
    """Optimal residuals of all sets of so many stragglers, or of random ones where there are too many."""
    sets = list(combinations(range(code.n_workers), stragglers)) if code.n_workers <= 14 else []
    if not sets or len(sets) > at_most:
        random = np.random.default_rng(seed)
        sets = [tuple(random.choice(code.n_workers, stragglers, replace=False)) for _ in range(at_most)]
    return np.array([optimal_residual(code, code.messages_without(gone)) for gone in sets])


def worst_residual(code: GradientCode, stragglers: int) -> float:
    """The largest optimal residual over all sets of so many stragglers."""
    return float(residuals(code, stragglers).max())


def one_step_residual(code: GradientCode, messages: IntArray) -> float:
    """Residual of the constant weights n_tasks / (r s), Charles et al."""
    load = code.structure.mean_load
    assert isinstance(load, float)
    alpha = code.n_tasks / (len(messages) * load) * code.encoding.toarray()[messages].sum(axis=0)
    return float(((alpha - 1) ** 2).sum())
