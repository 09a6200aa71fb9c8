"""The messages of one step, looked through once: who lies, who cannot be distinguished, and what is left decodes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoder, Decoding, as_messages
from erasurehead.decoding.choice import make_decoder
from erasurehead.errors import NotLocated, check_count, invalid
from erasurehead.faults.byzantine.examination import NOT_FINITE
from erasurehead.faults.byzantine.verifier import Verifier


@dataclass(frozen=True, eq=False)
class Inspection:
    """What was found in the messages of a step.

    Arguments:
        suspects: workers whose messages are wrong, ascending.
        undecided: sets of workers whose equal messages differ, with no majority to say who is right.
        decoding: of the messages that are left: neither suspects' nor undecided ones'.
        error: bound of what lies too small to be seen do to the decoded gradient, relative to the length of a sum of
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

    One look of a `Verifier` that knows nothing of the workers yet. Whoever is named lies, if there are no more liars
    than `corrupted`; whatever cannot be told at the precision of the messages is said, and not guessed.

    Arguments:
        code: any code.
        messages: those that are in.
        vectors: what each says, in the order of `messages`, all in the same positions; or their `Fingerprints`.
        corrupted: workers that may lie, at most. If None: what the code was built for (`structure.corrupted`), else for
            replicas any majority of two or more is right, for other codes half of the tolerance, at least 1; no more
            than those that are in can tell.
        tolerance: relative size of differences that pass for rounding errors; if None 1e-11 for float64, 1e-4 for
            float32 and 1e-2 for shorter numbers, and 1e-9 for float64 replicas.
        decoder: decodes what is left; `make_decoder(code)` if None.
        seed: of the projections of the vectors.

    Returns:
        Suspects, undecided contradictions (replicas only), and the decoding.

    Raises:
        InvalidArgument: vectors and messages do not go together.
        NotLocated: the messages contradict each other, and who lies cannot be told: no `corrupted` workers explain it,
            or several sets of them do, or lies within the rounding would matter.

    Source: Chen, Wang, Charles, Papailiopoulos, arXiv 1803.09877 (DRACO): majority vote and cyclic code.

    >>> from erasurehead.codes import draco_repetition
    >>> code = draco_repetition(6, corrupted=1)
    >>> said = code.encoding @ np.arange(12.0).reshape(6, 2)
    >>> said[4] += 1.0
    >>> inspect(code, range(6), said).suspects.tolist()
    [4]
    """
    order = as_messages(messages)
    said = dict(zip(order.tolist(), _rows(order, vectors), strict=True))
    limit = None if corrupted is None else check_count("corrupted", corrupted, at_least=0)
    verifier = Verifier(code, tolerance=tolerance, corrupted=limit or None, seed=seed)
    found = verifier.examine(said, said.__getitem__)
    mad = {int(code.owner[message]) for message, why in found.refused.items() if why == NOT_FINITE}
    unlocated = [one for one in found.undecided if not one.equal]
    if unlocated or (limit == 0 and found.accused):
        why = unlocated[0].why if unlocated else "the messages contradict each other, and no worker may lie"
        raise NotLocated(
            f"The liars cannot be located: {why}. Wait for more messages, or use a code with more redundancy"
            " (draco_repetition, or draco_cyclic with a larger `corrupted`).",
            found.accused,
            (worker for one in unlocated for worker in one.workers),
        )
    suspects = np.array(sorted(mad | found.accused.keys()), dtype=np.int64)
    undecided = tuple(np.array(one.workers, dtype=np.int64) for one in found.undecided)
    left = order[~np.isin(code.owner[order], np.concatenate([suspects, *undecided]))]
    decoding = (make_decoder(code) if decoder is None else decoder).decode(np.sort(left))
    return Inspection(suspects, undecided, decoding, found.error)


def _rows(messages: IntArray, vectors: Sequence[Array] | Array) -> list[Array]:
    """Return the vectors, if they go with the messages."""
    if len(vectors) != len(messages):
        raise invalid("vectors", f"must be one for each of the {len(messages)} messages", len(vectors))
    if len(np.unique(messages)) < len(messages):
        raise invalid("messages", "must name every message at most once", messages.tolist())
    rows = [np.asarray(vector) for vector in vectors]
    shapes = {row.shape for row in rows}
    if rows and (len(shapes) > 1 or rows[0].ndim != 1 or not rows[0].size):
        raise invalid("vectors", "must all have the same length, at least 1", sorted(shapes))
    return [row if np.issubdtype(row.dtype, np.floating) else row.astype(np.float64) for row in rows]
