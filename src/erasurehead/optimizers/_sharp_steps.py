"""The step of a quasi-Newton method where the penalty is sharp: to the minimum of a model that is as sharp."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, cast

import numpy as np
from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead._internal.arrays import Array, BoolArray, product
from erasurehead.optimizers._lbfgs_matrix import LBFGSMatrix
from erasurehead.problems import Penalty

_NEAR = 1e-2  # of the first subgradient's length, up to which the model is minimised
_MOST_ROUNDS = 30  # of a step along the subgradient and one of Newton's method
_HALVES = 0.5 ** np.arange(1, 12).reshape(-1, 1)  # of a step of Newton's method
_DECREASE = 1e-4  # of what the slope promises, that a step within the model must bring
_MOST_DOUBLES = 40  # of the diagonal, until a step along the subgradient goes down


def sharp_step(penalty: Penalty, matrix: LBFGSMatrix, x: Array, gradient: Array) -> tuple[Array, float]:
    """Return a step from a model, and by how much it changes the quadratic part's slope and the sharp penalty.

    It leads to where `gradient @ step + step @ B @ step / 2`, together with the sharp part of the penalty, is about
    least, as in proximal Newton methods (Lee, Sun and Saunders, "Proximal Newton-type methods for minimising composite
    functions", 2014). The model is minimised in rounds: one step along the shortest subgradient, in the metric of B's
    diagonal, finds which parameters are 0; one of Newton's method moves those that are not, by the matrix that belongs
    to these alone. Both stop where a parameter becomes 0 (Andrew and Gao, "Scalable training of L1-regularized
    log-linear models", 2007). Parameters that are 0, and whose subgradient is, too, stay 0.

    Arguments:
        penalty: its `steepest` says where it is sharp; the sharp part is linear where no parameter changes its sign.
        matrix: the approximation B of the Hessian of all that is smooth.
        x: the model, shape (n_parameters,).
        gradient: of all that is smooth there, shape (n_parameters,).

    Returns:
        The step, shape (n_parameters,), and `gradient @ step` plus the change of the sharp penalty: negative, unless
        there is nothing to gain.
    """
    model = _Model(penalty, matrix, x, gradient)
    here, slope, value = np.zeros(len(model.start)), model.gradient, 0.0
    stiffness, first = 1.0, 0.0
    for _ in range(_MOST_ROUNDS):
        steepest = model.steepest(here, slope)
        length = product(steepest, steepest / model.matrix.diagonal) ** 0.5
        first = first or length
        if not length > _NEAR * first:
            break
        before = value
        for _ in range(_MOST_DOUBLES):
            end = model.kept(here, steepest, -steepest / (stiffness * model.matrix.diagonal))
            lower, turned = model.value(end)
            if lower <= value + _DECREASE * product(steepest, end - here):
                break
            stiffness *= 2.0
        else:
            break  # rounding hides what is left to gain
        here, slope, value = model.improved(end, turned, lower)
        stiffness = max(1.0, stiffness / 2.0)
        if not value < before:
            break
    step = np.zeros(len(x))
    step[model.columns] = here
    return step, float(model.sharp_slope(here))


class _Model:
    """The model of the objective, in terms of a step by those parameters that may move.

    Attributes:
        columns: these parameters.
        matrix: the rows and columns of B that belong to them.
        start: the parameters where the step begins.
        gradient: of what is smooth there.
    """

    def __init__(self, penalty: Penalty, matrix: LBFGSMatrix, x: Array, gradient: Array) -> None:
        below, above = sides(penalty, len(x))
        uphill = _shortest(x, gradient, below, above)
        self.columns = np.flatnonzero((x != 0.0) | (uphill != 0.0))
        self.matrix = matrix.within(self.columns)
        self.start, self.gradient = x[self.columns].astype(np.float64), gradient[self.columns]
        self._below, self._above = below[self.columns], above[self.columns]
        self._free = self._below == self._above

    def steepest(self, step: Array, slope: Array) -> Array:
        """Return the shortest subgradient of the model after a step, given the gradient of its smooth part there."""
        return _shortest(self.start + step, slope, self._below, self._above)

    def kept(self, step: Array, uphill: Array, move: Array) -> Array:
        """Return a step and a move after it that ends at 0 where a parameter would change its sign.

        Arguments:
            step: where the move begins.
            uphill: the shortest subgradient there.
            move: where to; or several, shape (k, columns).
        """
        here = self.start + step
        end = within_orthant(here, uphill, here + move, self._free)
        return np.where(end == 0.0, -self.start, step + move)

    def value(self, step: Array) -> tuple[Any, Array]:
        """Return how much the model changes along a step, or each of several, and the gradient of its smooth part."""
        bent = self.matrix.times(step)
        return self.sharp_slope(step) + 0.5 * _products(step, bent), self.gradient + bent

    def sharp_slope(self, step: Array) -> Any:
        """Return the gradient times a step, plus the change of the sharp penalty: small numbers, added one by one."""
        end = self.start + step
        begun = np.where(np.where(self.start == 0.0, end, self.start) > 0.0, self._above, self._below)
        ended = np.where(end > 0.0, self._above, self._below)
        crossed = self.start * end < 0.0
        return _products(self.gradient + begun, step) + _products(np.where(crossed, ended - begun, 0.0), end)

    def improved(self, step: Array, slope: Array, value: float) -> tuple[Array, Array, float]:
        """Move the parameters that are not 0 to where the model is least, or as far as it falls.

        Arguments:
            step: where to begin.
            slope: gradient of the smooth part there.
            value: the model there.

        Returns:
            The same three where the move ends.
        """
        uphill = self.steepest(step, slope)
        moving = np.flatnonzero((self.start + step != 0.0) | self._free)
        move = np.zeros(len(step))
        try:
            move[moving] = -self.matrix.within(moving).solve(uphill[moving])
        except np.linalg.LinAlgError:
            return step, slope, value
        for moves in (move[np.newaxis], move * _HALVES):  # all halves at once: where none will do, it costs a tenth
            ends = self.kept(step, uphill, moves)
            lower, turned = self.value(ends)
            falls = np.flatnonzero(lower <= value + _DECREASE * np.minimum(0.0, _products(uphill, ends - step)))
            if len(falls):
                return ends[falls[0]], turned[falls[0]], float(lower[falls[0]])
        return step, slope, value


def sides(penalty: Penalty, n_parameters: int) -> tuple[Array, Array]:
    """Return the slopes of a penalty's sharp part along each parameter, below 0 and above it."""
    one, none = np.ones(n_parameters), np.zeros(n_parameters)
    below, above = penalty.steepest(-one, none), penalty.steepest(one, none)
    assert below is not None  # `QuasiNewton.begin` has checked
    assert above is not None
    return below, above


def within_orthant(x: Array, uphill: Array, end: Array, free: BoolArray) -> Array:
    """Return where a move ends if parameters stop at 0 rather than change their sign.

    Arguments:
        x: where it begins; parameters that are 0 there get the sign that lies downhill.
        uphill: the shortest subgradient there.
        end: where it would end.
        free: parameters that may change their sign.
    """
    orthant = np.where(x == 0.0, -np.sign(uphill), np.sign(x))
    return np.where(free | (end * orthant > 0.0), end, 0.0)


def _shortest(x: Array, slope: Array, below: Array, above: Array) -> Array:
    """Return the shortest subgradient, given the gradient of what is smooth and the slopes of what is sharp."""
    at_zero = np.maximum(slope + below, 0.0) + np.minimum(slope + above, 0.0)
    return np.where(x == 0.0, at_zero, slope + np.where(x > 0.0, above, below))


def _products(one: Array, other: Array) -> Any:
    """Return the inner product of two vectors, or of one, or each of several, with each of several."""
    return np.einsum("...i,...i->...", one, other)


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which linear algebra runs in one thread; entered at every step, it must cost little."""
    return cast("Any", _libraries()).limit(limits=1)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looking for them takes milliseconds
