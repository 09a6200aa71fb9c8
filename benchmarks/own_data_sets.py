"""Data sets of many kinds, written to files as a user has them: what training with nothing said is tried on.

Dense and sparse rows, categories, unscaled columns of very different ranges, two, three and ten classes, regression
with large targets; scikit-learn's own, and generated ones. `own_data.py` measures on all of them, and the tests train
on smaller ones of the same kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import datasets
from sklearn.datasets import dump_svmlight_file

Data = dict[str, Any]
"""A run file's section on its data."""


def table(X: Any, y: Any, **said: Any) -> Data:
    """Write a CSV file into the working folder, and return the section that names it."""
    columns = [f"c{number}" for number in range(X.shape[1])]
    lines = [",".join([*columns, "y"]), *(",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist())]
    Path("data.csv").write_text("\n".join(lines) + "\n")
    return {"source": "data.csv", "target": "y", **said}


def iris() -> Data:
    """Three classes, four columns."""
    return table(*datasets.load_iris(return_X_y=True))


def wine_unscaled() -> Data:
    """Three classes; columns of tenths beside one of thousands, as they are."""
    return table(*datasets.load_wine(return_X_y=True), standardize=False)


def digits() -> Data:
    """Ten classes, 64 pixels, some of them always 0."""
    return table(*datasets.load_digits(return_X_y=True))


def cancer() -> Data:
    """Two classes, thirty columns that say nearly the same."""
    return table(*datasets.load_breast_cancer(return_X_y=True))


def cancer_unscaled() -> Data:
    """Areas of thousands beside fractal dimensions of thousandths, as they are."""
    return table(*datasets.load_breast_cancer(return_X_y=True), standardize=False)


def large_targets() -> Data:
    """Regression on targets of hundreds of millions."""
    X, y = datasets.load_diabetes(return_X_y=True)
    return table(X, 1e6 * y)


def wide_ranges() -> Data:
    """Regression; columns with heavy tails, of ranges from thousandths to millions, as they are."""
    rng = np.random.default_rng(1)
    X = rng.lognormal(0.0, 1.0, (600, 10)) * np.logspace(-3, 6, 10)
    return table(X, (X / X.std(0)) @ rng.standard_normal(10) + rng.standard_normal(600), standardize=False)


def dense(samples: int = 1000, columns: int = 20, redundant: int = 6) -> Data:
    """Two classes; columns that are sums of others, and a tenth of the labels wrong."""
    return table(*datasets.make_classification(samples, columns, n_redundant=redundant, flip_y=0.1, random_state=0))


def categories(samples: int = 2000, towns: int = 400, share: float = 0.01) -> Data:
    """Towns of very different sizes, one-hot encoded: counts of columns differ as much."""
    rng = np.random.default_rng(0)
    places, kinds = np.minimum(rng.geometric(share, samples), towns), rng.integers(4, size=samples)
    late = rng.random(samples) < 1.0 / (1.0 + np.exp(rng.standard_normal(towns + 1)[places] - 0.5 * kinds))
    lines = ["town,kind,y", *(f"t{a},k{b},{'yes' if c else 'no'}" for a, b, c in zip(places, kinds, late, strict=True))]
    Path("towns.csv").write_text("\n".join(lines) + "\n")
    return {"source": "towns.csv", "target": "y", "categorical": True}


def sparse_rows(samples: int = 2000, columns: int = 500, density: float = 0.02) -> Data:
    """Two classes; rows of a few numbers, in LIBSVM's format."""
    rng = np.random.default_rng(0)
    X: Any = sparse.random_array((samples, columns), density=density, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(columns) + 0.3 * rng.standard_normal(samples) > 0.0, 1, -1)
    dump_svmlight_file(X, y, "rows.svm")
    return {"source": "rows.svm"}


KINDS: tuple[Callable[[], Data], ...] = (
    iris,
    wine_unscaled,
    digits,
    cancer,
    cancer_unscaled,
    large_targets,
    wide_ranges,
    dense,
    categories,
    sparse_rows,
)
