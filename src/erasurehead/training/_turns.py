"""In which order workers take their tasks: data that several hold, each task computed once where that can be."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import final

from erasurehead._internal.resumable import Resumable
from erasurehead.codes import GradientCode
from erasurehead.training._assignment import Assignment
from erasurehead.training._programs import CodedProgram
from erasurehead.training._rows import ArrivalRow

_LAST = 0.5  # weight of the last round in a worker's seconds a task
_LEAST = 1e-9  # seconds that a task takes: on a virtual clock without delays it takes none
_SURE = 0.97  # of the time that shares take: others are made only if they take less
_SLOWER, _LASTS = 1.1, 3  # times the seconds of shares around a circle, in how many rounds in a row: it pays to move
_MOVE, _BYTES = 5.0, 1e8  # seconds to start workers anew, and bytes a second to give them data: as much must be lost

Turns = Sequence[Sequence[int]]
"""For each position the messages that it takes first: see `Assignment.turns`."""


@final
class TurnChoice(Resumable):
    """Finds out how long tasks take each worker, and shares them out accordingly.

    Where a message is the gradient of one task, and several workers hold each task, a step ends when every task has
    come from somebody. Each worker begins with its share, which goes by how long a task has taken each lately; what it
    does after that is said during the round (`Handout`).

    (Placement and order are told apart as in SPARe, arXiv:2603.00357.)
    """

    checkpointed = ("_seconds", "_known", "_lost", "_due")

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # that a task takes each worker
        self._known = set[int]()  # those who have sent something, so that it is no mere bound
        self._lost = 0.0  # seconds that a circle would have saved so far
        self._due = 0  # rounds in a row in which it would have saved some

    def learn(
        self, rows: Sequence[ArrivalRow], assignment: Assignment, able: Collection[int], judges: bool = True
    ) -> Turns:
        """Learn from the rows of a finished round, and return the shares of the next one; none for equal ones.

        Arguments:
            rows: those that came late are not read.
            assignment: the workers; where they are asked for sums, it says how tasks would be sent one by one.
            able: the positions whose worker can still answer.
            judges: whether it was a round for a whole gradient, in which all tasks count.
        """
        self._remember(*_seconds_of(rows))
        decoder = assignment.scheme.by_task
        if not judges:
            return assignment.turns
        if not self._seconds or (decoder is not None and not assignment.by_task):
            return ()
        seconds = self._taken(assignment)
        equal, planned = equal_shares(assignment.code), by_speed(tasks_of(assignment.code), seconds, able)
        held = assignment.turns or equal
        if duration(planned, seconds, able) >= _SURE * duration(held, seconds, able):
            return assignment.turns
        return () if planned == equal else planned

    def _taken(self, assignment: Assignment) -> list[float]:
        """Return how long a task takes each position: who has not been heard is like half of the others."""
        usual = sorted(self._seconds.values())[len(self._seconds) // 2]
        return [self._seconds.get(worker, usual) for worker in assignment.worker_ids]

    def misses_circle(self, assignment: Assignment, able: Collection[int]) -> bool:
        """Return whether data that groups of workers hold should be laid around a circle: see `Scheme.around`.

        In a group whose workers are slow nobody helps. Steps must have taken a tenth longer for it in each of 3 rounds,
        and must have lost as much by now as the move will take: so no more is lost than twice what somebody would lose
        who knew everything beforehand.

        Arguments:
            assignment: the workers, asked for a message per task.
            able: the positions whose worker can still answer.
        """
        if assignment.scheme.around is None or not self._seconds:
            return False
        seconds = self._taken(assignment)
        takes = duration(by_speed(tasks_of(assignment.code), seconds, able), seconds, able)
        least = assignment.code.n_tasks / sum(1.0 / seconds[position] for position in able)
        if takes > _SLOWER * least:
            ring = tasks_of(assignment.scheme.around().code)
            least = duration(by_speed(ring, seconds, able), seconds, able)
        if takes > _SLOWER * least:
            self._lost += (takes - least) * assignment.code.task_work
            self._due += 1
        else:
            self._due = 0
        if self._due < _LASTS or self._lost < _MOVE:
            return False
        sizes = [program.nbytes for program in assignment.programs if isinstance(program, CodedProgram)]
        return self._lost >= _MOVE + sum(sizes) / _BYTES

    def _remember(self, found: Mapping[int, float], done: Collection[int]) -> None:
        """Learn how long a task has taken workers.

        Arguments:
            found: seconds by worker.
            done: the workers that have sent something; of the others it is known that it takes no less.
        """
        for worker, new in found.items():
            before = self._seconds.get(worker, new)
            if worker not in done:
                self._seconds[worker] = max(before, new)
            else:
                self._seconds[worker] = _LAST * new + (1.0 - _LAST) * before if worker in self._known else new
        self._known.update(done)


@lru_cache(maxsize=8)
def tasks_of(code: GradientCode) -> Turns:
    """Return the tasks of each position, in the order of the code's rows, which have one each."""
    task_of: list[int] = code.encoding.indices.tolist()
    rows: list[list[int]] = [code.messages_of(position).tolist() for position in range(code.n_workers)]
    return [[task_of[row] for row in own] for own in rows]


