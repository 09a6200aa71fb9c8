"""Verification in training, from end to end: who lies is named, outvoted and put aside before anything is decoded."""

from __future__ import annotations

import re

import numpy as np
import pytest

from erasurehead import codes, schemes
from erasurehead.drills import Fault
from erasurehead.drills._lying_program import LIES
from erasurehead.faults import FaultPolicy

from .schedules import STEPS, WORKERS, descend, taken


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_among_three_is_named_outvoted_and_put_aside(lie: str) -> None:
    found = taken([Fault("corrupt", 2.0, 4, lie=lie)])
    assert re.search(
        r"worker 4 lies, and is put aside: its message 4 .*, and workers 3, 5 agree on another", found.said
    )
    assert found.said.count("lies, and is put aside") == 1
    assert "the code is resized for 8 workers" in found.said
    np.testing.assert_allclose(found.run.x, descend(), rtol=1e-9)
    assert found.run.steps[-1].workers == 8


def test_one_liar_in_each_group_is_survived() -> None:
    found = taken([Fault("corrupt", 1.0 + at, worker, lie="shift") for at, worker in enumerate((1, 3, 8))])
    assert found.said.count("lies, and is put aside") == 3
    np.testing.assert_allclose(found.run.x, descend(), rtol=1e-9)


def test_a_worker_that_lies_for_a_moment_is_put_aside_all_the_same() -> None:
    found = taken([Fault("corrupt", 2.0, 4, 1.5, lie="flip")])
    assert "worker 4 lies" in found.said
    np.testing.assert_allclose(found.run.x, descend(), rtol=1e-9)


def test_of_two_replicas_that_disagree_the_liar_is_questioned_and_named() -> None:
    pairs = schemes.custom(codes.fractional_repetition(WORKERS + 1, 2), "decodable() & confirmed(2)")
    for lie in ("scale", "flip", "shift"):
        found = taken([Fault("corrupt", 2.0, 4, lie=lie)], pairs)
        assert "worker 4 lies, and is put aside: its message 4 differs from that of worker 5, and" in found.said
        assert found.said.count("lies, and is put aside") == 1
        np.testing.assert_allclose(found.run.x, descend(), rtol=1e-9)
        assert len(found.run.steps) == STEPS


def test_what_verification_costs_is_said_at_the_end() -> None:
    found = taken([])
    last = found.said.splitlines()[-1]
    assert re.fullmatch(
        r"verification cost [\d.e-]+ ms a step \([\d.]+% of the step\), with \d+\.\d comparisons a step", last
    )
    assert "verification" not in taken([], fault_policy=FaultPolicy()).said
