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

    def distance(candidate: _Candidate) -> tuple[float, int]:
        workers, tasks = candidate[:2]
        return abs(math.log(workers / n_workers)) + abs(math.log(tasks / load)), workers

    workers, tasks, constructor, argument = min(_candidates(n_workers), key=distance)
    code = constructor(argument)
    rounded = (
        ""
        if (workers, tasks) == (n_workers, load)
        else f"No balanced design here has {n_workers} workers and load {load}; the nearest is"
        f" {code.name}({argument}): {workers} workers, load {tasks}."
    )
    return code.with_labels(rounded=rounded)


def _candidates(n_workers: int) -> Iterator[_Candidate]:
    # Of each family, every member up to the first beyond the wish; the nearest of all cannot lie further out.
    for order in _up_to(n_workers, lambda q: prime_power(q) is not None, lambda q: q * q + q + 1):
        yield order * order + order + 1, order + 1, projective_plane, order
        yield order * order, order + 1, affine_plane, order
    for number in _up_to(n_workers, is_paley, lambda n: n):
        yield number, (number - 1) // 2, paley, number
    for number in _up_to(n_workers, is_biquadratic, lambda n: n):
        yield number, (number - 1) // 4, biquadratic, number
    for smaller in _up_to(n_workers, is_twin, lambda q: q * (q + 2)):
        number = smaller * (smaller + 2)
        yield number, (number - 1) // 2, twin_primes, smaller


def _up_to(n_workers: int, exists: Callable[[int], bool], size: Callable[[int], int]) -> Iterator[int]:
    for argument in count(2):
        if exists(argument):
            yield argument
            if size(argument) >= n_workers:
                return
