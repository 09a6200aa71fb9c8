"""Runs that are driven from outside, a step at a time."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, schemes
from erasurehead.engines import Engine
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import Optimizer
from erasurehead.testing._problems import Quadratic
from erasurehead.training import train
from erasurehead.training._callbacks import Callback
from erasurehead.training._stepped_run import SteppedRun

PROBLEM = Quadratic.random(24, 5)


def scheme() -> schemes.Scheme:
    return schemes.parse_scheme("erasurehead(load=2, wait_for=3)", 4)


def method() -> Optimizer:
    return optimizers.Nesterov(PROBLEM.initial(), rate=0.1)


def virtual() -> Engine:
    return engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3))


class Heard(Callback):
    def __init__(self) -> None:
        self.arrivals = list[tuple[int, int]]()

    def on_arrival(self, row: object) -> None:
        self.arrivals.append((row.step, row.worker))  # type: ignore[attr-defined]


def test_steps_taken_from_outside_are_those_of_train() -> None:
    whole = train(PROBLEM, scheme(), method(), virtual(), steps=8, evaluate_every=0)
    optimizer, heard = method(), Heard()
    with virtual() as engine:
        run = SteppedRun(PROBLEM, scheme(), optimizer, engine, callbacks=[heard])
        run.start()
        rows = [run.step() for _ in range(8)]
        run.end()
    assert optimizer.x.tobytes() == whole.x.tobytes()
    assert rows == list(whole.steps)
    assert heard.arrivals == [(row.step, row.worker) for row in whole.arrivals]


def test_between_two_steps_a_run_can_be_put_down_and_taken_up_to_the_bit() -> None:
    models: list[bytes] = []
    for parts in ([8], [3, 5]):
        state, optimizer = None, method()
        for count in parts:
            optimizer = method()
            with virtual() as engine:
                run = SteppedRun(PROBLEM, scheme(), optimizer, engine)
                if state is not None:
                    run.restore(state)
                run.start()
                for _ in range(count):
                    run.step()
                state = run.state()
        models.append(optimizer.x.tobytes())
    assert models[0] == models[1]


@pytest.mark.parametrize("kind", ["in_process", "processes"])
def test_whoever_drives_may_look_at_the_model_and_change_the_number_of_workers(kind: str) -> None:
    optimizer = method()
    with engines.ProcessEngine() if kind == "processes" else engines.InProcessEngine() as engine:
        run = SteppedRun(PROBLEM, scheme(), optimizer, engine, FaultPolicy())
        run.start()
        losses = [run.step().loss or 0.0 for _ in range(2)]
        row = run.step(workers=6)
        run.end()
    assert row.workers == 6
    assert optimizer.step == 3
    assert losses[1] < losses[0]
    assert np.isfinite(optimizer.x).all()