@lru_cache(maxsize=8)
def equal_shares(code: GradientCode) -> Turns:
    """Return the shares of workers of whom nothing is known, as `by_speed` does."""
    tasks = tasks_of(code)
    return by_speed(tasks, [1.0] * len(tasks), range(len(tasks)))


def _seconds_of(rows: Sequence[ArrivalRow]) -> tuple[dict[int, float], Collection[int]]:
    """Return how long a task has taken the workers of a round; and whose have come: others take at least so long.

    What it takes to begin with an order does not count where a worker has sent more than one.
    """
    sent: dict[int, list[tuple[float, float]]] = {}  # when a message was done, and its work
    found: dict[int, float] = {}
    for row in rows:
        if row.late:
            continue
        if row.censored:
            found[row.worker] = row.seconds / row.work
        else:
            sent.setdefault(row.worker, []).append((row.seconds - (row.started or 0.0), row.work))
    for worker, messages in sent.items():
        (first, _), *rest = sorted(messages)
        end, work = max(rest, default=(first, 0.0))[0], sum(work for _, work in rest)
        found[worker] = (end - first) / work if rest else first / messages[0][1]
    return {worker: max(seconds, _LEAST) for worker, seconds in found.items()}, sent


def by_speed(tasks: Turns, seconds: Sequence[float], able: Collection[int]) -> list[list[int]]:
    """Return shares that are soon through if a task takes each worker so long: the places of their tasks.

    Each task is given to one of its holders: to the one who has it first in the order of the rows, or by list
    scheduling, the tasks first whose holders are slow; either way, tasks are then taken from who would be last as long
    as that helps, and the better of both is kept. A worker that is given nothing repeats a task: the last one of who is
    through last.

    Arguments:
        tasks: of each position, in the order of the code's rows.
        seconds: that a task takes each position.
        able: the positions that can answer; others are given nothing.
    """
    holders: dict[int, list[int]] = {}
    places = [{task: place for place, task in enumerate(own)} for own in tasks]
    for position, own in enumerate(tasks):
        for task in own if position in able else ():
            holders.setdefault(task, []).append(position)
    first = {task: min(held, key=lambda position: places[position][task]) for task, held in holders.items()}
    plans = [_relieved(plan, holders, seconds) for plan in (first, _list_scheduled(holders, seconds, places))]
    given = min(plans, key=lambda plan: max(_ends(plan, seconds), default=0.0))
    ends, shares = _ends(given, seconds), list[list[int]]()
    for position, own in enumerate(_lists(given, len(tasks), places)):
        others = [task for task in tasks[position] if task in given] if position in able else []
        own = own or sorted(others, key=lambda task: (ends[given[task]], places[given[task]][task]))[-1:]
        shares.append([places[position][task] for task in own])
    return shares


def _ends(given: Mapping[int, int], seconds: Sequence[float]) -> list[float]:
    """Return when each position is through with what it was given."""
    counts = [0] * len(seconds)
    for position in given.values():
        counts[position] += 1
    return [count * each for count, each in zip(counts, seconds, strict=True)]


def _lists(given: Mapping[int, int], n: int, places: Sequence[Mapping[int, int]]) -> list[list[int]]:
    """Return the tasks that each of n positions was given, in the order of its rows."""
    lists: list[list[int]] = [[] for _ in range(n)]
    for task, position in given.items():
        lists[position].append(task)
    return [sorted(own, key=places[position].__getitem__) for position, own in enumerate(lists)]


def _list_scheduled(
    holders: Mapping[int, Sequence[int]], seconds: Sequence[float], places: Sequence[Mapping[int, int]]
) -> dict[int, int]:
    """Return the holder of each task: whoever would be through with it first, tasks with slow holders first."""
    ends, given = [0.0] * len(seconds), dict[int, int]()
    for task in sorted(holders, key=lambda one: sum(1.0 / seconds[position] for position in holders[one])):
        soonest = min(holders[task], key=lambda position: (ends[position] + seconds[position], places[position][task]))
        ends[soonest] += seconds[soonest]
        given[task] = soonest
    return given


def _relieved(plan: dict[int, int], holders: Mapping[int, Sequence[int]], seconds: Sequence[float]) -> dict[int, int]:
    """Return a plan after who is last was relieved of tasks, one by one, as long as another is sooner through."""
    given, ends, own = dict(plan), _ends(plan, seconds), [list[int]() for _ in seconds]
    for task, position in plan.items():
        own[position].append(task)
    for _ in range(len(given)):
        last = max(range(len(ends)), key=ends.__getitem__)
        moves = ((ends[to] + seconds[to], task, to) for task in own[last] for to in holders[task] if to != last)
        soonest, task, position = min(moves, default=(math.inf, 0, 0))
        if not soonest < ends[last]:
            break
        own[last].remove(task)
        own[position].append(task)
        given[task], ends[position], ends[last] = position, soonest, len(own[last]) * seconds[last]
    return given


def duration(turns: Turns, seconds: Sequence[float], able: Collection[int]) -> float:
    """Return when all are through with their shares; inf if one of them cannot answer, and has one.

    Arguments:
        turns: the share of each position.
        seconds: that a task takes it.
        able: the positions that can answer.
    """
    each = zip(turns, seconds, strict=True)
    ends = (len(own) * one if place in able or not own else math.inf for place, (own, one) in enumerate(each))
    return max(ends, default=0.0)
