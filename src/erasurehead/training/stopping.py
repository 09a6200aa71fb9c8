"""When a run ends before its last step: a target is reached, nothing gets better, it is converged, its time is up."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from erasurehead._internal.arrays import Array, Tree
from erasurehead.errors import check_count, invalid, real
from erasurehead.problems.base import Problem
from erasurehead.training.evaluator import Evaluator, EvaluatorLost, spare_core
from erasurehead.training.metric import Measured, Metric
from erasurehead.training.optimum import Optimum, find_optimum
from erasurehead.training.rows import StepRow

Ending: TypeAlias = Literal["steps", "until", "patience", "max_seconds", "converged"]
"""What has ended a run: all its steps are taken, its target is reached, its metric has not got better for as many steps
as it was given, its time is up, or it has converged: the exact gradient is as short as was asked for (`tolerance`), or
the optimizer finds nothing to gain any more."""

TOLERANCE = 1e-12
"""Length of an exact gradient, over that of the first, at which a run has converged, if nothing else is asked for."""

_TARGET = re.compile(r"\s*([A-Za-z_][\w ]*?)\s*(<=|>=|<|>)\s*(\S+)\s*")


@dataclass(frozen=True)
class Until:
    """A metric, and the value that ends a run.

    Arguments:
        metric: `gap`, `objective`, or one that the problem measures on the test samples.
        sign: `<`, `<=`, `>` or `>=`.
        value: finite.
    """

    metric: str
    sign: Literal["<", "<=", ">", ">="]
    value: float

    @classmethod
    def parse(cls, text: str | Until) -> Until:
        """Return what a text stands for.

        Raises:
            InvalidArgument: if it stands for nothing.

        >>> Until.parse("gap < 1e-3")
        Until(metric='gap', sign='<', value=0.001)
        """
        if isinstance(text, Until):
            return text
        found = _TARGET.fullmatch(text) if isinstance(text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        try:
            value = math.nan if found is None else float(found[3])
        except ValueError:
            value = math.nan
        if found is None or not math.isfinite(value):
            raise invalid("until", "must be a metric, one of < <= > >=, and a number", text, "such as 'gap < 1e-3'")
        sign: Any = found[2]
        if found[1] == "gap" and (sign.startswith(">") or value <= 0.0):
            raise invalid("until", "must ask for a gap below a number greater than 0", text, "such as 'gap < 1e-3'")
        return cls(found[1], sign, value)

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
    """Watches whether a run is to end before its last step.

    Arguments:
        problem: what is minimised.
        first: the model that training begins with.
        until: the target; None for none.
        patience: end after this many steps in which the target's metric (without a target: the objective) has not got
            better; None for never.
        max_seconds: of training, on the engine's clock; None for no limit.
        tolerance: end when an exact gradient, with the penalty, is this much shorter than the first; None for never.
        every: measure after every so many steps.

    Attributes:
        measured: the values of the metric so far, in the order in which they were known.
        optimum: what gaps are measured from; None before it is found, or if nobody asks for it.
        ended: what has ended the run; None as long as nothing has.

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
            if value is not None and not (math.isfinite(real(value)) and value > 0.0):
                raise invalid(name, "must be a finite number greater than 0", value)
        self.max_seconds = math.inf if max_seconds is None else float(max_seconds)
        self.tolerance = tolerance
        self.every = max(1, every)
        self.measured: list[Measured] = []
        self.optimum: Optimum | None = None
        self.ended: Ending | None = None
        self._best = math.inf
        self._best_step = 0
        self._first_norm: float | None = None  # length of the first exact gradient
        self._norm: float | None = None  # of the last
        self._beside: Evaluator | None = None
        self._tell: Callable[[str], None] = lambda said: None
        self._check_metric()

    @property
    def metric(self) -> str | None:
        """What is measured along the way; None for nothing."""
        if self.until is not None:
            return self.until.metric
        return None if self.patience is None else "objective"

    def _check_metric(self) -> None:
        if self.metric in (None, "gap", "objective"):
            return
        known = ["gap", "objective", *(name for name in self.problem.metrics(self.first) if name != "objective")]
        if self.metric not in known:
            raise invalid("until", "must name a metric that is measured", self.metric, f"these are {', '.join(known)}")

    def prepare(self) -> None:
        """Find what the gap is measured from, off the clock, unless it is known already."""
        if self.metric == "gap" and self.optimum is None:
            self.optimum = find_optimum(self.problem, self.first)

    def converged(self, norm: float) -> bool:
        """Record the length of an exact gradient; return whether the run has converged by it."""
        if self._first_norm is None:
            self._first_norm = norm
        self._norm = norm
        if self.tolerance is not None and norm <= self.tolerance * self._first_norm:
            self.ended = self.ended or "converged"
        return self.ended is not None

    def open(self, hosts: Iterable[str], tell: Callable[[str], None]) -> None:
        """Have the metric measured beside training from now on, if this machine has a core to spare for it.

        Arguments:
            hosts: of each worker.
            tell: is told why it is not, or not any more, although there is one.
        """
        if self.metric is None or not spare_core(hosts):
            return
        self._tell = tell
        try:
            self._beside = Evaluator(self._measures())
        except EvaluatorLost as lost:
            tell(str(lost))

    def close(self) -> None:
        """Measure nothing beside training any more; calling it twice does no harm."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None

    def after(self, row: StepRow, x: Array, last: bool = False) -> bool:
        """Look whether the run is to end after a step; return whether it is.

        What is measured beside is taken up as soon as it is there: it is then of a model of some steps ago.

        Arguments:
            row: of the step.
            x: the model after it.
            last: whether no step comes after it, so that what is still being measured is waited for.
        """
        done = row.step + 1
        if self.ended is None and self.metric is not None:
            if done % self.every == 0:
                if self._beside is None:
                    self._measure(done, row.end, x)
                else:
                    self._beside.give(done, row.end, x)
            self._take_up(last)
        if self.ended is None and row.end >= self.max_seconds:
            self.ended = "max_seconds"
        return self.ended is not None

    def reached(self, done: int) -> bool:
        """Return whether the run has ended as the model after this many steps was measured, and good enough."""
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
        """Take what was measured beside; if nobody does so any more, measure here."""
        beside = self._beside
        if beside is None:
            return
        lost: EvaluatorLost | None = None
        try:
            found: Sequence[Measured] = beside.answers(wait)
        except EvaluatorLost as error:
            lost, found = error, error.found
        for measured in found:
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
        """End the run if the last value of the metric says so."""
        last = self.measured[-1]
        if self.until is not None and self.until.reached(last.value):
            self.ended = "until"
        elif self.patience is not None and last.step - self._best_step >= self.patience:
            self.ended = "patience"

    def state(self) -> dict[str, Tree]:
        """Return all that `restore` needs."""
        optimum = self.optimum
        return {
            "optimum": None if optimum is None else [optimum.objective, optimum.first_objective, optimum.gradient_left],
            "metric": self.metric,
            "measured": [[one.step, one.time, one.value, one.seconds, one.beside] for one in self.measured],
            "first_norm": self._first_norm,
            "norm": self._norm,
        }

    def restore(self, state: Mapping[str, Any], elapsed: float) -> None:
        """Continue from a state.

        Whether the run is at its end is judged again, by the target, patience, time and tolerance that it has now: one
        that was ended by these takes no further step, and one that was given more goes on.

        Arguments:
            state: what `state` returned.
            elapsed: seconds of training so far.
        """
        if state["optimum"] is not None:
            self.optimum = Optimum(*map(float, state["optimum"]))
        if state["metric"] == self.metric:  # else what was measured is something else
            for step, time, value, seconds, beside in state["measured"]:
                self._keep(Measured(int(step), float(time), float(value), float(seconds), bool(beside)))
        self._first_norm = None if state["first_norm"] is None else float(state["first_norm"])
        if self.measured:
            self._judge()
        if self._first_norm is not None and state["norm"] is not None:
            self.converged(float(state["norm"]))
        if elapsed >= self.max_seconds:
            self.ended = self.ended or "max_seconds"
