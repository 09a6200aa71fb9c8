"""The nearest balanced design to a wish."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count

from erasurehead.codes.base import GradientCode
from erasurehead.codes.difference_sets import biquadratic, is_biquadratic, is_paley, is_twin, paley, twin_primes
from erasurehead.codes.fields import prime_power
from erasurehead.codes.planes import affine_plane, projective_plane
from erasurehead.errors import check_count

_Candidate = tuple[int, int, Callable[[int], GradientCode], int]  # workers, load, constructor, its argument


def design_for(n_workers: int, load: int) -> GradientCode:
    """The balanced design whose numbers of workers and load are nearest to a wish, among all families built here.

    Nearest by the sum of the two relative distances (of logarithms). With more points than workers, the missing ones
    count as stragglers for ever; with fewer, the other workers stay idle.

    Arguments:
        n_workers: wished number of workers, at least 3.
        load: wished tasks per worker, at least 2, less than `n_workers`.

    Labels:
        as the design's own; `rounded`: what was rounded, as a sentence; empty if the wish is met.

    Guarantees: as `block_design`.
    Choose it: to find out which design to take.
    Raises:
        InvalidArgument: a wish out of range.

    >>> design_for(30, load=5).labels["rounded"]
    'No balanced design here has 30 workers and load 5; the nearest is projective_plane(5): 31 workers, load 6.'
    """
    n_workers = check_count("n_workers", n_workers, at_least=3)
    load = check_count("load", load, at_least=2, at_most=n_workers - 1)

    _, (workers, tasks, constructor, argument) = _nearest(n_workers, load)
    code = constructor(argument)
    rounded = (
        ""
        if (workers, tasks) == (n_workers, load)
        else f"No balanced design here has {n_workers} workers and load {load}; the nearest is"
        f" {code.name}({argument}): {workers} workers, load {tasks}."
    )
    return code.with_labels(rounded=rounded)


def _nearest(n_workers: int, load: int) -> tuple[float, _Candidate]:
    """Return the nearest candidate and its distance; of equally near ones the smallest."""
    best: tuple[float, int] = (math.inf, 0)
    nearest: _Candidate | None = None
    for members in _FAMILIES:
        for candidate in members():
            workers, tasks = candidate[:2]
            wide = math.log(workers / n_workers)
            distance = abs(wide) + abs(math.log(tasks / load)), workers
            if distance < best:
                best, nearest = distance, candidate
            # Both numbers grow along a family: from here on each is further away than the last, or than the best.
            if (workers >= n_workers and tasks >= load) or wide > best[0]:
                break
    assert nearest is not None
    return best[0], nearest


def _projective_planes() -> Iterator[_Candidate]:
    for order in count(2):
        if prime_power(order) is not None:
            yield order * order + order + 1, order + 1, projective_plane, order


def _affine_planes() -> Iterator[_Candidate]:
    for order in count(2):
        if prime_power(order) is not None:
            yield order * order, order + 1, affine_plane, order


def _paley() -> Iterator[_Candidate]:
    return ((number, (number - 1) // 2, paley, number) for number in count(7) if is_paley(number))


def _biquadratic() -> Iterator[_Candidate]:
    roots = (4 * root * root + 1 for root in count(3, 2))
    return ((number, (number - 1) // 4, biquadratic, number) for number in roots if is_biquadratic(number))


def _twin_primes() -> Iterator[_Candidate]:
    for smaller in count(3, 2):
        if is_twin(smaller):
            number = smaller * (smaller + 2)
            yield number, (number - 1) // 2, twin_primes, smaller


_FAMILIES = (_projective_planes, _affine_planes, _paley, _biquadratic, _twin_primes)
