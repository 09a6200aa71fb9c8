"""Formulas of the ErasureHead paper that the theory page shows and tests check, and that the library does not use.

Those that it uses, for forecasts, are in `erasurehead.planning`. The letters are the paper's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from erasurehead.errors import check_count, check_size, invalid, real
from erasurehead.planning import Constants
from erasurehead.planning._convergence import Bound, lemma1
from erasurehead.planning._step_times import (
    ShiftedLaw,
    all_groups,
    all_in,
    equal_groups,
    first_arrivals,
    first_or_all_groups,
    harmonic,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Erasures:
    """A repetition code whose coordinator waits for the first `waited` workers.

    In the paper's notation (section 3), k workers form k/l groups of l, and all members of a group send the same
    message; the first r workers to answer are a uniformly random r-subset, for any delays that are exchangeable between
    workers. p is the probability that one given group is missing, q that at least one of two given groups is.

    Arguments:
        n_workers: k, a multiple of `replicas`.
        replicas: l, workers per group.
        waited: r, from 0 to k.
    """

    n_workers: int
    replicas: int
    waited: int

    def __post_init__(self) -> None:
        equal_groups(self.n_workers, self.replicas)
        check_count("waited", self.waited, at_least=0, at_most=self.n_workers)

    @property
    def n_groups(self) -> int:
        """Number of groups, n/c in the paper."""
        return self.n_workers // self.replicas

    @property
    def p(self) -> float:
        """Probability that a given group is missing: C(k-l, r) / C(k, r). Lemma 2."""
        return self._all_missing(1)

    @property
    def q(self) -> float:
        """Probability that one or both of two given groups are missing: 2 p - C(k-2l, r) / C(k, r). Lemma 2."""
        return 2.0 * self.p - self._all_missing(2)

    def _all_missing(self, groups: int) -> float:
        rest = self.n_workers - groups * self.replicas
        if rest < self.waited:
            return 0.0
        # math.comb is exact, and the quotient of two integers is rounded only once.
        return math.comb(rest, self.waited) / math.comb(self.n_workers, self.waited)

    @property
    def complete(self) -> float:
        """Probability that no group is missing."""
        return all_in(self.n_workers, self.replicas, self.waited)


def scaled(n_tasks: int, load: int, rate: float) -> ShiftedLaw:
    """Return the law of the paper's equations (7) and (8): `load` of n tasks take c/n + Exp(rate lambda n / c).

    Time is in units of a full gradient on one idle machine. (Equation (8) is printed as the complement of what is
    meant.)

    Arguments:
        n_tasks: n, the number of tasks.
        load: c, tasks per worker.
        rate: lambda, greater than 0; a smaller rate means longer delays.
    """
    if not (math.isfinite(real(rate)) and rate > 0.0):
        raise invalid("rate", "must be greater than 0 and finite", rate)
    share = check_count("load", load) / check_size("n_tasks", n_tasks)
    return ShiftedLaw(share, share / rate)


def moments(erasures: Erasures) -> tuple[float, float]:
    """Return E[Y_i] = 1 - p and E[Y_i Y_j] = 1 - q, where Y_i indicates that group i has answered. Lemma 2."""
    return 1.0 - erasures.p, 1.0 - erasures.q


def missing_groups(erasures: Erasures) -> Array:
    """Return the distribution of the number of missing groups, shape (n_groups + 1,).

    Computed by inclusion and exclusion, P(j missing) = C(B, j) sum_i (-1)^i C(B-j, i) C(k - (i+j) l, r) / C(k, r),
    in integers, as the alternating sum would lose all digits in floating point. Takes a second for 2,000 workers.
    """
    groups, workers, waited = erasures.n_groups, erasures.n_workers, erasures.waited
    rest = [math.comb(workers - m * erasures.replicas, waited) for m in range(groups + 1)]
    total = math.comb(workers, waited)
    law = np.zeros(groups + 1)
    for missing in range(groups + 1):
        if not rest[missing]:
            break
        count = sum(
            (-1) ** more * math.comb(groups - missing, more) * rest[missing + more]
            for more in range(groups - missing + 1)
            if rest[missing + more]
        )
        law[missing] = math.comb(groups, missing) * count / total
    return law


def mean_residual(erasures: Erasures, n_tasks: int) -> float:
    """Return the expected residual of optimal decoding, in tasks: n_tasks * p."""
    return n_tasks * erasures.p


def lemma3(erasures: Erasures, group_gradients: Array) -> tuple[float, float]:
    """Return mean factor and second moment of the estimate g of equation (1): Lemma 3.

    E[g] = (1 - p) grad f, so that the plain estimate is too short. Expectations are over the random set of workers
    only.

    Arguments:
        erasures: the code and how many are waited for.
        group_gradients: g[i](x), the sum of the gradients of the tasks of group i, divided by the number of tasks
            so that the total over all groups is grad f; shape (n_groups, d).

    Returns:
        The factor 1 - p of grad f in E[g(x)], and E[||g(x)||^2].
    """
    if group_gradients.ndim != 2 or group_gradients.shape[0] != erasures.n_groups:
        rule = f"must have a row for each of {erasures.n_groups} groups"
        raise invalid("group_gradients", rule, group_gradients.shape)
    total = group_gradients.sum(axis=0)
    squares = float(np.einsum("gd,gd->", group_gradients, group_gradients))
    p, q = erasures.p, erasures.q
    return 1.0 - p, (1.0 - q) * float(total @ total) + (q - p) * squares


def lemma4(erasures: Erasures, gradient_norm: float, sigma: float, n_tasks: int) -> float:
    """Return the bound of Lemma 4 on E[||g(x)||^2], if the norm of every task's gradient is at most sigma.

    (1 - q) ||grad f||^2 + (q - p) c sigma^2 / n, with c = n / n_groups tasks a group. (The paper's step (5)
    divides by n^2 a second time; the lemma itself is right.)
    """
    per_group = n_tasks / erasures.n_groups
    return (1.0 - erasures.q) * gradient_norm**2 + (erasures.q - erasures.p) * per_group * sigma**2 / n_tasks


def lemma5(erasures: Erasures) -> float:
    """Return the bound of Lemma 5: p <= exp(-l r / k), which is exp(-c r / n)."""
    return math.exp(-erasures.replicas * erasures.waited / erasures.n_workers)


def any_but(law: ShiftedLaw, n_workers: int, stragglers: int) -> float:
    """Return the expected time of an exact code that waits for all but `stragglers` workers, such as cyclic or MDS.

    Arguments:
        law: law of a worker's time.
        n_workers: number of workers.
        stragglers: number of workers not to wait for, smaller than `n_workers`.
    """
    most = check_size("n_workers", n_workers) - 1
    return first_arrivals(law, n_workers, n_workers - check_count("stragglers", stragglers, at_least=0, at_most=most))


@dataclass(frozen=True)
class Lemma8:
    """Expected time of one step, in units of a full gradient on one idle machine.

    Attributes:
        uncoded: 1/n + H_n / (lambda n). (12)
        exact: c/n + H_(n/c) / (lambda n): the repetition code, until all groups have answered.
        exact_as_printed: c/n + (H_n - H_c) / (lambda n), the paper's (13). It is wrong: the last of n/c groups to
            answer, each after the minimum of c exponentials of mean c/(lambda n), takes H_(n/c) / (lambda n), and
            the printed delay is 19 to 35 percent too short (n = 30, c = 3, lambda = 1: 0.17206 against 0.19763).
        approximate: c/n + c (H_n - H_(n-r)) / (lambda n): the r-th arrival. (14)
        joint: the r-th arrival or all groups, whichever is sooner: the rule that is implemented.
    """

    uncoded: float
    exact: float
    exact_as_printed: float
    approximate: float
    joint: float


def lemma8(n: int, c: int, r: int, rate: float) -> Lemma8:
    """Return the expected step times of Lemma 8, with both the corrected and the printed time of the exact code.

    Arguments:
        n: number of tasks, and of workers.
        c: load, and workers per group; divides n.
        r: number of workers that ErasureHead waits for, from 1 to n.
        rate: lambda, greater than 0.
    """
    law = scaled(n, c, rate)
    return Lemma8(
        uncoded=first_arrivals(scaled(n, 1, rate), n, n),
        exact=all_groups(law, n, c),
        exact_as_printed=c / n + (harmonic(n) - harmonic(c)) / (rate * n),
        approximate=first_arrivals(law, n, r),
        joint=first_or_all_groups(law, n, c, r),
    )


@dataclass(frozen=True)
class PredictedTimes:
    """Predicted time to reach an error: steps by Lemma 1 or Theorem 1, times the expected time of a step.

    Unlike Theorem 3, whose bounds hold for lambda = 1/c and are loose by a constant factor, these predictions are for
    any lambda and use the times of `lemma8`. For the r-th arrival, the number of steps and their times are independent
    (as the paper argues); stopping once all groups have answered ends steps sooner without changing what is decoded, so
    that `joint` is smaller.

    Attributes:
        uncoded, exact, approximate, joint: as in `Lemma8`, in units of a full gradient on one idle machine;
            inf if the floor is not below epsilon.
    """

    uncoded: float
    exact: float
    approximate: float
    joint: float


def predicted_times(constants: Constants, n: int, c: int, r: int, rate: float, epsilon: float) -> PredictedTimes:
    """Return the predicted times to reach an error under the scaled law, with steps rounded up to whole numbers.

    Arguments:
        constants: constants of the objective, such as those that `estimate_constants` finds for a data set.
        n: number of tasks, and of workers.
        c: load of the coded schemes; divides n.
        r: number of workers that ErasureHead waits for, from 1 to n.
        rate: lambda, greater than 0.
        epsilon: error f - f* to reach, greater than 0.
    """
    if not real(epsilon) > 0.0:
        raise invalid("epsilon", "must be greater than 0", epsilon)
    times = lemma8(n, c, r, rate)
    exact_steps = _whole(lemma1(constants).steps_to(epsilon))
    steps = _whole(theorem1(constants, Erasures(n, c, r), n).steps_to(epsilon))
    return PredictedTimes(
        exact_steps * times.uncoded, exact_steps * times.exact, steps * times.approximate, steps * times.joint
    )


def _whole(steps: float) -> float:
    return math.ceil(steps) if math.isfinite(steps) else steps


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
