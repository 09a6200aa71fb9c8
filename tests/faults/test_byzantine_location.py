"""Liars within the stated limits: named, or said to be beyond telling; no honest worker is, whatever they send."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes
from erasurehead.codes import GradientCode
from erasurehead.faults import Verifier

from ..arrays import Array
from ..inspecting import Inspection, NotLocated, inspect

LENGTH = 40
CODES: dict[str, tuple[str, dict[str, int], int]] = {  # the code, and how many may lie
    "draco 9": ("draco_cyclic", {"n_workers": 9, "corrupted": 2}, 2),
    "draco 15": ("draco_cyclic", {"n_workers": 15, "corrupted": 2}, 2),
    "draco 31": ("draco_cyclic", {"n_workers": 31, "corrupted": 3}, 3),
    "draco 51": ("draco_cyclic", {"n_workers": 51, "corrupted": 5}, 5),
    "draco 100": ("draco_cyclic", {"n_workers": 100, "corrupted": 4}, 4),
    "cyclic repetition": ("cyclic_repetition", {"n_workers": 30, "stragglers": 4}, 2),
    "cyclic MDS": ("cyclic_mds", {"n_workers": 31, "stragglers": 10}, 5),
    "complex cyclic MDS": ("complex_cyclic_mds", {"n_workers": 20, "stragglers": 6}, 3),
    "binary": ("binary_repetition", {"n_workers": 11, "stragglers": 2}, 1),
    "binary, more": ("binary_repetition", {"n_workers": 12, "stragglers": 5}, 2),
    "Reed-Solomon": ("reed_solomon", {"n_workers": 20, "load": 7}, 3),
    "repetition": ("fractional_repetition", {"n_workers": 15, "load": 5}, 2),
    "draco, repeated": ("draco_repetition", {"n_workers": 15, "corrupted": 2}, 2),
    "graph": ("graph_code", {"n_workers": 30, "replication": 3}, 1),
    "Paley graph": ("paley", {"n_workers": 11}, 1),
    "Margulis graph": ("margulis", {"side": 4}, 1),
}


@cache
def built(name: str) -> GradientCode:
    family, parameters, _ = CODES[name]
    return codes.build(family, **parameters)


@dataclass
class Told:
    """What was meant, what was said, and who lied."""

    code: GradientCode
    partial: Array
    said: Array
    byzantine: set[int]

    def error(self, found: Inspection) -> float:
        """Return how far the decoded gradient is off, over a sum of independent partial gradients."""
        decoded = found.decoding.weights @ self.said[found.decoding.messages]
        usual = np.sqrt(self.code.n_tasks) * np.sqrt(LENGTH)
        return float(np.linalg.norm(decoded - self.code.target @ self.partial) / usual)


def looked(case: Told, corrupted: int) -> Inspection | NotLocated:
    try:
        return inspect(case.code, range(case.code.n_messages), case.said, corrupted=corrupted)
    except NotLocated as unknown:
        return unknown


def told(name: str, byzantine: set[int], sizes: list[float], same: bool, seed: int) -> Told:
    code, rng = built(name), np.random.default_rng(seed)
    partial = rng.standard_normal((code.n_tasks * code.n_pieces, LENGTH))
    said = np.asarray(code.encoding @ partial)
    largest, shared = np.abs(said).max(), rng.standard_normal(LENGTH)
    for worker, size in zip(sorted(byzantine), sizes, strict=False):
        for message in code.messages_of(worker):
            said[message] += size * largest * (shared if same else rng.standard_normal(LENGTH))
    return Told(code, partial, said, byzantine)


@pytest.mark.slow
@given(
    name=st.sampled_from(sorted(CODES)),
    count=st.integers(0, 7),
    near=st.booleans(),
    same=st.booleans(),
    exponents=st.lists(st.floats(-10.0, 6.0), min_size=7, max_size=7),
    equal=st.booleans(),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=120)
def test_liars_are_named_or_it_is_said_that_they_cannot_be(
    name: str, count: int, near: bool, same: bool, exponents: list[float], equal: bool, seed: int
) -> None:
    code, most = built(name), CODES[name][2]
    rng, count = np.random.default_rng(seed), min(count, most)
    first = int(rng.integers(code.n_workers))
    chosen = (first + np.arange(count)) % code.n_workers if near else rng.permutation(code.n_workers)[:count]
    sizes = [10.0 ** (exponents[0] if equal else exponent) for exponent in exponents]
    case = told(name, set(chosen.tolist()), sizes, same, seed)
    found = looked(case, most)
    if isinstance(found, NotLocated):
        assert set(found.guilty) <= case.byzantine
        assert "cannot be located" in str(found)
        return
    assert set(found.suspects.tolist()) <= case.byzantine
    if not found.undecided:
        assert found.decoding.residual < 1e-9
        assert case.error(found) <= max(1e-6, 4 * found.error)  # what is not named is too small to matter
        assert found.error <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"),
    [("draco 15", 1e-6), ("draco 31", 1e-3), ("draco 51", 1.0), ("cyclic repetition", 1e-4), ("Reed-Solomon", 1e-6)],
)
@pytest.mark.parametrize("same", [True, False])
def test_neighbours_are_found_where_the_distance_promises_it(name: str, size: float, same: bool) -> None:
    code, most = built(name), CODES[name][2]
    for first in range(0, code.n_workers, max(1, code.n_workers // 3)):
        byzantine = {(first + other) % code.n_workers for other in range(most)}
        case = told(name, byzantine, [size] * most, same, first)
        found = inspect(code, range(code.n_messages), case.said, corrupted=most)
        assert set(found.suspects.tolist()) == byzantine
        assert found.decoding.residual < 1e-9
        assert case.error(found) <= 1e-8


def test_three_liars_of_31_are_put_aside_without_being_told_how_many_there_are() -> None:
    case = told("draco 31", {4, 5, 20}, [1.0] * 3, False, 0)
    verifier = Verifier(case.code)
    verifier.begin()
    found = verifier.examine(range(case.code.n_messages), lambda message: case.said[message])
    assert set(found.accused) == case.byzantine
    assert not found.undecided


@pytest.mark.slow
def test_two_equal_lies_a_millionth_large_never_cost_another_its_name() -> None:
    for first in range(0, 30, 2):
        for second in range(first + 1, 30, 4):
            found = looked(told("cyclic repetition", {first, second}, [1e-6] * 2, True, first), 2)
            assert isinstance(found, Inspection)
            assert found.suspects.tolist() == [first, second]


@pytest.mark.parametrize("liar", range(11))
def test_who_cannot_be_told_from_others_is_not_guessed(liar: int) -> None:
    case = told("binary", {liar}, [1.0], False, 0)
    found = looked(case, 1)
    if liar in (2, 5, 8):
        assert isinstance(found, NotLocated)
        assert "who it is cannot be located" in str(found)
        assert set(found.suspected) == {2, 5, 8}
        assert not found.guilty
    else:
        assert isinstance(found, Inspection)
        assert found.suspects.tolist() == [liar]


def test_replicas_that_agree_in_a_chain() -> None:
    code = codes.fractional_repetition(3, load=3)
    said = np.array([1.0, 1.0 + 1e-8, 1.0 + 2e-8])[:, None] * np.ones((3, 5))
    found = inspect(code, range(3), said)
    assert not len(found.suspects)
    assert [workers.tolist() for workers in found.undecided] == [[0, 1, 2]]
    assert inspect(code, range(3), said, tolerance=1.5e-8).clean


def test_what_nothing_checks_is_believed_only_where_no_number_of_liars_is_stated() -> None:
    code = codes.uncoded(5)
    said = np.random.default_rng(0).standard_normal((5, 8))
    assert inspect(code, range(5), said).clean
    square = codes.cyclic_repetition(12, stragglers=2)
    all_but_two = np.arange(2, 12)
    honest = np.asarray(square.encoding @ np.random.default_rng(0).standard_normal((12, 8)))
    found = inspect(square, all_but_two, honest[all_but_two])
    assert found.clean
    assert found.error == np.inf
    with pytest.raises(NotLocated, match="nothing that has arrived checks"):
        inspect(square, all_but_two, honest[all_but_two], corrupted=1)


def test_short_numbers_have_their_own_precision() -> None:
    case = told("draco 9", {3, 4}, [1e-2, 1e-2], True, 0)
    found = inspect(case.code, range(18), case.said.astype(np.float32))
    assert found.suspects.tolist() == [3, 4]
    assert 1e-8 < found.error < 1e-3
    wide = told("draco 100", set(), [], True, 0)
    with pytest.raises(NotLocated, match="cannot be located at this precision"):
        inspect(wide.code, range(200), wide.said.astype(np.float32))
