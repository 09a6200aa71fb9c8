"""In which order workers take their tasks: data that several hold, each task computed once where that can be."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import final

from erasurehead._internal.resumable import Resumable
from erasurehead.codes import GradientCode
from erasurehead.training._assignment import Assignment
from erasurehead.training._rows import ArrivalRow

_LAST = 0.5  # weight of the last round in a worker's seconds a task
_MEMORY = 0.9  # weight of all rounds before in what the two kinds of order would have taken
_LEAST = 1e-9  # seconds that a task takes: on a virtual clock without delays it takes none
_SURE = 0.97  # of the time of an order: another is taken only if it takes less

Turns = Sequence[Sequence[int]]
"""For each position its messages in the order in which it takes them: see `Assignment.turns`."""


@final
class TurnChoice(Resumable):
    """Finds out whether workers that were slow in the last rounds are slow in the next, and orders tasks accordingly.

    Where a message is the gradient of one task, and several workers hold each task, a step ends when every task has
    come from somebody. The fixed order, that of the code's rows, counts all workers as equally fast; the other
    (`by_speed`) is made anew for each round from how long a task has taken each worker lately. What either would have
    taken with the speeds that turned out is computed after every round, and the next round has the one that would have
    been sooner so far: where speeds do not last, that is the fixed one.

    (Placement and order are told apart as in SPARe, arXiv:2603.00357. To learn from the run which order pays is ours.)
    """

    checkpointed = ("_seconds", "_known", "_taken")

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # that a task takes each worker
        self._known = set[int]()  # those who have sent something, so that it is no mere bound
        self._taken = [0.0, 0.0]  # that steps would have taken on average: in the fixed order, and by speed
        self._read: tuple[GradientCode | None, Turns] = (None, ())  # the tasks of a code's workers

    def learn(
        self, rows: Sequence[ArrivalRow], assignment: Assignment, able: Collection[int], judges: bool = True
    ) -> Turns:
        """Learn from the rows of a finished round, and return the turns of the next one; none for the fixed order.

        Arguments:
            rows: those that came late are not read.
            assignment: the workers; where they are asked for sums, it says how tasks would be sent one by one.
            able: the positions whose worker can still answer.
            judges: whether it was a round for a whole gradient, in which the order of tasks counts.
        """
        decoder = assignment.scheme.by_task
        code = assignment.code if decoder is None else decoder.code
        if self._read[0] is not code:
            self._read = code, _tasks_of(code)
        tasks, workers, (found, done) = self._read[1], assignment.worker_ids, _seconds_of(rows)
        known = {**found, **self._seconds}
        if not known:
            return ()
        if not judges:
            self._remember(found, done)
            return assignment.turns
        usual = sorted(known.values())[len(known) // 2]
        expected = [self._seconds.get(worker, usual) for worker in workers]
        now = [found.get(worker, before) for worker, before in zip(workers, expected, strict=True)]
        self._taken = [
            _MEMORY * before + (1.0 - _MEMORY) * duration(tasks, turns, now, able)
            for before, turns in zip(self._taken, (None, by_speed(tasks, expected, able)), strict=True)
        ]
        self._remember(found, done)
        if (decoder is not None and not assignment.by_task) or self._taken[1] >= _SURE * self._taken[0]:
            return ()
        expected = [self._seconds.get(worker, usual) for worker in workers]
        planned, held = by_speed(tasks, expected, able), assignment.turns
        worth = not held or duration(tasks, planned, expected, able) < _SURE * duration(tasks, held, expected, able)
        return planned if worth else held

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


def _tasks_of(code: GradientCode) -> Turns:
    """Return the tasks of each position, in the order of the code's rows."""
    task_of: list[int] = code.encoding.indices.tolist()  # one a row
    rows: list[list[int]] = [code.messages_of(position).tolist() for position in range(code.n_workers)]
    return [[task_of[row] for row in own] for own in rows]


def _seconds_of(rows: Sequence[ArrivalRow]) -> tuple[dict[int, float], Collection[int]]:
    """Return how long a task has taken the workers of a round; and whose have come: others take at least so long."""
    sent: dict[int, tuple[float, float]] = {}  # work, and when it was done
    waiting: dict[int, float] = {}
    for row in rows:
        if row.late:
            continue
        if row.censored:
            waiting[row.worker] = row.seconds / row.work
        else:
            work, end = sent.get(row.worker, (0.0, 0.0))
            sent[row.worker] = work + row.work, max(end, row.seconds - (row.started or 0.0))
    found = {**waiting, **{worker: end / work for worker, (work, end) in sent.items()}}
    return {worker: max(seconds, _LEAST) for worker, seconds in found.items()}, sent


def by_speed(tasks: Turns, seconds: Sequence[float], able: Collection[int]) -> list[list[int]]:
    """Return turns that are soon through if a task takes each worker so long.

    Each task is given to one of its holders: to the one who has it first in the order of the rows, or by list
    scheduling, the tasks first whose holders are slow; either way, tasks are then taken from who would be last as long
    as that helps, and the better of both is kept. A worker takes what it was given, then what others were, beginning
    with those who are through last, and with the last of theirs.

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
    ends, due, lists = _ends(given, seconds), dict[int, float](), _lists(given, len(tasks), places)
    for position, own in enumerate(lists):
        due.update({task: (place + 1) * seconds[position] for place, task in enumerate(own)})
    turns: list[list[int]] = []
    for position, own in enumerate(tasks):
        others = [task for task in own if task in given and given[task] != position]
        met = {holder: rank for rank, holder in enumerate(dict.fromkeys(given[task] for task in others))}
        others.sort(key=lambda task: (-ends[given[task]], met[given[task]], -due[task]))
        rest = [task for task in own if task not in given]
        turns.append([places[position][task] for task in (*lists[position], *others, *rest)])
    return turns


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


def duration(tasks: Turns, turns: Turns | None, seconds: Sequence[float], able: Collection[int]) -> float:
    """Return when every task has come from somebody; tasks that nobody can send are left out.

    Arguments:
        tasks: of each position, in the order of the code's rows.
        turns: the order in which it takes them; None for that one.
        seconds: that a task takes each position.
        able: the positions that can answer.
    """
    first: dict[int, float] = {}
    for position in able:
        own = tasks[position]
        for place, task in enumerate(own if turns is None else map(own.__getitem__, turns[position])):
            end = (place + 1) * seconds[position]
            first[task] = min(end, first.get(task, math.inf))
    return max(first.values(), default=0.0)
