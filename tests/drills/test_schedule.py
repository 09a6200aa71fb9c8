"""Fault schedules: drawn alike from a seed, never beyond what the guarantees promise, and the same after a file."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from erasurehead.drills import Fault
from erasurehead.drills._lying_program import LIES
from erasurehead.drills._schedule import KINDS, OF_WORKERS, FaultSchedule, read_schedule, write_schedule
from erasurehead.errors import InvalidArgument

GROUPS = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


@given(seed=st.integers(0, 10**6), seconds=st.floats(1.0, 3000.0), workers=st.integers(12, 40))
def test_a_drawn_schedule_has_every_kind_and_ends_before_the_run(seed: int, seconds: float, workers: int) -> None:
    schedule = FaultSchedule(Fault.drawn(seed, workers, seconds, apart=GROUPS))
    assert schedule.faults == Fault.drawn(seed, workers, seconds, apart=GROUPS)
    assert {fault.kind for fault in schedule.faults} == set(KINDS)
    times = [fault.at for fault in schedule.faults]
    assert times == sorted(times)
    assert 0.04 * seconds <= times[0]
    assert times[-1] <= 0.86 * seconds


@given(seed=st.integers(0, 10**6))
def test_no_worker_meets_two_faults_at_once_and_liars_have_no_majority(seed: int) -> None:
    schedule = FaultSchedule(Fault.drawn(seed, 12, 1800.0, apart=GROUPS))
    for worker in range(12):
        own = [fault for fault in schedule.faults if fault.worker == worker]
        assert all(one.until < other.at for one, other in itertools.pairwise(own))
    for group in GROUPS:
        assert sum(fault.worker in group for fault in schedule.of("corrupt")) <= 1
    assert len(schedule.of("coordinator")) == len(schedule.of("disk_full")) == 3  # one in ten minutes


def test_other_seeds_give_other_schedules() -> None:
    assert len({str(Fault.drawn(seed, 12, 60.0)) for seed in range(20)}) == 20


def test_only_the_kinds_that_are_asked_for_are_drawn() -> None:
    schedule = FaultSchedule(Fault.drawn(0, 30, 600.0, kinds=("kill", "slow")))
    assert {fault.kind for fault in schedule.faults} == {"kill", "slow"}
    assert len(schedule.faults) == 30  # one for each worker in ten minutes
    assert len(Fault.drawn(0, 30, 600.0, kinds=("corrupt",))) == 3  # one liar in ten
    with pytest.raises(InvalidArgument, match="kinds must be among kill, stop"):
        Fault.drawn(0, 30, 600.0, kinds=("flood",))  # type: ignore[arg-type]


@given(
    faults=st.lists(
        st.one_of(
            st.builds(Fault, st.just("kill"), st.floats(0, 1e6), st.integers(0, 99)),
            st.builds(
                Fault, st.sampled_from(["stop", "disconnect"]), st.floats(0, 1e6), st.integers(0, 99), st.floats(0, 1e6)
            ),
            st.builds(
                Fault,
                st.just("slow"),
                st.floats(0, 1e6),
                st.integers(0, 99),
                st.floats(0, 1e6),
                by=st.floats(1e-9, 1e6),
            ),
            st.builds(Fault, st.just("corrupt"), st.floats(0, 1e6), st.integers(0, 99), lie=st.sampled_from(LIES)),
            st.builds(Fault, st.just("disk_full"), st.floats(0, 1e6), lasting=st.floats(0, 1e6)),
            st.builds(Fault, st.just("coordinator"), st.floats(0, 1e6)),
        )
    )
)
def test_a_schedule_is_the_same_after_a_file(tmp_path_factory: pytest.TempPathFactory, faults: list[Fault]) -> None:
    path = tmp_path_factory.mktemp("schedule") / "faults.toml"
    schedule = FaultSchedule(tuple(faults))
    write_schedule(schedule, path)
    assert read_schedule(path) == schedule


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"kind": "flood", "at": 1.0}, "kind must be one of kill, stop"),
        ({"kind": "kill", "at": 1.0}, "worker of kill must be a whole number"),
        ({"kind": "kill", "at": -1.0, "worker": 1}, "at must be a finite number of seconds, at least 0"),
        ({"kind": "kill", "at": 1.0, "worker": 1, "lasting": 2.0}, "lasting of kill must be left out"),
        ({"kind": "stop", "at": 1.0, "worker": 1}, "lasting of stop must be a number of seconds"),
        ({"kind": "slow", "at": 1.0, "worker": 1, "lasting": 2.0}, "by of slow must be positive"),
        ({"kind": "corrupt", "at": 1.0, "worker": 1, "lie": "white"}, "lie of corrupt must be one of flip"),
        ({"kind": "coordinator", "at": 1.0, "worker": 1}, "worker of coordinator must be left out"),
    ],
)
def test_what_is_no_fault_is_refused_with_its_rule(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        Fault(**given)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[fault]]\nkind = 'kill'\nat = 1.0\nwroker = 3\n", "fault 1: there is no key 'wroker'; the keys are kind"),
        ("[[fault]]\nkind = 'kill'\n", "fault 1: the key 'at' is missing"),
        ("[[fault]]\nkind = 'kill'\nat = 1.0\n", "fault 1: worker of kill must be a whole number"),
        ("fault = 3\n", "must hold tables"),
        ("[run]\nsteps = 3\n", "must hold tables"),
        ("[[fault\n", "is not TOML"),
    ],
)
def test_a_file_that_holds_no_schedule_is_refused_with_the_place(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=sentence):
        read_schedule(path)


def test_faults_read_as_sentences() -> None:
    assert str(Fault("slow", 3.0, 4, 5.0, by=1.5)) == "slow worker 4 by 1.5 s, for 5 s"
    assert str(Fault("corrupt", 3.0, 0, lie="nan")) == "corrupt worker 0 (nan)"
    assert str(Fault("disk_full", 3.0, lasting=2.0)) == "disk full, for 2 s"
    assert set(OF_WORKERS) | {"disk_full", "coordinator"} == set(KINDS)


@pytest.mark.parametrize("faults", [None, 3, [3], ("kill",)])
def test_what_are_no_faults_is_refused(faults: object) -> None:
    with pytest.raises(InvalidArgument, match="faults must be a list of faults"):
        FaultSchedule(faults)  # type: ignore[arg-type]
