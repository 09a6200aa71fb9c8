"""Balanced incomplete block designs as codes: planes, difference sets, and the design nearest to given numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count, product

import numpy as np

from erasurehead._internal.arrays import IntArray, ShortIntArray, whole_numbers
from erasurehead._internal.resources import check_memory
from erasurehead.codes._assemble import AnyIntArray, from_rows
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._fields import Field, is_prime, prime_power
from erasurehead.codes._structure import BlockDesign, Structure
from erasurehead.errors import check_count, check_size, invalid

_SOURCE = "Kadhe, Koyluoglu, Ramchandran (arXiv:1904.13373)"


def block_design(blocks: Sequence[Sequence[int]]) -> GradientCode:
    """The code of a balanced incomplete block design of your own: workers are points, tasks are blocks.

    Arguments:
        blocks: for each task the workers that hold it, equally many each, numbered from 0 without gaps; any two workers
            must share equally many tasks.

    Structure:
        decoder: `"bibd"`; bibd, mean_load.

    Guarantees: exact when all workers answer. With any s stragglers the best weights are all equal, and the residual
        is exactly b - r^2 (v - s) / (r + lambda (v - s - 1)) for (v, b, r, k, lambda): as good for an adversary's
        straggler set as for a random one, and the least spectral bound of all biregular codes. For very few
        stragglers some cyclic codes are better.
    Choose it: when stragglers may be chosen by an adversary and a design of that size exists (see `design_for`).
    Raises:
        InvalidArgument: if the blocks are not such a design; the message says which count is wrong.

    >>> tuple(block_design([[0, 1], [1, 2], [0, 2]]).structure.design)
    (3, 3, 2, 2, 1)
    """
    try:
        blocks = [whole_numbers(f"blocks[{number}]", block).tolist() for number, block in enumerate(blocks)]
    except TypeError:  # it is no list
        hint = "such as [[0, 1], [1, 2], [0, 2]]"
        raise invalid("blocks", "must be a list of the workers of each task", blocks, hint) from None
    sizes = {len(block) for block in blocks}
    if len(sizes) != 1 or min(sizes) < 2:
        raise invalid("blocks", "must all have the same number of workers, at least 2", sorted(sizes))
    members = np.sort(np.array(blocks, dtype=np.int64), axis=1)
    if members.min() < 0 or (np.diff(members, axis=1) == 0).any() or not np.bincount(members.ravel()).all():
        raise invalid("blocks", "must name the workers 0, 1, 2, ... without gaps and none twice", members[:3].tolist())
    n_workers, n_tasks = int(members.max()) + 1, len(members)
    loads = np.bincount(members.ravel())
    if loads.min() != loads.max():
        raise invalid("blocks", "must put equally many on each worker", f"{loads.min()} to {loads.max()} a worker")
    order = np.argsort(members.ravel(), kind="stable")
    columns = (order // members.shape[1]).reshape(n_workers, -1)
    gram = from_rows(columns.ravel(), loads, n_tasks)
    overlaps = (gram @ gram.T).toarray()[~np.eye(n_workers, dtype=bool)]
    if overlaps.min() != overlaps.max():
        seen = f"pairs that share {overlaps.min():.0f} to {overlaps.max():.0f} tasks"
        raise invalid("blocks", "must give any two workers equally many common tasks", seen)
    return design_code("block_design", {"blocks": members.tolist()}, columns, n_tasks, int(overlaps[0]), _SOURCE)


def design_code(
    name: str, parameters: dict[str, object], columns: AnyIntArray, n_tasks: int, common: int, construction: str
) -> GradientCode:
    """Return the code of a design that is known to be balanced.

    Arguments:
        name: name of the family.
        parameters: the parameters that it was built from.
        columns: the tasks of each worker, shape (n_workers, load).
        n_tasks: number of tasks (blocks).
        common: number of tasks that any two workers share (lambda).
        construction: source of the design.
    """
    n_workers, load = len(columns), len(columns[0])
    design = BlockDesign(n_workers, n_tasks, load, n_workers * load // n_tasks, common)
    source = construction if construction == _SOURCE else f"{_SOURCE}; {construction}"
    return one_message_code(
        name=name,
        parameters=parameters,
        encoding=from_rows(columns.ravel(), np.full(n_workers, load), n_tasks),
        tolerance=0,
        source=source,
        structure=Structure(decoder="bibd", design=design, mean_load=float(load)),
    )


def projective_plane(order: int) -> GradientCode:
    """The points and lines of the projective plane PG(2, q): n = q^2 + q + 1 workers and tasks, load q + 1.

    Arguments:
        order: q, a prime power.

    Structure:
        decoder: `"bibd"`; bibd = (q^2 + q + 1, q^2 + q + 1, q + 1, q + 1, 1), mean_load.

    Guarantees: as for `block_design`.
    Choose it: when there are about load^2 workers, and an adversary may choose the stragglers.
    Raises:
        InvalidArgument: if `order` is not a prime power.

    >>> tuple(projective_plane(2).structure.design)
    (7, 7, 3, 3, 1)
    """
    order = _check_order(order, lambda q: f"{q * q + q + 1} workers, load {q + 1}")
    n_workers = order * order + order + 1
    differences = singer_difference_set(order)
    columns = develop(differences, n_workers)
    construction = "Singer difference set (1938), developed around the circle"
    return design_code("projective_plane", {"order": order}, columns, n_workers, 1, construction)


def affine_plane(order: int) -> GradientCode:
    """The points and lines of the affine plane AG(2, q): q^2 workers, q^2 + q tasks, load q + 1.

    Arguments:
        order: q, a prime power.

    Structure:
        decoder: `"bibd"`; bibd = (q^2, q^2 + q, q + 1, q, 1), mean_load.

    Guarantees: as for `block_design`.
    Choose it: like `projective_plane`, for a square number of workers.
    Raises:
        InvalidArgument: if `order` is not a prime power.

    >>> tuple(affine_plane(3).structure.design)
    (9, 12, 4, 3, 1)
    """
    order = _check_order(order, lambda q: f"{q * q} workers, load {q + 1}")
    field = Field(order)
    x, y = np.divmod(np.arange(order * order), order)
    slopes = field.elements[None, :]
    intercepts = field.subtract(y[:, None], field.multiply(slopes, x[:, None]))  # on y = slope * x + intercept
    columns = np.concatenate([slopes * order + intercepts, order * order + x[:, None]], axis=1)
    construction = "affine plane over the field of q elements"
    return design_code("affine_plane", {"order": order}, columns, order * order + order, 1, construction)


def singer_difference_set(order: int) -> IntArray:
    """Return the q + 1 residues modulo q^2 + q + 1 whose differences are all other residues, once each.

    In the field of q^3 elements, with a generator x of its multiplicative group modulo the field of q elements: the
    exponents i for which x^i has no x^2 part.

    >>> singer_difference_set(2).tolist()
    [0, 1, 3]
    """
    field = Field(order)
    q, size = order, order * order + order + 1
    add = field.add(field.elements[:, None], field.elements[None, :]).tolist()
    times = field.multiply(field.elements[:, None], field.elements[None, :]).tolist()
    # x^3 = c0 + c1 x + c2 x^2. The powers of x must meet the field of q elements only after q^2 + q + 1 steps.
    for c2, c1, c0 in product(range(q), range(q), range(1, q)):
        a, b, c = 1, 0, 0
        exponents: list[int] = []
        for exponent in range(size):
            if c == 0:
                if b == 0 and exponent:
                    break
                exponents.append(exponent)
            a, b, c = times[c][c0], add[a][times[c][c1]], add[b][times[c][c2]]
        else:
            if b == c == 0 and len(exponents) == q + 1:
                return np.array(exponents, dtype=np.int64)
    raise AssertionError("Singer: such a generator exists for every prime power")


def _check_order(order: int, size: Callable[[int], str]) -> int:
    order = check_count("order", order, 2, 1_000)  # with a million workers
    if prime_power(order) is None:
        below, above = order - 1, order + 1
        while prime_power(below) is None:
            below -= 1
        while prime_power(above) is None:
            above += 1
        near = f"the nearest are {below} ({size(below)}) and {above} ({size(above)})"
        raise invalid("order", "must be a prime power, as no other plane is known", order, near)
    return order


def paley(n_workers: int) -> GradientCode:
    """Workers hold what lies a square away, in the field of n elements: load (n - 1) / 2.

    Arguments:
        n_workers: number of workers and of tasks (n): a prime power, 3 modulo 4, at least 7.

    Structure:
        decoder: `"bibd"`; bibd = (n, n, (n - 1) / 2, (n - 1) / 2, (n - 3) / 4), mean_load.

    Guarantees: as for `block_design`.
    Choose it: when each worker can hold half of the data and an adversary picks the stragglers.
    Raises:
        InvalidArgument: if it is not such a number; the message names the nearest ones.

    >>> tuple(paley(11).structure.design)
    (11, 11, 5, 5, 2)
    """
    n_workers = _check("n_workers", n_workers, is_paley, "must be a prime power, 3 modulo 4 and at least 7")
    field = Field(n_workers)
    squares = field.power_residues(2)
    prime = field.degree == 1
    columns: AnyIntArray
    columns = develop(squares, n_workers) if prime else field.subtract(field.elements[:, None], squares[None, :])
    common = (n_workers - 3) // 4
    return design_code(
        "paley", {"n_workers": n_workers}, columns, n_workers, common, "Paley (1933), quadratic residues"
    )


def biquadratic(n_workers: int) -> GradientCode:
    """Workers hold what lies a fourth power away, modulo a prime 4 a^2 + 1 with a odd: load (n - 1) / 4.

    Arguments:
        n_workers: number of workers and of tasks (n): 37, 101, 197, 677, ...

    Structure:
        decoder: `"bibd"`; bibd = (n, n, (n - 1) / 4, (n - 1) / 4, (n - 5) / 16), mean_load.

    Guarantees: as for `block_design`.
    Choose it: when each worker can hold a quarter of the data and an adversary picks the stragglers.
    Raises:
        InvalidArgument: if it is not such a number; the message names the nearest ones.

    >>> tuple(biquadratic(37).structure.design)
    (37, 37, 9, 9, 2)
    """
    n_workers = _check(
        "n_workers", n_workers, is_biquadratic, "must be a prime of the form 4 a^2 + 1 with a odd, from 37 on"
    )
    columns = develop(Field(n_workers).power_residues(4), n_workers)
    common = (n_workers - 5) // 16
    construction = "Chowla (1944), biquadratic residues"
    return design_code("biquadratic", {"n_workers": n_workers}, columns, n_workers, common, construction)


def twin_primes(smaller: int) -> GradientCode:
    """The design of two prime powers q and q + 2: n = q (q + 2) workers and tasks, load (n - 1) / 2.

    Arguments:
        smaller: q, such that q and q + 2 are both odd prime powers: 3, 5, 7, 9, 11, 17, ...

    Structure:
        decoder: `"bibd"`; bibd = (n, n, (n - 1) / 2, (n - 1) / 2, (n - 3) / 4), mean_load.

    Guarantees: as for `block_design`.
    Choose it: like `paley`, for other numbers of workers.
    Raises:
        InvalidArgument: if it is not such a number; the message names the nearest ones.

    >>> tuple(twin_primes(3).structure.design)
    (15, 15, 7, 7, 3)
    """
    smaller = _check("smaller", smaller, is_twin, "must be an odd prime power such that two more is one as well")
    one, two = Field(smaller), Field(smaller + 2)
    alike = _sign(one)[:, None] == _sign(two)[None, :]  # both squares or both not
    alike[0, :] = alike[:, 0] = False
    alike[:, 0] = True
    first, second = (member.astype(np.int64) for member in np.nonzero(alike))
    n_workers = smaller * (smaller + 2)
    columns: AnyIntArray
    if one.degree == two.degree == 1:
        # Worker w stands for (w mod q, w mod q + 2), so that addition goes around one circle.
        rest = ((second - first) * pow(smaller, -1, smaller + 2)) % (smaller + 2)
        columns = develop(first + smaller * rest, n_workers)
    else:
        x, y = np.divmod(np.arange(n_workers), smaller + 2)
        columns = one.subtract(x[:, None], first) * (smaller + 2) + two.subtract(y[:, None], second)
    common = (n_workers - 3) // 4
    construction = "Stanton and Sprott (1958), twin prime powers"
    return design_code("twin_primes", {"smaller": smaller}, columns, n_workers, common, construction)


def develop(differences: IntArray, modulus: int) -> ShortIntArray:
    """Return, for every residue w, the residues w - d for d in a difference set, ascending; shape (modulus, size).

    >>> develop(np.array([0, 1, 3]), 7)[2].tolist()
    [1, 2, 6]
    """
    entries = len(differences) * modulus
    check_memory(f"A design of {modulus:,} workers with {len(differences):,} tasks each", 32.0 * entries)
    opposite = np.sort(-differences % modulus)
    twice = np.concatenate([opposite - modulus, opposite]).astype(np.int32)
    turns = np.arange(modulus, dtype=np.int32)
    first = np.searchsorted(opposite, modulus - turns)  # from here on, the residues have wrapped around
    residues: ShortIntArray = np.lib.stride_tricks.sliding_window_view(twice, len(opposite))[first]
    residues += turns[:, None]
    return residues


def is_paley(number: int) -> bool:
    """Whether `paley` has a design of this many workers."""
    return number >= 7 and number % 4 == 3 and prime_power(number) is not None


def is_biquadratic(number: int) -> bool:
    """Whether `biquadratic` has a design of this many workers."""
    root = math.isqrt(max(number - 1, 0) // 4)
    return number >= 37 and root % 2 == 1 and 4 * root * root + 1 == number and is_prime(number)


def is_twin(number: int) -> bool:
    """Whether a number and two more are both odd prime powers."""
    return number % 2 == 1 and prime_power(number) is not None and prime_power(number + 2) is not None


def _sign(field: Field) -> IntArray:
    sign = np.full(field.order, -1, dtype=np.int64)
    sign[field.power_residues(2)] = 1
    return sign


def _check(argument: str, number: int, exists: Callable[[int], bool], rule: str) -> int:
    number = check_size(argument, number)
    if exists(number):
        return number
    below = next((candidate for candidate in range(number - 1, 2, -1) if exists(candidate)), None)
    above = next(candidate for candidate in range(number + 1, 100 * number + 1_000) if exists(candidate))
    raise invalid(argument, rule, number, f"the nearest are {below} and {above}" if below else f"the next is {above}")


_Candidate = tuple[int, int, Callable[[int], GradientCode], int]  # workers, load, constructor, its argument


def design_for(n_workers: int, load: int) -> GradientCode:
    """The balanced design whose number of workers and load are nearest to the given ones, among all families here.

    Nearest by the sum of the two relative distances (of logarithms). If the design has more points than there are
    workers, the missing ones count as permanent stragglers; if it has fewer, the other workers stay idle.

    Arguments:
        n_workers: desired number of workers, at least 3.
        load: desired tasks per worker, at least 2, less than `n_workers`.

    Structure:
        that of the design; `rounded`: what was rounded, as a sentence; empty if nothing was.

    Guarantees: as for `block_design`.
    Choose it: to find out which design to use.
    Raises:
        InvalidArgument: if an argument is out of range.

    >>> design_for(30, load=5).structure.rounded
    'No balanced design here has 30 workers and load 5; the nearest is projective_plane(5): 31 workers, load 6.'
    """
    n_workers = check_size("n_workers", n_workers, at_least=3)
    load = check_count("load", load, at_least=2, at_most=n_workers - 1)

    _, (workers, tasks, constructor, argument) = _nearest(n_workers, load)
    code = constructor(argument)
    rounded = (
        ""
        if (workers, tasks) == (n_workers, load)
        else f"No balanced design here has {n_workers} workers and load {load}; the nearest is"
        f" {code.name}({argument}): {workers} workers, load {tasks}."
    )
    return code.with_structure(rounded=rounded)


def _nearest(n_workers: int, load: int) -> tuple[float, _Candidate]:
    """Return the nearest candidate and its distance; of several equally near ones, the smallest."""
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
