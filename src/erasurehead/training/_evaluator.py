"""A metric of the model that is measured during training, between steps or by a process beside; a run can end by it."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.resources import usable_cores
from erasurehead.engines import Arrived, Died, Failed, MessageSpec, Order, Program
from erasurehead.engines._base import told
from erasurehead.errors import ErasureHeadError
from erasurehead.problems import Problem
from erasurehead.training._optimum import Optimum

if TYPE_CHECKING:
    from erasurehead.engines import ProcessEngine


@dataclass(frozen=True, eq=False)
class Metric:
    """A number that says how good a model is.

    Arguments:
        problem: what is minimised.
        name: `gap`, `objective`, or a metric that the problem computes on the test samples.
        optimum: the minimum that a gap is measured from; only needed for gaps.
    """

    problem: Problem
    name: str
    optimum: Optimum | None = None

    def value(self, x: Array) -> float:
        """Return the metric of a model; not finite if the model has diverged."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._value(x)

    def _value(self, x: Array) -> float:
        if self.name == "gap":
            assert self.optimum is not None
            return self.optimum.gap(self.problem.objective(x))
        if self.name == "objective":
            return self.problem.objective(x)
        return float(self.problem.metrics(x)[self.name])


@dataclass(frozen=True)
class Measured:
    """One measured value of the metric by which a run may end.

    Attributes:
        step: number of steps done.
        time: seconds of training until then.
        value: value of the metric.
        seconds: real seconds that measuring took. On engines of real workers they are part of the next step's time,
            unless another process measured.
        beside: whether another process measured, while training went on.
    """

    step: int
    time: float
    value: float
    seconds: float
    beside: bool = False


_Given: TypeAlias = tuple[int, float, Array]
"""Number of steps done, seconds of training until then, and the model."""

_JUDGE = 0
"""The number of the one worker."""

_LAST_WAIT = 60.0
"""Seconds to wait for the last answer when training is over."""


def spare_core(hosts: Iterable[str]) -> bool:
    """Return whether this machine has a core for one more process than the coordinator and the workers beside it.

    Arguments:
        hosts: the host of each worker.
    """
    here = socket.gethostname()
    return usable_cores() > 1 + sum(host == here for host in hosts)


class EvaluatorLost(ErasureHeadError):
    """The process beside training cannot be started, is gone, or cannot measure.

    Arguments:
        reason: why.
        measured: what it had measured since it was last asked.
    """

    def __init__(self, reason: str, measured: Sequence[Measured] = ()) -> None:
        super().__init__(reason)
        self.measured = tuple(measured)


class _Judge(Program):
    """Measures the model of an order: its message is the value, and the seconds that measuring took."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.preload = metric.problem.preload

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return (MessageSpec(0, 1.0, 2),)

    @property
    def input_size(self) -> int:
        return self.metric.problem.n_parameters

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        return () if done else self.message_specs

    def take(self, order: Order) -> Any:
        return order.points[0].copy()

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        began = time.perf_counter()
        out[0] = self.metric.value(taken)
        out[1] = time.perf_counter() - began


class Evaluator:
    """Measures models in a separate process, which is a worker of a `ProcessEngine`.

        It is sent one model at a time: whenever it is done with one, the newest. It ends when it is closed, and with
        this process, however that ends.

    Arguments:
        metric: what is measured.

    Raises:
        EvaluatorLost: if it cannot be started, for example because the problem cannot be sent to another process.
    """

    def __init__(self, metric: Metric) -> None:
        from erasurehead.engines import ProcessEngine

        self._under_way: _Given | None = None
        self._newest: _Given | None = None
        self._round = 0
        self._engine: ProcessEngine = ProcessEngine(late="carry")
        try:
            self._engine.assign(_JUDGE, _Judge(metric))
        except Exception as error:  # pickling may raise anything
            self.close()
            raise EvaluatorLost(f"it could not be started ({told(error)})") from error

    def give(self, step: int, when: float, x: Array) -> None:
        """Hand over a model, in place of any that it has not begun to measure.

        Arguments:
            step: number of steps done.
            when: seconds of training until then.
            x: the model, which must not be changed any more.
        """
        self._newest = step, when, x
        self._feed()

    def _feed(self) -> None:
        """Send the newest model, unless another is still being measured."""
        if self._under_way is None and self._newest is not None:
            self._under_way, self._newest = self._newest, None
            self._engine.submit(Order(self._round, (self._under_way[2],), round=self._round), [_JUDGE])
            self._round += 1

    def answers(self, wait: bool = False) -> list[Measured]:
        """Return what it has measured since it was last asked.

        Arguments:
            wait: whether to wait, for a minute at most, until the newest model is measured.

        Raises:
            EvaluatorLost: if it has died, or cannot measure; `unmeasured` is then the newest model that it was given.
        """
        values: list[Measured] = []
        until = time.monotonic() + _LAST_WAIT if wait else -math.inf
        while True:
            event = self._engine.poll()
            if event is None:
                if self._under_way is None or time.monotonic() >= until:
                    return values
                event = self._engine.next_event(until)
            if isinstance(event, Arrived) and self._under_way is not None:
                value, seconds = event.read().tolist()
                self._engine.release(event)
                step, when, _ = self._under_way
                values.append(Measured(step, when, value, seconds, beside=True))
                self._under_way = None
                self._feed()
            elif isinstance(event, Died | Failed):
                raise EvaluatorLost(event.reason, values)

    @property
    def unmeasured(self) -> tuple[int, float, Array] | None:
        """The newest model that has not been measured, after its steps and seconds; None if there is none."""
        return self._under_way if self._newest is None else self._newest

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._engine.pid(_JUDGE)

    def close(self) -> None:
        """End the process; calling it twice does no harm."""
        self._engine.close()
