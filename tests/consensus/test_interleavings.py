"""No policy stands still, whatever comes when: all interleavings of a few peers, and many at random of some more."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import settings

from erasurehead.consensus import NetworkPartition, Policy, train
from erasurehead.consensus._graphs import parse_graph
from erasurehead.consensus._mixing import MaxDegree
from erasurehead.consensus._policies import BoundedStaleness, Dynamic, Full, Local, Pairwise, Static
from erasurehead.delays import ShiftedExponential
from erasurehead.problems import LogisticRegression

from .interleavings import Crash, Heal, Interleavings, Partition, Rejoin

Faults: TypeAlias = tuple[Partition | Heal | Crash | Rejoin, ...]

CUT = (Partition((0,)), Heal())
KILLED = (Crash(0), Rejoin(0))
EVERY: list[Policy] = [
    Full(),
    Static(1),
    Static(2),
    Local(1),
    Local(2),
    Dynamic("fixed"),
    Dynamic("measured"),
    BoundedStaleness(0),
    BoundedStaleness(1),
    Pairwise(),
    Pairwise("in turn"),
]
MET: list[Policy] = [Static(1), Static(2), Local(1)]


def all_of(policy: Policy, graph: str, peers: int, work: int, **more: object) -> Interleavings:
    timed = isinstance(policy, Dynamic)
    return Interleavings(policy, parse_graph(graph, peers), work, timed=timed, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_two_peers_agree_and_go_on_whatever_comes_when(policy: Policy) -> None:
    if policy != Static(2):
        assert all_of(policy, "path()", 2, 4).search() > 30


@pytest.mark.slow
@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_three_in_a_row_agree_and_go_on(policy: Policy) -> None:
    assert all_of(policy, "path()", 3, 3, at_once=True).search() > 50


@pytest.mark.parametrize("policy", MET, ids=str)
def test_a_triangle_agrees_and_goes_on(policy: Policy) -> None:
    assert all_of(policy, "ring()", 3, 2, at_once=True).search() > 100


@pytest.mark.slow
@pytest.mark.parametrize("policy", EVERY, ids=str)
@pytest.mark.parametrize("faults", [CUT, (Crash(0),), KILLED], ids=["cut", "death", "return"])
def test_two_peers_go_on_when_the_network_changes(
    policy: Policy, faults: tuple[Partition | Heal | Crash | Rejoin, ...]
) -> None:
    if policy != Static(2):
        assert all_of(policy, "path()", 2, 2, faults=faults, at_once=True).search() > 30


@pytest.mark.slow
@pytest.mark.parametrize("policy", EVERY, ids=str)
@pytest.mark.parametrize(
    ("graph", "peers", "faults"),
    [
        ("ring()", 4, ()),
        ("complete()", 4, ()),
        ("ring()", 4, (Partition((0, 1)), Heal())),
        ("path()", 4, (Crash(1), Rejoin(1))),
        ("ring()", 3, (Partition((2,)), Heal(), Crash(0))),
    ],
)
def test_more_peers_go_on_whichever_way_it_goes(policy: Policy, graph: str, peers: int, faults: Faults) -> None:
    checker = all_of(policy, graph, peers, 2 * peers, faults=faults)
    for seed in range(settings().max_examples // 10):  # two, and many more with the profile `thorough`
        checker.walk(seed, 200)


@pytest.mark.slow
@pytest.mark.parametrize("faults", [(), KILLED, (Partition((0, 1)), Heal())], ids=["none", "return", "cut"])
def test_a_tree_that_follows_the_speeds_stops_nobody(faults: Faults) -> None:
    # A threshold of the next tree may come by another way sooner than the one with which the old tree ended, and
    # what was said before a peer died is no word of the network that is whole again.
    checker = all_of(Dynamic("measured"), "ring()", 4, 24, faults=faults)
    for seed in range(settings().max_examples // 5):  # four, and many more with the profile `thorough`
        checker.walk(seed, 600)


def test_known_weights_need_no_word_of_degrees() -> None:
    assert all_of(Local(1), "path()", 3, 4, at_once=True, mixing=MaxDegree()).search() > 100


@pytest.mark.slow
@pytest.mark.parametrize("policy", MET, ids=str)
def test_all_that_three_peers_can_do_in_a_few_steps(policy: Policy) -> None:
    assert all_of(policy, "path()", 3, 5).search() > 3_000
    assert all_of(policy, "ring()", 3, 3, at_once=True).search() > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("policy", MET, ids=str)
def test_a_promise_that_crosses_the_end_of_a_step_is_answered(policy: Policy) -> None:
    # Peer 1 mixes with 2 and goes on, while its offer is on its way to 0, whose own is on its way to it.
    checker = all_of(policy, "ring()", 3, 6)
    for seed in range(settings().max_examples):  # twenty, and many more with the profile `thorough`
        checker.walk(seed, 120)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["full()", "static(wait_for=2)", "local(window=4)", "dynamic()", "pairwise()"])
@pytest.mark.parametrize("latency", [0.0, 0.4])
def test_a_cut_that_has_healed_when_it_is_noticed_stops_nobody(
    problem: LogisticRegression, policy: str, latency: float
) -> None:
    # Messages were lost, though the network is what it was: both ends of each link that was cut begin anew.
    for seed in range(6):
        done = train(
            problem,
            "ring()",
            policy,
            peers=6,
            steps=30,
            rate=0.1,
            batch=4,
            latency=latency,
            evaluate_every=30.0,
            delays=ShiftedExponential(shift=1.0, mean=1.0, seed=seed),
            notice=1.0,
            faults=[NetworkPartition((0, 1), 15.0, 15.3)],
        )
        assert not done.stopped
        assert [len(row.sides) for row in done.view_changes] == [2, 0]
