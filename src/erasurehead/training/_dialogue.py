"""Steps of more than one round: workers first report something small, and are then asked for what that calls for.

Who reports what, how it is chosen what they are asked for, and what is done if too little of that comes, is all that
the uses differ in. Each is a generator of what to ask for, which is sent the reason why too little of it will come.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from erasurehead.engines import Order
from erasurehead.engines._base import ASKED, REPORTS
from erasurehead.errors import Unreachable, numbered
from erasurehead.training._health import questions
from erasurehead.training._round import Disputed, RoundRunner
from erasurehead.training._round_state import Asking, Round, RoundResult
from erasurehead.training._sums import REPORT, name_holders
from erasurehead.training._waiting import AnswersLost, PoolShrunk
from erasurehead.training._workers import WorkerPool

_Talk: TypeAlias = Generator[Asking, AnswersLost]


def gathered(
    rounds: RoundRunner, pool: WorkerPool, number: Callable[[Mapping[str, Any]], Order], tried: bool
) -> tuple[Order, RoundResult]:
    """Run the rounds of one step, and return the last order, with what came of it.

    Arguments:
        rounds: runs them.
        pool: the workers.
        number: returns the order, numbered, with something added to its note.
        tried: as for `RoundRunner.gather`.

    Raises:
        PoolShrunk, Unreachable, Diverged: as `RoundRunner.gather`.
    """
    scheme = pool.assignment.scheme
    order = number({REPORTS: True} if scheme.levels else {REPORT: True} if scheme.sums else {})
    try:
        heard = rounds.gather(order, tried)
    except Disputed as disputed:
        return order, _arbitrated(rounds, number, disputed.current, tried)
    if not (scheme.levels or scheme.sums) or heard.overflowed:
        return order, heard
    talk = _of_levels(pool, order, heard) if scheme.levels else _of_sums(rounds, pool, order, heard)
    asking = next(talk)
    while True:
        order = number(asking.note)
        told = order if asking.computes else replace(order, points=())
        try:
            return order, rounds.gather(told, tried, asking)
        except AnswersLost as lost:
            asking = talk.send(lost)


def _arbitrated(
    rounds: RoundRunner, number: Callable[[Mapping[str, Any]], Order], disputed: Round, tried: bool
) -> RoundResult:
    """Workers whose equal messages differ are questioned, until it is known who lies: then the others' are used.

    Arguments:
        rounds, number, tried: as for `gathered`.
        disputed: the round, in which all that is needed has come.
    """
    workers = disputed.assignment.workers_of_rows
    while disputed.disputes:
        searches, silent = rounds.searches(disputed), set[int]()
        while asked := [one for one in searches if not (one.found or silent & {workers[row] for row in one.messages})]:
            rows = [row for one in asked for row in one.messages]
            try:
                answers = rounds.ask(number(questions(disputed, asked)), rows, disputed)
            except AnswersLost as lost:
                silent |= {*lost.failed, *lost.gone}
            else:
                for place, one in enumerate(asked):
                    one.hear(answers[2 * place : 2 * place + 2])
        rounds.settle(disputed, searches, silent)
    return rounds.resume(disputed, tried)


def _of_levels(pool: WorkerPool, order: Order, heard: RoundResult) -> _Talk:
    """With a nested code, reports show which level of it is enough: all are asked for their messages of that level.

    The reports have ended when a level can be decoded; those who have not come so far yet are asked, too. If more
    workers are lost meanwhile than it tolerates, they are asked for a higher one.
    """
    whole, found = heard.assignment, heard.decoding
    levels = whole.code.structure.levels
    assert levels is not None
    level = top = len(whole.scheme.levels) - 1
    if found.exact and found.code is whole.code:  # else tasks are lost
        level = int(levels[found.messages[0]])
    while True:
        note = {"of": order.round, "level": level, "prior": _prior(heard, level)}
        yield Asking(heard, whole.at_level(level), {ASKED: note})
        level = max(level + 1, min(whole.code.n_workers - len(pool.able()), top))


def _prior(heard: RoundResult, level: int) -> list[tuple[int, float]]:
    """Return what `ASKED` says: how much of each message of a level was reported as done."""
    assignment, code = heard.assignment, heard.assignment.code
    done = [0.0] * code.n_workers
    for row in heard.view.arrived:
        owner = int(code.owner[row])
        done[owner] = max(done[owner], float(code.works[row]))
    specs = [program.sent(False)[level] for program in assignment.programs]
    return [(spec.message, min(spec.work, own)) for spec, own in zip(specs, done, strict=True)]


def _of_sums(rounds: RoundRunner, pool: WorkerPool, order: Order, heard: RoundResult) -> _Talk:
    """Reports say which tasks are finished where: one holder of each is named, and sends the sum over its tasks.

    If one is lost, tasks are named anew, to others who have finished them, or who compute them then.
    """
    aside, gone = set[int](), set[int]()
    for number in itertools.count(order.round + 1):
        present = [worker for worker in pool.present() if worker not in aside]
        trusted = [worker for worker in present if worker not in rounds.suspects]
        named = (name_holders(heard, order.round, some, number, gone) for some in (trusted, present))
        asking = next(filter(None, named), None)
        if asking is None and aside:
            raise Unreachable(
                f"step {order.step}: {numbered('worker', sorted(aside))} cannot send the sum of what was finished, "
                "and nobody else holds all of it. A larger load tolerates more failures."
            )
        if asking is None:
            rounds.break_off()
            raise PoolShrunk(f"step {order.step}: the holders of some task are gone since they have reported it.")
        lost = yield asking
        aside.update(lost.failed)
        gone.update(lost.gone)
