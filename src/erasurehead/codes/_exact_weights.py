"""All weights that decode all messages of a code exactly, from which weights without erased messages follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.factors import least_squares, svd
from erasurehead.codes._base import GradientCode
from erasurehead.codes._exactness import DENSE, EXACT

ComplexArray = NDArray[np.complex128]

_RANK = 1e-11
_LOST = 1e-3  # error beyond which weights that were found recursively are useless
_VANISHES = 1e-13  # of a generator's largest spectral value: below it, values are rounding errors of zero
_SPARED = 1e-4  # of the largest weight: what may be left on messages that are not needed
_ALIKE = 1e-9  # of a generator's largest coefficient: largest difference of rows that count as shifts of each other


class Solved(NamedTuple):
    """Exact weights that vanish on erased messages, as far as possible."""

    weights: Array
    """The weights, for rows scaled to norm one, shape (n_pieces, n_messages); 0 for the erased messages."""
    left: float
    """The largest weight that the erased messages would have needed: 0 up to rounding if the rest decodes."""
    square: float
    """The squared norm of all weights."""


class ExactWeights(ABC):
    """All exact weights of all messages: `base + anything @ null`, for rows scaled to norm one.

    Attributes:
        base: the weights of least norm, shape (n_pieces, n_messages).
        lengths: norms of the rows, shape (n_messages,); 0 for an empty row.
        nullity: dimension of the weights that decode to zero.
        sharp: whether decoding uses these weights, so that their residual is that of a decoding.
    """

    base: Array
    lengths: Array
    nullity: int
    sharp: bool = True

    @abstractmethod
    def null_at(self, messages: IntArray) -> Array:
        """Return the columns of `null` at some messages, shape (nullity, k)."""

    @abstractmethod
    def combined(self, mix: Array) -> Array:
        """Return `mix @ null`, shape (n_pieces, n_messages), for a mix of shape (n_pieces, nullity)."""

    def without(self, erased: IntArray) -> Solved:
        """Return the exact weights of least norm that do not use some messages."""
        weights = self.base
        square = float((weights**2).sum())
        if not len(erased):
            return Solved(weights, 0.0, square)
        if self.nullity:
            mix = np.asarray(least_squares(self.null_at(erased).T, -weights[:, erased].T).solution.T, dtype=np.float64)
            weights = weights + self.combined(mix)
            square += float((mix**2).sum())
        else:
            weights = weights.copy()
        left = float(np.abs(weights[:, erased]).max())
        weights[:, erased] = 0.0
        return Solved(weights, left, square)

    def amplification(self, erased: IntArray, size: int) -> float:
        """Return how much the weights without some messages amplify rounding; inf if these messages are needed.

        Arguments:
            erased: the messages that are not used.
            size: number of the code's columns.
        """
        square = float((self.base**2).sum())
        if len(erased):
            wanted, bearable = -self.base[:, erased].T, _SPARED * float(np.abs(self.base).max())
            if self.nullity:
                # Only the norm of the mix and its residual are needed, not the mix: a small triangle gives both.
                null = self.null_at(erased)
                table = np.asarray(np.linalg.qr(null, mode="r"), dtype=np.float64).T
                cutoff = float(np.finfo(np.float64).eps) * max(null.shape)
                mix = np.asarray(least_squares(table, wanted, cutoff).solution, dtype=np.float64)
                square += float((mix**2).sum())
                wanted = wanted - table @ mix
            if float(np.abs(wanted).max()) > bearable:
                return np.inf
        return float(np.sqrt(square / size))


@final
class _Dense(ExactWeights):
    def __init__(self, base: Array, null: Array, lengths: Array) -> None:
        self.base = base
        self.lengths = lengths
        self.null = null
        self.nullity = len(null)

    def null_at(self, messages: IntArray) -> Array:
        return self.null[:, messages]

    def combined(self, mix: Array) -> Array:
        return np.asarray(mix @ self.null, dtype=np.float64)


def dense_weights(code: GradientCode) -> ExactWeights | None:
    """Return all exact weights of a code by a singular value decomposition, or None if there are none."""
    rows = code.encoding.toarray()
    lengths = np.sqrt(np.einsum("mt,mt->m", rows, rows))
    rows = np.divide(rows, lengths[:, None], out=np.zeros_like(rows), where=lengths[:, None] > 0)
    left, values, right = svd(rows, full=len(rows) > len(rows[0]))
    rank = int((values > _RANK * values[0]).sum()) if len(values) else 0
    base = (code.target @ right[:rank].T / values[:rank]) @ left[:, :rank].T
    error = base @ rows - code.target
    if float(np.einsum("pt,pt->", error, error)) > EXACT * code.n_tasks * code.n_pieces:
        return None
    return _Dense(base, left[:, rank:].T, lengths)


def banded_weights(code: GradientCode, coefficients: Array) -> ExactWeights | None:
    """Return all exact weights of a cyclic code in time linear in its size, or None if rounding makes them useless.

    They are good enough to find how much they amplify rounding, but not for decoding. Once the weights of s
    neighbours are chosen, each task gives the weight of the next worker.

    Arguments:
        code: worker i holds tasks i, i + 1, ..., i + s around the circle.
        coefficients: coefficients of each worker, the first one is 1, shape (n_workers, s + 1).
    """
    from scipy.linalg import lapack  # only codes like these need it, and it takes a twentieth of the start of a command

    n, width = coefficients.shape
    s = width - 1
    table = np.zeros((n, s + 1), order="F")  # the weights for each choice of the first s, and with all of them zero
    table[:s, :s] = np.eye(s)
    table[s:, s] = 1.0
    band = coefficients.T.copy()  # a triangle: the diagonal, and what is below it
    for below in range(1, s + 1):
        band[below, : s - below] = 0.0
    table = lapack.dtbtrs(band, table, uplo="L", diag="U", overwrite_b=1)[0]
    lengths = np.sqrt(np.einsum("wc,wc->w", coefficients, coefficients))
    table *= lengths[:, None]
    if not np.isfinite(table).all():
        return None
    null = np.linalg.qr(table[:, :s])[0].T
    base = table[:, s] - (table[:, s] @ null.T) @ null
    counted = code.encoding.T @ (base / lengths)
    if float(np.abs(counted - 1.0).max(initial=0.0)) > _LOST:
        return None
    weights = _Dense(base[None, :], null, lengths)
    weights.sharp = False
    return weights


@final
class _Waves(ExactWeights):
    """Weights of codes whose rows are shifts of one row: waves around the circle of workers, frequency by frequency.

    Only matrices as small as the two parts of a complex message are decomposed, so that the condition of the code
    does not matter, and nothing larger than the code is stored.

    Arguments:
        owner, part: worker of each message, and its part: 0 real, 1 imaginary.
        base: weight of all real and of all imaginary parts, shape (parts,).
        lengths: norms of the rows, shape (n_messages,).
        turns: frequency of each wave, shape (nullity,).
        heights: complex amplitude of each wave for each part, shape (nullity, parts).
    """

    def __init__(
        self, owner: IntArray, part: IntArray, base: Array, lengths: Array, turns: IntArray, heights: ComplexArray
    ) -> None:
        self.n = int(owner.max()) + 1
        self.owner = owner
        self.part = part
        self.base = base[part][None, :]
        self.lengths = lengths
        self.turns = turns
        self.heights = heights
        self.nullity = len(turns)
        self._points: ComplexArray = np.exp(2j * np.pi * np.arange(self.n) / self.n)

    def null_at(self, messages: IntArray) -> Array:
        points = self._points[np.multiply.outer(self.turns, self.owner[messages]) % self.n]
        return (self.heights[:, self.part[messages]] * points).real

    def combined(self, mix: Array) -> Array:
        spectrum = np.zeros((self.heights.shape[1], self.n), dtype=np.complex128)
        for part, heights in enumerate(self.heights.T):
            np.add.at(spectrum[part], self.turns, mix[0] * heights)
        waves = (np.fft.ifft(spectrum, axis=1) * self.n).real
        return waves[self.part, self.owner][None, :]


def shifted_weights(code: GradientCode) -> ExactWeights | None:
    """Return all exact weights of a code whose rows are shifts of one row (`Structure.shift`); otherwise None.

    The Fourier transform of a shifted row is that of the row times a phase: so each frequency of the weights has
    equations of its own, with one or two unknowns.
    """
    generator = _generator(code)
    if generator is None:
        return None
    n, n_tasks, n_parts = code.n_workers, code.n_tasks, len(generator)
    sizes = np.sqrt(np.einsum("pt,pt->p", generator, generator))
    spectrum = np.fft.fft(generator / sizes[:, None], axis=1).T  # (n_tasks, parts)
    # Weights of frequency q meet the frequencies f of the tasks with f * replication = q around the workers' circle.
    replication = n * (code.structure.shift or 0) // n_tasks
    meets = np.arange(n_tasks) * replication % n
    order = np.argsort(meets, kind="stable")
    rank = np.arange(n_tasks) - np.searchsorted(meets[order], meets[order])
    equations = np.zeros((n, int(rank.max()) + 1, n_parts), dtype=np.complex128)
    equations[meets[order], rank] = spectrum[order]
    whole = np.concatenate([equations[0].real, equations[0].imag])
    wanted = np.zeros(len(whole))
    wanted[0] = n_tasks
    total = least_squares(whole, wanted).solution
    if float(np.abs(whole @ total - wanted).max()) > 1e-9 * n_tasks:
        return None
    turns: list[IntArray] = []
    heights: list[ComplexArray] = []
    least = _VANISHES * float(np.abs(spectrum).max())
    half = [0, n // 2] if n % 2 == 0 and n > 1 else [0]  # their waves are real
    for turn in half:
        table = np.concatenate([equations[turn].real, equations[turn].imag])
        _, values, right = svd(table, full=True)
        kept = right[int((values > least).sum()) :].astype(np.complex128) / np.sqrt(n)
        turns.append(np.full(len(kept), turn, dtype=np.int64))
        heights.append(kept)
    others = np.arange(1, (n + 1) // 2)
    _, values, right = svd(equations[others], full=True)
    missing = n_parts - (values > least).sum(axis=1)
    for number in range(n_parts):
        here = missing > number
        vectors = right[here, n_parts - 1 - number].conj() * np.sqrt(2 / n)
        for phase in (1.0, 1j):
            turns.append(others[here])
            heights.append(vectors * phase)
    part = code.complex_part
    return _Waves(code.owner, part, total / n, sizes[part], np.concatenate(turns), np.concatenate(heights))


def _generator(code: GradientCode) -> Array | None:
    """Return the real and the imaginary part of the row that all others are shifts of, shape (parts, n_tasks)."""
    shift, n = code.structure.shift, code.n_workers
    if not isinstance(shift, int) or code.n_pieces != 1 or code.n_messages % n:
        return None
    part, n_parts = code.complex_part, code.n_messages // n
    if n_parts > 2 or (np.bincount(code.owner * n_parts + np.minimum(part, n_parts - 1)) != 1).any():
        return None
    encoding = code.encoding
    message = np.repeat(np.arange(code.n_messages), np.diff(encoding.indptr))
    place = (encoding.indices - code.owner[message] * shift) % code.n_tasks
    first = code.owner[message] == 0
    generator = np.zeros((n_parts, code.n_tasks))
    generator[part[message[first]], place[first]] = encoding.data[first]
    apart = np.abs(generator[part[message], place] - encoding.data)
    if float(apart.max()) > _ALIKE * float(np.abs(generator).max()):
        return None
    return generator


def exact_weights(code: GradientCode) -> ExactWeights | None:
    """Return all exact weights of a code, or None if it has none or they are too expensive to compute.

    Arguments:
        code: any code.
    """
    if code.name == "refine" and code.inner:
        return exact_weights(code.inner[0])  # weights that count each task once count its parts once
    if code.structure.shift is not None:
        return shifted_weights(code)
    if code.n_messages <= min(DENSE, 2 * code.encoding.shape[1]):
        return dense_weights(code)
    return None
