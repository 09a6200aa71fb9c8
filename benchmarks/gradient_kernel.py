"""The one-hot logistic gradient against scipy, scikit-learn and a gather-only pass over the same indices.

Three sizes: all rows of the Amazon training matrix; each of 30 shards with 1/30 of the rows, one after the other; and
each of 30 shards with 3/30 (three neighbouring tasks, as in a cyclic code). Every side works in float64, on one
thread, on the same rows and the same columns (those that the shard touches), so that no side gains by leaving columns
out. Everybody computes the mean gradient from the model, the residuals included; ours returns the loss as well, and
writes into given room, as it does for a message. The gather-only pass sums `x[columns]` of each row and does no more.

Run: python benchmarks/gradient_kernel.py
"""

from __future__ import annotations

import os
import statistics

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numba
import numpy as np
from scipy import sparse
from sklearn._loss import HalfBinomialLoss
from sklearn.linear_model._linear_loss import LinearModelLoss

from common import interleave, ratio, report
from erasurehead import datasets, problems
from erasurehead._internal import partition as _partition
from erasurehead.problems import Shard

SIZES = {"full": (1, 1), "1/30": (30, 1), "3/30": (30, 3)}  # tasks, and how many of them a shard holds
REPETITIONS = 41
TARGETS = {"scipy / ours": ">= 1.6", "sklearn / ours": ">= 1.6", "ours / gather": "<= 3"}


Gradient: TypeAlias = Callable[[], np.ndarray]


@dataclass(frozen=True)
class Rows:
    """Rows of the training matrix over some of its columns, with the model there, and the samples of the whole."""

    X: sparse.csr_array
    y: np.ndarray
    x: np.ndarray
    n_samples: int


@numba.njit(nogil=True)
def gather(edges: np.ndarray, columns: np.ndarray, x: np.ndarray, sums: np.ndarray) -> None:
    """Sum `x[columns]` of each row, four independent sums at a time, which is faster than one sum."""
    four = np.uint64(4)
    for row in range(np.uint64(len(sums))):
        begin, end = edges[row], edges[row + np.uint64(1)]
        fours = begin + (end - begin) // four * four
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for entry in range(begin, fours, four):
            a += x[columns[entry]]
            b += x[columns[entry + np.uint64(1)]]
            c += x[columns[entry + np.uint64(2)]]
            d += x[columns[entry + np.uint64(3)]]
        for entry in range(fours, end):
            a += x[columns[entry]]
        sums[row] = (a + b) + (c + d)


def scipy_side(rows: Rows) -> Gradient:
    def work() -> np.ndarray:
        margins = rows.X @ rows.x
        residuals = -rows.y / (1.0 + np.exp(rows.y * margins)) / rows.n_samples
        return rows.X.T @ residuals

    return work


def sklearn_side(rows: Rows) -> Gradient:
    loss = LinearModelLoss(HalfBinomialLoss(), fit_intercept=False)
    labels = (rows.y > 0).astype(np.float64)
    return lambda: loss.gradient(rows.x, rows.X, labels)


def gather_side(rows: Rows) -> Callable[[], None]:
    edges, columns = rows.X.indptr.astype(np.uint64), rows.X.indices.astype(np.uint32)
    sums = np.empty(len(rows.y))
    return lambda: gather(edges, columns, rows.x, sums)


def shard_side(shard: Shard, rows: Rows) -> Gradient:
    room = np.empty(len(rows.x))  # every worker has its own, for its message
    coefficients = np.ones(shard.n_tasks)

    def work() -> np.ndarray:
        shard.combine(rows.x, coefficients, 0, room)
        return room

    return work


def require_agreement(ours: Gradient, rows: Rows) -> None:
    """Refuse to time sides that do not compute the same. scikit-learn divides by the rows of the shard."""
    share = len(rows.y) / rows.n_samples
    for name, peer, factor in (("scipy", scipy_side(rows), 1.0), ("sklearn", sklearn_side(rows), share)):
        np.testing.assert_allclose(ours(), factor * peer(), rtol=1e-9, atol=1e-14, err_msg=name)


def one_after_the_other(works: list[Callable[[], object]]) -> Callable[[], None]:
    def work() -> None:
        for spec in works:
            spec()

    return work


def measure(name: str, ours: list[Gradient], held: list[Rows]) -> dict[str, float]:
    """Time the sides over all shards of one size, and return the ratios that the targets speak of."""
    for work, rows in zip(ours, held, strict=True):
        require_agreement(work, rows)
    makers = {"scipy": scipy_side, "sklearn": sklearn_side, "gather": gather_side}
    sides = {"ours": one_after_the_other([*ours])}
    sides |= {side: one_after_the_other([maker(rows) for rows in held]) for side, maker in makers.items()}
    seconds = interleave(sides, REPETITIONS, warmup=2)
    for side, spent in seconds.items():
        print(f"{name:<12} {side:<8} {statistics.median(spent) / len(held) * 1e6:10.1f} us a gradient")
    return {
        f"{name}: scipy / ours": ratio(seconds, "scipy", "ours"),
        f"{name}: sklearn / ours": ratio(seconds, "sklearn", "ours"),
        f"{name}: ours / gather": ratio(seconds, "ours", "gather"),
    }


def shards_of(
    problem: problems.LogisticRegression, X: sparse.csr_array, y: np.ndarray, x: np.ndarray, n_tasks: int, load: int
) -> tuple[list[Gradient], list[Rows]]:
    """Return our side and the rows of every shard that holds `load` neighbouring tasks."""
    tasks = _partition.split_samples(problem.n_samples, n_tasks)
    ours: list[Gradient] = []
    held: list[Rows] = []
    for first in range(n_tasks):
        mine = [tasks[(first + further) % n_tasks] for further in range(load)]
        shard = problem.shard(mine)
        spec = sparse.vstack([X[rows] for rows in mine], format="csr")
        labels = np.concatenate([y[rows] for rows in mine])
        held.append(Rows(spec[:, shard.support], labels, x[shard.support], problem.n_samples))
        ours.append(shard_side(shard, held[-1]))
    return ours, held


def main() -> None:
    data = datasets.load("amazon", fallback="synthetic")
    print(f"{data.source}: {data.X_train.shape[0]} x {data.X_train.shape[1]}, {data.X_train.nnz} ones")
    X, y = sparse.csr_array(data.X_train), np.asarray(data.y_train, dtype=np.float64)
    problem = problems.LogisticRegression(X, y)
    x = np.random.default_rng(0).normal(scale=0.1, size=problem.n_parameters)
    ratios: dict[str, float] = {}
    for name, (n_tasks, load) in SIZES.items():
        ratios |= measure(name, *shards_of(problem, X, y, x, n_tasks, load))
    report("gradient_kernel", ratios, {key: TARGETS[key.split(": ")[1]] for key in ratios})


if __name__ == "__main__":
    main()
