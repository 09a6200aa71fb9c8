"""When a run ends before its last step: a target is reached, nothing gets better, it is converged, its time is up."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array, Tree, squared_norm
from erasurehead.errors import check_count, check_positive, invalid
from erasurehead.problems import Problem
from erasurehead.training._evaluator import Evaluator, EvaluatorLost, Measured, Metric, spare_core
from erasurehead.training._optimum import Optimum, find_optimum
from erasurehead.training._rows import StepRow

Ending: TypeAlias = Literal["steps", "until", "patience", "max_seconds", "converged"]
"""What ended a run: all steps were taken, the target was reached, the metric did not improve for as many steps as
`patience`, the time was up, or it converged: the exact gradient is as small as `tolerance` asks, or the optimizer has
converged. What it converges to need not be a minimum: see `FinalModel.without_minimum`."""

TOLERANCE = 1e-12
"""Default norm of an exact gradient, relative to that of the first one, at which a run has converged."""

_TARGET = re.compile(r"\s*([A-Za-z_][\w ]*?)\s*(<=|>=|<|>)\s*(\S+)\s*")


@dataclass(frozen=True)
class Until:
    """A metric, and the value that ends a run.

    Arguments:
        metric: `gap`, `objective`, or a metric that the problem computes on the test samples.
        sign: `<`, `<=`, `>` or `>=`.
        value: the target, finite.
    """

    metric: str
    sign: Literal["<", "<=", ">", ">="]
    value: float

    @classmethod
    def parse(cls, text: str | Until) -> Until:
        """Return the target that a text stands for.

        Raises:
            InvalidArgument: if the text is not a target.

        >>> Until.parse("gap < 1e-3")
        Until(metric='gap', sign='<', value=0.001)
        """
        if isinstance(text, Until):
            return text
        match = _TARGET.fullmatch(text) if isinstance(text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        try:
            value = math.nan if match is None else float(match[3])
        except ValueError:
            value = math.nan
        if match is None or not math.isfinite(value):
            raise invalid("until", "must be a metric, one of < <= > >=, and a number", text, "such as 'gap < 1e-3'")
        sign: Any = match[2]
        if match[1] == "gap" and (sign.startswith(">") or value <= 0.0):
            raise invalid("until", "must ask for a gap below a number greater than 0", text, "such as 'gap < 1e-3'")
        return cls(match[1], sign, value)

    @property
    def falls(self) -> bool:
        """Whether smaller values are better."""
        return self.sign.startswith("<")

    def reached(self, value: float) -> bool:
        """Return whether a value of the metric is good enough."""
        if self.sign == "<":
            return value < self.value
        if self.sign == "<=":
            return value <= self.value
        return value > self.value if self.sign == ">" else value >= self.value

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.value!r}"


class Stopping:
    """Decides whether a run ends before its last step.

    Arguments:
        problem: what is minimised.
        first: the model that training begins with.
        until: the target; None for none.
        patience: end after this many steps without an improvement of the target's metric (without a target: of the
            objective); None for never.
        max_seconds: seconds of training, on the engine's clock; None for no limit.
        tolerance: end when an exact gradient, penalty included, is at most this fraction of the first; None for never.
        every: measure after every `every` steps.

    Attributes:
        measured: the values of the metric so far, in the order in which they were known.
        optimum: the minimum that gaps are measured from; None before it is found, or if it is not needed.
        ended: what has ended the run; None while it continues.

    Raises:
        InvalidArgument: if an argument is out of its range, or the problem does not have the metric.
    """

    def __init__(
        self,
        problem: Problem,
        first: Array,
        until: str | Until | None = None,
        patience: int | None = None,
        max_seconds: float | None = None,
        tolerance: float | None = TOLERANCE,
        every: int = 1,
    ) -> None:
        self.problem, self.first = problem, first
        self.until = None if until is None else Until.parse(until)
        self.patience = None if patience is None else check_count("patience", patience)
        for name, value in (("max_seconds", max_seconds), ("tolerance", tolerance)):
            if value is not None:
                check_positive(name, value, "must be a finite number greater than 0")
        self.max_seconds = math.inf if max_seconds is None else float(max_seconds)
        self.tolerance = tolerance
        self.every = max(1, every)
        self.measured: list[Measured] = []
        self.optimum: Optimum | None = None
        self.ended: Ending | None = None
        self._best = math.inf
        self._best_step = 0
        self._first_norm: float | None = None  # norm of the first exact gradient
        self._norm: float | None = None  # of the last one
        self._confirmed = False  # whether the optimizer has taken such a norm for the end
        self._point: Array | None = None  # the model that it is of; None if the norm is restored
        self._beside: Evaluator | None = None
        self._tell: Callable[[str], None] = lambda sentence: None
        self._check_metric()

    @property
    def metric(self) -> str | None:
        """The metric that is measured during training; None for none."""
        if self.until is not None:
            return self.until.metric
        return None if self.patience is None else "objective"

    def _check_metric(self) -> None:
        if self.metric in (None, "gap", "objective"):
            return
        names = ["gap", "objective", *(name for name in self.problem.metrics(self.first) if name != "objective")]
        if self.metric not in names:
            raise invalid("until", "must name a metric that is measured", self.metric, f"these are {', '.join(names)}")

    def prepare(self) -> None:
        """Find the minimum that gaps are measured from, off the clock, unless it is known already."""
        if self.metric == "gap" and self.optimum is None:
            self.optimum = find_optimum(self.problem, self.first)

    def converged(self, norm: float, x: Array | None, confirm: Callable[[], bool]) -> bool:
        """Record the norm of an exact gradient; return whether the run has converged.

        A norm whose square is beyond float64 is infinite, and says nothing. The gradient of a first model that is much
        larger than the present one is long only for that reason: the norm counts as that many times longer.

        Arguments:
            norm: Euclidean norm of the gradient, penalty included; of the shortest subgradient where that is sharp.
            x: the model that it is of, shape (n_parameters,); None if that is taken into account already.
            confirm: returns whether the optimizer takes a short gradient for the end (`Optimizer.confirm`), which
                decides unless a tolerance greater than the default was chosen.
        """
        if not math.isfinite(norm):
            return self.ended is not None
        if self._first_norm is None:
            self._first_norm = norm
        self._norm, self._point = norm, x
        if self.tolerance is not None:
            short = self.tolerance * self._first_norm
            if norm <= short and norm * self._shrunk() <= short:
                self._confirmed = confirm()
                if self._confirmed or self.tolerance > TOLERANCE:
                    self.end("converged")
        return self.ended is not None

    def _shrunk(self) -> float:
        """Return how many times the way from the first model is longer than the model of the last norm, at least 1."""
        if self._point is None:
            return 1.0
        x = np.asarray(self._point, dtype=np.float64)
        size, way = squared_norm(x) ** 0.5, squared_norm(x - self.first) ** 0.5
        return 1.0 if way <= size else way / max(size, 1e-300)

    def open(self, hosts: Iterable[str], tell: Callable[[str], None]) -> None:
        """Measure the metric in a separate process from now on, if this machine has a core to spare for it.

        Arguments:
            hosts: the host of each worker.
            tell: called with the reason why it is not, or no longer, although there is a core.
        """
        if self.metric is None or not spare_core(hosts):
            return
        self._tell = tell
        try:
            self._beside = Evaluator(self._measures())
        except EvaluatorLost as lost:
            tell(str(lost))

    def close(self) -> None:
        """End the separate process; calling it twice does no harm."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None

    def after(self, row: StepRow, x: Array, last: bool = False) -> bool:
        """Check whether the run ends after a step; return whether it does.

        Values that another process measures are used as soon as they arrive: they are of models some steps ago.

        Arguments:
            row: row of the step.
            x: the model after it.
            last: whether this is the last step, so that values that are still being measured are waited for.
        """
        done = row.step + 1
        if self.ended is None and self.metric is not None:
            if done % self.every == 0:
                if self._beside is None:
                    self._measure(done, row.end, x)
                else:
                    self._beside.give(done, row.end, x)
            self._take_up(last)
        if row.end >= self.max_seconds:
            self.end("max_seconds")
        return self.ended is not None

    def end(self, by: Ending) -> None:
        """End the run, unless something else has ended it already."""
        self.ended = self.ended or by

    def reached(self, done: int) -> bool:
        """Return whether the run has ended because the model after this many steps reached the target."""
        return self.ended == "until" and self.measured[-1].step == done

    def _measures(self) -> Metric:
        return Metric(self.problem, str(self.metric), self.optimum)

    def _measure(self, done: int, when: float, x: Array) -> None:
        """Measure a model here and now."""
        began = time.perf_counter()
        value = self._measures().value(x)
        self._keep(Measured(done, when, value, time.perf_counter() - began))
        self._judge()

    def _take_up(self, wait: bool) -> None:
        """Take the values that another process measured; if it is gone, measure here."""
        beside = self._beside
        if beside is None:
            return
        lost: EvaluatorLost | None = None
        try:
            values: Sequence[Measured] = beside.answers(wait)
        except EvaluatorLost as error:
            lost, values = error, error.measured
        for measured in values:
            if self.ended is None:
                self._keep(measured)
                self._judge()
        if lost is not None:
            self._tell(str(lost))
            left = beside.unmeasured
            self.close()
            if left is not None and self.ended is None:
                self._measure(*left)

    def _keep(self, measured: Measured) -> None:
        """Keep a value of the metric."""
        self.measured.append(measured)
        cost = measured.value if self.until is None or self.until.falls else -measured.value
        if cost < self._best:
            self._best, self._best_step = cost, measured.step

    def _judge(self) -> None:
        """End the run if the last value of the metric requires it."""
        last = self.measured[-1]
        if self.until is not None and self.until.reached(last.value):
            self.end("until")
        elif self.patience is not None and last.step - self._best_step >= self.patience:
            self.end("patience")

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs."""
        optimum = self.optimum
        return {
            "optimum": None if optimum is None else [optimum.objective, optimum.first_objective, optimum.gradient_left],
            "metric": self.metric,
            "measured": [[one.step, one.time, one.value, one.seconds, one.beside] for one in self.measured],
            "first_norm": self._first_norm,
            "norm": None if self._norm is None else self._norm * self._shrunk(),
            "confirmed": self._confirmed,
        }

    def restore(self, state: Mapping[str, Any], elapsed: float, first: Array) -> None:
        """Continue from what `state` returned.

        Whether the run has ended is judged again, by its present target, patience, time and tolerance: a run that was
        ended by these takes no further step, and one that was given more continues.

        Arguments:
            state: what `state` returned.
            elapsed: seconds of training so far.
            first: the model that the run began with, which need not be at hand any more.
        """
        self.first = first
        if state["optimum"] is not None:
            self.optimum = Optimum(*map(float, state["optimum"]))
        if state["metric"] == self.metric:  # otherwise the values are those of another metric
            for step, time, value, seconds, beside in state["measured"]:
                self._keep(Measured(int(step), float(time), float(value), float(seconds), bool(beside)))
        self._first_norm = None if state["first_norm"] is None else float(state["first_norm"])
        if self.measured:
            self._judge()
        if self._first_norm is not None and state["norm"] is not None:
            self.converged(float(state["norm"]), None, lambda: bool(state["confirmed"]))
        if elapsed >= self.max_seconds:
            self.end("max_seconds")
