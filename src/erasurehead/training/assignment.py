"""A scheme laid over real workers: who sits at which of the code's places, and what each of them runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linear_sum_assignment

from erasurehead.codes.base import GradientCode
from erasurehead.decoding.layout import Layout
from erasurehead.engines.base import Program
from erasurehead.schemes.named import Scheme
from erasurehead.training.programs import CodedProgram


@dataclass(frozen=True, eq=False)
class Formation:
    """A scheme laid over workers. It changes as a whole, with a new epoch, when the code is re-formed.

    The code numbers its workers 0..n-1: *places* here, so that they are not confused with the engine's workers, which
    keep their numbers as long as they live. A worker that keeps its data keeps its program, and so the numbers of its
    messages, while the code's rows may have moved.

    Arguments:
        scheme: of as many places as there are seats.
        programs: of each place, shape (n_workers,).
        layout: where the messages' elements belong.
        seats: for each place the engine's worker that sits there.
        epoch: rises by one with each re-forming.
    """

    scheme: Scheme
    programs: Sequence[Program]
    layout: Layout
    seats: Sequence[int]
    epoch: int = 0

    @classmethod
    def first(cls, scheme: Scheme, programs: Sequence[Program], layout: Layout) -> Formation:
        """Return the formation that a run begins with: worker i at place i."""
        return cls(scheme, programs, layout, range(len(programs)))

    @property
    def code(self) -> GradientCode:
        """Who computes what."""
        return self.scheme.code

    @cached_property
    def places(self) -> Mapping[int, int]:
        """The place of each worker."""
        return {worker: place for place, worker in enumerate(self.seats)}

    @cached_property
    def rows(self) -> Mapping[tuple[int, int], int]:
        """The code's row of each message, by worker and the number that the worker's program gives it."""
        return {
            (worker, part.message): row
            for place, (worker, program) in enumerate(zip(self.seats, self.programs, strict=True))
            for part, row in zip(program.outbox, self.code.messages_of(place).tolist(), strict=True)
        }

    @cached_property
    def numbers(self) -> Mapping[tuple[int, int], tuple[int, int]]:
        """The row and the unit of each message, by worker and the number that the worker's program gives it."""
        return {message: (row, self.units[row]) for message, row in self.rows.items()}

    @cached_property
    def lasts(self) -> frozenset[tuple[int, int]]:
        """The last message that each worker sends in a round, by worker and its program's number."""
        pairs = zip(self.seats, self.programs, strict=True)
        return frozenset((worker, program.outbox[-1].message) for worker, program in pairs if program.outbox)

    @cached_property
    def mute(self) -> frozenset[int]:
        """Workers that have nothing to send, whatever the order."""
        return frozenset(
            worker for worker, program in zip(self.seats, self.programs, strict=True) if not program.outbox
        )

    @cached_property
    def workers_of_rows(self) -> Sequence[int]:
        """The worker that sends each row."""
        owners: list[int] = self.code.owner.tolist()
        return [self.seats[place] for place in owners]

    @cached_property
    def works(self) -> Sequence[float]:
        """Tasks that each row combines."""
        return [float(len(self.code.tasks_of_message(row))) for row in range(self.code.n_messages)]

    @cached_property
    def units(self) -> Sequence[int]:
        """0 for the first row of a worker, 1 for its second, and so on."""
        units = [0] * self.code.n_messages
        for place in range(self.code.n_workers):
            for unit, row in enumerate(self.code.messages_of(place).tolist()):
                units[row] = unit
        return units


def reseated(
    before: Formation, scheme: Scheme, programs: Sequence[CodedProgram], layout: Layout, workers: Sequence[int]
) -> tuple[Formation, list[int]]:
    """Lay a scheme over workers such that as few of them as possible need other data.

    Arguments:
        before: the formation so far.
        scheme, programs, layout: what is to be laid over them.
        workers: as many as the scheme has places; those that `before` does not know hold nothing yet.

    Returns:
        The formation; and the places whose worker must be given its program, ascending.
    """
    held = {worker: before.programs[place] for worker, place in before.places.items()}
    works = [program.work for program in programs]
    cost = np.ones((len(programs), len(workers)))
    for column, worker in enumerate(workers):
        has = held.get(worker)
        if isinstance(has, CodedProgram):
            work = has.work
            cost[[place for place, wanted in enumerate(works) if wanted == work], column] = 0.0
    places, columns = linear_sum_assignment(cost)
    seats = [workers[column] for column in columns.tolist()]
    moved = [place for place, column in zip(places.tolist(), columns.tolist(), strict=True) if cost[place, column]]
    kept = [program if place in moved else held[seats[place]] for place, program in enumerate(programs)]
    return Formation(scheme, kept, layout, seats, before.epoch + 1), moved
