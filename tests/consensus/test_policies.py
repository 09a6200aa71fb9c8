"""What holds of every policy on the virtual clock: laws of averaging, bits, states, bounds of DTUR, faults."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead._internal import state_json
from erasurehead.consensus import Crash, NetworkPartition, train
from erasurehead.consensus._contract import Message
from erasurehead.consensus._graphs import Graph, components, neighbours_by, parse_graph
from erasurehead.consensus._policies.dynamic import DynamicPeer
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._spanning_tree import spanning_tree
from erasurehead.delays import Exponential, Fixed, parse
from erasurehead.errors import InvalidArgument
from erasurehead.problems import LogisticRegression

from ..arrays import Array

POLICIES = [
    "full()",
    "static(wait_for=1)",
    "static(wait_for=2)",
    "dynamic()",
    "dynamic(tree='fixed')",
    "local(window=4)",
    "bounded_staleness(steps=2)",
    "pairwise()",
    "pairwise(partners='in turn')",
]
AGREED = [text for text in POLICIES if not text.startswith(("bounded", "pairwise"))]
GRAPHS = {"ring()": 6, "erdos_renyi(p=0.4)": 10, "complete()": 6, "torus()": 9, "star()": 5, "path()": 5}
SHIFTED = parse("shifted_exponential(shift=1.0, mean=1.0)")


def run(problem: LogisticRegression, graph: str, policy: str, **more: Any) -> ConsensusRun:
    n_peers = GRAPHS[graph]
    slow = more.pop("slow", 0)
    delays = parse(f"scaled({SHIFTED}, {[5.0 if peer == slow else 1.0 for peer in range(n_peers)]})")
    given: dict[str, Any] = {"steps": 25, "rate": 0.5, "batch": 8, "delays": delays, "evaluate_every": 5.0}
    return train(problem, graph, policy, peers=n_peers, **given | more)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_learns_on_every_graph(problem: LogisticRegression, graph: str, policy: str) -> None:
    done = run(problem, graph, policy)
    assert not done.stopped
    assert 0 <= done.steps - 25 * GRAPHS[graph] < GRAPHS[graph]  # several may mix at one moment
    assert done.objective < 0.75 * done.means[0].objective


@pytest.mark.parametrize("late", ["carry", "preempt"])
@pytest.mark.parametrize("latency", [0.0, 0.3])
@pytest.mark.parametrize("policy", AGREED)
def test_both_ends_of_a_link_agree(problem: LogisticRegression, policy: str, latency: float, late: str) -> None:
    # Of the steps of two neighbours that met, both have the link, and the same weight, whatever messages take.
    done = run(problem, "erdos_renyi(p=0.4)", policy, latency=latency, late=late)
    seen: Mapping[tuple[int, int], list[float]] = defaultdict(list)
    for row in done.rows:
        assert sum(row.weights) <= 1.0 + 1e-12
        for peer, weight in zip(row.links, row.weights, strict=True):
            seen[row.peer, peer].append(weight)
    for (here, there), weights in seen.items():
        back = seen[there, here]
        assert abs(len(weights) - len(back)) <= 1  # one may have mixed when training ended, and the other not
        both = min(len(weights), len(back))
        assert weights[:both] == back[:both]


@pytest.mark.parametrize("policy", [text for text in POLICIES if not text.startswith("bounded")])
def test_mixing_keeps_the_mean_of_the_models(problem: LogisticRegression, policy: str) -> None:
    # With a rate of (nearly) nothing all that moves models is mixing: from models that differ, the mean stays.
    start = run(problem, "erdos_renyi(p=0.4)", policy, steps=10, keep_state=True)
    assert start.distance > 1e-3
    state = json_copy(start.state)
    done = run(problem, "erdos_renyi(p=0.4)", policy, steps=40, rate=1e-300, resume=state, delays=Exponential(1.0))
    waiting = 0.3 * start.distance  # what was offered and not mixed yet when the state was taken
    assert np.linalg.norm(done.x - start.x) <= waiting
    assert done.distance < 0.2 * start.distance


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "algorithm", ["sgd()", "momentum(momentum=0.5)", "quasi_global(momentum=0.5)", "gradient_tracking()"]
)
def test_every_algorithm_goes_with_every_policy(problem: LogisticRegression, policy: str, algorithm: str) -> None:
    done = run(problem, "ring()", policy, algorithm=algorithm, rate=0.1, steps=60)
    assert done.objective < 0.9 * done.means[0].objective


def json_copy(state: Any) -> Any:
    """Return a state as it comes back from a disk."""
    arrays: dict[int, Any] = {}

    def refer(array: Any) -> int:
        arrays[len(arrays)] = array.copy()
        return len(arrays) - 1

    return state_json.decode(json.loads(json.dumps(state_json.encode(state, refer))), arrays)


@pytest.mark.parametrize("late", ["carry", "preempt"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_goes_on_to_the_bit(problem: LogisticRegression, policy: str, late: str) -> None:
    more: dict[str, Any] = {
        "late": late,
        "latency": 0.1,
        "algorithm": "gradient_tracking()",
        "rate": 0.05,
        "faults": [Crash(2, 12.0, 30.0)],
        "notice": 1.0,
    }
    whole = run(problem, "erdos_renyi(p=0.4)", policy, steps=30, **more)
    half = run(problem, "erdos_renyi(p=0.4)", policy, steps=15, keep_state=True, **more)
    rest = run(problem, "erdos_renyi(p=0.4)", policy, steps=30, resume=json_copy(half.state), **more)
    assert (rest.models == whole.models).all()
    assert [row for row in whole.rows if row.end > half.seconds] == [r for r in rest.rows if r.end > half.seconds]
    assert rest.messages == whole.messages


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_bits_whoever_is_computed_together(
    problem: LogisticRegression, policy: str
) -> None:
    first, second = (run(problem, "ring()", policy) for _ in range(2))
    assert (first.models == second.models).all()
    assert first.rows == second.rows


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("late", ["carry", "preempt"])
@pytest.mark.parametrize("tree", ["measured", "fixed"])
def test_epochs_of_the_threshold_rule_connect_all_within_the_links_of_a_tree(
    problem: LogisticRegression, seed: int, late: str, tree: str
) -> None:
    graph = parse_graph(f"erdos_renyi(p=0.4, seed={seed})", 10)
    slow = seed
    delays = parse(f"scaled({SHIFTED}, {[5.0 if peer == slow else 1.0 for peer in range(10)]})")
    done = train(
        problem,
        graph,
        f"dynamic(tree={tree!r})",
        steps=60,
        rate=0.3,
        batch=4,
        delays=delays,
        late=late,  # type: ignore[arg-type]
        evaluate_every=60,
        keep_state=True,
    )
    rounds: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for row in done.rows:
        rounds[row.round] |= {(min(row.peer, other), max(row.peer, other)) for other in row.links}
    last = max(rounds) - 1
    assert done.state is not None
    epochs = done.state["clock"]["peers"][0]["attributes"]["epochs"]
    # An epoch has at most as many rounds as a spanning tree has links, so that these epochs had at most so many:
    assert last + 2 <= 9 * (epochs + 1)
    # and any stretch that holds a whole epoch is connected: two epochs' lengths do.
    for first in range(last - 17):
        links = set().union(*(rounds[number] for number in range(first, first + 18)))
        assert len(components(range(10), neighbours_by(links, range(10)))) == 1
    if tree == "measured" and slow not in graph.cut_vertices and epochs > 4:
        # A slow leaf is waited for once an epoch: it mixes in about one round of each, and seldom in more.
        of_slow = sum(1 for row in done.rows if row.peer == slow)
        assert of_slow <= 1.8 * epochs + 3


def dtur(
    links: set[tuple[int, int]], seconds: Array, n_rounds: int
) -> tuple[list[float], list[frozenset[int]], list[int]]:
    """Run the threshold rule as the paper states it, without messages.

    Arguments:
        links: of the tree.
        seconds: that gradients take, shape (steps, n_peers).
        n_rounds: how many.

    Returns:
        The threshold and the peers of each round, and the rounds with which epochs end.
    """
    n_peers = seconds.shape[1]
    done, ready, still_open, threshold = np.zeros(n_peers, int), seconds[0].astype(float), set(links), -1.0
    thresholds: list[float] = []
    rounds: list[frozenset[int]] = []
    ends: list[int] = []
    for number in range(n_rounds):
        threshold = min(max(ready[one], ready[other]) for one, other in still_open)
        part = frozenset(np.flatnonzero(ready <= threshold).tolist())
        still_open -= {link for link in links if part >= set(link)}
        if not still_open:
            ends.append(number)
            still_open = set(links)
        for peer in part:
            done[peer] += 1
            ready[peer] = threshold + seconds[done[peer], peer]
        thresholds.append(threshold)
        rounds.append(part)
    return thresholds, rounds, ends


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["many ties", "no ties", "one slow"])
@pytest.mark.parametrize("mixing", ["metropolis()", "max_degree()"])
@given(graph=st.sampled_from(sorted(GRAPHS)), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=12, deadline=None)
def test_the_threshold_rule_is_the_paper_s(
    problem: LogisticRegression, graph: str, seed: int, mixing: str, kind: str
) -> None:
    """A peer that completed two links of the tree at one moment closed one of them; the other was waited for again."""
    n_peers, rng = GRAPHS[graph], np.random.default_rng(seed)
    table = rng.integers(1, 4, (80, n_peers)) if kind == "many ties" else 1.0 + rng.exponential(1.0, (80, n_peers))
    seconds = table * np.where(np.arange(n_peers) == seed % n_peers, 5.0 if kind == "one slow" else 1.0, 1.0)
    made = parse_graph(graph, n_peers)
    done = train(
        problem,
        made,
        "dynamic(tree='fixed')",
        steps=12,
        rate=0.1,
        batch=4,
        delays=Fixed(seconds),
        mixing=mixing,
        metrics=False,
        keep_state=True,
    )
    links = set(spanning_tree({peer: made.neighbours[peer] for peer in range(n_peers)}, {}).links)
    peers: dict[float, set[int]] = defaultdict(set)
    for row in done.rows:
        peers[row.end].add(row.peer)
    thresholds, rounds, ends = dtur(links, seconds, len(peers))
    assert sorted(peers) == thresholds
    assert [peers[threshold] for threshold in thresholds] == rounds
    assert done.state is not None
    assert {peer["attributes"]["epochs"] for peer in done.state["clock"]["peers"]} == {len(ends)}


def test_a_peer_that_completes_two_links_at_one_moment_closes_both(problem: LogisticRegression) -> None:
    # A path 0 - 1 - 2, whose middle is last at first, and then slow: with both links closed the epoch is over.
    seconds = np.array([[1.0, 2.0, 1.0], [1.0, 9.0, 1.0], [1.0, 9.0, 1.0], [1.0, 9.0, 1.0]])
    done = train(problem, "path()", "dynamic()", peers=3, steps=1, rate=0.1, delays=Fixed(seconds), keep_state=True)
    assert done.seconds == 2.0
    assert done.state is not None
    assert {peer["attributes"]["epochs"] for peer in done.state["clock"]["peers"]} == {1}


@pytest.mark.parametrize("late", ["carry", "preempt"])
@pytest.mark.parametrize("graph", ["path()", "torus()", "erdos_renyi(p=0.4)"])
def test_no_epoch_ends_without_a_round_of_each_link_of_its_tree_whatever_messages_take(
    problem: LogisticRegression, graph: str, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that crossed a threshold closed a link whose other end had taken part without it."""
    epochs: list[tuple[set[int], set[tuple[int, int]]]] = [(set(), set())]  # their rounds and their links, by the root
    on_threshold = DynamicPeer._on_threshold

    def heard(peer: DynamicPeer, sender: int, message: Message) -> None:
        if peer.parent is None and message.data[5] == peer.decided:
            epochs[-1][0].add(message.round)
            epochs[-1][1].update(message.data[1])
            if message.data[3]:
                epochs.append((set(), set()))
        on_threshold(peer, sender, message)

    monkeypatch.setattr(DynamicPeer, "_on_threshold", heard)
    done = run(problem, graph, "dynamic(tree='fixed')", latency=0.2, late=late, steps=60)
    had: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for row in done.rows:
        had[row.round] |= {(min(row.peer, other), max(row.peer, other)) for other in row.links}
    assert len(epochs) > 5
    for rounds, links in epochs[:-1]:
        assert len(links) == GRAPHS[graph] - 1
        assert links <= set().union(*(had[number] for number in rounds))


