"""Codes of your own: any matrix, checked before it is used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import Array, IntArray, check_among, real_numbers, whole_numbers
from erasurehead._internal.factors import least_squares
from erasurehead.codes._assemble import generator_of
from erasurehead.codes._base import GradientCode
from erasurehead.codes._exactness import EXACT, MOST_AMPLIFIED, MOST_ELIMINATED
from erasurehead.codes._sparse_elimination import augmented_weights
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, counted, invalid

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

    Matrix = Array | Sequence[Sequence[float]] | SparseMatrix | Mapping[str, Sequence[float]]

_WORK = 5e9  # multiplications that working out or confirming the tolerance may cost: seconds
_SETS = 20_000  # straggler sets examined when the tolerance is computed
_SAMPLED = 200  # straggler sets examined when it is given and too large to prove
_LEAST_SQUARE = 1e-280  # of a row's length; the largest is its inverse
_DENSE = 1_000_000  # entries above which elimination is sparse


def custom(
    matrix: Matrix,
    owner: Sequence[int] | IntArray | None = None,
    n_pieces: int = 1,
    tolerance: int | None = None,
    approximate: bool = False,
) -> GradientCode:
    """A code given by its encoding matrix: row by row, the coefficients of each message.

    Arguments:
        matrix: shape (n_messages, n_tasks * n_pieces), dense, sparse, or a mapping with `shape`, `row`, `column` and
            `value`; real and finite, no empty row or column.
        owner: the worker that sends each message, numbered 0, 1, ... without gaps; by default one message per worker.
        n_pieces: number of pieces into which gradients are cut; column `task * n_pieces + piece`.
        tolerance: number of stragglers that the code tolerates, if you know. It is verified on every straggler set, or
            on 200 random ones if there are too many. If not given, it is computed as far as a few seconds allow.
        approximate: whether to accept a code that does not decode exactly even when all workers answer.

    Structure:
        decoder: `"least_squares"`.

    Guarantees: the tolerance, as described above; none if `approximate` and the target is out of reach.
    Choose it: to try a code that is not here.
    Raises:
        InvalidArgument: if the matrix breaks one of these rules; the message names the row, column or straggler set.

    >>> code = custom([[0.5, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]])  # Tandon et al., Figure 2
    >>> code.tolerance
    1
    """
    encoding = _checked_matrix(matrix)
    n_messages, n_columns = encoding.shape
    n_pieces = check_count("n_pieces", n_pieces)
    if n_columns % n_pieces:
        raise invalid("n_pieces", f"must divide the {n_columns} columns", n_pieces)
    owners = np.arange(n_messages) if owner is None else _checked_owner(owner, n_messages)
    triplets = encoding.tocoo()
    code = GradientCode(
        name="custom",
        parameters={
            "matrix": {
                "shape": [n_messages, n_columns],
                "row": triplets.row.tolist(),
                "column": triplets.col.tolist(),
                "value": triplets.data.tolist(),
            },
            "owner": owners.tolist(),
            "n_pieces": n_pieces,
            "tolerance": tolerance,
            "approximate": approximate,
        },
        encoding=encoding,
        owner=owners,
        n_workers=int(owners.max()) + 1,
        n_tasks=n_columns // n_pieces,
        n_pieces=n_pieces,
        source="given by its matrix",
        structure=Structure(decoder="least_squares"),
    )
    if _decodes(code, ()):
        if tolerance is None:
            return replace(code, tolerance=_worked_out(code))
        return replace(code, tolerance=_confirmed(code, check_count("tolerance", tolerance, 0, code.n_workers - 1)))
    if approximate:
        return code
    raise invalid(
        "matrix",
        "must have the sum of all tasks in the span of its rows",
        f"a matrix of shape {encoding.shape} that cannot decode it even when all workers answer",
        "use approximate=True if an estimate will do",
    )


def _checked_matrix(matrix: Matrix) -> SparseMatrix:
    raw: Any = _from_mapping(matrix) if isinstance(matrix, Mapping) else matrix
    try:
        raw = raw if sparse.issparse(raw) else np.array(raw)
    except ValueError:
        raise invalid("matrix", "must be numbers, in rows of equal length", raw) from None
    if raw.ndim != 2 or not min(raw.shape):
        raise invalid("matrix", "must have one row a message and one column a task", f"an array of shape {raw.shape}")
    if np.iscomplexobj(raw):
        hint = "give the real and the imaginary part of each row as two rows with the same owner"
        raise invalid("matrix", "must be real", "a complex matrix", hint)
    raw = raw if sparse.issparse(raw) else real_numbers("matrix", raw)
    encoding = cast("SparseMatrix", sparse.csr_array(raw, dtype=np.float64, copy=True))
    encoding.sum_duplicates()
    encoding.eliminate_zeros()
    wrong = np.flatnonzero(~np.isfinite(encoding.data))
    if len(wrong):
        entry = int(wrong[0])
        row = int((encoding.indptr <= entry).sum()) - 1
        place = f"{encoding.data[entry]} in row {row}, column {encoding.indices[entry]}"
        raise invalid("matrix", "must be finite", place)
    empty_rows = np.flatnonzero(np.diff(encoding.indptr) == 0)
    if len(empty_rows):
        hint = "leave it out: its message would be zero"
        raise invalid("matrix", "must have no empty row", f"row {empty_rows[0]} is empty", hint)
    squares = encoding.multiply(encoding).sum(axis=1)
    beyond = np.flatnonzero(~((squares > _LEAST_SQUARE) & (squares < 1.0 / _LEAST_SQUARE)))
    if len(beyond):
        hint = "divide the row by its largest number: the weights make up for it"
        raise invalid("matrix", "must have rows that can be squared in float64", f"row {beyond[0]}", hint)
    empty_columns = np.flatnonzero(np.bincount(encoding.indices, minlength=encoding.shape[1]) == 0)
    if len(empty_columns):
        hint = "nobody holds that task, so that nothing could bring it back"
        raise invalid("matrix", "must have no empty column", f"column {empty_columns[0]} is empty", hint)
    return encoding


def _from_mapping(matrix: Mapping[str, Sequence[float]]) -> SparseMatrix:
    if set(matrix) != {"shape", "row", "column", "value"}:
        raise invalid("matrix", "must have the keys shape, row, column and value", sorted(matrix))
    rows, columns = (whole_numbers(f"matrix.{key}", matrix[key]) for key in ("row", "column"))
    values, shape = real_numbers("matrix.value", matrix["value"]), whole_numbers("matrix.shape", matrix["shape"])
    if len(shape) != 2 or shape.min() < 1:
        raise invalid("matrix.shape", "must be the numbers of messages and of columns, at least 1", shape.tolist())
    n_rows, n_columns = shape.tolist()
    for key, places, extent in (("row", rows, n_rows), ("column", columns, n_columns)):
        check_among(f"matrix.{key}", places, extent)
    if not rows.shape == columns.shape == values.shape:
        got = [len(rows), len(columns), values.size]
        raise invalid("matrix", "must have a row, a column and a value for each entry", got)
    return sparse.csr_array((values, (rows, columns)), shape=(n_rows, n_columns))


def _checked_owner(owner: Sequence[int] | IntArray, n_messages: int) -> IntArray:
    owners = np.array(owner)
    if owners.shape != (n_messages,) or not np.issubdtype(owners.dtype, np.integer):
        raise invalid(
            "owner", f"must name one worker for each of the {counted('message', n_messages)}", owners.tolist()
        )
    if owners.min() < 0 or not np.bincount(owners).all():
        raise invalid("owner", "must number the workers 0, 1, 2, ... without gaps", owners.tolist())
    return owners.astype(np.int64)


def _decodes(code: GradientCode, stragglers: Iterable[int]) -> bool:
    """Whether the messages of all but the given workers reach the target with weights that float64 allows."""
    present = ~np.isin(code.owner, np.fromiter(stragglers, dtype=np.int64))
    rows = code.encoding[np.flatnonzero(present)]
    if not rows.shape[0]:
        return False
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
    scaled = sparse.csr_array(sparse.diags_array(1.0 / norms) @ rows)
    size = code.n_tasks * code.n_pieces
    if rows.shape[0] * rows.shape[1] > _DENSE:
        weights = augmented_weights(scaled, code.target)
        if weights is None:  # for rows this well mixed, the iteration suffices
            from scipy.sparse.linalg import lsqr

            weights = np.array(
                [lsqr(scaled.T, goal, atol=1e-14, btol=1e-14, iter_lim=5_000)[0] for goal in code.target]
            )
        square, most = float((weights**2).sum()), MOST_ELIMINATED
        left = float(((weights @ scaled - code.target) ** 2).sum())
    else:
        dense = scaled.toarray()
        weights = least_squares(dense.T, code.target.T, 1e-13).solution
        square, most = float((weights**2).sum()), MOST_AMPLIFIED
        left = float(((weights.T @ dense - code.target) ** 2).sum())
    return left <= EXACT * size and square <= most**2 * size


def _affordable(code: GradientCode) -> int:
    """Return how many straggler sets can be examined in a few seconds."""
    rows, columns = code.encoding.shape
    return min(_SETS, int(_WORK / (rows * columns * min(rows, columns))))


def _worked_out(code: GradientCode) -> int:
    left = _affordable(code)
    for size in range(1, code.n_workers):
        sets = math.comb(code.n_workers, size)
        if sets > left or not all(_decodes(code, gone) for gone in combinations(range(code.n_workers), size)):
            return size - 1
        left -= sets
    return code.n_workers - 1


def _confirmed(code: GradientCode, tolerance: int) -> int:
    random = generator_of(0)
    sets: Iterable[tuple[int, ...]]
    if math.comb(code.n_workers, tolerance) <= _affordable(code):
        sets = combinations(range(code.n_workers), tolerance)
    else:
        draws = (tuple(random.permutation(code.n_workers)[:tolerance].tolist()) for _ in range(_SAMPLED))
        sets = islice(draws, max(1, min(_SAMPLED, _affordable(code))))
    for gone in sets:
        if not _decodes(code, gone):
            hint = "leave it out to have it worked out"
            raise invalid("tolerance", f"must hold, but without workers {list(gone)} nothing decodes", tolerance, hint)
    return tolerance
