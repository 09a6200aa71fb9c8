"""Who has which position of a scheme's code: messages, rows and workers, as long as the code is not resized."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from erasurehead.codes import GradientCode
from erasurehead.decoding import Decoder
from erasurehead.decoding._layout import Layout
from erasurehead.decoding._subcodes import members
from erasurehead.engines import MessageSpec, Order, Program
from erasurehead.schemes import Scheme, uncoded
from erasurehead.training._programs import CodedProgram


@dataclass(frozen=True, eq=False)
class Assignment:
    """A scheme laid over workers. It is replaced as a whole, by a new generation, when the code is resized.

    The code numbers its workers 0..n-1: these are *positions*. The engine's workers have ids, which they keep as
    long as they live. A worker that keeps its data keeps its program, and so the numbers of its messages, even where
    the code's rows have moved.

    Arguments:
        scheme: the scheme; it has as many positions as there are `worker_ids`.
        programs: the program of each position, shape (n_workers,).
        layout: where the messages' elements belong.
        worker_ids: the engine's worker at each position, shape (n_workers,).
        generation: number of times that the code has been resized, or that workers have been asked for other messages.
        other: where the elements belong of the messages that workers can be asked for instead: one for each task, or
            the sums again; None if there are none.
        by_task: whether workers are asked for a message per task now.
        turns: for each position, the messages that it takes first, as numbers from 0 on in the order of their rows; it
            takes the others after them, in that order. Empty if all do so with all.
        level: the level of a nested code of which workers are asked for their messages, after their reports; None if
            they are asked for all.
        answers: the messages that each position is asked for, where these are not those of its program; None if they
            are.
    """

    scheme: Scheme
    programs: Sequence[Program]
    layout: Layout
    worker_ids: Sequence[int]
    generation: int = 0
    other: Layout | None = None
    by_task: bool = False
    turns: Sequence[Sequence[int]] = ()
    level: int | None = None
    answers: Sequence[Sequence[MessageSpec]] | None = None

    @classmethod
    def first(
        cls, scheme: Scheme, programs: Sequence[Program], layout: Layout, other: Layout | None = None
    ) -> Assignment:
        """Return the assignment that a run begins with: worker i at position i."""
        return cls(scheme, programs, layout, range(len(programs)), other=other)

    def with_other_messages(self) -> Assignment:
        """Return the same assignment with the other messages: one for each task, or the sums again."""
        assert self.other is not None
        return replace(
            self,
            layout=self.other,
            other=self.layout,
            by_task=not self.by_task,
            generation=self.generation + 1,
            turns=(),
        )

    def in_turns(self, turns: Sequence[Sequence[int]]) -> Assignment:
        """Return the same assignment, of whose messages others are taken first."""
        return replace(self, turns=turns, generation=self.generation + 1)

    def at_level(self, level: int) -> Assignment:
        """Return the same assignment, of which workers are asked for their messages of one level alone."""
        if level not in self._at_levels:
            levels = self.code.structure.levels
            assert levels is not None
            rows: list[int] = members(levels)[level].tolist()
            positions = [self.layout.positions[row] for row in rows]
            layout = Layout(self.layout.n_coordinates, positions, self.layout.dtype)
            number = -1 - level - self.generation * len(self.scheme.levels)  # no other assignment's
            self._at_levels[level] = replace(self, layout=layout, level=level, generation=number)
        return self._at_levels[level]

    def asked(self, rows: Sequence[int], order: Order) -> Assignment:
        """Return an assignment of those alone who are asked about their messages in some rows, one each.

        Arguments:
            rows: the rows.
            order: the order that asks them.
        """
        workers = [self.workers_of_rows[row] for row in rows]
        programs = [self.programs[self.positions[worker]] for worker in workers]
        answers = [program.remaining(order, ()) for program in programs]
        return Assignment(uncoded(len(rows)), programs, self.layout, workers, -1 - order.round, answers=answers)

    @cached_property
    def _at_levels(self) -> dict[int, Assignment]:
        return {}

    @property
    def places(self) -> Sequence[int]:
        """What an order's note says of the turns, `TURNS`; empty if messages are taken in the order of their rows."""
        if not self.turns:
            return ()
        places = [0] * (1 + max(spec.message for _, spec, _, _ in self._sent))
        for _, spec, _, unit in self._sent:
            places[spec.message] = unit
        return places

    @property
    def decoder(self) -> Decoder:
        """The decoder of the messages that workers are asked for."""
        if self.level is not None:
            return self.scheme.levels[self.level]
        if not self.by_task:
            return self.scheme.decoder
        assert self.scheme.by_task is not None
        return self.scheme.by_task

    @property
    def code(self) -> GradientCode:
        """Who computes what."""
        return self.decoder.code

    @cached_property
    def _sent(self) -> Sequence[tuple[int, MessageSpec, int, int]]:
        """Each message with its worker, its row of the code, and its number among those of its worker."""
        sent: list[tuple[int, MessageSpec, int, int]] = []
        for position, (worker, program) in enumerate(zip(self.worker_ids, self.programs, strict=True)):
            specs = program.sent(self.by_task) if self.answers is None else self.answers[position]
            specs = specs if self.level is None else specs[self.level : self.level + 1]
            own = [*zip(specs, self.code.messages_of(position).tolist(), strict=True)]
            first = self.turns[position] if self.turns else ()
            in_order = [*(own[place] for place in first), *(one for place, one in enumerate(own) if place not in first)]
            sent += [(worker, spec, row, unit) for unit, (spec, row) in enumerate(in_order)]
        return sent

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """The position of each worker, by its id."""
        return {worker: position for position, worker in enumerate(self.worker_ids)}

    @cached_property
    def numbers(self) -> Mapping[tuple[int, int], tuple[int, int]]:
        """The row and the unit of each message, by worker and the message's number in the worker's program."""
        return {(worker, spec.message): (row, unit) for worker, spec, row, unit in self._sent}

    @cached_property
    def messages_of_rows(self) -> Mapping[int, int]:
        """The number of each message in its worker's program, by row."""
        return {row: spec.message for _, spec, row, _ in self._sent}

    @cached_property
    def _rows_by_content(self) -> Mapping[int, Sequence[int]]:
        rows: dict[int, list[int]] = {}
        for _, spec, row, _ in self._sent:
            if spec.content is not None:
                rows.setdefault(spec.content, []).append(row)
        return rows

    def row_of(self, content: int | None, worker: int) -> int | None:
        """Return the row with the content of an earlier assignment's message; None if no row has it any more.

        Arguments:
            content: the content of the message.
            worker: the worker that sent it; if it still has such a row, that row is returned.
        """
        rows = () if content is None else self._rows_by_content.get(content, ())
        return next((row for row in rows if self.workers_of_rows[row] == worker), rows[0] if rows else None)

    @cached_property
    def lasts(self) -> frozenset[tuple[int, int]]:
        """The last message that each worker sends in a round, by worker and the message's number in its program.

        Where workers can be asked for other messages, the last of these, too: that of an earlier round may still come.
        """
        lasts = {worker: spec.message for worker, spec, _, _ in self._sent}
        other_lasts: list[tuple[int, int]] = []
        others = self.programs if self.other is not None else ()
        for worker, program in zip(self.worker_ids, others, strict=False):
            other_lasts += [(worker, spec.message) for spec in program.sent(not self.by_task)[-1:]]
        return frozenset([*lasts.items(), *other_lasts])

    @cached_property
    def workers_of_rows(self) -> Sequence[int]:
        """The worker that sends each row."""
        owners: list[int] = self.code.owner.tolist()
        return [self.worker_ids[position] for position in owners]

    @cached_property
    def works(self) -> Sequence[float]:
        """How much work each row is."""
        return self.code.works.tolist()

    @cached_property
    def units(self) -> Mapping[int, int]:
        """By row: 0 for the first row of its worker, 1 for the second, and so on."""
        return {row: unit for _, _, row, unit in self._sent}


