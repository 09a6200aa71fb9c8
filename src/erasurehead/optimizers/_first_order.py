"""First-order methods: gradient descent, heavy ball, Nesterov as in the original experiments."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import invalid, real
from erasurehead.optimizers._base import Answer, Optimizer
from erasurehead.optimizers._schedules import Schedule, as_schedule

_RESTARTS = 3
"""Number of restarts of Nesterov's method before its step size begins to fall."""


class FirstOrder(Optimizer):
    """A method that takes one step along each estimated gradient. A subclass implements `move`.

    Arguments:
        x: the first model, shape (n_parameters,).
        rate: step size or schedule.

    Attributes:
        schedule: the step size of each step.
    """

    def __init__(self, x: Array, rate: float | str | Schedule) -> None:
        super().__init__(x)
        self.schedule = as_schedule(rate)

    def tell(self, answer: Answer) -> None:
        """Take a step along the estimated gradient (penalty included), or none if there is no estimate."""
        if answer.estimate is not None:
            rate = answer.share * self.schedule(self.step)
            self.x = self.move(answer.estimate, rate).astype(self.x.dtype, copy=False)
        self.step += 1

    @abstractmethod
    def move(self, gradient: Array, rate: float) -> Array:
        """Return the next model along a gradient at a rate, shape (n_parameters,); it is cast to the model's dtype."""


class GradientDescent(FirstOrder):
    """`x <- x - rate * gradient`: equation (2) of the ErasureHead paper.

    With l1 it is the iterative soft thresholding of Daubechies, Defrise and De Mol (2004).
    """

    proximal = True

    def move(self, gradient: Array, rate: float) -> Array:
        return self.landed(self.x - rate * gradient, rate)


class HeavyBall(FirstOrder):
    """Polyak's momentum: `v <- momentum * v - rate * gradient; x <- x + v`.

    Arguments:
        x: the first model, shape (n_parameters,).
        rate: step size or schedule.
        momentum: in [0, 1).
    """

    proximal = True

    checkpointed = ("velocity",)

    def __init__(self, x: Array, rate: float | str | Schedule, momentum: float = 0.9) -> None:
        super().__init__(x, rate)
        if not 0 <= real(momentum) < 1:
            raise invalid("momentum", "must lie in [0, 1)", momentum)
        self.momentum = momentum
        self.velocity = np.zeros_like(self.x)

    def move(self, gradient: Array, rate: float) -> Array:
        self.velocity = self.momentum * self.velocity - rate * gradient
        x_next = self.landed(self.x + self.velocity, rate)
        if self.penalty.sharp:
            self.velocity = x_next - self.x  # what was taken back is no momentum (iPiano, Ochs et al., 2014)
        return x_next


class Nesterov(FirstOrder):
    """Accelerated gradient descent as the published ErasureHead and gradient-coding experiments write it.

    With theta = 2 / (step + 2), and u = x initially::

        y      = (1 - theta) x + theta u
        x_next = y - rate * gradient(x)
        u      = x + (x_next - x) / theta

    Textbook acceleration takes the gradient at y. The published code takes it at x, the model that it broadcasts, and
    all figures of the paper were made that way, so this class does the same. The published code also starts u at zero,
    whatever the first model is, so that its first step forgets a random one; this class starts u at the first model,
    which is the same for a first model of zeros and keeps a warm start.

    The momentum grows without bound, and so does the accumulated noise of approximate gradients: a model that was good
    after 100 steps may be useless after 3,000. With `restart` the momentum starts anew, at theta = 1, after every step
    that went uphill by the gradient (O'Donoghue and Candes, 2015, the gradient scheme), and from the fourth restart on
    the step size falls as 3 / restarts. Exact gradients rarely lead uphill, whereas noisy ones do so every few steps
    once only noise is left, so that the step size falls when it has to, and not before.

    Arguments:
        x: the first model, shape (n_parameters,).
        rate: step size or schedule.
        restart: whether to restart the momentum; False is the published method, bit for bit.
    """

    proximal = True

    checkpointed = ("u", "_since", "_restarts")

    def __init__(self, x: Array, rate: float | str | Schedule, restart: bool = False) -> None:
        super().__init__(x, rate)
        self.restart = restart
        self.u: Array = self.x
        self._since = 0  # the step at which the momentum last started
        self._restarts = 0

    def move(self, gradient: Array, rate: float) -> Array:
        theta = 2.0 / (self.step - self._since + 2.0)
        rate *= min(1.0, _RESTARTS / max(1, self._restarts))
        start = (1.0 - theta) * self.x + theta * self.u
        x_next = self.landed(start - rate * gradient, rate)
        self.u = self.x + (x_next - self.x) / theta
        # With a sharp penalty, what the move undid takes the gradient's place: the loss's own is not 0 at the minimum.
        slope = start - x_next if self.penalty.sharp else gradient
        if self.restart and float(slope @ (x_next - self.x)) > 0.0:
            self.u, self._since = x_next, self.step + 1
            self._restarts += 1
        return x_next
