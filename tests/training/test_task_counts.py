"""Tasks that are hardly ever counted are noticed and named, whatever the engine and the code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes, decoding, schemes
from erasurehead.delays import Delays, Fixed
from erasurehead.engines import VirtualEngine
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import LeastSquares
from erasurehead.training import Callback, Notice, Run, train
from erasurehead.training._task_counts import LEAST, WINDOW, Counting

RNG = np.random.default_rng(0)
PROBLEM = LeastSquares(RNG.standard_normal((80, 3)), RNG.standard_normal(80))
ALWAYS_LATE = Fixed(((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 9.0, 9.5),))


class Heard(Callback):
    """Keeps what is noticed, and after how many steps."""

    def __init__(self) -> None:
        self.said: list[tuple[int, str]] = []
        self.steps = 0

    def on_step_end(self, row: object, x: object) -> None:
        self.steps += 1

    def on_notice(self, notice: Notice) -> None:
        self.said.append((self.steps, notice.text))


def trained(scheme: schemes.Scheme, delays: Delays | None, steps: int) -> tuple[Run, Heard]:
    heard = Heard()
    engine = VirtualEngine(delays)
    optimizer = GradientDescent(np.zeros(3), 0.01)
    return train(
        PROBLEM, scheme, optimizer, engine, steps, [heard], fault_policy=FaultPolicy(on_suspicion="ignore")
    ), heard


@pytest.mark.parametrize(
    ("scheme", "tasks"),
    [
        (schemes.ignore_stragglers(8, 6), [6, 7]),
        (schemes.custom(codes.fractional_repetition(8, 2), "first(6)"), [6, 7]),
        (schemes.custom(codes.fractional_repetition(8, 2), "first(3)"), [4, 5, 6, 7]),
        (schemes.custom(codes.uncoded(8), "deadline(1)"), [6, 7]),
    ],
)
def test_tasks_of_workers_that_are_always_late_are_named_while_the_run_goes_on_and_at_its_end(
    scheme: schemes.Scheme, tasks: list[int]
) -> None:
    run, heard = trained(scheme, ALWAYS_LATE, 70)
    assert [one.task for one in run.neglected] == tasks
    assert not any(one.ever for one in run.neglected)
    assert {row.step: row.neglected for row in run.steps if row.neglected} == {WINDOW - 1: tasks}
    (during, first), (end, last) = heard.said
    assert (during, end) == (WINDOW - 1, 70)
    numbers = f"tasks {', '.join(map(str, tasks))} ({len(tasks) / 8:.1%} of the training rows) were never counted"
    assert numbers in first
    assert numbers in last
    assert "worker" not in first.split(":")[0]
    assert [(one.data, one.text) for one in run.steps[WINDOW - 1].notices] == [({"tasks": tasks}, first)]
    assert run.steps[WINDOW - 1].failures == 0


@pytest.mark.slow
def test_nobody_is_named_where_all_are_counted() -> None:
    for scheme in (
        schemes.uncoded(8),
        schemes.exact(8, 2),
        schemes.erasurehead(8, 3, 3),
        schemes.exact(8, 3, "cyclic"),
    ):
        run, heard = trained(scheme, None, 120)
        assert run.neglected == ()
        assert heard.said == []


def test_a_task_that_is_counted_no_more_is_named_although_it_once_was() -> None:
    table = [[0.1] * 8] * 40 + [[0.1] * 7 + [5.0]] * 80
    run, heard = trained(schemes.ignore_stragglers(8, 7), Fixed(tuple(map(tuple, table))), 110)
    assert [(one.task, one.ever, one.counted) for one in run.neglected] == [(7, True, 0.0)]
    assert "task 7 (12.5% of the training rows) was counted in" in heard.said[0][1]


@pytest.mark.slow
def test_tasks_that_died_with_their_workers_are_named_too() -> None:
    engine = VirtualEngine(Fixed(((0.1,) * 8,)))
    engine.kill(3, at=1.0)
    scheme = schemes.custom(codes.uncoded(8), "decodable()")
    fault_policy = FaultPolicy(on_death="leave", on_loss="go_on", on_suspicion="ignore")
    run = train(PROBLEM, scheme, GradientDescent(np.zeros(3), 0.01), engine, 90, fault_policy=fault_policy)
    assert [one.task for one in run.neglected] == [3]
    assert run.final is not None
    assert run.final.share == pytest.approx(70 / 80)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.integers(0, 5)), min_size=WINDOW, max_size=150))
def test_it_is_as_defined(history: list[set[int]]) -> None:
    decoder = decoding.make_decoder(codes.uncoded(6))
    counting = Counting(6)
    for arrived in history:
        counting.add(decoder.decode(sorted(arrived)))
    table = np.array([[task in arrived for task in range(6)] for arrived in history], dtype=float)
    recent = table[-WINDOW:].sum(axis=0)
    wanted = (recent < LEAST * recent.mean()) | ((table.sum(axis=0) == 0) & (table.sum() > 0))
    assert [one.task for one in counting.neglected()] == np.flatnonzero(wanted).tolist()
    again = Counting(6)
    again.restore(counting.state())  # type: ignore[arg-type]
    assert again.neglected() == counting.neglected()


def test_codes_with_pieces_are_counted_by_task() -> None:
    code = codes.build("communication_efficient_groups", n_workers=6, load=3, n_pieces=2)
    counting, decoder = Counting(code.n_tasks), decoding.make_decoder(code)
    for _ in range(WINDOW):
        counting.add(decoder.decode([message for message in range(code.n_messages) if code.owner[message] < 3]))
    assert [one.task for one in counting.neglected()] == [3, 4, 5]
