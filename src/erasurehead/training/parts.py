"""What messages say of their own tasks that answer orders of kind `"early"`, in time or late: for the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, Tree
from erasurehead.decoding.base import Decoding
from erasurehead.decoding.layout import Layout
from erasurehead.engines.base import Arrived, Order
from erasurehead.optimizers.base import LATE_PARTS, PartialGradient, asks_curvature
from erasurehead.training.assignment import Assignment
from erasurehead.training.late_work import read_late
from erasurehead.training.round_state import Round


def parts_of(
    found: Decoding, vectors: Sequence[Array], layout: Layout, samples: Sequence[float], order: Order
) -> Iterator[PartialGradient]:
    """Yield what each message of a round says of its tasks, in the order of the messages.

    Arguments:
        found: the weights of the round's messages.
        vectors: those messages.
        layout: where their elements belong.
        samples: how many samples each task has, by weight, shape (n_tasks,).
        order: what they answer.
    """
    for place, vector in enumerate(vectors):
        weights = found.weights[:, place : place + 1]
        if weights.any():
            alone = replace(found, messages=found.messages[place : place + 1], weights=weights)
            yield _part(alone, vector, layout, samples, order.step, 2 if asks_curvature(order) else 1)


def _part(
    alone: Decoding, vector: Array, layout: Layout, samples: Sequence[float], step: int, vectors: int
) -> PartialGradient:
    """Return what one message says.

    Arguments:
        alone: its weight.
        vector: what it holds.
        layout, samples: as in `parts_of`.
        step: the step of the order that it answers.
        vectors: how many vectors it holds: a gradient, and perhaps a curvature.
    """
    tasks: tuple[int, ...] = tuple(alone.code.tasks_of_message(int(alone.messages[0])).tolist())
    share = sum(samples[task] for task in tasks) / sum(samples)
    gradient, *curvature = (layout.decode(alone, [part]) for part in np.split(vector, vectors))
    found = PartialGradient(step, tasks, share, gradient[:-1], float(gradient[-1]))
    return replace(found, curvature=curvature[0][:-1], entries=float(curvature[0][-1])) if curvature else found


class LateParts:
    """Takes messages that answer orders of kind `"early"` late, where their notes ask for that.

    Arguments:
        samples: how many samples each task has, by weight, shape (n_tasks,).
    """

    def __init__(self, samples: Sequence[float]) -> None:
        self._samples = samples
        self._asked: set[int] = set()  # rounds whose late answers are wanted
        self._newest: dict[int, int] = {}  # of each content, the newest round of which it is known
        self._waiting: list[tuple[int, int, PartialGradient]] = []  # with the message's row and its worker

    def begin(self, order: Order) -> None:
        """Record that a round begins."""
        if order.note.get(LATE_PARTS, False):
            self._asked.add(order.round)
        elif self._asked:
            self._asked.clear()  # the optimizer has gone over to other orders

    def end(self, current: Round) -> None:
        """Record what has come in time in a round: what earlier ones say of the same tasks is not wanted any more."""
        if current.order.round in self._asked:
            for arrived in current.arrivals.values():
                if arrived.spec.content is not None:
                    self._newest[arrived.spec.content] = current.order.round

    def asked(self, order_round: int) -> bool:
        """Return whether late answers to the order of a round are wanted."""
        return order_round in self._asked

    def wants(self, event: Arrived) -> bool:
        """Return whether a message that answers such an order is newer than what is known of its tasks."""
        content = event.spec.content
        return content is not None and event.order_round > self._newest.get(content, -1)

    def take(self, event: Arrived, row: int, assignment: Assignment) -> str:
        """Take a message; return why it cannot be used, or "".

        Arguments:
            event: the message.
            row: the row of the code with the message's content.
            assignment: the current one.
        """
        vector = read_late(event)
        if isinstance(vector, str):
            return vector
        if event.spec.content is not None:
            self._newest[event.spec.content] = event.order_round
        alone = assignment.decoder.decode([row])
        part = _part(alone, vector, assignment.layout, self._samples, event.step, event.spec.vectors)
        self._waiting.append((row, event.worker, part))
        return ""

    def deliver(self) -> tuple[PartialGradient, ...]:
        """Return what has been taken since, in the order of steps and rows, so that equal arrivals give equal bits."""
        waiting, self._waiting = self._waiting, []
        waiting.sort(key=lambda one: (one[2].step, *one[:2]))
        return tuple(part for _, _, part in waiting)

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs; between two steps no messages are waiting."""
        return {"asked": sorted(self._asked), "newest": [list(pair) for pair in self._newest.items()]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._asked = set(map(int, state["asked"]))
        self._newest = {int(content): int(number) for content, number in state["newest"]}
