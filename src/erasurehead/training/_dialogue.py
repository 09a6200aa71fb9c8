"""Reports first, and then the messages that they show to be enough: how a step with a nested code is gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from erasurehead.engines import Order
from erasurehead.engines._base import ASKED, REPORTS
from erasurehead.training._round import RoundRunner
from erasurehead.training._round_state import Round, RoundResult
from erasurehead.training._waiting import LevelLost
from erasurehead.training._workers import WorkerPool


def gathered(
    rounds: RoundRunner, pool: WorkerPool, number: Callable[[Mapping[str, Any]], Order], tried: bool = False
) -> tuple[Order, RoundResult]:
    """Run the rounds of one step, and return the last order, with what came of it.

    That is one round, unless the scheme's workers report: then the first round ends when the reports show that a level
    of the code can be decoded, and in the second, all are asked for their messages of that level, also those who have
    not come so far yet. If more workers are lost meanwhile than it tolerates, they are asked for a higher one.

    Arguments:
        rounds: runs them.
        pool: the workers.
        number: returns the order, numbered, with something added to its note.
        tried: as for `RoundRunner.gather`.

    Raises:
        PoolShrunk, Unreachable, Diverged: as `RoundRunner.gather`.
    """
    whole = pool.assignment
    if not whole.scheme.levels:
        order = number({})
        return order, rounds.gather(order, tried)
    heard = rounds.hear(number({REPORTS: True}))
    levels, found = whole.code.structure.levels, heard.view.session.decoding()
    assert levels is not None
    level = top = len(whole.scheme.levels) - 1
    if found.exact and found.code is whole.code:  # else tasks are lost
        level = int(levels[found.messages[0]])
    while True:
        with pool.asking(level):
            order = number({ASKED: {"of": heard.order.round, "level": level, "prior": _prior(heard, level)}})
            try:
                return order, rounds.gather(order, tried, heard=heard)
            except LevelLost:
                level = max(level + 1, min(whole.code.n_workers - len(pool.able()), top))


def _prior(heard: Round, level: int) -> list[tuple[int, float]]:
    """Return what `ASKED` says: how much of each message of a level was reported as done.

    Arguments:
        heard: the round of the reports.
        level: the level.
    """
    assignment, code = heard.assignment, heard.assignment.code
    done = [0.0] * code.n_workers
    for row in heard.view.arrived:
        owner = int(code.owner[row])
        done[owner] = max(done[owner], float(code.works[row]))
    specs = [program.sent(False)[level] for program in assignment.programs]
    return [(spec.message, min(spec.work, own)) for spec, own in zip(specs, done, strict=True)]