def test_equal_times_take_part_together(problem: LogisticRegression) -> None:
    # All are ready at the same moments: t <= theta lets everybody in, so that nothing is lost against full waiting.
    for policy in ("full()", "dynamic()", "static(wait_for=1)", "local()"):
        done = run(problem, "ring()", policy, delays=Fixed(np.ones((40, 6))), steps=20)
        assert done.backups == 0.0
        assert done.seconds == 20.0


def test_a_slow_peer_costs_full_waiting_and_hardly_anybody_else(problem: LogisticRegression) -> None:
    full = run(problem, "erdos_renyi(p=0.4)", "full()").seconds
    for policy in ("static(wait_for=1)", "dynamic()", "local(window=4)", "pairwise()"):
        assert run(problem, "erdos_renyi(p=0.4)", policy).seconds < 0.6 * full


def test_each_peer_asks_its_neighbours_in_turn_from_a_place_of_its_own(problem: LogisticRegression) -> None:
    asked = [row for row in run(problem, "complete()", "pairwise(partners='in turn')").rows if row.links]
    others = [[other for other in range(6) if other != peer] for peer in range(6)]
    turns = [[others[row.peer][(row.peer + row.step + 1) % 5]] for row in asked]
    assert [list(row.links) for row in asked] == turns


def test_messages_of_the_threshold_are_charged(problem: LogisticRegression) -> None:
    quick, late = (run(problem, "ring()", "dynamic()", latency=latency, steps=30) for latency in (0.0, 0.5))
    assert late.seconds > quick.seconds + 10.0
    assert max(row.hops for row in quick.rows) >= 3
    assert quick.messages > quick.vectors


