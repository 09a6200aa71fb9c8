"""How the model moves: gradient descent, heavy ball, Nesterov as in the original experiments; step-size schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.text_parser import read
from erasurehead.engines.base import Order
from erasurehead.errors import check_count, invalid, real
from erasurehead.problems.penalties import Penalty

_RESTARTS = 3
"""Restarts of Nesterov's method that the step size survives unchanged."""


class Schedule(ABC):
    """Step -> step size."""

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the step size of a step, counted from 0."""


def _check_rate(rate: float) -> None:
    if not (np.isfinite(real(rate)) and rate > 0):
        raise invalid("rate", "must be a positive finite number", rate)


@dataclass(frozen=True)
class Constant(Schedule):
    """The same step size at every step.

    >>> Constant(10.0)(99)
    10.0
    """

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        object.__setattr__(self, "rate", float(self.rate))

    def __call__(self, step: int) -> float:
        return self.rate


@dataclass(frozen=True)
class Geometric(Schedule):
    """`rate * factor**step`: 0.1 and 0.99 for KC Housing in the ErasureHead paper, Table 1.

    >>> round(Geometric(0.1, 0.99)(100), 6)
    0.036603
    """

    rate: float
    factor: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0 < real(self.factor) <= 1:
            raise invalid("factor", "must lie in (0, 1]", self.factor)

    def __call__(self, step: int) -> float:
        return self.rate * self.factor**step


@dataclass(frozen=True)
class InverseTime(Schedule):
    """`rate / (1 + step / half_life)`: the 1/t rate of stochastic gradient descent on strongly convex functions.

    >>> InverseTime(1.0, half_life=10.0)(10)
    0.5
    """

    rate: float
    half_life: float = 1.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not real(self.half_life) > 0:
            raise invalid("half_life", "must be positive", self.half_life)

    def __call__(self, step: int) -> float:
        return self.rate / (1.0 + step / self.half_life)


def as_schedule(rate: float | str | Schedule) -> Schedule:
    """Return the step sizes that a number or a text stands for, or a schedule as it is.

    Arguments:
        rate: a number, a schedule, or the text of one: `constant(rate)`, `geometric(rate, factor)` or
            `inverse_time(rate, half_life)`.

    Raises:
        InvalidArgument: if it is none of these.

    >>> as_schedule("geometric(0.1, 0.99)")
    Geometric(rate=0.1, factor=0.99)
    """
    if isinstance(rate, Schedule):
        return rate
    if isinstance(rate, str):
        try:
            number = float(rate)
        except ValueError:
            return read(rate, "rate", Schedule, SCHEDULES, {})
        return Constant(number)
    return Constant(rate)


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    "constant": Constant,
    "geometric": Geometric,
    "inverse_time": InverseTime,
}
"""What each name in the text of a schedule builds."""


class Optimizer(ABC):
    """What moves the model. It asks for a gradient with an order, and is told the estimate.

    Asking and telling are separate so that methods that need two points an order, or no step at all, fit the same loop.

    Attributes:
        max_points: the most points that an order asks for.
        x: the current model, shape (n_parameters,). Replaced at each step, never changed in place: orders in flight
            still refer to earlier ones.
        step: number of steps taken or skipped so far.
        proximal: whether the method ends its moves with `landed`, as penalties with a sharp part need it.
        penalty: whose sharp part `landed` deals with; set by the training loop.
    """

    proximal: ClassVar[bool] = False
    max_points: ClassVar[int] = 1

    def __init__(self, x: Array, rate: float | str | Schedule) -> None:
        try:
            self.x = np.array(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise invalid("x", "must be a model of numbers, shape (n_parameters,)", x) from None
        if self.x.ndim != 1:
            raise invalid("the shape of x", "must be (n_parameters,)", self.x.shape)
        if not np.isfinite(self.x).all():
            raise invalid("x", "must be finite", "a model with NaN or infinity")
        self.schedule = as_schedule(rate)
        self.step = 0
        self.penalty: Penalty | None = None

    def ask(self) -> Order:
        """Return the order for the next step: at which points gradients are wanted."""
        return Order(step=self.step, points=(self.x,))

    def tell(self, estimate: Array | None) -> None:
        """Take a step along the estimated gradient (penalty included), or none if there is no estimate."""
        if estimate is not None:
            self.x = self.move(estimate, self.schedule(self.step))
        self.step += 1

    @abstractmethod
    def move(self, gradient: Array, rate: float) -> Array:
        """Return the next model."""

    def landed(self, x: Array, rate: float) -> Array:
        """Return where a step along the gradients ends: at the proximal point of the penalty's sharp part, if any."""
        return x if self.penalty is None or not self.penalty.sharp else self.penalty.prox(x, rate)

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs to continue to the bit."""
        return {"x": self.x, "step": self.step}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.x = np.array(state["x"], dtype=np.float64)
        self.step = check_count("step", state["step"], at_least=0)


class GradientDescent(Optimizer):
    """`x <- x - rate * gradient`: equation (2) of the ErasureHead paper.

    With l1 it is the iterative soft thresholding of Daubechies, Defrise and De Mol (2004).
    """

    proximal = True

    def move(self, gradient: Array, rate: float) -> Array:
        return self.landed(self.x - rate * gradient, rate)


class HeavyBall(Optimizer):
    """Polyak's momentum: `v <- momentum * v - rate * gradient; x <- x + v`.

    Arguments:
        x: the first model.
        rate: step size or schedule.
        momentum: in [0, 1).
    """

    proximal = True

    def __init__(self, x: Array, rate: float | str | Schedule, momentum: float = 0.9) -> None:
        super().__init__(x, rate)
        if not 0 <= real(momentum) < 1:
            raise invalid("momentum", "must lie in [0, 1)", momentum)
        self.momentum = momentum
        self.velocity = np.zeros_like(self.x)

    def move(self, gradient: Array, rate: float) -> Array:
        self.velocity = self.momentum * self.velocity - rate * gradient
        x_next = self.landed(self.x + self.velocity, rate)
        if self.penalty is not None and self.penalty.sharp:
            self.velocity = x_next - self.x  # what was taken back is no momentum (iPiano, Ochs et al., 2014)
        return x_next

    def state(self) -> dict[str, Any]:
        return {**super().state(), "velocity": self.velocity}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.velocity = np.array(state["velocity"], dtype=np.float64)


class Nesterov(Optimizer):
    """Accelerated gradient descent as the published ErasureHead and gradient-coding experiments write it.

    With theta = 2 / (step + 2) and u = x at first::

        y      = (1 - theta) x + theta u
        x_next = y - rate * gradient(x)
        u      = x + (x_next - x) / theta

    Textbook acceleration takes the gradient at y; the published code takes it at x, the model that it broadcast, and
    so do we: every figure of the paper was made so. It also starts u at zero whatever the first model is, so that its
    first step forgets a random one; we start u at the first model, which is the same for zero and keeps a warm start.

    The momentum grows for ever, and with it what the noise of an approximate gradient adds up to: a model that was
    good after 100 steps may be worse than none after 3,000. With `restart` the momentum starts anew, at theta = 1,
    after every step that went uphill by the gradient (O'Donoghue and Candes, 2015, the gradient scheme), and from the
    fourth restart on the step size falls as 3 / restarts. Exact gradients lead uphill seldom, and noisy ones every few
    steps once noise is all that is left, so that the step size falls when it must, and not before.

    Arguments:
        x: the first model.
        rate: step size or schedule.
        restart: whether to start anew; False is the published method, to the bit.
    """

    proximal = True

    def __init__(self, x: Array, rate: float | str | Schedule, restart: bool = False) -> None:
        super().__init__(x, rate)
        self.restart = restart
        self.u: Array = self.x
        self._since = 0  # the step that the momentum counts from
        self._restarts = 0

    def move(self, gradient: Array, rate: float) -> Array:
        theta = 2.0 / (self.step - self._since + 2.0)
        rate *= min(1.0, _RESTARTS / max(1, self._restarts))
        start = (1.0 - theta) * self.x + theta * self.u
        x_next = self.landed(start - rate * gradient, rate)
        self.u = self.x + (x_next - self.x) / theta
        # With a sharp penalty, what the move undid stands for the gradient: that of the loss alone is not 0 at its end.
        slope = gradient if self.penalty is None or not self.penalty.sharp else start - x_next
        if self.restart and float(slope @ (x_next - self.x)) > 0.0:
            self.u, self._since = x_next, self.step + 1
            self._restarts += 1
        return x_next

    def state(self) -> dict[str, Any]:
        return {**super().state(), "u": self.u, "since": self._since, "restarts": self._restarts}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.u = np.array(state["u"], dtype=np.float64)
        self._since, self._restarts = int(state.get("since", 0)), int(state.get("restarts", 0))
