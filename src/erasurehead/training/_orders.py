"""Orders on their way to the workers: numbered, dated, and for sums or for a message per task, whichever is sooner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from erasurehead._internal.arrays import shortened
from erasurehead._internal.late_work import LateWork
from erasurehead._internal.resumable import Resumable
from erasurehead.engines import Order
from erasurehead.engines._base import ASKED, BY_TASK, TURNS, UNTIL_NEWER, WORKED
from erasurehead.optimizers._order_kinds import kind_of, work_of
from erasurehead.training._callbacks import StepLog
from erasurehead.training._rows import ArrivalRow
from erasurehead.training._sums import NAMED
from erasurehead.training._turns import TurnChoice
from erasurehead.training._workers import WorkerPool

_SUM, _TASK = 1.0, 0.0  # kinds of messages: by how many times the work of a sum they are; those of single tasks
_WITH_CURVATURE = 2.0  # likewise; more is no ordinary work, and says nothing of what a sum takes
_MOST_ROUNDS = 1000  # whose late answers are understood
_FEWEST = 8  # messages of a kind, from which on they count as evidence
_SURE = 3.0  # log of the odds at which a message per task is tried, or is not considered any more: 20 to 1
_PATIENCE = 30  # orders without such odds, after which nothing is changed any more
_LEAST = 0.1  # seconds that a sum must take on average: each message has a cost of its own
_MANY = 500  # messages per task, from which on nothing is changed any more
_CLEAR, _AGREE = (
    2.0,
    2,
)  # times the rest of its time, once for each piece, that work takes, in how many rounds: it grows
_WORSE = 1.5  # times its share of a sum's time: where a task's message takes that, sums are sooner


@final
class OrderBook(Resumable):
    """Completes what an optimizer asks for, round by round, and learns from the answers which messages to ask for.

    Arguments:
        pool: the workers.
        log: it knows when training began, from when orders are dated.
        chooses: whether workers are asked for a message per task where that pays, if they can send one.
        turns: whether messages of one task each are asked for in the order that pays.

    Attributes:
        round: the number of the next round.
    """

    checkpointed = ("round", "_choice", "_turns")

    def __init__(self, pool: WorkerPool, log: StepLog, chooses: bool, turns: bool = False) -> None:
        self.round = 0
        self._pool, self._log = pool, log
        code, splits = pool.assignment.scheme.code, pool.assignment.other is not None
        own = code.n_tasks / code.n_workers
        self._choice = MessageChoice(code.load, pool.engine.late, splits, own) if chooses else None
        self._turns = TurnChoice() if turns else None

    def next(self, asked: Order, note: Mapping[str, Any]) -> Order:
        """Return an order as it is submitted in the next round.

        Arguments:
            asked: what the optimizer asks for.
            note: what it says besides, such as which sums it is for.
        """
        if self._choice is not None and asked.kind == "gradient" and not self._pool.around:
            self._pool.ask_by_task(self._choice.decide())
        assignment, number = self._pool.assignment, self.round
        self.round += 1
        by_task = assignment.by_task or self._pool.around
        newer = by_task or assignment.scheme.until_newer
        asks = self._choice is not None and self._choice.undecided
        marks = [BY_TASK] * by_task + [UNTIL_NEWER] * newer + [WORKED] * asks
        turns = {TURNS: assignment.places} if assignment.turns else {}
        return replace(
            asked,
            points=tuple(shortened(point, assignment.layout.dtype) for point in asked.points),
            note={**asked.note, **dict.fromkeys(marks, True), **turns, **note},
            round=number,
            generation=assignment.generation,
            posted=self._pool.engine.now() - (self._log.origin or 0.0),
        )

    @property
    def work_odds(self) -> float:
        """How much likelier it is that times grow with the work than that they do not: see `MessageChoice`."""
        return math.inf if self._choice is None else self._choice.work_odds

    def learn(self, order: Order, arrivals: Sequence[ArrivalRow]) -> None:
        """Learn from a finished round how long messages take, and choose those of the next one.

        Arguments:
            order: the order of that round.
            arrivals: its rows, and before them those that came late in it.
        """
        pool = self._pool
        if self._choice is not None and not pool.around:
            self._choice.learn(order, arrivals)
            pool.ask_by_task(self._choice.by_task)
        if self._turns is not None:
            few = kind_of(order.kind).few
            turns = self._turns.learn(arrivals, pool.assignment, pool.able(), judges=not few)
            pool.ask_in_turns(turns)
            for_good = self._choice is not None and self._choice.for_good and not few
            if for_good and pool.assignment.by_task and self._turns.misses_circle(pool.assignment, pool.able()):
                pool.lay_around()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned; other entries are ignored."""
        kept = {"choice": self._choice, "turns": self._turns}
        super().restore({**state, **{name: None for name, chooser in kept.items() if chooser is None}})


