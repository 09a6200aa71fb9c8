"""Expected step times if workers' times are shifted exponentials: the ErasureHead paper, section 4.

There are two laws, which can rank schemes in opposite orders: that of the paper's theory, in which both computing time
and delay grow with the load, and `additive(...)`, that of the published experiments, in which the delay does not depend
on the load. The functions take either as an argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from erasurehead.errors import check_count, check_not_negative, check_positive, check_size, invalid, real


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
        check_not_negative("shift", self.shift)
        check_positive("mean", self.mean)


def additive(load: int, seconds_per_task: float, rate: float) -> ShiftedLaw:
    """Return the law of the published experiments: `load` tasks one after the other, then Exp(rate lambda) seconds.

    Arguments:
        load: c, tasks per worker.
        seconds_per_task: computing time of a task.
        rate: lambda, per second, greater than 0; the published code has a mean delay 1/lambda of 0.5 s.
    """
    check_positive("rate", rate)
    return ShiftedLaw(check_count("load", load, at_least=0) * real(seconds_per_task), 1.0 / rate)


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


def equal_groups(n_workers: int, replicas: int) -> int:
    """Return the number of groups of so many replicas, n/c in the paper; raise unless they are equal."""
    check_size("n_workers", n_workers)
    check_count("replicas", replicas, at_most=n_workers)
    if n_workers % replicas:
        raise invalid("replicas", f"must divide the number of workers, {n_workers}", replicas)
    return n_workers // replicas


def all_in(n_workers: int, replicas: int, waited: int) -> float:
    """Return the probability that no group of replicas is missing among the first `waited` workers to answer."""
    groups = equal_groups(n_workers, replicas)
    count = sum(
        (-1) ** m * math.comb(groups, m) * math.comb(n_workers - m * replicas, waited) for m in range(groups + 1)
    )
    return count / math.comb(n_workers, waited)  # both are exact, and the quotient is rounded only once


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
    groups = equal_groups(n_workers, replicas)
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
    uncovered = [1.0 - all_in(n_workers, replicas, arrived) for arrived in range(waited)]
    return law.shift + math.fsum(share * law.mean / (n_workers - j) for j, share in enumerate(uncovered))
