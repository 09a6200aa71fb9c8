"""Runs that keep all kinds of state, on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from erasurehead import codes, delays, engines, optimizers, schemes, training
from erasurehead.decoding import Decoder
from erasurehead.delays._fixed import Recorded
from erasurehead.engines import Engine, Order
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import Answer, Optimizer
from erasurehead.problems import ElasticNet, Penalty
from erasurehead.schemes import Aggregation, LateMessage, Scheme
from erasurehead.schemes.wait_rules import Verdict, View, WaitRule
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Resumption, Run

Array: TypeAlias = NDArray[np.float64]  # scripts load this file, too, and know no package of tests
STEPS = 14


class Learns(WaitRule):
    """Waits for one worker more than came to the step before, until it begins anew with one."""

    remembers = True

    def __init__(self) -> None:
        self.wanted = 1

    def begin(self) -> WaitRule:
        return Learns()

    def verdict(self, view: View) -> Verdict:
        return Verdict.STOP if view.finished >= min(self.wanted, len(view.able)) else Verdict.WAIT

    def learn(self, step: Any, arrivals: Sequence[Any]) -> None:
        self.wanted = 1 + step.arrived % 3

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return np.sort(times, axis=1)[:, 0]

    def state(self) -> Any:
        return {"wanted": self.wanted}

    def restore(self, state: Any) -> None:
        self.wanted = int(state["wanted"])

    def __str__(self) -> str:
        return "learns()"


class Remembers(Aggregation):
    """Adds a part of every late message, and of the estimate before."""

    wants_late = True

    def __init__(self) -> None:
        self.sum = np.zeros(6)
        self.seen = 0

    def begin(self) -> Aggregation:
        return Remembers()

    def late(self, message: LateMessage) -> None:
        self.sum = self.sum + 0.01 * message.vector / (1 + message.age)

    def estimate(self, decoding: Any, vectors: Sequence[Array], layout: Any, order: Order) -> Array | None:
        found = schemes.uncoded(1).aggregation.estimate(decoding, vectors, layout, order)
        self.sum = 0.5 * self.sum + (0.0 if found is None else found) / (1 + self.seen % 3)
        return self.sum

    def learn(self, step: Any, arrivals: Sequence[Any]) -> None:
        self.seen += sum(row.late for row in arrivals)

    def state(self) -> dict[str, Any]:
        return {"sum": self.sum, "seen": self.seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.sum, self.seen = np.array(state["sum"]), int(state["seen"])


class Reduced(Optimizer):
    """Moves along the difference of the gradients at the model and at an anchor, plus the anchor's (SVRG)."""

    max_points = 2
    kinds = ("gradient", "whole")

    def __init__(self, x: Array) -> None:
        super().__init__(x)
        self.anchor, self.whole = self.x, np.zeros_like(self.x)

    def ask(self) -> Order:
        if self.step % 4 == 0:
            return Order(self.step, (self.x,), kind="whole")
        return Order(self.step, (self.x, self.anchor), coefficients=(1.0, -1.0))

    def tell(self, answer: Answer) -> None:
        estimate = answer.estimate
        if estimate is not None and self.step % 4 == 0:
            self.anchor, self.whole = self.x, estimate
        elif estimate is not None:
            self.x = self.x - 0.1 * (estimate + self.whole)
        self.step += 1

    def state(self) -> dict[str, Any]:
        return {**super().state(), "anchor": self.anchor, "whole": self.whole}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.anchor, self.whole = np.array(state["anchor"]), np.array(state["whole"])


class Sharp(Quadratic):
    """Least squares with l1 and l2."""

    @property
    def regularizer(self) -> Penalty:
        return ElasticNet(0.02, 0.05)


def _problem(kind: type[Quadratic] = Quadratic) -> Quadratic:
    base = Quadratic.random(48, 5, seed=1, l2=0.01)
    return kind(base.rows, base.centres, 0.01)


