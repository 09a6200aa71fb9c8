"""Report, then sum: workers report what they have finished in a few bytes, and then each sends one vector.

Where a message is the gradient of one task, a dense model multiplies the bytes. So a step has two rounds. In the first,
each message is one number, the loss of a task that is finished; its gradient stays with the worker. When every task is
finished somewhere, the coordinator names one holder for each, and in the second round each of them sends the sum over
the tasks that it is named for. If one is lost before it has sent its sum, tasks are named anew, to others who have
finished them, or to holders who compute them then: a round that was broken off is not used, so that nothing is counted
twice. (The coordinator's naming after the work and before the sending is that of gradient coding for partial
stragglers, arXiv:2405.19509; there the messages are coded.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray, dtype_of, finite
from erasurehead.codes import GradientCode
from erasurehead.codes._assemble import from_rows
from erasurehead.codes._structure import Structure
from erasurehead.decoding import make_decoder
from erasurehead.decoding._layout import Layout
from erasurehead.engines import MessageSpec, Order
from erasurehead.engines._base import TURNS
from erasurehead.errors import EngineError
from erasurehead.optimizers._order_kinds import sections, work_of
from erasurehead.training._assignment import Assignment
from erasurehead.training._programs import CodedProgram, MessageRecipe, as_asked, left_of, with_curvature
from erasurehead.training._round_state import Asking, RoundResult

REPORT = "report"
"""Key of the note of an order whose messages say that a task is finished, and nothing else."""

NAMED = "named"
"""Key of the note of an order for sums. With it stands a mapping: the messages (`tasks`) whose tasks are to be summed,
each by its own worker; those of them that are not finished (`fresh`); and the round of the reports (`of`)."""


@dataclass(frozen=True, eq=False)
class ReportingProgram(CodedProgram):
    """A program of messages of one task each, which can report that they are finished, and send one sum of them.

    What is computed for reports is kept until those of a newer round: it takes as much memory as messages per task do.

    Arguments:
        total: the sum over all of its tasks; by its number, that over some of them.
        support: the coordinate of each element of the sum, ascending; None if it holds them all.
        spread: for each message, which elements of the sum its own elements are; None if they are the same.
    """

    total: MessageSpec = field(default_factory=lambda: MessageSpec(-1, 0.0, 0))
    support: NDArray[np.integer] | None = None
    spread: tuple[IntArray | None, ...] = ()
    _kept: dict[int, dict[int, Array]] = field(default_factory=dict[int, dict[int, Array]], init=False, repr=False)

    def renumbered(self, messages: Sequence[int]) -> Self:
        *reports, total = messages
        return replace(super().renumbered(reports), total=replace(self.total, message=total))

    def sent(self, by_task: bool) -> Sequence[MessageSpec]:
        return [self.total] if by_task else super().sent(by_task)

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        total = with_curvature(self.total) if self.curvature else self.total
        return [*self._reports, replace(total, length=total.length + self.most_numbers)]

    @cached_property
    def _reports(self) -> Sequence[MessageSpec]:
        return [replace(recipe.spec, length=1, content=None) for recipe in self.sums]

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        named = order.note.get(NAMED)
        if named is not None:
            if done or not self._named(named):
                return []
            work = sum(one.spec.work for one in self.sums if one.spec.message in named["fresh"])
            return [replace(as_asked(self.total, order, 1), work=work_of(order) * work)]
        if REPORT not in order.note:
            return super().remaining(order, done)
        turns, times = order.note.get(TURNS), work_of(order)
        specs = sorted(self._reports, key=lambda one: turns[one.message]) if turns else self._reports
        return [one if times == 1.0 else replace(one, work=times * one.work) for one in left_of(specs, done)]

    def _named(self, named: Mapping[str, Any]) -> list[int]:
        """Return the places of the messages over whose tasks it is to send the sum."""
        return [place for place, one in enumerate(self.sums) if one.spec.message in named["tasks"]]

    def take(self, order: Order) -> Any:
        return super().take(order), replace(order, points=())

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        inner, order = taken
        named = order.note.get(NAMED)
        if named is not None:
            out[:] = 0.0
            sums = sections(out, spec.vectors, self.total.length)
            for place in self._named(named):
                recipe, spread = self.sums[place], self.spread[place]
                held = sections(self._finished(recipe, inner, order, named["of"]), spec.vectors, recipe.spec.length)
                for number, (whole, part) in enumerate(zip(sums, held, strict=True)):
                    whole[spread if number < spec.vectors and spread is not None else slice(None)] += part
        elif REPORT in order.note:
            recipe = self._recipes[spec.message]
            vector = self._finished(recipe, inner, order, order.round)
            out[0] = vector[recipe.spec.length - 1] if finite(vector) else math.nan
        else:
            super().compute(spec, inner, out)

    def _finished(self, recipe: MessageRecipe, inner: Any, order: Order, reports: int) -> Array:
        """Return what the message of a task would be, which may have been computed for a report.

        Arguments:
            recipe: of the message.
            inner: what is needed of the order's points.
            order: the order.
            reports: the round of the reports.
        """
        if reports > max(self._kept, default=-1):
            self._kept.clear()
            self._kept[reports] = {}
        kept = self._kept.get(reports, {})
        vector = kept.get(recipe.spec.message)
        if vector is None:
            local, *_ = inner
            if not local:
                raise EngineError("what it had finished is gone: it is another process than the one that reported")
            own = as_asked(recipe.spec, order, 1)
            vector = np.empty(own.length, dtype_of(own.dtype))
            super().compute(own, inner, vector)
            kept[own.message] = vector
        return vector


def reporting(programs: Sequence[CodedProgram], layout: Layout) -> list[ReportingProgram]:
    """Return the same programs, which can also report that tasks are finished, and send sums.

    Arguments:
        programs: the programs of a code whose messages are of one task each.
        layout: of their messages.
    """
    numbers = itertools.count(len(layout.positions))
    made: list[ReportingProgram] = []
    for program in programs:
        places = [layout.positions[recipe.spec.message] for recipe in program.sums]
        held = [place[0] for place in places if place is not None]
        support = np.unique(np.concatenate(held)) if held and len(held) == len(places) else None
        length = layout.n_coordinates if support is None else len(support)
        spread: list[IntArray | None] = [
            None if place is None else np.searchsorted(support, place[0]) if support is not None else place[0]
            for place in places
        ]
        total = MessageSpec(next(numbers), 0.0, length, layout.dtype)
        given = {one.name: getattr(program, one.name) for one in fields(program)}
        made.append(ReportingProgram(**given, total=total, support=support, spread=tuple(spread)))
    return made


def name_holders(
    reports: RoundResult, of: int, present: Collection[int], order_round: int, gone: Collection[int] = ()
) -> Asking | None:
    """Name one holder for each task: who reported it first, or else the one who has least to compute.

    Arguments:
        reports: what came in the round of the reports.
        of: the number of that round.
        present: the workers to choose from.
        order_round: the round of the sums.
        gone: those whose reports do not count any more.

    Returns:
        None if no such worker holds some task that is not lost.
    """
    assignment = reports.assignment
    code, workers = assignment.code, assignment.workers_of_rows
    task_of: list[int] = code.encoding.indices.tolist()  # one a row
    chosen: dict[int, int] = {}  # the row of each task
    kept = {*present} - {*gone}
    for arrived in reports.rows:
        if not arrived.censored and workers[arrived.message] in kept:
            chosen.setdefault(task_of[arrived.message], arrived.message)
    finished = set(chosen.values())
    fresh = dict.fromkeys(present, 0)
    for task in sorted({*range(code.n_tasks)} - {*chosen, *reports.lost}):
        rows = [row for row, one in enumerate(task_of) if one == task and workers[row] in fresh]
        if not rows:
            return None
        chosen[task] = min(rows, key=lambda row: fresh[workers[row]])
        fresh[workers[chosen[task]]] += 1
    numbers = assignment.messages_of_rows
    note = {
        "of": of,
        "tasks": [numbers[row] for row in chosen.values()],
        "fresh": [numbers[row] for row in chosen.values() if row not in finished],
    }
    named = _summing(assignment, chosen, -1 - order_round)
    return Asking(reports, named, {NAMED: note}, True, finished, len(chosen) > len(finished))


def _summing(assignment: Assignment, chosen: Mapping[int, int], generation: int) -> Assignment:
    """Return the assignment of those who are named: each has one message, the sum over its tasks.

    Arguments:
        assignment: that of the reports.
        chosen: the row of each task there.
        generation: one that no other assignment has.
    """
    tasks: dict[int, list[int]] = {}  # by position
    for task in sorted(chosen):
        tasks.setdefault(int(assignment.code.owner[chosen[task]]), []).append(task)
    named = sorted(tasks)
    code = GradientCode(
        name="named",
        parameters={},
        encoding=from_rows(
            np.concatenate([np.array(tasks[position]) for position in named]),
            np.array([len(tasks[position]) for position in named]),
            assignment.code.n_tasks,
        ),
        owner=np.arange(len(named)),
        n_workers=len(named),
        n_tasks=assignment.code.n_tasks,
        groups=np.arange(len(named)),
        tolerance=0,
        task_work=assignment.code.task_work,
        structure=Structure(decoder="groups"),
    )
    programs = [assignment.programs[position] for position in named]
    supports = [program.support if isinstance(program, ReportingProgram) else None for program in programs]
    layout = Layout(
        assignment.layout.n_coordinates,
        [None if support is None else support[np.newaxis, :] for support in supports],
        assignment.layout.dtype,
    )
    return Assignment(
        replace(assignment.scheme, by_task=make_decoder(code)),
        programs,
        layout,
        [assignment.worker_ids[position] for position in named],
        generation,
        by_task=True,
    )
