"""Bounds on the residual for every set of stragglers, by the second singular value of the encoding."""

from __future__ import annotations

import math

import numpy as np

from erasurehead.codes import GradientCode
from erasurehead.decoding._matrix_products import backward, row_sums
from erasurehead.errors import check_count, invalid, real


def is_biregular(code: GradientCode) -> bool:
    """Whether every worker sends one message, of coefficients of at least 0, and all messages and all tasks have equal
    sums greater than 0, as the bounds require."""
    if code.n_pieces != 1 or not code.one_message_each or code.encoding.data.min(initial=0.0) < 0:
        return False
    rows, columns = row_sums(code), backward(code, np.ones(code.n_messages))
    equal = np.allclose(rows, rows[0], rtol=1e-9) and np.allclose(columns, columns[0], rtol=1e-9)
    return bool(equal and rows[0] > 0)


def spectral_bound(code: GradientCode, stragglers: int) -> float:
    """Return an upper bound on the residual of optimal decoding, for any stragglers.

    With n workers, s stragglers and x = (s2 / s1)^2 of the encoding's singular values it is
    `n_tasks x s / (n - s + x s)`, attained by block designs for every s.

    Arguments:
        code: a biregular code, see `is_biregular`; for others the bound is the trivial one, `n_tasks`.
        stragglers: number of stragglers, at most the number of workers.

    Source: the argument of Raviv et al., arXiv 1707.03858, theorem 5, with the best uniform weight instead of the
    unbiased one; Kadhe et al., arXiv 1904.13373; Glasgow and Wootters, arXiv 2006.09638.
    """
    s = check_count("stragglers", stragglers, at_least=0, at_most=code.n_workers)
    if s == code.n_workers or not is_biregular(code):
        return float(code.n_tasks)
    x = code.spectrum.ratio
    return code.n_tasks * x * s / (code.n_workers - s + x * s)


def one_step_bound(code: GradientCode, stragglers: int) -> float:
    """Return an upper bound on the residual of unbiased one-step decoding, for any stragglers.

    It is `(s2 / d)^2 n s / (n - s)` for replication d (in coefficients); inf if no worker is left.

    Arguments:
        code: a biregular code, see `is_biregular`; inf for others.
        stragglers: number of stragglers, at most the number of workers.

    Source: Raviv, Tamo, Tandon, Dimakis, arXiv 1707.03858, theorem 5.
    """
    s, n = check_count("stragglers", stragglers, at_least=0, at_most=code.n_workers), code.n_workers
    if s == n or not is_biregular(code):
        return math.inf
    replication = float(backward(code, np.ones(n))[0])
    return (code.spectrum.second / replication) ** 2 * n * s / (n - s)


def adversarial_threshold(code: GradientCode, fraction: float) -> float:
    """Return the least number of stragglers with which an adversary can spoil a fraction of the tasks.

    Arguments:
        code: a biregular code.
        fraction: the residual aimed at, divided by the number of tasks, in [0, 1].

    Raises:
        InvalidArgument: if the code is not biregular, or the fraction is not in [0, 1].

    >>> from erasurehead.codes._designs import projective_plane
    >>> [round(adversarial_threshold(projective_plane(3), beta), 2) for beta in (0.05, 0.1, 0.2)]
    [2.85, 4.84, 7.43]

    Source: Kadhe, Koyluoglu, Ramchandran, arXiv 1904.13373 (adversarial stragglers).
    """
    if not 0 <= real(fraction) <= 1:
        raise invalid("fraction", "must lie in [0, 1]", fraction)
    if not is_biregular(code):
        raise invalid("code", "must have equal loads and equal replication", code)
    x = code.spectrum.ratio
    spoilt = fraction + (1 - fraction) * x
    return code.n_workers * fraction / spoilt if spoilt else 0.0
