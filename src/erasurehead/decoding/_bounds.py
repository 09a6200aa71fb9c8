"""Bounds on the residual for every set of stragglers, by the second singular value of the encoding."""

from __future__ import annotations

import numpy as np

from erasurehead.codes import GradientCode
from erasurehead.decoding._matrix_products import backward, row_sums
from erasurehead.errors import check_count


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
