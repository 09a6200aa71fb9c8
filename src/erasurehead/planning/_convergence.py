"""The bound on the number of steps to converge with exact gradients: Lemma 1 of the ErasureHead paper."""

from __future__ import annotations

import math
from dataclasses import dataclass

from erasurehead.errors import check_not_negative, check_positive, invalid


@dataclass(frozen=True)
class Constants:
    """Constants of an objective f = (1/n) sum_i f_i that the bounds depend on.

    Arguments:
        mu: constant of the Polyak-Lojasiewicz inequality ||grad f||^2 / 2 >= mu (f - f*), greater than 0.
        beta: smoothness, the largest curvature; at least mu.
        sigma: largest ||grad f_i(x)|| over all tasks i and *the whole trajectory*: a supremum, not a variance. At least
            0.
        gap: initial gap f(x_0) - f*, greater than 0.
    """

    mu: float
    beta: float
    sigma: float
    gap: float

    def __post_init__(self) -> None:
        for name in ("mu", "beta", "gap"):
            value = getattr(self, name)
            check_positive(name, value)
        if self.beta < self.mu:
            raise invalid("beta", f"must be at least mu, {self.mu:g}", self.beta)
        check_not_negative("sigma", self.sigma)

    @property
    def kappa(self) -> float:
        """mu / beta, at most 1: the paper's notation; the condition number is usually the inverse of it."""
        return self.mu / self.beta


@dataclass(frozen=True)
class Bound:
    """The bound E[f(x_T)] - f* <= factor ** T * gap + floor on the error after T steps.

    Arguments:
        factor: contraction factor of one step, from 0 to 1.
        floor: part of the bound that remains after any number of steps, at least 0.
        gap: initial gap f(x_0) - f*.
    """

    factor: float
    floor: float
    gap: float

    def after(self, steps: int) -> float:
        """Return the bound after a number of steps."""
        return self.factor**steps * self.gap + self.floor

    def steps_to(self, epsilon: float) -> float:
        """Return the number of steps after which the bound is at most epsilon, not rounded; inf below the floor.

        It is inf, too, for a contraction so slow that float64 has no factor below 1 for it.
        """
        if not epsilon > self.floor:
            return math.inf
        if epsilon >= self.gap + self.floor or self.factor == 0.0:
            return 0.0 if epsilon >= self.gap + self.floor else 1.0
        if self.factor == 1.0:
            return math.inf
        return math.log(self.gap / (epsilon - self.floor)) / -math.log(self.factor)


def lemma1(constants: Constants) -> Bound:
    """Return the bound for gradient descent with the exact gradient and step size 1/beta, uncoded or exactly coded.

    Arguments:
        constants: constants of the objective and its gradients.
    """
    return Bound(1.0 - constants.kappa, 0.0, constants.gap)
