"""Who does what next in a round of a message per task: nobody is idle while a task is late that could be done twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, final

from erasurehead.engines._base import then_pause
from erasurehead.training._turns import equal_shares, tasks_of

if TYPE_CHECKING:
    from erasurehead.codes import GradientCode
    from erasurehead.training._assignment import Assignment


@final
class Handout:
    """Says, one task ahead, what each worker is to do next: first its share, then the held task that will be last.

    A worker that goes on in its order is told nothing. Who holds nothing any more that is not there pauses, until
    somebody dies or something that came is refused. When a task is expected is known from the pace of its workers in
    this round; so decisions follow from what has come, and a replay, in which the same comes, needs none.

    (Backup tasks near the end: Dean and Ghemawat, "MapReduce", OSDI 2004.)

    Arguments:
        assignment: the workers, whose messages are of one task each.
        able: the positions that can answer.
        now: returns the time, in the engine's seconds.
        tell: redirects a worker to a message: see `Engine.redirect`.
        paused: told of workers that have nothing to answer.
        resumed: told of those that have again.
    """

    def __init__(
        self,
        assignment: Assignment,
        able: Collection[int],
        now: Callable[[], float],
        tell: Callable[[int, int], None],
        paused: Callable[[Sequence[int]], None],
        resumed: Callable[[Sequence[int]], None],
    ) -> None:
        code = assignment.code
        self._assignment, self._now, self._tell = assignment, now, tell
        self._paused, self._resumed = paused, resumed
        self._tasks, (self._holders, self._neighbours) = tasks_of(code), _holders_of(code)
        shares = assignment.turns or equal_shares(code)
        self._shares = [[self._tasks[place][one] for one in own] for place, own in enumerate(shares)]
        self._there = set[int]()
        self._under_way = Counter[int]()
        self._sent = [set[int]() for _ in self._tasks]
        self._at: list[int | None] = [None] * code.n_workers
        self._next: list[int | None] = [None] * code.n_workers  # what it does then, as far as it knows
        self._began = now()
        self._since = [self._began] * code.n_workers
        self._working = set[int]()  # positions
        for position in able:
            self._start(position)
        for position, own in enumerate(self._shares):
            if len(own) < 2 and position in self._working:
                self._look_ahead(position)

    @property
    def idle(self) -> list[int]:
        """The workers that can answer, and have nothing to do."""
        return [self._worker(place) for place in self._working if self._at[place] is None]

    @property
    def over(self) -> bool:
        """Whether each task is there."""
        return len(self._there) == len(self._holders)

    def arrived(self, row: int) -> None:
        """Take note of a message, and hand out what its worker, and others who were to repeat it, are to do then."""
        code = self._assignment.code
        position, task = int(code.owner[row]), int(code.encoding.indices[row])
        self._there.add(task)
        if position in self._working:  # else it was given up before this came
            self._sent[position].add(task)
            self._since[position] = self._now()
            if self._at[position] == task:
                self._begin(position, self._next[position])
            else:  # it was told too late, or before it had begun: it is at that task now
                self._next[position] = self._in_order(position)
            self._look_ahead(position)
        begun = self._at[position]
        near = [*self._holders[task], *(() if begun is None else self._holders[begun])]
        for one in dict.fromkeys(near):
            if one != position and one in self._working and self._next[one] in (task, begun):
                self._look_ahead(one)

    def workers_changed(self, able: Collection[int]) -> None:
        """Take note that workers have died, failed or joined: what those are at who are gone, others do."""
        for position in self._working - set(able):
            self._working.discard(position)
            self._begin(position, None)
            self._sent[position].clear()
        for position in sorted(set(able) - self._working):
            self._start(position)
        for position in sorted(self._working):
            self._look_ahead(position)

    def end(self) -> None:
        """Let all go on in their orders, as more may be needed than that each task has come once."""
        for position in sorted(self._working):
            task, pauses = self._in_order(position), self._at[position] is None
            if task is not None and (pauses or self._next[position] is None):
                self._redirect(position, task)
                self._resumed([self._worker(position)] if pauses else [])

    def _start(self, position: int) -> None:
        """Take note that a worker begins with the order."""
        self._working.add(position)
        self._since[position] = self._now()
        self._begin(position, self._in_order(position))

    def _begin(self, position: int, task: int | None) -> None:
        """Take note of what a worker does now, if anything."""
        before, self._at[position] = self._at[position], task
        if before is not None:
            self._under_way[before] -= 1
        if task is not None:
            self._under_way[task] += 1
        elif position in self._working:
            self._paused([self._worker(position)])
        self._next[position] = self._in_order(position)

    def _in_order(self, position: int) -> int | None:
        """Return the task that a worker takes next if it is told nothing."""
        passed = self._sent[position], self._at[position]
        for task in (*self._shares[position], *self._tasks[position]):
            if task not in passed[0] and task != passed[1]:
                return task
        return None

    def _look_ahead(self, position: int) -> None:
        """See to it that a worker goes on with what is needed most; one that pauses has nothing that is not there."""
        wanted = self._wanted(position)
        if wanted != self._next[position] and self._at[position] is not None:
            self._redirect(position, wanted)
            self._next[position] = wanted

    def _redirect(self, position: int, task: int | None) -> None:
        """Let a worker take a task next; None to pause after the one that it is at, in case it is not yet."""
        last = self._at[position] if task is None else task
        assert last is not None
        row = self._assignment.code.messages_of(position)[self._tasks[position].index(last)]
        message = self._assignment.messages_of_rows[int(row)]
        self._tell(self._worker(position), then_pause(message) if task is None else message)

    def _wanted(self, position: int) -> int | None:
        """Return the task that a worker should take next: of its share, if nobody is at it, or the last to be expected.

        Returns:
            None if all are there that it holds.
        """
        there, under_way = self._there, self._under_way
        for task in self._shares[position]:
            if task not in there and not under_way[task]:
                return task
        ends, now = dict[int, float](), self._now()
        for other in self._neighbours[position]:
            if other not in self._working:
                continue
            since, sent = self._since[other], len(self._sent[other])
            pace = max(now - since, (since - self._began) / sent if sent else 0.0)
            end, at = max(now, since + pace), self._at[other]
            if at is not None:
                ends[at] = min(end, ends.get(at, math.inf))
            for task in self._shares[other]:
                if task not in there and not under_way[task]:
                    end += pace
                    ends[task] = min(end, ends.get(task, math.inf))
        left = [task for task in self._tasks[position] if task not in there and task != self._at[position]]
        return max(left, key=lambda task: ends.get(task, math.inf), default=None)

    def _worker(self, position: int) -> int:
        return self._assignment.worker_ids[position]


@lru_cache(maxsize=8)
def _holders_of(code: GradientCode) -> tuple[list[list[int]], list[list[int]]]:
    """Return the positions that hold each task; and for each position the others with which it shares some."""
    tasks = tasks_of(code)
    holders: list[list[int]] = [[] for _ in range(code.n_tasks)]
    for position, own in enumerate(tasks):
        for task in own:
            holders[task].append(position)
    near: Iterable[set[int]] = ({other for task in own for other in holders[task]} for own in tasks)
    return holders, [sorted(others - {position}) for position, others in enumerate(near)]
