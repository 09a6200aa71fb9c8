"""Checks of messages: what liars can hide from them, and who is located by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes
from erasurehead.decoding import make_decoder
from erasurehead.decoding._error_location import locate
from erasurehead.decoding._parity_checks import Checks

from ..faults.test_byzantine_location import CODES, built, told


@pytest.mark.parametrize(("n", "most"), [(30, 8), (50, 7), (100, 4), (300, 2), (1000, 2)])
def test_no_more_liars_are_promised_than_float64_can_tell(n: int, most: int) -> None:
    """At the largest number that is not refused, neighbours that turn their messages round are named one and all."""
    code = codes.build("draco_cyclic", n_workers=n, corrupted=most)
    assert code.structure.located <= 10.0
    if n > 300:
        return
    decoding = make_decoder(code).decode(range(code.n_messages))
    weights = np.zeros((1, code.n_messages))
    weights[:, decoding.messages] = decoding.weights.reshape(1, -1)
    checks = Checks.of(code, np.arange(code.n_messages), weights)
    prints = code.encoding @ np.random.default_rng(n).standard_normal((n, 8))
    byzantine = list(range(3, 3 + most))
    prints[np.isin(code.owner, byzantine)] *= -1
    found = locate(checks, prints, most, 1e-11)
    assert (found.guilty, found.settled) == (tuple(byzantine), True)


@pytest.mark.parametrize("name", ["draco 9", "draco 15", "cyclic repetition", "complex cyclic MDS", "Reed-Solomon"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_no_set_of_liars_amplifies_more_than_is_said(name: str, seed: int) -> None:
    code, most, rng = built(name), CODES[name][2], np.random.default_rng(seed)
    every = np.arange(code.n_messages)
    weights = make_decoder(code).decode(every).weights
    checks = Checks.of(code, every, weights)
    factor, unseen = checks.amplification(most)
    assert not unseen
    byzantine = rng.permutation(code.n_workers)[:most]
    lie = np.where(np.isin(code.owner, byzantine), rng.standard_normal(code.n_messages), 0.0)
    seen = np.linalg.norm(checks.table @ (lie / checks.lengths))
    assert np.linalg.norm(weights @ lie) <= 1.001 * factor * seen


def test_locating_tells_facts_and_not_only_sentences() -> None:
    case = told("draco 9", {3, 4}, [1.0, 1e-4], False, 0)
    every = np.arange(18)
    checks = Checks.of(case.code, every, make_decoder(case.code).decode(every).weights)
    found = locate(checks, case.said, corrupted=2, tolerance=1e-11)
    assert found.guilty == (3, 4)
    assert found.settled
    assert not found.suspected
    assert not locate(checks, case.said, corrupted=1, tolerance=1e-11).settled
