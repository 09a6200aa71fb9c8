"""Messages that are wrong rather than late: replicas that disagree are named, liars are located and outvoted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoder, Decoding, as_messages
from erasurehead.decoding.choice import for_code
from erasurehead.decoding.locating import fourier_checks, locate_by_fourier, locate_by_null_space, too_many
from erasurehead.errors import check_count, invalid
from erasurehead.streams import stream

_NUMBERS = 8  # in a fingerprint


@dataclass(frozen=True, eq=False)
class Inspection:
    """What was found in the messages of a step.

    Arguments:
        suspects: workers whose messages are wrong, ascending.
        undecided: sets of workers that contradict each other, with no majority to say who is right.
        decoding: of the messages that are left: neither suspects' nor undecided ones'.
    """

    suspects: IntArray
    undecided: tuple[IntArray, ...]
    decoding: Decoding

    @property
    def clean(self) -> bool:
        """Whether nothing contradicts anything."""
        return not len(self.suspects) and not self.undecided


@final
class Fingerprints:
    """A few random projections of long vectors: linear, so that codes hold on them as on the vectors themselves.

    Two different vectors have different fingerprints, up to coincidences of probability zero. Messages that carry only
    a part of the positions are projected in place, without being spread out.

    Arguments:
        length: of the full vectors (of one piece).
        seed: of the projections. Who knows it can make lies that they do not see.
    """

    def __init__(self, length: int, seed: int = 0) -> None:
        self.length = check_count("length", length)
        self._projections = stream("fingerprints", seed).standard_normal((length, _NUMBERS))

    def of(self, vector: Array, positions: IntArray | None = None) -> Array:
        """Return the fingerprint of a vector, shape (8,).

        Arguments:
            vector: shape (length,), or (len(positions),).
            positions: where in the full vector its entries belong; all if None.
        """
        rows = self._projections if positions is None else self._projections[positions]
        if vector.shape != (len(rows),):
            raise invalid("vector", f"must have {len(rows)} entries", vector.shape)
        return np.asarray(vector, dtype=np.float64) @ rows


def inspect(
    code: GradientCode,
    messages: Iterable[int],
    vectors: Sequence[Array] | Array,
    *,
    corrupted: int | None = None,
    tolerance: float | None = None,
    decoder: Decoder | None = None,
    seed: int = 0,
) -> Inspection:
    """Look for corrupted messages, and decode without them.

    Replicas (`fractional_repetition`, `draco_repetition`, ...) are compared with each other. Cyclic Fourier codes
    (`draco_cyclic`, `cyclic_mds`) locate liars by their syndromes, all other codes by the part of the messages that no
    gradients explain. With at most `corrupted` liars, and redundancy 2 `corrupted` + 1 among those who answered, the
    decoding is that of honest messages.

    Arguments:
        code: any code.
        messages: those that are in.
        vectors: what each says, in the order of `messages`, all in the same positions; or their `Fingerprints`.
        corrupted: workers that may lie, at most. If None: what the code was built for (label `corrupted`), else for
            replicas any minority, for other codes half of its tolerance.
        tolerance: relative size of differences that pass for rounding errors; the square root of the dtype's
            resolution if None (1.5e-8 for float64, 3.5e-4 for float32).
        decoder: decodes what is left; `for_code(code)` if None.
        seed: of the projections of long vectors.

    Returns:
        Suspects, undecided contradictions (replicas only), and the decoding.

    Raises:
        InvalidArgument: vectors and messages do not go together.
        Unreachable: the messages contradict each other, and no `corrupted` workers explain it.

    Source: Chen, Wang, Charles, Papailiopoulos, arXiv 1803.09877 (DRACO): majority vote and cyclic code.

    >>> from erasurehead.codes import draco_repetition
    >>> code = draco_repetition(6, corrupted=1)
    >>> said = code.encoding @ np.arange(12.0).reshape(6, 2)
    >>> said[4] += 1.0
    >>> inspect(code, range(6), said).suspects.tolist()
    [4]
    """
    order = as_messages(messages)
    table, slack = _table(order, vectors, seed)
    if len(np.unique(order)) < len(order):
        raise invalid("messages", "must name every message at most once", order.tolist())
    table, order = table[np.argsort(order)], np.sort(order)
    tolerance = slack if tolerance is None else tolerance
    decoder = for_code(code) if decoder is None else decoder
    if corrupted is None and "corrupted" in code.labels:
        corrupted = int(np.asarray(code.labels["corrupted"]))
    mad = np.unique(code.owner[order[~np.isfinite(table).all(axis=1)]])
    sane = ~np.isin(code.owner[order], mad)
    if code.replicas:
        found, undecided = _vote(code, order[sane], table[sane], corrupted, tolerance)
    else:
        limit = (code.tolerance or 0) // 2 if corrupted is None else check_count("corrupted", corrupted, at_least=0)
        found, undecided = _locate(code, order[sane], table[sane], limit, tolerance), ()
    suspects = np.union1d(mad, found).astype(np.int64)
    out = np.concatenate([suspects, *undecided])
    left = order[~np.isin(code.owner[order], out)]
    return Inspection(suspects, undecided, decoder.decode(left))


def _table(messages: IntArray, vectors: Sequence[Array] | Array, seed: int) -> tuple[Array, float]:
    """Return the vectors, or their fingerprints if they are long, as rows; and the resolution of their numbers."""
    if len(vectors) != len(messages):
        raise invalid("vectors", f"must be one for each of the {len(messages)} messages", len(vectors))
    rows = [np.asarray(vector) for vector in vectors]
    if not rows:
        return np.zeros((0, 1)), 1e-8
    if len({row.shape for row in rows}) > 1 or rows[0].ndim != 1 or not rows[0].size:
        raise invalid("vectors", "must all have the same length, at least 1", sorted({row.shape for row in rows}))
    kind = rows[0].dtype if np.issubdtype(rows[0].dtype, np.floating) else np.dtype(np.float64)
    slack = float(np.sqrt(np.finfo(kind.name).eps))
    if rows[0].size <= 2 * _NUMBERS:
        return np.array(rows, dtype=np.float64), slack
    prints = Fingerprints(rows[0].size, seed)
    with np.errstate(invalid="ignore"):  # infinities are dealt with by the caller
        return np.array([prints.of(row) for row in rows]), slack


def _vote(
    code: GradientCode, messages: IntArray, table: Array, corrupted: int | None, tolerance: float
) -> tuple[IntArray, tuple[IntArray, ...]]:
    """Compare equal messages: who is outvoted, and who contradict each other without a majority."""
    assert code.groups is not None
    suspects: list[int] = []
    undecided: list[IntArray] = []
    for group in np.unique(code.groups[messages]):
        here = np.flatnonzero(code.groups[messages] == group)
        size = float(np.median(np.linalg.norm(table[here], axis=1)))
        apart = np.linalg.norm(table[here][:, None] - table[here][None], axis=2)
        agree = (apart <= tolerance * size).sum(axis=1)
        if agree.min() == len(here):
            continue
        needed = len(here) // 2 + 1 if corrupted is None else corrupted + 1
        winner = int(np.argmax(agree))
        others = here[apart[winner] > tolerance * size]
        if agree[winner] < needed or agree[apart[winner] > tolerance * size].max() >= agree[winner]:
            undecided.append(np.unique(code.owner[messages[here]]))
        else:
            suspects.extend(code.owner[messages[others]].tolist())
    return np.unique(np.array(suspects, dtype=np.int64)), tuple(undecided)


def _locate(code: GradientCode, messages: IntArray, table: Array, limit: int, tolerance: float) -> IntArray:
    # A huge lie hides a small one behind its own rounding errors: look again without the liars that were found.
    suspects = np.zeros(0, dtype=np.int64)
    checks = fourier_checks(code)
    while len(messages):
        if checks is None:
            found = locate_by_null_space(code, messages, table, limit - len(suspects), tolerance)
        else:
            found = locate_by_fourier(code, checks, messages, table, limit - len(suspects), tolerance)
        if not len(found):
            break
        suspects = np.union1d(suspects, found)
        if len(suspects) > limit:
            raise too_many(limit)
        honest = ~np.isin(code.owner[messages], suspects)
        messages, table = messages[honest], table[honest]
    return suspects.astype(np.int64)