def reassigned(
    before: Assignment,
    scheme: Scheme,
    programs: Sequence[CodedProgram],
    layout: Layout,
    other: Layout | None,
    workers: Sequence[int],
    in_order: bool,
) -> tuple[Assignment, list[int]]:
    """Lay a scheme over workers so that as few of them as possible need other data.

    Arguments:
        before: the assignment so far.
        scheme, programs, layout, other: the new scheme, with its programs and its layouts: that of the messages that
            the run begins with, and of the others, if there are any.
        workers: as many workers as the scheme has positions; those that are new hold no data yet.
        in_order: whether each must have the position of its place among them, as tasks go by the speed of each.

    Returns:
        The assignment; and the positions whose worker must be sent its program, ascending.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import, and few runs resize their code

    owned = {worker: before.programs[position] for worker, position in before.positions.items()}
    works = [program.work for program in programs]
    cost = np.ones((len(programs), len(workers)))  # 0 where a worker has the data already
    for column, worker in enumerate(workers):
        program = owned.get(worker)
        if isinstance(program, CodedProgram):
            own = program.work
            cost[[position for position, work in enumerate(works) if work == own], column] = 0.0
    positions, columns = (np.arange(len(workers)),) * 2 if in_order else linear_sum_assignment(cost)
    worker_ids = [workers[column] for column in columns.tolist()]
    moved: list[int] = np.flatnonzero(cost[positions, columns]).tolist()
    kept: list[Program] = [
        program if position in moved else owned[worker]
        for position, (program, worker) in enumerate(zip(programs, worker_ids, strict=True))
    ]
    staying = [program for position, program in enumerate(kept) if position not in moved]
    used = {spec.message for program in staying for spec in program.message_specs}
    free = (number for number in itertools.count() if number not in used)  # no two messages have the same number
    for position in moved:
        kept[position] = programs[position].renumbered([next(free) for _ in programs[position].message_specs])
    after = Assignment(scheme, kept, layout, worker_ids, before.generation + 1, other)
    return after.with_other_messages() if before.by_task and other is not None else after, moved
