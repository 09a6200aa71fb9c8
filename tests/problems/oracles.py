"""Small data in every form that a design can take, and the losses and gradients written out in dense float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import log_softmax, softmax

from erasurehead.problems import LeastSquares, LogisticRegression, SoftmaxRegression
from erasurehead.problems._linear import LinearProblem

from ..arrays import Array

FORMS = ("dense", "sparse", "one_hot", "ragged")
KINDS = ("logistic", "least_squares", "softmax")
N_CLASSES = 3


class Case(NamedTuple):
    """A problem's ingredients: the matrix as users bring it, the same as a dense array, labels, and a model."""

    kind: str
    X: Any
    dense: Array
    y: Array
    x: Array

    def problem(self, **others: Any) -> LinearProblem:
        return problem_of(self.kind, self.X, self.y, **others)


def problem_of(kind: str, X: Any, y: Array, **others: Any) -> LinearProblem:
    if kind == "softmax":
        return SoftmaxRegression(X, y, n_classes=N_CLASSES, **others)
    return {"logistic": LogisticRegression, "least_squares": LeastSquares}[kind](X, y, **others)


def matrix_of(form: str, rng: np.random.Generator, n_rows: int, n_columns: int) -> Array:
    """Return a dense matrix: of numbers, of a few numbers, of equally many ones a row, or of any number of ones."""
    if form == "dense":
        return rng.normal(size=(n_rows, n_columns))
    if form == "sparse":
        return rng.normal(size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.4)
    if form == "ragged":
        return (rng.random((n_rows, n_columns)) < 0.3).astype(np.float64)
    matrix = np.zeros((n_rows, n_columns))
    for feature in np.array_split(np.arange(n_columns), max(1, n_columns // 3)):
        matrix[np.arange(n_rows), rng.choice(feature, n_rows)] = 1.0
    return matrix


def labels_of(kind: str, rng: np.random.Generator, n_rows: int) -> Array:
    if kind == "least_squares":
        return rng.normal(size=n_rows)
    if kind == "softmax":
        return rng.integers(0, N_CLASSES, n_rows).astype(np.float64)
    labels = np.where(rng.random(n_rows) < 0.5, 1.0, -1.0)
    labels[:2] = 1.0, -1.0
    return labels


def case_of(kind: str, form: str, seed: int, n_rows: int = 23, n_columns: int = 11) -> Case:
    rng = np.random.default_rng(seed)
    dense = matrix_of(form, rng, n_rows, n_columns)
    X = dense if form == "dense" else sparse.csr_array(dense)
    n_outputs = N_CLASSES if kind == "softmax" else 1
    return Case(kind, X, dense, labels_of(kind, rng, n_rows), rng.normal(size=n_outputs * n_columns))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return case_of(
        draw(st.sampled_from(KINDS)),
        draw(st.sampled_from(FORMS)),
        draw(st.integers(0, 10_000)),
        draw(st.integers(2, 30)),
        draw(st.integers(1, 15)),
    )


def losses(kind: str, dense: Array, y: Array, x: Array) -> Array:
    """Return the loss of each sample, from the definition."""
    if kind == "softmax":
        margins = dense @ x.reshape(N_CLASSES, -1).T
        return -log_softmax(margins, axis=1)[np.arange(len(y)), y.astype(int)]
    margins = dense @ x
    return np.logaddexp(0.0, -y * margins) if kind == "logistic" else (margins - y) ** 2


def gradients(kind: str, dense: Array, y: Array, x: Array) -> Array:
    """Return the gradient of each sample's loss, from the definition, shape (n_samples, n_parameters)."""
    if kind == "softmax":
        excess = softmax(dense @ x.reshape(N_CLASSES, -1).T, axis=1) - np.eye(N_CLASSES)[y.astype(int)]
        return np.einsum("ik,ij->ikj", excess, dense).reshape(len(y), -1)
    margins = dense @ x
    slopes = -y / (1.0 + np.exp(y * margins)) if kind == "logistic" else 2.0 * (margins - y)
    return slopes[:, None] * dense
