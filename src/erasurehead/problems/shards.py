"""The part of a linear problem that one worker holds: blocks of rows with their labels, over the columns they touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.problems.base import Shard
from erasurehead.problems.blocks import Block
from erasurehead.problems.designs import Design
from erasurehead.problems.losses import Labels, SampleLoss

_MOST_ROWS = 32_768  # of a block: so that its margins, in float64, stay in the second-level cache


@final
@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a task.

    Arguments:
        task: number of the task within the shard.
        block: the rows.
        labels: of the rows, shape (n_rows,).
    """

    task: int
    block: Block
    labels: Labels


@final
class LinearShard(Shard):
    """The tasks of a linear model that one worker holds.

    Arguments:
        sample_loss: the loss of one sample.
        pieces: the rows of the tasks, in the order in which they are added up.
        n_tasks: number of tasks.
        n_samples: of the whole problem; losses are divided by it.
        support: the parameters that the pieces' columns stand for, shape (n_outputs * n_columns,), or None.
    """

    def __init__(
        self,
        sample_loss: SampleLoss,
        pieces: Sequence[Piece],
        n_tasks: int,
        n_samples: int,
        support: IntArray | None,
    ) -> None:
        self.sample_loss = sample_loss
        self.pieces = tuple(pieces)
        self.n_tasks = n_tasks
        self.n_samples = n_samples
        self.support = support

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        weights = self._rows(local)
        total = out.reshape(weights.shape)
        total[:] = 0.0
        loss = 0.0
        # A model that has run away overflows here: the coordinator refuses what comes of it, and names it.
        with np.errstate(over="ignore", invalid="ignore"):
            for piece, scale in self._weighted(coefficients):
                margins, part = self._differentiate(piece, weights, scale)
                piece.block.add_transposed(margins, total)
                loss += part
        return loss

    def loss(self, local: Array, coefficients: Array) -> float:
        """Return what `combine` returns, without the gradient."""
        weights = self._rows(local)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [self._differentiate(piece, weights, scale)[1] for piece, scale in self._weighted(coefficients)]
        return sum(parts)

    def margins(self, local: Array) -> Array:
        """Return the margins of all rows, task by task, shape (n_outputs, n_rows)."""
        weights = self._rows(local)
        parts = [np.empty((len(weights), len(piece.labels))) for piece in self.pieces]
        for piece, part in zip(self.pieces, parts, strict=True):
            piece.block.multiply(weights, part)
        return np.concatenate(parts, axis=1)

    def scores(self, local: Array) -> dict[str, float]:
        """Return the quality of the margins by name."""
        labels = np.concatenate([piece.labels for piece in self.pieces])
        with np.errstate(over="ignore", invalid="ignore"):
            return self.sample_loss.scores(self.margins(local), labels)

    def _rows(self, local: Array) -> Array:
        return np.ascontiguousarray(local, dtype=np.float64).reshape(self.sample_loss.n_outputs, -1)

    def _weighted(self, coefficients: Array) -> Iterable[tuple[Piece, float]]:
        scales = [float(coefficient) / self.n_samples for coefficient in coefficients]
        return ((piece, scales[piece.task]) for piece in self.pieces if scales[piece.task] != 0.0)

    def _differentiate(self, piece: Piece, weights: Array, scale: float) -> tuple[Array, float]:
        margins = np.empty((len(weights), len(piece.labels)))
        piece.block.multiply(weights, margins)
        loss = self.sample_loss.differentiate(margins, piece.labels, scale)
        return margins, loss


def build_shard(design: Design, labels: Labels, sample_loss: SampleLoss, tasks: Sequence[slice]) -> LinearShard:
    """Return a shard of the given ranges of rows, one a task, over the columns that they touch.

    Arguments:
        design: all rows.
        labels: of all rows, shape (n_rows,).
        sample_loss: the loss of one sample.
        tasks: ranges of rows, none of them empty.
    """
    features = design.support(tasks)
    pieces = _cut(design, labels, tasks, features)
    if features is None:
        return LinearShard(sample_loss, pieces, len(tasks), design.n_rows, None)
    outputs = np.arange(sample_loss.n_outputs)[:, None]
    support = (outputs * design.n_columns + features).ravel()
    return LinearShard(sample_loss, pieces, len(tasks), design.n_rows, support)


def hold_rows(design: Design, labels: Labels, sample_loss: SampleLoss) -> LinearShard:
    """Return all rows as a shard of one task, over all columns."""
    pieces = _cut(design, labels, [slice(0, design.n_rows)], None)
    return LinearShard(sample_loss, pieces, 1, design.n_rows, None)


def _cut(design: Design, labels: Labels, tasks: Sequence[slice], features: IntArray | None) -> list[Piece]:
    return [
        Piece(task, design.block(rows, features), labels[rows])
        for task, whole in enumerate(tasks)
        for rows in _short(whole)
    ]


def _short(rows: slice) -> list[slice]:
    starts = range(rows.start, rows.stop, _MOST_ROWS)
    return [slice(low, min(low + _MOST_ROWS, rows.stop)) for low in starts]
