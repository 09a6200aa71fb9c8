"""Steps of the real loop on any engine, with workers that write their vectors and compute nothing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from amazon import problem
from erasurehead import codes, schemes
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Engine, MessageSpec, Order
from erasurehead.testing._programs import Echo
from erasurehead.training._assignment import Assignment
from erasurehead.training._programs import build_programs
from erasurehead.training._round import RoundRunner
from erasurehead.training._workers import WorkerPool

N, D = 30, 241_915
"""Workers, and parameters: those of the Amazon data."""


class Writer(Echo):
    """Writes its vector, and neither copies nor computes anything."""

    def take(self, order: Order) -> Any:
        return order.step

    def compute(self, spec: MessageSpec, taken: Any, out: np.ndarray) -> None:
        out[:] = taken


class Rounds:
    """Rounds of thirty workers on an engine, which is closed with it.

    Arguments:
        engine: where the workers run.
        scheme: who answers, and whom a round waits for.
        layout: of the messages, which tells their lengths.
        n_parameters: of the model that an order carries.
    """

    def __init__(self, engine: Engine, scheme: schemes.Scheme, layout: Layout, n_parameters: int = D) -> None:
        self.engine = engine
        lengths = [layout.length(message) for message in range(N)]
        programs = [Writer(i, (i,), length, n_parameters) for i, length in enumerate(lengths)]
        pool = WorkerPool(self.engine, Assignment.first(scheme, programs, layout))
        self.runner = RoundRunner(pool)
        pool.start()
        self.x = np.zeros(n_parameters)
        self.round = 0

    def step(self) -> tuple[float, float]:
        """Return seconds of the step, and how long the rule waited."""
        begin = time.perf_counter()
        result = self.runner.gather(Order(self.round, (self.x,), round=self.round))
        self.round += 1
        assert result.estimate is not None
        return time.perf_counter() - begin, result.waited


class Single:
    """The floor: one process that writes the thirty vectors and sums them."""

    def __init__(self) -> None:
        self.matrix = np.zeros((N, D))

    def step(self) -> float:
        """Return the seconds that it took."""
        begin = time.perf_counter()
        for row in self.matrix:
            row[:] = 1.0
        total = np.ones(N) @ self.matrix
        assert total[0] == N
        return time.perf_counter() - begin


def all_of(load: int) -> schemes.Scheme:
    """Return fractional repetition that waits for everybody, whatever it then uses."""
    return schemes.custom(codes.fractional_repetition(N, load), f"first({N})")


def supports(load: int) -> Layout:
    """Return the layout of the Amazon data under fractional repetition."""
    return build_programs(codes.fractional_repetition(N, load), problem())[1]
