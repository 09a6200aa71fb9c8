"""Balanced designs: every construction is one, and its residual is the closed form for every straggler set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from erasurehead.codes import GradientCode
from erasurehead.codes._designs import (
    affine_plane,
    biquadratic,
    block_design,
    design_for,
    develop,
    paley,
    projective_plane,
    singer_difference_set,
    twin_primes,
)
from erasurehead.errors import InvalidArgument

from .oracles import residuals, worst_residual


def assert_balanced(code: GradientCode) -> None:
    v, b, r, k, common = code.structure.design
    assert (v, b) == (code.n_workers, code.n_tasks)
    assert (b * k, r * (k - 1)) == (v * r, common * (v - 1))
    assert set(code.loads.tolist()) == {r}
    assert set(code.replication.tolist()) == {k}
    assert (code.encoding.data == 1).all()
    overlaps = (code.encoding @ code.encoding.T).toarray()
    assert (overlaps == (r - common) * np.eye(v) + common).all()


@pytest.mark.parametrize("order", [2, 3, 4, 5, 7, 8, 9, 11, 16, 25, 27])
def test_planes_of_every_prime_power(order: int) -> None:
    plane, affine = projective_plane(order), affine_plane(order)
    assert plane.structure.design == (order**2 + order + 1, order**2 + order + 1, order + 1, order + 1, 1)
    assert affine.structure.design == (order**2, order**2 + order, order + 1, order, 1)
    assert_balanced(plane)
    assert_balanced(affine)


@pytest.mark.parametrize(
    "code",
    [paley(n) for n in (7, 11, 19, 23, 27, 31, 43, 47, 59)]
    + [biquadratic(n) for n in (37, 101)]
    + [twin_primes(n) for n in (3, 5, 7, 9, 11)],
    ids=repr,
)
def test_difference_set_designs(code: GradientCode) -> None:
    assert_balanced(code)


def test_sizes_of_the_source() -> None:  # SCHEMES 5
    assert paley(23).structure.design == (23, 23, 11, 11, 5)
    assert biquadratic(37).structure.design == (37, 37, 9, 9, 2)
    assert biquadratic(101).structure.design == (101, 101, 25, 25, 6)
    assert twin_primes(3).structure.design == (15, 15, 7, 7, 3)
    assert twin_primes(5).structure.design == (35, 35, 17, 17, 8)


@pytest.mark.parametrize("order", [2, 3, 4, 8, 9, 49])
def test_singer_differences_are_all_residues_once(order: int) -> None:
    differences = singer_difference_set(order)
    modulus = order**2 + order + 1
    pairs = (differences[:, None] - differences) % modulus
    assert np.bincount(pairs.ravel(), minlength=modulus).tolist() == [order + 1] + [1] * (modulus - 1)


def test_develop_is_the_definition() -> None:
    differences = np.array([0, 1, 3, 9])
    rows = develop(differences, 13)
    assert rows.tolist() == [sorted((w - d) % 13 for d in differences) for w in range(13)]


# SCHEMES 5 and test_vectors.json: design, stragglers, residual.
VECTORS = [
    (projective_plane(2), 1, 0.25),
    (projective_plane(2), 2, 4 / 7),
    (projective_plane(2), 3, 1.0),
    (projective_plane(3), 4, 1.0),
    (affine_plane(3), 1, 0.36363636363636365),
    (affine_plane(3), 2, 0.8),
    (affine_plane(3), 3, 1.333333333333334),
    (projective_plane(5), 3, 0.45454545454545453),
    (projective_plane(5), 10, 1.9230769230769234),
    (paley(11), 3, 0.47368421052631504),
]


@pytest.mark.parametrize(("code", "stragglers", "expected"), VECTORS, ids=repr)
def test_residual_depends_on_the_number_of_stragglers_only(
    code: GradientCode, stragglers: int, expected: float
) -> None:
    found = residuals(code, stragglers, at_most=400)
    assert found == pytest.approx(np.full(len(found), expected), abs=1e-9)


@pytest.mark.slow
def test_adversarial_threshold() -> None:
    code = projective_plane(3)  # SCHEMES 5: smallest s with residual >= beta * tasks, for beta = .05, .1, .2
    worst = [worst_residual(code, s) for s in range(9)]
    first = [next(s for s, err in enumerate(worst) if err >= beta * 13 - 1e-9) for beta in (0.05, 0.1, 0.2)]
    assert first == [3, 5, 8]
    x = code.spectrum.ratio
    assert [13 * beta / (beta + (1 - beta) * x) for beta in (0.05, 0.1, 0.2)] == pytest.approx(
        [2.85, 4.84, 7.43], abs=0.01
    )


def test_a_design_of_your_own() -> None:
    pairs = [[a, b] for b in range(5) for a in range(b)]
    code = block_design(pairs)
    assert code.structure.design == (5, 10, 4, 2, 1)
    assert_balanced(code)
    assert_balanced(block_design([block.indices.tolist() for block in projective_plane(4).encoding.T.tocsr()]))


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([[0, 1], [1, 2]], r"blocks must put equally many on each worker, got '1 to 2 a worker'"),
        ([[0, 1], [2, 3], [0, 1], [2, 3]], r"equally many common tasks, got 'pairs that share 0 to 2 tasks'"),
        ([[0, 1, 2], [1, 2]], r"blocks must all have the same number of workers, at least 2, got \[2, 3\]"),
        ([[0], [1]], "at least 2"),
        ([[0, 0], [0, 0]], "none twice"),
        ([[0, 3], [0, 3]], "without gaps"),
        ([], "blocks must all have the same number of workers"),
        (3, r"blocks must be a list of the workers of each task, but it is 3; such as"),
        ([[0, 1], [1, 2.5]], r"blocks\[1\] must be a list of whole numbers, but it is \[1, 2.5\]"),
    ],
)
def test_what_is_no_design(blocks: list[list[int]], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        block_design(blocks)


@pytest.mark.parametrize(
    ("constructor", "number"),
    [(projective_plane, 3), (affine_plane, 4), (paley, 103), (biquadratic, 37), (twin_primes, 3)],
)
def test_a_number_of_any_type_gives_the_same_design(constructor: Callable[[Any], GradientCode], number: int) -> None:
    expected = constructor(number)
    for given in (np.int8(number), np.int64(number), float(number), np.array(number)):
        code = constructor(given)
        assert code.parameters == expected.parameters
        assert all(type(value) is int for value in code.parameters.values())
        assert (code.encoding != expected.encoding).nnz == 0
    for wrong in (number + 0.5, True, None, [number], -number, 10**30):
        with pytest.raises(InvalidArgument, match="must be"):
            constructor(wrong)


def test_the_nearest_designs_are_named() -> None:
    with pytest.raises(InvalidArgument, match=r"the nearest are 5 \(31 workers, load 6\) and 7 \(57 workers, load 8\)"):
        projective_plane(6)
    with pytest.raises(InvalidArgument, match=r"the nearest are 9 \(81 workers, load 10\) and 11"):
        affine_plane(10)
    with pytest.raises(InvalidArgument, match=r"n_workers must be a prime power, 3 modulo 4 .* nearest are 11 and 19"):
        paley(13)
    with pytest.raises(InvalidArgument, match=r"of the form 4 a\^2 \+ 1 .* nearest are 37 and 101"):
        biquadratic(40)
    with pytest.raises(InvalidArgument, match="the next is 37"):
        biquadratic(5)
    with pytest.raises(InvalidArgument, match="the nearest are 11 and 17"):
        twin_primes(13)


@pytest.mark.parametrize(
    ("n", "load", "name", "workers", "tasks"),
    [
        (31, 6, "projective_plane", 31, 6),
        (30, 5, "projective_plane", 31, 6),
        (25, 6, "affine_plane", 25, 6),
        (20, 9, "paley", 19, 9),
        (36, 9, "biquadratic", 37, 9),
        (15, 7, "twin_primes", 15, 7),
        (1_000, 30, "projective_plane", 993, 32),
    ],
)
def test_design_for_finds_the_nearest(n: int, load: int, name: str, workers: int, tasks: int) -> None:
    code = design_for(n, load)
    assert (code.name, code.n_workers, code.load) == (name, workers, tasks)
    said = code.structure.rounded
    assert (said == "") == ((n, load) == (workers, tasks))
    assert not said or f"{workers} workers, load {tasks}" in said


def test_design_for_refuses_wishes_out_of_range() -> None:
    with pytest.raises(InvalidArgument, match="load must be at most 9, but it is 10"):
        design_for(10, 10)
    with pytest.raises(InvalidArgument, match="n_workers must be at least 3, but it is 2"):
        design_for(2, 2)
