"""The kinds of orders, and what all who handle an order need to know of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from erasurehead._internal.arrays import Array
from erasurehead.engines import Order

CURVATURE = "curvature"
"""The kind of order that asks for curvatures along the parameters beside gradients: see `Shard.curvature`. It is also
the key of the note of an order of kind `"early"` that asks for them, too."""

BLOCK = "block"
"""Key of the note of an order of kind `"curvature"` or `"early"` that asks for second derivatives between columns, too,
which follow all else: see `Shard.block`. Its points are the model and the marks. With it stands a mapping: the
`numbers` that these are, whether they are `coupled`, and the `work` of summing them, as a multiple of a gradient's."""

EARLY = "early"
"""The kind of order for which a few arrivals are enough. Its note says for how many arrivals to wait (see
`wait_rules.early`), and whether curvatures are asked for, too."""

NEWTON = "newton"
"""The kind of order that asks each worker for a Newton step of its own tasks, of which a few are enough: its points are
the model and a vector. Its note says for how many arrivals to wait and how long at most (see `wait_rules.early`), and
what `Shard.newton_step` is to be told."""

OWN_MODEL = "own_model"
"""Key of the note of an order of kind `"early"` that also asks each worker for a model that is better for its own
tasks, as if all data were like theirs, and for the gradient there: two vectors behind gradient and curvature. With it
stands a mapping: so many Newton `steps`, each of so many `iterations`; the `damping` that the penalty adds to the
curvature, and the `share` of all data that a message is of. No tasks are counted twice: what a message says is of its
own tasks alone, and takes the place of what was known of them, whichever of their workers sent it."""

LATE_PARTS = "late_parts"
"""Key of the note of an order of kind `"early"` whose late answers are wanted, too: see `Answer.late_parts`."""


@dataclass(frozen=True)
class OrderKind:
    """What is to be known of a kind of order.

    Attributes:
        few: whether a few arrivals are enough, so that what each message says of its own tasks is wanted
            (`Answer.parts`), no task is neglected where it is not counted, and a scheme's own aggregation, which is
            made for more, is not asked.
        sums: whether messages are sums over tasks, of which an estimate of the gradient can be made.
        curvatures: whether a curvature follows the gradient in each message, unless the order's note says otherwise.
    """

    few: bool = False
    sums: bool = True
    curvatures: bool = False


_KINDS: Mapping[str, OrderKind] = {
    CURVATURE: OrderKind(curvatures=True),
    EARLY: OrderKind(few=True),
    NEWTON: OrderKind(few=True, sums=False),
}
_ORDINARY = OrderKind()


def kind_of(kind: str) -> OrderKind:
    """Return what is to be known of a kind of order; kinds of a user's own are as `"gradient"` is."""
    return _KINDS.get(kind, _ORDINARY)


def is_plain(order: Order) -> bool:
    """Return whether an order asks for gradients and nothing else, by the messages that programs announce."""
    return not order.note and order.kind not in _KINDS


def asks_curvature(order: Order) -> bool:
    """Return whether the messages that answer an order hold two vectors: a gradient, followed by a curvature."""
    return bool(order.note.get(CURVATURE, kind_of(order.kind).curvatures))


def asks_more(order: Order) -> bool:
    """Return whether messages that answer an order are longer, or more work, than those with a gradient alone."""
    return order.kind == NEWTON or asks_curvature(order) or bool(block_of(order)) or OWN_MODEL in order.note


def vectors_of(order: Order) -> int:
    """Return how many vectors of a gradient's length a message begins with that answers an order."""
    return 1 + asks_curvature(order) + 2 * (OWN_MODEL in order.note)


def block_of(order: Order) -> Mapping[str, float]:
    """Return what an order says of the second derivatives that it asks for; nothing if it asks for none."""
    return order.note.get(BLOCK) or {}


def models_of(order: Order) -> tuple[Array, ...]:
    """Return the models at which an order asks for gradients: its points, without those that are no models."""
    return order.points[:1] if order.kind == NEWTON or block_of(order) else order.points


def sections(vector: Array, n_vectors: int, length: int) -> list[Array]:
    """Return the vectors that a message holds: a gradient, perhaps others, and perhaps a block.

    Arguments:
        vector: what the message holds.
        n_vectors: how many vectors of a gradient's length it begins with.
        length: that length.
    """
    ends = [length * (place + 1) for place in range(n_vectors)]
    return [vector[end - length : end] for end in ends] + ([vector[ends[-1] :]] if len(vector) > ends[-1] else [])


def work_of(order: Order) -> float:
    """Return how many times as much work a message is that answers an order as one with a gradient alone."""
    if order.kind == NEWTON:  # curvatures, margins, and products with second derivatives; each is as much as a gradient
        return 2.0 + float(order.note["iterations"])
    own = order.note.get(OWN_MODEL)
    solved = 2.0 + own["steps"] * (3.0 + own["iterations"]) if own else 0.0
    return (2.0 if asks_curvature(order) else 1.0) + block_of(order).get("work", 0.0) + solved
