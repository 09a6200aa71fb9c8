"""Corrupted messages: named, located, outvoted; and never a wrong sum where the redundancy suffices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.decoding._inspection import Fingerprints
from erasurehead.decoding._parity_checks import fourier_checks
from erasurehead.errors import InvalidArgument, Unreachable

from ..inspecting import NotLocated, inspect

DRACO = codes.build("draco_cyclic", n_workers=9, corrupted=2)
REPEATED = codes.build("draco_repetition", n_workers=15, corrupted=2)


def honest(code, length=40, seed=0):
    """Return partial gradients and what every message says."""
    partial = np.random.default_rng(seed).normal(size=(code.n_tasks * code.n_pieces, length))
    return partial, code.encoding @ partial


def lie(code, said, workers, seed=1, same=False, size=1.0):
    """Return the messages with those of some workers replaced by something else."""
    rng = np.random.default_rng(seed)
    told, shared = said.copy(), rng.normal(size=said.shape[1])
    for worker in workers:
        for message in code.messages_of(worker):
            told[message] += size * (shared if same else rng.normal(size=said.shape[1]))
    return told


def check_sum(code, inspection, partial, told, tolerance=1e-9):
    decoded = inspection.decoding.weights @ told[inspection.decoding.messages]
    full = code.target @ partial
    assert np.linalg.norm(decoded - full) <= tolerance * np.linalg.norm(full)


@pytest.mark.parametrize("byzantine", list(itertools.combinations(range(9), 2)))
@pytest.mark.parametrize("same", [False, True])
def test_draco_locates_any_two_of_nine(byzantine, same):
    partial, said = honest(DRACO)
    told = lie(DRACO, said, byzantine, same=same)
    inspection = inspect(DRACO, range(DRACO.n_messages), told)
    assert inspection.suspects.tolist() == list(byzantine)
    check_sum(DRACO, inspection, partial, told)


def test_honest_messages_are_clean():
    for code in (
        DRACO,
        REPEATED,
        codes.build("cyclic_mds", n_workers=12, stragglers=5),
        codes.build("communication_efficient_groups", n_workers=8, load=4, n_pieces=2),
    ):
        partial, said = honest(code)
        inspection = inspect(code, range(code.n_messages), said)
        assert inspection.clean
        check_sum(code, inspection, partial, said)


def test_stragglers_cost_draco_checks_but_not_its_sum():
    partial, said = honest(DRACO)
    told = lie(DRACO, said, [6])
    for missing in itertools.combinations([0, 1, 3, 5, 8], 2):
        messages = DRACO.messages_of_workers(np.setdiff1d(np.arange(9), missing))
        inspection = inspect(DRACO, messages, told[messages])
        assert inspection.suspects.tolist() == [6]
        check_sum(DRACO, inspection, partial, told)


def test_too_many_liars_are_not_believed():
    _, said = honest(DRACO)
    with pytest.raises(Unreachable, match="no 2 of their workers explain it"):
        inspect(DRACO, range(DRACO.n_messages), lie(DRACO, said, [0, 3, 7]))


def test_a_real_cyclic_code_locates_half_of_its_tolerance():
    code = codes.build("cyclic_mds", n_workers=15, stragglers=6)
    partial, said = honest(code)
    for byzantine, same in (([2, 9, 10], False), ([2, 9, 10], True), ([0], False), ([4, 5, 6], True)):
        told = lie(code, said, byzantine, same=same)
        inspection = inspect(code, range(15), told)
        assert inspection.suspects.tolist() == byzantine
        check_sum(code, inspection, partial, told, 1e-8)


def test_single_precision_messages():
    partial, said = honest(DRACO)
    told = lie(DRACO, said, [1, 4], same=True).astype(np.float32)
    inspection = inspect(DRACO, range(DRACO.n_messages), told)
    assert inspection.suspects.tolist() == [1, 4]
    check_sum(DRACO, inspection, partial, told, 1e-5)


@pytest.mark.parametrize(
    "code",
    [
        codes.cyclic_repetition(12, stragglers=4),
        codes.build("communication_efficient_cyclic", n_workers=10, n_pieces=2, stragglers=4),
    ],
)
@pytest.mark.parametrize("same", [False, True])
def test_any_exact_code_locates_half_of_its_tolerance(code, same):
    partial, said = honest(code)
    for byzantine in ([3], [2, 7], [0, 9]):
        told = lie(code, said, byzantine, same=same)
        inspection = inspect(code, range(code.n_messages), told)
        assert inspection.suspects.tolist() == byzantine
        check_sum(code, inspection, partial, told, 1e-8)


def test_group_codes_with_pieces():
    code = codes.build("communication_efficient_groups", n_workers=12, load=6, n_pieces=2)
    partial, said = honest(code)
    told = lie(code, said, [1, 8])
    inspection = inspect(code, range(12), told, corrupted=2)
    assert inspection.suspects.tolist() == [1, 8]
    check_sum(code, inspection, partial, told)


def test_a_huge_lie_does_not_hide_a_small_one():
    partial, said = honest(DRACO)
    told = lie(DRACO, lie(DRACO, said, [3], size=1e9), [7], size=1e-3)
    inspection = inspect(DRACO, range(DRACO.n_messages), told)
    assert inspection.suspects.tolist() == [3, 7]
    check_sum(DRACO, inspection, partial, told)


def test_a_majority_outvotes_the_liars_of_its_group():
    partial, said = honest(REPEATED)
    for same in (False, True):
        told = lie(REPEATED, said, [0, 3, 6, 14], same=same)
        inspection = inspect(REPEATED, range(15), told)
        assert inspection.suspects.tolist() == [0, 3, 6, 14]
        assert not inspection.undecided
        check_sum(REPEATED, inspection, partial, told)


def test_replicas_that_disagree_without_a_majority_are_named_and_left_out():
    code = codes.fractional_repetition(6, load=2)
    _, said = honest(code)
    told = lie(code, said, [3])
    inspection = inspect(code, range(6), told)
    assert not len(inspection.suspects)
    assert [sorted(workers.tolist()) for workers in inspection.undecided] == [[2, 3]]
    assert inspection.decoding.messages.tolist() == [0, 4]
    assert inspection.decoding.residual == 2.0


def test_one_of_two_honest_replicas_is_not_outvoted_by_colluding_liars():
    # Two liars of three agree with each other: with `corrupted=2` nobody can be believed.
    code = codes.fractional_repetition(6, load=3)
    _, said = honest(code)
    inspection = inspect(code, range(6), lie(code, said, [0, 1], same=True), corrupted=2)
    assert [workers.tolist() for workers in inspection.undecided] == [[0, 1, 2]]


def test_messages_that_are_not_finite_are_suspect():
    partial, said = honest(DRACO)
    told = said.copy()
    told[DRACO.messages_of(4)[0], 7] = np.nan
    told[DRACO.messages_of(5)[1], 0] = np.inf
    inspection = inspect(DRACO, range(DRACO.n_messages), told)
    assert inspection.suspects.tolist() == [4, 5]
    check_sum(DRACO, inspection, partial, np.nan_to_num(told, posinf=0))


def test_fingerprints_see_what_vectors_see():
    _, said = honest(DRACO, length=500)
    told = lie(DRACO, said, [2, 8])
    prints = Fingerprints(500, seed=3)
    inspection = inspect(DRACO, range(DRACO.n_messages), [prints.of(vector) for vector in told])
    assert inspection.suspects.tolist() == [2, 8]
    positions = np.array([3, 77, 400])
    spread = np.zeros(500)
    spread[positions] = [1.0, -2.0, 0.5]
    np.testing.assert_allclose(prints.of(np.array([1.0, -2.0, 0.5]), positions), prints.of(spread))


def test_the_order_of_messages_does_not_matter():
    _, said = honest(REPEATED)
    told = lie(REPEATED, said, [4])
    order = np.random.default_rng(0).permutation(15)
    assert inspect(REPEATED, order, told[order]).suspects.tolist() == [4]


def test_codes_without_redundancy_see_nothing():
    code = codes.uncoded(5)
    _, said = honest(code)
    assert inspect(code, range(5), lie(code, said, [1])).clean
    square = codes.build("bernoulli", n_workers=6, load=3, seed=2)
    assert inspect(square, range(3), lie(square, honest(square)[1], [1])[:3]).clean


def test_a_contradiction_that_nobody_may_have_made_is_an_error():
    code = codes.build(
        "kronecker", first=codes.build("regular", n_workers=4, load=2), second=codes.fractional_repetition(2, 2)
    )
    _, said = honest(code)
    with pytest.raises(NotLocated, match="no worker may lie"):
        inspect(code, range(code.n_messages), lie(code, said, [1]), corrupted=0)


def test_searching_is_given_up_before_it_takes_for_ever():
    code = codes.cyclic_repetition(60, stragglers=9)
    _, said = honest(code)
    with pytest.raises(NotLocated, match=r"4 liars cannot be located, as there are .* sets of workers to try"):
        inspect(code, range(60), lie(code, said, [1, 5, 9, 30], same=True), corrupted=4)


def test_fourier_checks_are_those_of_the_encoding():
    for code in (
        DRACO,
        codes.build("draco_cyclic", n_workers=12, corrupted=1),
        codes.build("cyclic_mds", n_workers=11, stragglers=4),
        codes.build("complex_cyclic_mds", n_workers=11, stragglers=3),
    ):
        checks = fourier_checks(code)
        assert checks is not None
        parts = code.complex_part
        rows = np.zeros((code.n_workers, code.n_tasks), dtype=complex)
        np.add.at(rows, code.owner, np.where(parts[:, None] == 1, 1j, 1) * code.encoding.toarray())
        np.testing.assert_allclose(checks.matrix @ rows, 0, atol=1e-9)


def test_bad_input():
    with pytest.raises(InvalidArgument, match="one for each of the 3 messages"):
        inspect(DRACO, [0, 1, 2], np.zeros((2, 4)))
    with pytest.raises(InvalidArgument, match="same length"):
        inspect(DRACO, [0, 1], [np.zeros(3), np.zeros(4)])
    with pytest.raises(InvalidArgument, match="at most once"):
        inspect(DRACO, [0, 0], np.zeros((2, 4)))
    with pytest.raises(InvalidArgument, match="must have 5 entries"):
        Fingerprints(5).of(np.zeros(4))
