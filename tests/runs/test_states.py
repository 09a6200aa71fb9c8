"""Every kind of state that a run keeps: it goes on from any step to the bit, and two runs share none of it."""

from __future__ import annotations

from typing import Any

import pytest

from erasurehead.delays._fixed import Recorded
from erasurehead.training import Callback, Resumption, Run

from .kinds import KINDS, train


class States(Callback):
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def on_state(self, step: int, state: Any) -> None:
        self.taken.append(state())


def same(one: Run, other: Run) -> None:
    assert one.x.tobytes() == other.x.tobytes()
    assert list(one.steps) == list(other.steps)
    assert one.ended == other.ended
    assert [(each.step, each.value) for each in one.measured] == [(each.step, each.value) for each in other.measured]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_run_goes_on_from_any_step_to_the_bit_and_two_runs_know_nothing_of_each_other(name: str) -> None:
    kind = KINDS[name]
    scheme, problem, recorded = kind.scheme(), kind.problem(), None
    if name == "replay":
        first = train(KINDS["asynchronous"], scheme, problem)
        rows = [row.as_dict() for row in first.steps]
        recorded = Recorded.from_rows([row.as_dict() for row in first.arrivals], steps=rows)
    states = States()
    whole = train(kind, scheme, problem, [states], recorded=recorded)
    rows = [row.as_dict() for row in whole.steps]
    script = Recorded.from_rows([row.as_dict() for row in whole.arrivals], steps=rows)
    if recorded is not None:
        assert list(whole.steps) == list(first.steps)
    elif "max_seconds" not in kind.how:  # by which a run ends in a round that is not in the records
        same(train(kind, scheme, problem, recorded=script), whole)
    same(train(kind, scheme, problem, recorded=recorded), whole)
    for cut in [*range(1, len(whole.steps), 2), len(whole.steps)]:
        resume = Resumption(states.taken[cut if cut < len(whole.steps) else -1], whole.steps[:cut], [])
        same(train(kind, scheme, problem, resume=resume, recorded=recorded), whole)
