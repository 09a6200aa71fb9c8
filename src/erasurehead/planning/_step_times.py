"""Expected step times if workers' times are shifted exponentials: the ErasureHead paper, section 4.

There are two laws, which can rank schemes in opposite orders: `scaled(...)`, that of the paper's theory, in which both
computing time and delay grow with the load, and `additive(...)`, that of the published experiments, in which the delay
does not depend on the load. The functions take either as an argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from erasurehead.errors import check_count, check_size, invalid, real
from erasurehead.planning._erasures import Erasures


@dataclass(frozen=True)
class ShiftedLaw:
    """The law of a worker's time: `shift` plus an exponential time with mean `mean`, in the same unit of time.

    Arguments:
        shift: constant part, at least 0.
        mean: mean of the exponential part, greater than 0.
    """

    shift: float
    mean: float

    def __post_init__(self) -> None:
        if not (math.isfinite(real(self.shift)) and self.shift >= 0.0):
            raise invalid("shift", "must be at least 0 and finite", self.shift)
        if not (math.isfinite(real(self.mean)) and self.mean > 0.0):
            raise invalid("mean", "must be greater than 0 and finite", self.mean)


def scaled(n_tasks: int, load: int, rate: float) -> ShiftedLaw:
    """Return the law of the paper's equations (7) and (8): `load` of n tasks take c/n + Exp(rate lambda n / c).

    Time is in units of a full gradient on one idle machine. (Equation (8) is printed as the complement of what is
    meant.)

    Arguments:
        n_tasks: n, the number of tasks.
        load: c, tasks per worker.
        rate: lambda, greater than 0; a smaller rate means longer delays.
    """
    share = check_count("load", load) / check_size("n_tasks", n_tasks)
    return ShiftedLaw(share, share / _rate(rate))


def additive(load: int, seconds_per_task: float, rate: float) -> ShiftedLaw:
    """Return the law of the published experiments: `load` tasks one after the other, then Exp(rate lambda) seconds.

    Arguments:
        load: c, tasks per worker.
        seconds_per_task: computing time of a task.
        rate: lambda, per second, greater than 0; the published code has a mean delay 1/lambda of 0.5 s.
    """
    return ShiftedLaw(check_count("load", load, at_least=0) * real(seconds_per_task), 1.0 / _rate(rate))


def _rate(rate: float) -> float:
    if not (math.isfinite(real(rate)) and rate > 0.0):
        raise invalid("rate", "must be greater than 0 and finite", rate)
    return float(rate)


def harmonic(m: int) -> float:
    """Return H_m = 1 + 1/2 + ... + 1/m, and 0 for m = 0."""
    m = check_count("m", m, at_least=0)
    if m < 1000:
        return math.fsum(1.0 / i for i in range(1, m + 1))
    # Euler-Maclaurin formula; the next term is below 1e-20.
    return math.log(m) + 0.5772156649015329 + 0.5 / m - 1.0 / (12.0 * m * m) + 1.0 / (120.0 * m**4)


def order_statistic(n: int, position: int, mean: float = 1.0) -> float:
    """Return the mean of the `position`-th smallest of n exponentials: mean * (H_n - H_(n-position)). Lemma 6.

    Arguments:
        n: number of exponentials, at least 1.
        position: from 1, the smallest, to n, the largest; 0 gives 0.
        mean: mean of one exponential, in any unit of time, which is also that of the result.
    """
    n = check_count("n", n)
    position = check_count("position", position, at_least=0, at_most=n)
    return mean * (harmonic(n) - harmonic(n - position))


def minimum_mean(count: int, mean: float = 1.0) -> float:
    """Return the mean of the smallest of `count` exponentials, itself exponential: mean / count. Lemma 7.

    Arguments:
        count: number of exponentials, at least 1.
        mean: mean of one exponential, in any unit of time, which is also that of the result.
    """
    return mean / check_count("count", count)


def first_arrivals(law: ShiftedLaw, n_workers: int, waited: int) -> float:
    """Return the expected time until `waited` workers have answered; with all of them, that of gradient descent.

    Arguments:
        law: law of a worker's time.
        n_workers: number of workers.
        waited: number of workers to wait for, from 1 to `n_workers`.
    """
    return law.shift + order_statistic(n_workers, check_count("waited", waited), law.mean)


def all_groups(law: ShiftedLaw, n_workers: int, replicas: int, wanted: int | None = None) -> float:
    """Return the expected time until every group of a repetition code has answered, or until `wanted` groups have.

    A group answers after the smallest of its l exponentials, of mean `law.mean / l` (Lemma 7), and the last of B
    groups after H_B times that: shift + mean / l * (H_B - H_(B - wanted)). The paper's (13) has H_n - H_c in place
    of H_(n/c).

    Arguments:
        law: law of a worker's time.
        n_workers: number of workers, a multiple of `replicas`.
        replicas: workers in a group.
        wanted: number of groups to wait for; by default all.
    """
    groups = Erasures(n_workers, replicas, 0).n_groups
    return law.shift + order_statistic(groups, groups if wanted is None else wanted, minimum_mean(replicas, law.mean))


def first_or_all_groups(law: ShiftedLaw, n_workers: int, replicas: int, waited: int) -> float:
    """Return the expected time of the implemented rule: `waited` arrivals, or all groups if that is sooner.

    The paper analyses the r-th arrival alone, and says that this is an upper bound. The exact time follows from the
    fact that which workers answer is independent of when they do. The (j+1)-th arrival is waited for with the
    probability that j arrivals do not cover all groups, and comes mean / (k - j) after the j-th:
    shift + sum_(j < r) P(some group is missing after j) * mean / (k - j).

    Arguments:
        law: law of a worker's time.
        n_workers: k, the number of workers, a multiple of `replicas`.
        replicas: workers in a group.
        waited: r, the number of arrivals that ends the wait, from 1 to `n_workers`.
    """
    check_count("waited", waited, at_most=n_workers)
    uncovered = [1.0 - Erasures(n_workers, replicas, arrived).complete for arrived in range(waited)]
    return law.shift + math.fsum(share * law.mean / (n_workers - j) for j, share in enumerate(uncovered))
