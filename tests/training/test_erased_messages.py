"""A message that cannot be used is an erasure: a rule that waits for everybody goes on with what decodes exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from erasurehead import codes, schemes
from erasurehead.codes import GradientCode
from erasurehead.delays import Exponential
from erasurehead.engines import Arrived, VirtualEngine
from erasurehead.engines._base import MessageLost
from erasurehead.errors import InvalidArgument, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import LeastSquares, Shard
from erasurehead.training import Run, train

from ..arrays import Array

STEPS = 4
RNG = np.random.default_rng(0)
PROBLEM = LeastSquares(RNG.standard_normal((120, 5)), RNG.standard_normal(120))
EXACT = [
    codes.build("cyclic_mds", n_workers=9, stragglers=4),
    codes.build("draco_cyclic", n_workers=9, corrupted=2),
    codes.build("reed_solomon", n_workers=12, load=5),
    codes.fractional_repetition(12, load=3),
]


class Faulty(VirtualEngine):
    """Plays workers whose messages are no numbers, are lost, or are wrong."""

    faults: Mapping[int, str] = {}

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        if isinstance(event, Arrived) and event.worker in self.faults:
            fault, honest = self.faults[event.worker], event.read
            return replace(event, read=lambda: self.spoiled(fault, honest()))
        return event

    def spoiled(self, fault: str, vector: Array) -> Array:
        if fault == "lost":
            raise MessageLost("it raised ValueError: no such column")
        return vector * np.nan if fault == "nan" else vector + 0.5


def trained(code: GradientCode, faults: dict[int, str], fault_policy: FaultPolicy, rule: str = "") -> Run:
    engine = Faulty(Exponential(0.5, seed=0))
    engine.faults = faults
    optimizer = GradientDescent(PROBLEM.initial(), rate=0.1)
    scheme = schemes.custom(code, rule or f"first({code.n_workers})")
    return train(PROBLEM, scheme, optimizer, engine, STEPS, fault_policy=fault_policy)


def test_what_a_message_is_refused_for_is_said_once() -> None:
    class Broken(LeastSquares):
        def shard(self, tasks: Sequence[slice]) -> Shard:
            shard = super().shard(tasks)
            right = shard.combine

            def combine(local: Array, coefficients: Array, step: int, out: Array) -> float:
                if step and tasks[0].start == 0:
                    raise ValueError("no such column")
                return right(local, coefficients, step, out)

            shard.combine = combine  # type: ignore[method-assign]
            return shard

    problem = Broken(RNG.standard_normal((24, 3)), RNG.standard_normal(24))
    scheme, optimizer = schemes.exact(6, load=2), GradientDescent(np.zeros(3), 0.01)
    with pytest.raises(Unreachable, match=r"message 0 is refused: ValueError: no such column"):
        train(problem, scheme, optimizer, VirtualEngine(), 3)


def said(run: Run) -> str:
    return "\n".join(notice.text for notice in run.notices)


@pytest.mark.slow
@pytest.mark.parametrize("code", EXACT, ids=str)
@pytest.mark.parametrize("fault", ["nan", "lost"])
@pytest.mark.parametrize("verify", [False, True])
def test_one_message_that_cannot_be_used_ends_no_run_that_decodes_without_it(
    code: GradientCode, fault: str, verify: bool
) -> None:
    expected = trained(code, {}, FaultPolicy("leave"))
    run = trained(code, {3: fault}, FaultPolicy("leave", verify=verify))
    np.testing.assert_allclose(run.x, expected.x, rtol=1e-9)
    for row in run.steps:
        assert row.residual < 1e-12 * code.n_tasks
        assert row.arrived == code.n_workers - 1
        assert not row.lost
    outvoted = verify and code.replicas and fault == "nan"  # by two that agree
    assert ("lies, and is put aside" if outvoted else "refused") in said(run)
    assert f"first({code.n_workers}) cannot be met without worker 3" in said(run)


@pytest.mark.parametrize("code", EXACT[1:], ids=str)
@pytest.mark.parametrize("death", ["leave", "replace"])
def test_one_lie_is_put_aside_where_the_distance_locates_it(code: GradientCode, death: str) -> None:
    expected = trained(code, {}, FaultPolicy("leave"))
    run = trained(code, {3: "lie"}, FaultPolicy(death, verify=True))  # type: ignore[arg-type]
    np.testing.assert_allclose(run.x, expected.x, rtol=1e-9)
    assert "worker 3 lies, and is put aside" in said(run)
    assert all(row.residual < 1e-12 * code.n_tasks for row in run.steps)


def test_where_only_an_approximation_is_left_the_user_chooses() -> None:
    code, faults = codes.build("cyclic_mds", n_workers=9, stragglers=2), dict.fromkeys((2, 3, 4), "nan")
    with pytest.raises(Unreachable, match=r"the wait rule first\(9\) cannot be met any more: workers 2, 3, 4"):
        trained(code, faults, FaultPolicy("leave"))
    run = trained(code, faults, FaultPolicy("leave", on_loss="go_on"))
    assert all(row.residual > 1e-3 for row in run.steps)  # as every record says
    assert len(run.steps) == STEPS
    two = trained(code, dict.fromkeys((2, 3), "nan"), FaultPolicy("leave"))
    assert all(row.residual < 1e-12 for row in two.steps)


def test_a_lie_that_cannot_be_located_is_not_gone_on_with() -> None:
    with pytest.raises(Unreachable, match="messages were refused"):
        trained(
            codes.build("cyclic_mds", n_workers=9, stragglers=4),
            dict.fromkeys((2, 3, 4), "lie"),
            FaultPolicy("leave", verify=True),
        )


@pytest.mark.parametrize(
    ("code", "rule", "remedy"),
    [
        (codes.uncoded(6), "decodable()", "use a code whose messages"),
        (codes.build("cyclic_mds", n_workers=9, stragglers=4), "first(5)", "wait for more"),
        (codes.build("cyclic_mds", n_workers=12, stragglers=3), "decodable()", "wait for more"),
        (codes.build("draco_repetition", n_workers=9, corrupted=1), "first(1)", "wait for more"),
    ],
    ids=str,
)
def test_verification_with_nothing_to_compare_is_refused_before_the_start(
    code: GradientCode, rule: str, remedy: str
) -> None:
    engine = Faulty(Exponential(0.5, seed=0))
    optimizer = GradientDescent(PROBLEM.initial(), rate=0.1)
    with pytest.raises(InvalidArgument, match=f"must have messages to compare.*{remedy}"):
        train(PROBLEM, schemes.custom(code, rule), optimizer, engine, 1, fault_policy=FaultPolicy(verify=True))
    assert engine.now() == 0.0
