"""Ctrl-C and SIGTERM: what they raise, and when."""

from __future__ import annotations

import contextlib
import signal
import threading

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, schemes, training
from erasurehead._internal.arrays import Array
from erasurehead._internal.signals import Terminated, noted, overdue, terminable, uninterrupted
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Run, StepRow

from ..bounded import PATIENCE


class _Signal(Callback):
    """Sends a signal in the middle of recording a step, and sees what the last callback sees."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.recorded = 0

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if row.step == 3:
            signal.raise_signal(self.number)
        self.recorded += 1


def trained(watching: Callback) -> Run:
    problem = Quadratic.random(24, 5, seed=1)
    engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3))
    return training.train(
        problem,
        schemes.erasurehead(6, load=2, wait_for=3),
        optimizers.Nesterov(problem.initial(), 0.1),
        engine,
        8,
        [watching],
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_a_batch_system_ends_training_after_the_step_and_leaves_evaluating_for_later(number: signal.Signals) -> None:
    watching = _Signal(number)
    with terminable():
        run = trained(watching)
    assert run.stopped == f"stopped by {number.name}"
    assert len(run.steps) == watching.recorded == 4
    assert run.evaluations == []
    assert np.isfinite(run.x).all()


def test_ctrl_c_evaluates_what_there_is() -> None:
    run = trained(_Signal(signal.SIGINT))
    assert run.stopped == "stopped by Ctrl-C"
    assert [evaluation.step for evaluation in run.evaluations] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_both_wait_until_the_block_is_done(number: int, kind: type[BaseException]) -> None:
    done: list[str] = []

    def recorded() -> None:
        with terminable(), uninterrupted():
            signal.raise_signal(number)
            done.append("the rest of it")

    with pytest.raises(kind):
        recorded()
    assert done


def test_a_second_one_does_not_wait() -> None:
    def recorded() -> None:
        with terminable(), uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second was put off, too")

    with pytest.raises(KeyboardInterrupt):
        recorded()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_first_is_noted_for_work_that_asks_and_the_second_raises(number: signal.Signals, wrapped: bool) -> None:
    # The command line has made these signals raise already; they are noted all the same.
    def worked() -> None:
        with noted() as reason:
            signal.raise_signal(number)
            reason()
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("the second was noted, too")

    with terminable() if wrapped else contextlib.nullcontext():
        before = signal.getsignal(number)
        with noted() as reason:
            assert reason() == ""
            signal.raise_signal(number)
            assert reason() == "stopped by " + ("Ctrl-C" if number == signal.SIGINT else number.name)
        assert signal.getsignal(number) == before
        with pytest.raises(Terminated):
            worked()
        assert signal.getsignal(number) == before


def test_one_that_nobody_has_asked_for_since_takes_effect_at_the_end() -> None:
    done: list[str] = []

    def worked() -> None:
        with noted() as reason:
            reason()
            signal.raise_signal(signal.SIGTERM)
            done.append("the rest of it")

    with pytest.raises(Terminated):
        worked()
    assert done


def test_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with terminable():
        assert signal.getsignal(signal.SIGTERM) != before[1]
        with uninterrupted():
            pass
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_handler_of_the_program_is_left_alone() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with terminable():
            signal.raise_signal(signal.SIGTERM)
            with uninterrupted():
                signal.raise_signal(signal.SIGTERM)
                assert len(seen) == 1  # put off
            with noted() as reason:
                signal.raise_signal(signal.SIGTERM)
                assert reason() == ""
        assert seen == [signal.SIGTERM] * 3
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_are_never_interrupted() -> None:
    ran: list[str] = []

    def elsewhere() -> None:
        with terminable(), uninterrupted():
            ran.append("ran")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(PATIENCE)
    assert ran == ["ran"]


def test_what_is_put_off_takes_effect_once_it_is_overdue_and_only_then() -> None:
    with uninterrupted():
        overdue(-1.0)  # nothing is put off
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        overdue(60.0)
        with pytest.raises(KeyboardInterrupt):
            overdue(-1.0)
        overdue(-1.0)
    overdue(-1.0)


def test_a_block_within_another_does_not_end_what_that_puts_off() -> None:
    reached: list[str] = []

    def both() -> None:
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
            reached.append("the end of the outer one")

    with pytest.raises(KeyboardInterrupt):
        both()
    assert reached
