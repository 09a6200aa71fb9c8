"""Bounds on the number of steps and on the time to converge: Lemma 1 and Theorems 1 to 3 of the ErasureHead paper."""

from __future__ import annotations

import math
from dataclasses import dataclass

from erasurehead.errors import check_count, invalid, real
from erasurehead.planning._erasures import Erasures


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
            if not (math.isfinite(real(value)) and value > 0.0):
                raise invalid(name, "must be greater than 0 and finite", value)
        if self.beta < self.mu:
            raise invalid("beta", f"must be at least mu, {self.mu:g}", self.beta)
        if not (math.isfinite(real(self.sigma)) and self.sigma >= 0.0):
            raise invalid("sigma", "must be at least 0 and finite", self.sigma)

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


def theorem1(constants: Constants, erasures: Erasures, n_tasks: int) -> Bound:
    """Return the bound of Theorem 1 for the rescaled estimate g / (1 - p), with the step size (1 - p) / beta.

    Its floor vanishes like 1/n.

    Arguments:
        constants: constants of the objective and its gradients.
        erasures: the code and the number of workers that are waited for; its p must be below 1.
        n_tasks: n, the number of tasks; a group holds c = n / n_groups of them.

    Raises:
        InvalidArgument: if p is 1, as nothing is waited for.
    """
    p, q = erasures.p, erasures.q
    if p >= 1.0:
        raise invalid("waited", "must be at least 1", erasures.waited, "without any answers, nothing converges")
    noise = (q - p) / erasures.n_groups  # (q - p) c / n
    scale = constants.sigma**2 / (2.0 * (1.0 - p) * constants.mu)
    return Bound(1.0 - (1.0 - p) * constants.kappa, scale * noise, constants.gap)


def theorem2(constants: Constants, n: int, c: int, r: int) -> Bound:
    """Return the simpler bound of Theorem 2, which needs c >= n ln 2 / r (that is, p <= 1/2).

    It follows from Theorem 1 with p <= exp(-c r / n) and q <= 2 p, and is looser: its floor 2 c e^(-cr/n) sigma^2 /
    (mu n) is valid, but at least twice the one that these inequalities give, and four times for small p.

    Arguments:
        constants: constants of the objective and its gradients.
        n: number of workers, and of tasks.
        c: workers in a group, each of which holds the same c tasks; from 1 to n.
        r: number of arrivals that are waited for, from 1 to n.

    Raises:
        InvalidArgument: if c is too small, or a number is out of its range.
    """
    _check_sizes(n, c, r, most=n)
    if c < n * math.log(2.0) / r:
        raise invalid("c", f"must be at least n ln 2 / r = {n * math.log(2.0) / r:.4g}", c)
    rest = math.exp(-c * r / n)
    scale = rest * constants.sigma**2 / constants.mu
    return Bound(1.0 - (1.0 - rest) * constants.kappa, 2.0 * c * scale / n, constants.gap)


@dataclass(frozen=True)
class Theorem3:
    """Bounds on the expected time to reach an error, in units of a full gradient on one idle machine.

    Attributes:
        uncoded: log(gap/eps) / log(1/(1-kappa)) * (c log n + c + 1) / n.
        exact: the same steps, times (c log(n/c) + 2 c) / n.
        exact_as_printed: the same steps, times (c log(n/c) + c + 1) / n. It rests on the wrong (13) of Lemma 8, and
            is not an upper bound: with the corrected time c/n + H_(n/c)/(lambda n) and H_m <= log m + 1 the last term
            is 2 c, not c + 1. (2 c would follow from (13), too.)
        approximate: log(3 gap/eps) / log(1/(1-eta kappa)) * (c^2 log(1/(1-delta)) + c^2 + c) / n.
        least_epsilon: eps_0 = 3 c e^(-c r/n) sigma^2 / (mu n), the least error for which `approximate` is valid.
    """

    uncoded: float
    exact: float
    exact_as_printed: float
    approximate: float
    least_epsilon: float


def theorem3(constants: Constants, n: int, c: int, r: int, epsilon: float) -> Theorem3:
    """Return the bounds of Theorem 3, for the law scaled with the load, lambda = 1/c, and n tasks on n workers.

    Arguments:
        constants: constants of the objective and its gradients.
        n: number of tasks, and of workers.
        c: load of the coded schemes; also 1/lambda for all three schemes.
        r: number of workers that ErasureHead waits for, from 1 to n - 1 (delta = r/n).
        epsilon: error to reach, between 0 and the gap; `approximate` is inf if it is below `least_epsilon`.
    """
    _check_sizes(n, c, r, most=n - 1)
    if not 0.0 < real(epsilon) < constants.gap:
        raise invalid("epsilon", f"must be greater than 0 and smaller than the gap, {constants.gap:g}", epsilon)
    kappa, delta = constants.kappa, r / n
    eta = -math.expm1(-c * delta)
    steps = _steps(constants.gap / epsilon, kappa)
    least = 3.0 * c * math.exp(-c * delta) * constants.sigma**2 / (constants.mu * n)
    more_steps = _steps(3.0 * constants.gap / epsilon, eta * kappa)
    return Theorem3(
        uncoded=steps * (c * math.log(n) + c + 1.0) / n,
        exact=steps * (c * math.log(n / c) + 2.0 * c) / n,
        exact_as_printed=steps * (c * math.log(n / c) + c + 1.0) / n,
        approximate=more_steps * (c * c * math.log(1.0 / (1.0 - delta)) + c * c + c) / n
        if epsilon >= least
        else math.inf,
        least_epsilon=least,
    )


def _check_sizes(n: int, c: int, r: int, most: int) -> None:
    check_count("c", c, at_most=check_count("n", n))
    check_count("r", r, at_most=most)


def _steps(ratio: float, contraction: float) -> float:
    """Return the number of steps that lower an error by a ratio if each leaves 1 - contraction of it."""
    return math.log(ratio) / -math.log1p(-contraction) if contraction < 1.0 else 1.0