def _mixed() -> Scheme:
    scheme = schemes.ignore_stragglers(6, 3)
    return replace(scheme, rules={**scheme.rules, "whole": schemes.uncoded(6).rule})


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Arguments:
        scheme: makes it.
        late: what late workers do.
        optimizer: makes it, at a first model.
        problem: makes it.
        policy: what is done about the dead; two die if it is given.
        how: further arguments of `train`.
    """

    scheme: Callable[[], Scheme]
    late: str = "preempt"
    optimizer: Callable[[Array], Optimizer] = lambda x: optimizers.Nesterov(x, 0.05)
    problem: Callable[[], Quadratic] = _problem
    policy: FaultPolicy | None = None
    how: Mapping[str, Any] = field(default_factory=dict[str, Any])


FIRST = lambda: schemes.erasurehead(6, load=2, wait_for=3)  # noqa: E731
KINDS: Mapping[str, Kind] = {
    "asynchronous": Kind(lambda: schemes.asynchronous(6, 12), "carry", policy=FaultPolicy(on_death="spread")),
    "learning": Kind(lambda: schemes.custom(codes.uncoded(6), Learns(), Remembers()), "carry"),
    "aged": Kind(lambda: schemes.custom(codes.uncoded(6), "arrivals(2) & aged(3)", Remembers()), "carry"),
    "dropped": Kind(lambda: schemes.custom(codes.uncoded(6), "first(2)", Remembers()), "drop(2)"),
    "until": Kind(FIRST, how={"until": "gap < 0.3", "patience": 9, "max_seconds": 1e3}),
    "patience": Kind(lambda: schemes.ignore_stragglers(6, 1), how={"patience": 2}),
    "seconds": Kind(FIRST, "carry", how={"max_seconds": 2.0}),
    "points": Kind(_mixed, optimizer=Reduced),
    "penalty": Kind(FIRST, problem=lambda: _problem(Sharp)),
    "dithered": Kind(FIRST, "carry", how={"wire": "dithered(seed=5)"}),
    "several": Kind(lambda: schemes.rennala(6, 7, messages=3), "carry"),
    "once": Kind(lambda: schemes.compute_once(6, load=3, pieces=2), policy=FaultPolicy(on_death="spread")),
    "once, carried": Kind(lambda: schemes.compute_once(6, load=2, pieces=2), "carry"),
    "sums": Kind(lambda: schemes.compute_once(6, 3, pieces=2, sums=True), policy=FaultPolicy(on_death="spread")),
    "sums, carried": Kind(lambda: schemes.compute_once(6, 2, pieces=2, sums=True), "carry"),
    "ringleader": Kind(lambda: schemes.ringleader(6, 12), "carry", policy=FaultPolicy(on_death="replace")),
    "rescaled": Kind(lambda: schemes.asynchronous(6, 12, rescaled=True), "carry"),
    "nested": Kind(lambda: schemes.nested(6), policy=FaultPolicy(on_death="spread")),
    "nested, carried": Kind(lambda: schemes.nested(6, load=4), "carry"),
    "replay": Kind(lambda: schemes.asynchronous(6, 12), policy=FaultPolicy(on_death="spread")),
}


def train(
    kind: Kind,
    scheme: Scheme,
    problem: Quadratic,
    callbacks: Sequence[Callback] = (),
    resume: Resumption | None = None,
    recorded: Recorded | None = None,
) -> Run:
    """Train as a kind of run does, or as was recorded."""
    return training.train(
        problem,
        scheme,
        kind.optimizer(problem.initial()),
        _engine(kind, recorded),
        STEPS,
        callbacks,
        fault_policy=kind.policy,
        resume=resume,
        **kind.how,
    )


def _engine(kind: Kind, recorded: Recorded | None) -> Engine:
    if recorded is not None:
        return engines.VirtualEngine(recorded)
    engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3), kind.late)
    if kind.policy is not None:
        for worker, time_of_death in ((2, 0.1), (4, 0.3)):
            engine.kill(worker, at=time_of_death)
    return engine