@pytest.mark.parametrize("orphans", ["out", "taken over"])
@pytest.mark.parametrize("latency", [0.0, 0.2])
@pytest.mark.parametrize("policy", POLICIES)
def test_peers_leave_and_come_back(problem: LogisticRegression, policy: str, latency: float, orphans: str) -> None:
    faults = [Crash(0, 10.0), Crash(3, 14.0, 40.0)]  # without 0 the star falls apart
    done = run(problem, "star()", policy, faults=faults, notice=2.0, orphans=orphans, slow=1, latency=latency)
    assert not done.stopped
    assert 0 not in done.present
    assert 3 in done.present
    assert len(done.view_changes[0].added_links) == 3
    assert {row.peer for row in done.rows if row.end > 60.0} == {1, 2, 3, 4}
    held = np.concatenate(done.shares)
    assert len(np.unique(held)) == len(held)
    assert len(done.shares[3]) >= 80
    assert done.objective < 0.9 * done.means[0].objective


@pytest.mark.parametrize("policy", POLICIES)
def test_a_cut_network_trains_on_in_both_parts_and_heals(problem: LogisticRegression, policy: str) -> None:
    done = run(
        problem, "ring()", policy, faults=[NetworkPartition((0, 1, 2), 15.0, 60.0)], notice=1.0, steps=60, slow=5
    )
    within = [row for row in done.rows if row.begin > 20.0 and row.end < 60.0]
    assert {row.peer for row in within} == set(range(6))
    crossing = [row for row in within if any((other in (0, 1, 2)) != (row.peer in (0, 1, 2)) for other in row.links)]
    assert not crossing
    after = [row for row in done.rows if row.begin > 62.0]
    assert {row.peer for row in after} == set(range(6))
    assert any((other in (0, 1, 2)) != (row.peer in (0, 1, 2)) for row in after for other in row.links)


