"""A small run on the virtual clock, in a fault schedule, in this process: what the tests of drills share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasurehead import schemes
from erasurehead.delays import Exponential
from erasurehead.drills import Fault, FaultyEngine
from erasurehead.engines import VirtualEngine
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Notice, Run, train

from ..arrays import Array

PROBLEM = Quadratic.random(36, 5, seed=3, l2=0.01)
WORKERS, LOAD, STEPS = 9, 3, 24
GROUPS = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def scheme(wait: str = "decodable() & confirmed(2)", load: int = LOAD) -> schemes.Scheme:
    """Return nine workers in groups of three, two of which must agree."""
    from erasurehead.codes import fractional_repetition

    return schemes.custom(fractional_repetition(WORKERS, load), wait)


def descend(steps: int = STEPS, rate: float = 0.1) -> Array:
    """Return the model of plain gradient descent."""
    x = np.zeros(PROBLEM.n_parameters)
    for _ in range(steps):
        x = x - rate * (PROBLEM.gradient(x) + PROBLEM.penalty_gradient(x))
    return x


@dataclass
class Faulty:
    """A run that was taken.

    Attributes:
        run: the run.
        notices: what people were told of it.
        log: what was told of its faults.
    """

    run: Run
    notices: list[Notice]
    log: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def of(self, what: str) -> list[dict[str, Any]]:
        """Return the entries of one kind."""
        return [entry for entry in self.log if entry["what"] == what]

    @property
    def said(self) -> str:
        """All notices, one a line."""
        return "\n".join(notice.text for notice in self.notices)


class Witness(Callback):
    """Keeps what people are told."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)


def taken(
    faults: Sequence[Fault],
    chosen: schemes.Scheme | None = None,
    late: str = "preempt",
    fault_policy: FaultPolicy | None = None,
    steps: int = STEPS,
    callbacks: Sequence[Callback] = (),
    **others: Any,
) -> Faulty:
    """Take a run in a fault schedule, with delays of half a second."""
    log: list[dict[str, Any]] = []
    engine = FaultyEngine(VirtualEngine(Exponential(mean=0.5, seed=1), late), faults, record=log.append)
    witness = Witness()
    run = train(
        PROBLEM,
        chosen or scheme(),
        GradientDescent(np.zeros(PROBLEM.n_parameters), 0.1),
        engine,
        steps,
        [witness, *callbacks],
        evaluate_every=0,
        fault_policy=fault_policy or FaultPolicy(verify=True),
        **others,
    )
    log += [
        {"what": notice.kind, "time": notice.time, "worker": notice.worker, "text": notice.reason}
        for notice in run.notices
        if notice.kind in ("died", "joined")
    ]
    return Faulty(run, witness.notices, log)
