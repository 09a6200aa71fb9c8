"""One inspection of the messages of a step: which workers lie, which may, and what the other messages decode to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode
from erasurehead.decoding import Decoder, make_decoder
from erasurehead.decoding._base import Decoding, as_messages
from erasurehead.errors import Unreachable, check_count, invalid
from erasurehead.faults._byzantine.examination import NOT_FINITE
from erasurehead.faults._byzantine.verifier import Verifier


class NotLocated(Unreachable):
    """Messages contradict each other, and which of the workers lie cannot be determined.

    Attributes:
        guilty: workers that certainly lie.
        suspected: workers that may lie.
    """

    def __init__(self, text: str, guilty: Iterable[int] = (), suspected: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.guilty, self.suspected = tuple(guilty), tuple(suspected)


@dataclass(frozen=True, eq=False)
class Inspection:
    """The result of inspecting the messages of a step.

    Arguments:
        suspects: workers whose messages are wrong, ascending.
        undecided: sets of workers whose equal messages differ, without a majority that decides who is right.
        decoding: decoding of the remaining messages: neither suspects' nor undecided workers'.
        error: bound on the effect of undetectably small lies on the decoded gradient, relative to the norm of a sum of
            independent partial gradients.
    """

    suspects: IntArray
    undecided: tuple[IntArray, ...]
    decoding: Decoding
    error: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing contradicts anything."""
        return not len(self.suspects) and not self.undecided


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

    This is one examination by a `Verifier` that knows nothing about the workers yet. Workers that it names do lie, if
    there are no more liars than `corrupted`; what cannot be decided at the precision of the messages is reported, not
    guessed.

    Arguments:
        code: any code.
        messages: rows of the messages that have arrived.
        vectors: their vectors, in the order of `messages`, all with the same coordinates.
        corrupted: the most workers that may lie. If None: what the code was built for (`structure.corrupted`); without
            that, for replicas any majority of two or more is right, and for other codes half of the tolerance, at least
            1; never more than the arrived messages can tell.
        tolerance: relative size of differences that count as rounding errors; if None, 1e-11 for float64, 1e-4 for
            float32 and 1e-2 for shorter numbers, and 1e-9 for float64 replicas.
        decoder: decodes the remaining messages; `make_decoder(code)` if None.
        seed: seed of the projections of the vectors.

    Returns:
        Suspects, undecided contradictions (replicas only), and the decoding.

    Raises:
        InvalidArgument: if vectors and messages do not match.
        NotLocated: if the messages contradict each other, and it cannot be told who lies: no set of `corrupted` workers
            explains it, or several sets do, or lies within rounding errors would matter.

    Source: Chen, Wang, Charles, Papailiopoulos, arXiv 1803.09877 (DRACO): majority vote and cyclic code.

    >>> from erasurehead.codes._draco import draco_repetition
    >>> code = draco_repetition(6, corrupted=1)
    >>> vectors = code.encoding @ np.arange(12.0).reshape(6, 2)
    >>> vectors[4] += 1.0
    >>> inspect(code, range(6), vectors).suspects.tolist()
    [4]
    """
    order = as_messages(messages, code)
    by_message = dict(zip(order.tolist(), _rows(order, vectors), strict=True))
    limit = None if corrupted is None else check_count("corrupted", corrupted, at_least=0)
    verifier = Verifier(code, tolerance=tolerance, corrupted=limit or None, seed=seed)
    examination = verifier.examine(by_message, by_message.__getitem__)
    mad = {int(code.owner[message]) for message, why in examination.refused.items() if why == NOT_FINITE}
    unlocated = [one for one in examination.undecided if not one.equal]
    if unlocated or (limit == 0 and examination.accused):
        why = unlocated[0].why if unlocated else "the messages contradict each other, and no worker may lie"
        raise NotLocated(
            f"The liars cannot be located: {why}. Wait for more messages, or use a code with more redundancy"
            " (draco_repetition, or draco_cyclic with a larger `corrupted`).",
            examination.accused,
            (worker for one in unlocated for worker in one.workers),
        )
    suspects = np.array(sorted(mad | examination.accused.keys()), dtype=np.int64)
    undecided = tuple(np.array(one.workers, dtype=np.int64) for one in examination.undecided)
    left = order[~np.isin(code.owner[order], np.concatenate([suspects, *undecided]))]
    decoding = (make_decoder(code) if decoder is None else decoder).decode(np.sort(left))
    return Inspection(suspects, undecided, decoding, examination.error)


def _rows(messages: IntArray, vectors: Sequence[Array] | Array) -> list[Array]:
    """Return the vectors, if they match the messages."""
    if len(vectors) != len(messages):
        raise invalid("vectors", f"must be one for each of the {len(messages)} messages", len(vectors))
    if len(np.unique(messages)) < len(messages):
        raise invalid("messages", "must name every message at most once", messages.tolist())
    rows = [np.asarray(vector) for vector in vectors]
    shapes = {row.shape for row in rows}
    if rows and (len(shapes) > 1 or rows[0].ndim != 1 or not rows[0].size):
        raise invalid("vectors", "must all have the same length, at least 1", sorted(shapes))
    return [row if np.issubdtype(row.dtype, np.floating) else row.astype(np.float64) for row in rows]