def test_the_mean_of_the_living_does_not_jump(problem: LogisticRegression) -> None:
    done = run(problem, "erdos_renyi(p=0.4)", "static(wait_for=1)", faults=[Crash(4, 20.0)], evaluate_every=0.1)
    before = max(row.objective for row in done.means if 18.0 < row.time < 20.0)
    after = max(row.objective for row in done.means if 20.0 < row.time < 22.0)
    assert after < before + 0.02


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"policy": "static(backup=2)"}, "must leave every peer a neighbour"),
        ({"policy": "static(wait_for=3)"}, "at most the largest number of neighbours"),
        ({"policy": "static()"}, "exactly one of wait_for and backup"),
        ({"policy": "dynamic(tree='star')"}, "must be 'measured' or 'fixed'"),
        ({"policy": "pairwise(partners='first')"}, "must be 'random' or 'in turn'"),
        ({"split": [[0], [1], [2], [3], [4], []]}, "must give every peer at least one sample"),
        ({"split": "dirichlet(alpha=0.001)"}, "must give every peer at least one sample"),
        ({"split": [[0]] * 6}, "each with one peer at most"),
        ({"late": "sometimes"}, "'carry' or 'preempt'"),
        ({"latency": -1.0}, "latency must be"),
        ({"faults": [Crash(9, 1.0)]}, "peer must be at most 5"),
        ({"faults": [Crash(peer, 1.0) for peer in range(6)]}, "at least one peer"),
        ({"mixing": "other()"}, "mixing must be one of"),
        ({"algorithm": "adam()"}, "must use known names"),
        ({"delays": "scaled(none(), [1.0])"}, "factors must have one for each of 6"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    problem: LogisticRegression, more: dict[str, Any], said: str
) -> None:
    policy = more.pop("policy", "full()")
    with pytest.raises(InvalidArgument) as caught:
        run(problem, "ring()", policy, **more)
    assert said in str(caught.value)


def test_a_graph_is_needed_with_its_peers(problem: LogisticRegression) -> None:
    with pytest.raises(InvalidArgument, match="peers must be given if the graph is a text"):
        train(problem, "ring()", steps=1, rate=0.1)
    with pytest.raises(InvalidArgument, match="peers must be 3"):
        train(problem, Graph(3, ((0, 1), (1, 2))), peers=4, steps=1, rate=0.1)


def test_peers_go_on_in_float64_from_a_first_model_in_float32(
    problem: LogisticRegression, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(problem, "ring()", "local()", steps=5)
    first = np.zeros(problem.n_parameters, np.float32)
    monkeypatch.setattr(problem, "initial", lambda: first)
    assert run(problem, "ring()", "local()", steps=5).models.tobytes() == plain.models.tobytes()