def decided(order: Order) -> dict[str, Any]:
    """Return what a step's row says of the messages that were asked for; nothing of sums in their usual order."""
    marks = {name: True for name in (BY_TASK, TURNS, NAMED) if order.note.get(name, False)}
    return {**marks, "tolerance": order.note[ASKED]["level"]} if ASKED in order.note else marks


@final
class MessageChoice(Resumable):
    """Finds out whether messages take a time of their own, or one that grows with the work in them.

    In the first case, as with the delays of a network, a worker should send one message for all of its tasks. In the
    second, as with slow machines, it should send the gradient of each task as soon as it is finished: partial work of
    stragglers counts then, and steps are shorter (`benchmarks/loads.py`).

    The evidence costs nothing at first: orders that ask for curvatures beside gradients are twice the work, and those
    that ask for Newton steps a known multiple. How much more likely their messages' times are if they grow with the
    work than if they do not, is the ratio of two likelihoods of exponential times; messages that were not waited for
    count with the time that they had. At odds of 20 to 1, if sums take 0.1 s or more, workers are asked for a message
    per task, unless they say otherwise themselves: the first order asks for how long they worked on a message, and so
    do further ones as long as that is in doubt (`WORKED`). If they say of two rounds that nearly all of the time was
    work (the first may have been a slow start), that is enough. Where the rest of a sum's time, once for each message
    of a worker's share, is more than the work of a sum takes, messages per task cannot pay, whatever much larger orders
    take. What messages per task take is judged in the same way: if the time of a sum is likelier than its share of it,
    or half as much again as this share at odds of 20 to 1, sums are asked for again, for good. (Uncoded work, message
    by message: Amiri and Gunduz, arXiv:1810.09992; Ozfatura, Ulukus and Gunduz, arXiv:2004.04948. To learn from the run
    whether it pays is ours.)

    Arguments:
        load: tasks per worker, at least 1.
        late: what late workers do with old work.
        splits: whether workers can send a message per task.
        own: tasks of a worker's share: those that it computes where nobody is late.

    Attributes:
        by_task: whether workers should be asked for a message per task.
        work_odds: how much likelier it is that times grow with the work than that they do not, as the log of the ratio;
            inf while too little is known.
    """

    checkpointed = (
        "by_task",
        "work_odds",
        "_settled",
        "_orders",
        "_tally",
        "_kinds",
        "_since",
        "_busy",
        "_posted",
        "_now",
        "_said",
        "_agreeing",
    )

    def __init__(self, load: int, late: LateWork, splits: bool = True, own: float = 1.0) -> None:
        self.by_task, self.work_odds = False, math.inf
        self._load, self._dropped, self._own = load, late == "preempt", own
        self._settled = not splits
        self._orders = 0  # for whole gradients, with sums
        # Messages, and seconds at risk: of sums (1.0), of multiples of their work (2.0 and more), and of single tasks.
        self._tally: dict[float, list[float]] = {_SUM: [0.0, 0.0], _TASK: [0.0, 0.0]}
        self._kinds: dict[int, float] = {}  # of rounds that may still be answered
        self._busy: dict[int, tuple[float, float] | None] = {}  # by worker that finishes old work: its kind, since when
        self._posted: dict[int, float] = {}  # by round
        self._now = 0.0
        # The last round of which messages say so: how long work on sums took, and the rest; and how many said so.
        self._said = (-1, 0.0, 0.0, 0)
        self._agreeing = 0  # rounds, one after the other, in which times were clearly those of work
        self._since: dict[int, tuple[int, float]] = {}  # by worker: its newest round, and when its last message came

    def learn(self, order: Order, rows: Sequence[ArrivalRow]) -> None:
        """Learn from the rows of a finished round, and from late ones that came in it, and choose.

        Arguments:
            order: the order of that round.
            rows: late ones first.
        """
        heavier = work_of(order)
        by_task = bool(order.note.get(BY_TASK, False))
        if not by_task or heavier == 1.0:
            self._kinds[order.round] = _TASK if by_task else heavier
        while len(self._kinds) > (1 if self._dropped else _MOST_ROUNDS):
            del self._kinds[next(iter(self._kinds))]
        before = self._said[0]
        for row in rows:
            self._count(row)
        said, work, rest, count = self._said
        if said > before:
            clear = work > _CLEAR * self._own * rest and work >= _LEAST * count
            self._agreeing = self._agreeing + 1 if clear else 0
        if not self._dropped:
            self._follow(order, heavier, rows)
        if not by_task:
            self.work_odds = self._odds_of_work()
        if self._settled:
            return
        if self.by_task:
            self._judge()
        elif order.kind == "gradient":
            self._orders += 1
            if not self.decide():
                self._settled = self.work_odds < -_SURE or self._orders >= _PATIENCE

    def _count(self, row: ArrivalRow) -> None:
        """Add the time of a message to its kind."""
        if row.censored and not self._dropped:
            return  # it comes later
        number, since = self._since.get(row.worker, (-1, 0.0))
        begin = since if number == row.round else row.started or 0.0
        # Of the messages that were not waited for, the worker was at the first one; it had not begun the others.
        self._since[row.worker] = row.round, math.inf if row.censored else row.seconds
        kind = self._kinds.get(row.round)
        if kind is not None and begin < math.inf:
            tally = self._tally.setdefault(kind, [0.0, 0.0])
            tally[0] += not row.censored
            tally[1] += max(0.0, row.seconds - begin)
            said, work, rest, count = self._said
            if row.worked is not None and kind in (_SUM, _WITH_CURVATURE) and row.round >= said:
                work, rest, count = (work, rest, count) if row.round == said else (0.0, 0.0, 0)
                rest += max(0.0, row.seconds - begin - row.worked)
                self._said = row.round, work + row.worked / kind, rest, count + 1

    def _follow(self, order: Order, kind: float, rows: Sequence[ArrivalRow]) -> None:
        """Take note of what workers are at that finish old work: the newest order when they were through with one.

        Arguments:
            order: the order of the round that is over.
            kind: of its messages.
            rows: of the round, late ones first.
        """
        waited = max((row.seconds for row in rows if row.round == order.round), default=0.0)
        for row in rows:
            if self._busy.get(row.worker) is None:
                self._busy[row.worker] = kind, order.posted
        for row in rows:
            if not row.censored:
                begun = self._posted.get(row.round, order.posted)
                self._busy[row.worker] = (kind, begun + row.seconds) if row.round < order.round else None
        self._posted[order.round] = order.posted
        while len(self._posted) > _MOST_ROUNDS:
            del self._posted[next(iter(self._posted))]
        self._now = order.posted + waited

    def decide(self) -> bool:
        """Return whether the next whole gradient should be asked for by a message per task: if time grows with work."""
        if not (self._settled or self.by_task):
            self.by_task = (self._grows and not self._costs) or self._agreeing >= _AGREE
        return self.by_task

    @property
    def for_good(self) -> bool:
        """Whether there is no doubt that a message per task is sooner."""
        return self.by_task and (self._settled or self._agreeing >= _AGREE)

    @property
    def undecided(self) -> bool:
        """Whether to ask workers how long they work: it pays by the times, or by what they last said, not by both."""
        return not (self._settled or self.by_task) and ((self._grows and self._costs) or 0 < self._agreeing < _AGREE)

    @property
    def _costs(self) -> bool:
        """Whether messages per task cannot pay, by what workers last said."""
        _, work, rest, _ = self._said
        return self._own * rest > work

    @property
    def _grows(self) -> bool:
        """Whether the times say that they grow with the work, and are long enough for that to matter."""
        sums, seconds = self._tally[_SUM]
        return _SURE < self.work_odds < math.inf and seconds >= _LEAST * sums

    def _odds_of_work(self) -> float:
        """Return how much likelier it is that times grow with the work than that they do not, as a log."""
        tally = {kind: list(both) for kind, both in self._tally.items()}
        for job in self._busy.values():  # the time until now of messages that are not there yet
            if job is not None:
                tally.setdefault(job[0], [0.0, 0.0])[1] += max(0.0, self._now - job[1])
        several = {kind: both for kind, both in tally.items() if kind != _TASK}
        counts = [count for count, _ in several.values() if count]
        if len(counts) < 2:
            return math.inf
        same = sum(both[1] for both in several.values())
        growing = sum(both[1] / kind for kind, both in several.items())
        if not growing > 0.0:
            return math.inf
        return sum(counts) * math.log(same / growing) - sum(both[0] * math.log(kind) for kind, both in several.items())

    def _judge(self) -> None:
        """Return to sums if messages per task take longer than they should."""
        tasks, agreed = self._tally[_TASK][0], self._agreeing >= _AGREE
        if tasks < (_MANY if agreed else _FEWEST):  # who have said it themselves are hardly wrong
            return
        share = 1.0 / self._load
        if self._odds_of_tasks(share, 1.0) < 0.0 or self._odds_of_tasks(share, _WORSE * share) < -_SURE:
            self.by_task = False
        self._settled = not self.by_task or tasks >= _MANY

    def _odds_of_tasks(self, factor: float, other: float) -> float:
        """Return how much likelier one ratio of a task's mean time to a sum's is than another, as the log of the odds.

        Arguments:
            factor, other: the ratios.
        """
        (count, seconds), (sums, sum_seconds) = self._tally[_TASK], self._tally[_SUM]
        if not seconds + sum_seconds > 0.0:
            return 0.0
        less = math.log(sum_seconds + seconds / other) - math.log(sum_seconds + seconds / factor)
        return (count + sums) * less - count * math.log(factor / other)
