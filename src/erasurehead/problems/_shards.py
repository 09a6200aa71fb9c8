"""The part of a linear problem that one worker holds: blocks of rows with their labels, over their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import MOST_PLACES, Array, IntArray, Places
from erasurehead.errors import invalid
from erasurehead.problems import _kernels as kernels
from erasurehead.problems._base import Shard
from erasurehead.problems._blocks import MOST_ROWS, Block, gram, triangle_side, upper_triangle
from erasurehead.problems._design_matrices import Design
from erasurehead.problems._losses import Labels, SampleLoss
from erasurehead.problems._newton_systems import solve


@final
@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a shard: one task, a part of one, or several.

    Arguments:
        block: the rows.
        labels: labels of the rows, shape (n_rows,).
        parts: pairs of a task's number within the shard and its range of the block's rows, in order and without gaps.
        weights: weights of the rows, shape (n_rows,); None if all count alike.
    """

    block: Block
    labels: Labels
    parts: tuple[tuple[int, slice], ...]
    weights: Array | None = None


@final
class LinearShard(Shard):
    """The tasks of a linear model that one worker holds.

    Arguments:
        sample_loss: the loss of one sample.
        pieces: the rows of the tasks, in the order in which they are added up.
        n_tasks: number of tasks.
        n_samples: number of samples of the whole problem; losses are divided by it.
        n_columns: number of columns of the pieces' blocks.
        support: the parameters that these columns stand for, shape (n_outputs * n_columns,), or None.
    """

    def __init__(
        self,
        sample_loss: SampleLoss,
        pieces: Sequence[Piece],
        n_tasks: int,
        n_samples: int,
        n_columns: int,
        support: Places | None,
    ) -> None:
        self.sample_loss = sample_loss
        self.pieces = tuple(pieces)
        self.n_tasks = n_tasks
        self.n_samples = n_samples
        self.n_columns = n_columns
        self.support = support
        self._alone: dict[tuple[int, int], Piece] = {}  # single tasks, cut out once they are asked for
        self._each = 1  # into how many tasks each of the first ones has been cut

    def cut(self, sizes: Sequence[Sequence[int]]) -> LinearShard:
        """Return the same shard over finer tasks; sums over all that a task is cut into are the same to the bit.

        Arguments:
            sizes: how many rows each has that a task is cut into, in as many for all tasks.
        """
        each, done, pieces = len(sizes[0]), [0] * self.n_tasks, list[Piece]()
        for piece in self.pieces:
            parts: list[tuple[int, slice]] = []
            for task, rows in piece.parts:
                shift = rows.start - done[task]
                done[task] += rows.stop - rows.start
                for number, (low, high) in enumerate(pairwise(accumulate(sizes[task], initial=0))):
                    own = slice(max(low + shift, rows.start), min(high + shift, rows.stop))
                    parts += [(task * each + number, own)] * (own.start < own.stop)
            pieces.append(replace(piece, parts=tuple(parts)))
        finer = LinearShard(self.sample_loss, pieces, self.n_tasks * each, self.n_samples, self.n_columns, self.support)
        finer._each = each
        return finer

    def take(self, point: Array) -> Array:
        return on_support(point, self.support)

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        weights = self._weights(local)
        total = out.reshape(self.sample_loss.n_outputs, self.n_columns)
        scales = self._scales(coefficients)
        needed = self._needed(scales)
        if not needed:
            total[:] = 0.0
        loss = 0.0
        # A model that has diverged overflows here: the coordinator refuses the result, and reports it.
        with np.errstate(over="ignore", invalid="ignore"):
            for piece in needed:
                margins, losses = self._differentiate(piece, weights, scales)
                loss += losses
                room = total if piece is needed[0] else np.empty_like(total)
                piece.block.multiply_transposed(margins, room)
                if room is not total:
                    total += room
        return loss

    def loss(self, local: Array, coefficients: Array) -> float:
        """Return what `combine` returns, without the gradient."""
        weights, scales = self._weights(local), self._scales(coefficients)
        with np.errstate(over="ignore", invalid="ignore"):
            return sum(self._differentiate(piece, weights, scales)[1] for piece in self._needed(scales))

    def curvature(self, coefficients: Array, out: Array) -> float:
        total = np.zeros(self.n_columns)
        scales, entries = self._scales(coefficients), 0.0
        for piece in self._needed(scales):
            shares = self._of_rows(piece, scales)
            piece.block.add_squares(self.sample_loss.bounds(piece.labels) * shares, total)
            entries += float(shares @ piece.block.entries())
        out.reshape(self.sample_loss.n_outputs, self.n_columns)[:] = total
        return entries

    def block(self, local: Array, marks: Array, coefficients: Array, coupled: bool, out: Array) -> None:
        weights, scales = self._weights(local), self._scales(coefficients)
        outputs = range(len(weights))
        pairs = [(one, other) for one in outputs for other in (outputs if coupled else [one]) if one <= other]
        places = marks.reshape(weights.shape)[0].astype(np.int64)
        columns = np.flatnonzero(places)
        n_matrices = 1 if coupled else len(weights)
        side = triangle_side(len(out) // n_matrices)
        size = side // len(weights) if coupled else side
        apart = len(pairs) == n_matrices
        sums = out.reshape(n_matrices, -1) if apart else np.empty((len(pairs), size * (size + 1) // 2))
        sums[:] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for number, piece in enumerate(self._needed(scales)):
                rows, shares = piece.block.among(columns), self._of_rows(piece, scales)
                margins = self._margins(piece, weights)
                for output in outputs:
                    along = np.zeros_like(margins)
                    along[output] = shares
                    bent = self.sample_loss.bend(margins, piece.labels, along)
                    for total, (one, other) in zip(sums, pairs, strict=True):
                        if one == output:
                            room = total if number == 0 else np.empty_like(total)
                            gram(rows, bent[other], places[columns] - 1, room)
                            if room is not total:
                                total += room
        if apart:
            return
        whole, upper = np.zeros((side, side)), np.triu_indices(size)
        for total, (one, other) in zip(sums, pairs, strict=True):
            block = whole[one * size : (one + 1) * size, other * size : (other + 1) * size]
            block[upper] = total
            block.T[upper] = total
        out[:] = whole.ravel()[upper_triangle(side)]

    def newton_step(
        self, local: Array, vector: Array, coefficients: Array, damping: float, iterations: int, out: Array
    ) -> None:
        scales = self._scales(coefficients)
        rows = [(piece, self._of_rows(piece, scales)) for piece in self._needed(scales)]
        share = sum(float(own.sum()) for _, own in rows)
        out[:] = 0.0
        if not share > 0.0:
            return
        bound = np.empty(len(out))
        self.curvature(coefficients, bound)
        weights = self._weights(local)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            pieces = [(piece, own / share, self._margins(piece, weights)) for piece, own in rows]

            def bend(direction: Array) -> Array:
                turned = np.zeros_like(weights)
                for piece, own, margins in pieces:
                    change = self._margins(piece, direction.reshape(weights.shape))
                    room = np.empty_like(turned)
                    piece.block.multiply_transposed(own * self.sample_loss.bend(margins, piece.labels, change), room)
                    turned += room
                return turned.ravel()

            solution = solve(bend, bound / share, damping, vector, iterations)
            if np.isfinite(solution).all():
                out[:] = solution

    def _margins(self, piece: Piece, weights: Array) -> Array:
        margins = np.empty((len(weights), len(piece.labels)))
        piece.block.multiply(weights, margins)
        return margins

    def _of_rows(self, piece: Piece, scales: list[float]) -> Array:
        """Return what each of a piece's rows counts for, as a fraction of all samples."""
        shares = np.zeros(len(piece.labels))
        for task, rows in piece.parts:
            shares[rows] = scales[task] if piece.weights is None else scales[task] * piece.weights[rows]
        return shares

    def _weights(self, local: Array) -> Array:
        return np.ascontiguousarray(local, dtype=np.float64).reshape(self.sample_loss.n_outputs, self.n_columns)

    def _scales(self, coefficients: Array) -> list[float]:
        return [float(coefficient) / self.n_samples for coefficient in coefficients]

    def _needed(self, scales: list[float]) -> list[Piece]:
        """Return the pieces with tasks that count; where these are less than half of one, each of them by itself."""
        needed: list[Piece] = []
        for number, piece in enumerate(self.pieces):
            parts = [part for part in piece.parts if scales[part[0]] != 0.0]
            if 2 * sum(rows.stop - rows.start for _, rows in parts) < len(piece.labels):
                needed += [self._cut_out(number, *part) for part in parts]
            else:
                needed.append(piece)
        return needed

    def _cut_out(self, number: int, task: int, rows: slice) -> Piece:
        if (number, task) not in self._alone:
            piece = self.pieces[number]
            weights = None if piece.weights is None else piece.weights[rows]
            parts = ((task, slice(0, rows.stop - rows.start)),)
            self._alone[number, task] = Piece(piece.block.part(rows), piece.labels[rows], parts, weights)
        return self._alone[number, task]

    def _differentiate(self, piece: Piece, weights: Array, scales: list[float]) -> tuple[Array, float]:
        margins = self._margins(piece, weights)
        loss, joined = 0.0, list[tuple[int, slice]]()
        for task, rows in piece.parts:
            last, before = joined[-1] if joined else (-1, rows)
            if last // self._each == task // self._each and scales[last] == scales[task]:
                joined[-1] = task, slice(before.start, rows.stop)
            else:
                joined.append((task, rows))
        for task, rows in joined:
            if scales[task] == 0.0:
                margins[:, rows] = 0.0
            else:
                scale = scales[task] if piece.weights is None else scales[task] * piece.weights[rows]
                loss += self.sample_loss.differentiate(margins[:, rows], piece.labels[rows], scale)
        return margins, loss


def build_shard(
    design: Design,
    labels: Labels,
    sample_loss: SampleLoss,
    tasks: Sequence[slice],
    n_samples: int | None = None,
    weights: Array | None = None,
) -> LinearShard:
    """Return a shard of the given ranges of rows, one per task, over the columns that they touch.

    Arguments:
        design: all rows, or at least those of the tasks.
        labels: labels of these rows, shape (n_rows,).
        sample_loss: the loss of one sample.
        tasks: ranges of rows, none of them empty.
        n_samples: number of samples of the whole problem; None if the design has all of them.
        weights: weights of the rows, with a mean of 1 over the whole problem, shape (n_rows,); None if all count alike.
    """
    n_samples = design.n_rows if n_samples is None else n_samples
    features = design.support(tasks)
    pieces = _cut(design, labels, tasks, features, weights)
    if features is None:
        return LinearShard(sample_loss, pieces, len(tasks), n_samples, design.n_columns, None)
    support = parameters_of(features, sample_loss.n_outputs, design.n_columns)
    return LinearShard(sample_loss, pieces, len(tasks), n_samples, len(features), support)


def parameters_of(features: NDArray[np.integer], n_outputs: int, n_columns: int) -> Places:
    """Return the parameters of some columns, ascending, shape (n_outputs * len(features),).

    Arguments:
        features: columns, ascending.
        n_outputs: number of outputs of the loss; each has one parameter per column.
        n_columns: number of columns of the whole design.

    Raises:
        InvalidArgument: if there are more parameters than 32 bits can number.
    """
    if n_outputs * n_columns >= MOST_PLACES:
        raise invalid(
            "the number of parameters",
            f"must be less than {MOST_PLACES} for sparse data",
            n_outputs * n_columns,
            "encode fewer features, or fewer classes",
        )
    outputs = np.arange(n_outputs)[:, None]
    return (outputs * n_columns + features).ravel().astype(np.int32)


def on_support(point: Array, support: Places | None) -> Array:
    """Return a copy of a model restricted to a support."""
    if support is None:
        return point.copy()
    local = np.empty(len(support))
    kernels.take(np.ascontiguousarray(point, dtype=np.float64), support, local)  # models may be float32
    return local


def hold_rows(design: Design, labels: Labels, sample_loss: SampleLoss, weights: Array | None = None) -> LinearShard:
    """Return all rows as a shard of one task, over all columns."""
    pieces = _cut(design, labels, [slice(0, design.n_rows)], None, weights)
    return LinearShard(sample_loss, pieces, 1, design.n_rows, design.n_columns, None)


def _cut(
    design: Design, labels: Labels, tasks: Sequence[slice], features: IntArray | None, weights: Array | None
) -> list[Piece]:
    groups: list[list[tuple[int, slice]]] = []
    room = 0
    # Large tasks are cut, for the cache; small ones share a block, as each block is a pass over the columns.
    for task, whole in enumerate(tasks):
        for start in range(whole.start, whole.stop, MOST_ROWS):
            rows = slice(start, min(start + MOST_ROWS, whole.stop))
            if room < rows.stop - rows.start or not design.joins:
                groups.append([])
                room = MOST_ROWS
            groups[-1].append((task, rows))
            room -= rows.stop - rows.start
    return [_piece(design, labels, group, features, weights) for group in groups]


def _piece(
    design: Design, labels: Labels, group: list[tuple[int, slice]], features: IntArray | None, weights: Array | None
) -> Piece:
    ranges = [rows for _, rows in group]
    edges = [0, *accumulate(rows.stop - rows.start for rows in ranges)]
    parts = tuple((task, slice(*edge)) for (task, _), edge in zip(group, pairwise(edges), strict=True))
    piece_weights = None if weights is None else np.concatenate([weights[rows] for rows in ranges])
    return Piece(
        design.block(ranges, features), np.concatenate([labels[rows] for rows in ranges]), parts, piece_weights
    )
