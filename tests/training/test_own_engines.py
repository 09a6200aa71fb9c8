"""Engines of somebody's own that break the contract: no number is wrong for it, and the error says what it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from erasurehead import schemes
from erasurehead.delays import Exponential
from erasurehead.engines import Arrived, VirtualEngine
from erasurehead.errors import EngineError, InvalidArgument, NothingUnderWay, Unreachable
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import LeastSquares
from erasurehead.training import Run, train

RNG = np.random.default_rng(0)
PROBLEM = LeastSquares(RNG.standard_normal((60, 4)), RNG.standard_normal(60))


class Own(VirtualEngine):
    """An engine that tells each arrival as a function makes it, and a number of times."""

    def __init__(self, told: Callable[[Arrived], Any] = lambda event: event, times: int = 1, back: float = 0.0) -> None:
        super().__init__(Exponential(0.5, seed=0))
        self.told, self.times, self.back = told, times, back
        self.held: list[Any] = []

    def next_event(self, until: float | None = None) -> Any:
        if not self.held:
            event = super().next_event(until)
            if not isinstance(event, Arrived):
                return event
            self.held = [self.told(event)] * self.times
        return self.held.pop()

    def now(self) -> float:
        return super().now() * (1.0 - self.back)


def trained(engine: VirtualEngine) -> Run:
    optimizer = GradientDescent(PROBLEM.initial(), rate=0.3)
    return train(PROBLEM, schemes.exact(6, load=2), optimizer, engine, 10)


def made(**methods: Any) -> VirtualEngine:
    """Return an engine of a class of its own, some of whose methods are others."""
    return type("Mine", (Own,), methods)()


@pytest.mark.parametrize("shape", [(1,), (4,), (1, 5), ()])
def test_a_vector_of_another_shape_is_refused_and_never_spread_over_all_parameters(shape: tuple[int, ...]) -> None:
    with pytest.raises(Unreachable, match=r"its vector is of shape .*, which must be \(5,\)"):
        trained(Own(lambda event: replace(event, read=lambda: np.ones(shape))))


def test_an_arrival_that_is_told_twice_is_one_message() -> None:
    assert trained(Own(times=2)).x.tobytes() == trained(Own()).x.tobytes()


def test_what_is_no_event_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"what next_event\(until\) returns must be an event, or None"):
        trained(Own(lambda event: "arrived"))


@pytest.mark.parametrize("wrong", [{"worker": 99}, {"order_round": 7}])
def test_events_that_nobody_asked_for_are_blamed_on_the_engine(wrong: dict[str, int]) -> None:
    with pytest.raises(NothingUnderWay, match=r"If the engine is your own, its events may name workers, messages or"):
        trained(Own(lambda event: replace(event, **wrong)))  # type: ignore[arg-type]


def test_a_clock_that_goes_back_ends_the_run() -> None:
    with pytest.raises(EngineError, match=r"the clock of the engine 'virtual' went back: now\(\) must never fall"):
        trained(Own(back=2.0))


@pytest.mark.parametrize("now", [None, "1", math.nan, math.inf, True])
def test_a_clock_that_is_no_number_is_named_before_any_worker_starts(now: object) -> None:
    with pytest.raises(InvalidArgument, match=r"what now\(\) of the engine returns must be a finite number of seconds"):
        trained(made(now=lambda _: now))


@pytest.mark.parametrize("hosts", [["a"], None, "a", {0: None}])
def test_hosts_that_are_no_mapping_of_names_are_named(hosts: object) -> None:
    with pytest.raises(InvalidArgument, match=r"what hosts\(\) of the engine returns must "):
        trained(made(hosts=lambda _: hosts))


@pytest.mark.parametrize("room", ["two", 1.5, -1])
def test_the_room_of_a_host_is_a_number_of_workers(room: object) -> None:
    with pytest.raises(InvalidArgument, match=r"the room of 'a' in what hosts\(\) of the engine returns must be "):
        trained(made(hosts=lambda _: {"a": room}))


@pytest.mark.parametrize(
    ("setting", "said"), [("late", "late must be 'preempt' or"), ("delays", "delays must be a delay")]
)
def test_settings_of_ones_own_are_looked_at(setting: str, said: str) -> None:
    engine = Own()
    setattr(engine, setting, 5)
    with pytest.raises(InvalidArgument, match=said):
        trained(engine)


def test_what_is_no_event_is_named_while_workers_start() -> None:
    def told(engine: Own, until: float | None) -> int:
        return 5

    with pytest.raises(InvalidArgument, match=r"what next_event\(until\) returns must be an event, or None"):
        trained(made(next_event=told))


@pytest.mark.parametrize("told", [0, 6, 8])
def test_an_engine_that_returns_none_too_early_is_told_so_at_once(told: int) -> None:
    events = iter(range(told))

    def impatient(engine: Own, until: float | None) -> Any:
        return None if next(events, None) is None else Own.next_event(engine, until)

    said = r"the engine 'virtual' returned None from next_event\(until\) before now\(\) was `until`"
    with pytest.raises(EngineError, match=said):
        trained(made(next_event=impatient))


def test_workers_of_which_nothing_is_told_are_named_with_what_an_engine_has_to_tell() -> None:
    def silent(engine: Own, worker: int, program: object, host: str | None = None) -> None:
        """Start no worker."""

    said = r"workers \[0, 1, 2, 3, 4, 5\] were not ready within 300 s\. An engine of your own has to tell by `Joined`"
    with pytest.raises(EngineError, match=said):
        trained(made(assign=silent))
