"""What holds of whatever runs peers: subclass `PeerConformance`, define how to train, and run pytest.

::

    class TestMyEngine(PeerConformance):
        def train(self, problem, graph, policy, **settings):
            return consensus.train(problem, graph, policy, engine=MyEngine(), **settings)
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from erasurehead.consensus import Crash, NetworkPartition, Policy
from erasurehead.consensus._mixing import Metropolis, mixed
from erasurehead.consensus._plans import plan
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._shares import LocalGradients
from erasurehead.problems import LogisticRegression
from erasurehead.testing._pacing import at_some_pace

from ..arrays import Array
from .scripted import FIELDS, MESSAGES, ROUNDS, Scripted

TIME_LIMIT = 200.0
"""Seconds of the clock after which a run of these tests counts as hung."""

RATE, BATCH = 0.5, 8


def small_problem() -> LogisticRegression:
    """Return a problem with cheap gradients."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6))
    return LogisticRegression(X, np.sign(X @ rng.standard_normal(6) + rng.standard_normal(120)), l2=1e-2)


def models_of_full_waiting(problem: LogisticRegression, n_peers: int, steps: int) -> Array:
    """Return the models, after each step, of peers on a ring that wait for all neighbours.

    Arguments:
        problem: the problem.
        n_peers: number of peers, at least 3.
        steps: number of steps.

    Returns:
        Shape (steps + 1, n_peers, n_parameters).
    """
    peer_plan = plan(problem, "ring()", "full()", peers=n_peers, rate=RATE, batch=BATCH)
    local, graph = LocalGradients(problem, peer_plan.shares, BATCH, 0), peer_plan.graph
    models = [np.array([peer_plan.x] * n_peers)]
    for step in range(steps):
        moved = models[-1] - RATE * local.gradients(range(n_peers), models[-1], [step] * n_peers)
        weight = Metropolis().weight(0, 1, 2, 2)
        links = [[(other, weight, moved[other]) for other in graph.neighbours[peer]] for peer in range(n_peers)]
        models.append(np.array([mixed(moved[peer], peer, links[peer]) for peer in range(n_peers)]))
    return np.array(models)


class PeerConformance:
    """Conformance tests of engines with `PeerMessaging`, and of other implementations of `Port`."""

    @abstractmethod
    def train(self, problem: LogisticRegression, graph: str, policy: Policy | str, **settings: Any) -> ConsensusRun:
        """Train as `consensus.train` does, with the tested implementation."""

    def run(self, policy: Policy | str, **more: Any) -> ConsensusRun:
        """Train a few peers, by default four on a ring.

        Arguments:
            policy: their policy.
            more: settings of `consensus.train` that differ from the defaults of these tests.
        """
        given: dict[str, Any] = {
            "peers": 4,
            "steps": 12,
            "rate": RATE,
            "batch": BATCH,
            "delays": "exponential(mean=0.004)",
            "evaluate_every": 4.0,
            "until": TIME_LIMIT,
        }
        settings = given | more
        done = self.train(small_problem(), settings.pop("graph", "ring()"), policy, **settings)
        if done.seconds >= TIME_LIMIT and not done.stopped:
            raise TimeoutError(f"the run hung: {done}")
        assert done.steps >= settings["steps"] * settings["peers"]
        return done

    @pytest.mark.parametrize("seed", [0, 1])
    def test_equal_arrivals_give_equal_bits(self, seed: int) -> None:
        # Peers that wait for all neighbours mix the same vectors, in the order of their numbers and not of arrival.
        done = self.run("full()", delays=f"exponential(mean=0.004, seed={seed})")
        assert not done.stopped
        steps = [sum(row.peer == peer for row in done.rows) for peer in range(4)]
        paths = models_of_full_waiting(small_problem(), 4, max(steps) + 1)
        for peer, own in enumerate(steps):
            # A peer whose gradient has arrived but is not mixed yet has moved along it.
            before = paths[own, peer]
            local = LocalGradients(
                small_problem(), plan(small_problem(), "ring()", peers=4, rate=RATE).shares, BATCH, 0
            )
            moved = before - RATE * local.gradients([peer], before[None], [own])[0]
            assert (done.models[peer] == before).all() or (done.models[peer] == moved).all()

    def test_the_requested_steps_are_recorded_in_order(self) -> None:
        done = self.run("local(window=4)")
        assert done.status == "finished"
        assert 48 <= done.steps < 52
        assert len(done.rows) == done.steps
        assert [row.end for row in done.rows] == sorted(row.end for row in done.rows)
        assert done.rows[-1].end == done.seconds
        for peer in range(4):
            own = [row for row in done.rows if row.peer == peer]
            assert [row.step for row in own] == list(range(len(own)))
            assert all(row.begin <= row.ready <= row.end for row in own)
        assert done.objective < done.means[0].objective
        assert done.means[-1].step == done.steps / 4

    @pytest.mark.parametrize(
        "policy",
        ["static(wait_for=1)", "dynamic()", "local(window=4)", "pairwise()", "pairwise(partners='in turn')"],
    )
    def test_both_ends_of_a_link_agree(self, policy: str) -> None:
        done = self.run(policy, steps=25)
        assert not done.stopped
        seen: dict[tuple[int, int], list[float]] = defaultdict(list)
        for row in done.rows:
            for other, weight in zip(row.links, row.weights, strict=True):
                seen[row.peer, other].append(weight)
        if not policy.startswith("pairwise"):  # there, the neighbour that is asked averages in the middle of a step
            for (one, neighbour), weights in seen.items():
                back = seen.get((neighbour, one), [])  # not an entry that is made while they are gone through
                assert abs(len(weights) - len(back)) <= 1
                assert weights[: len(back)] == back[: len(weights)]
        assert done.objective < done.means[0].objective

    def test_control_messages_are_never_lost_and_the_newest_vector_arrives(self) -> None:
        done = self.run(Scripted("flood"), peers=2, steps=1, delays="none()", graph="path()")
        seen = dict(zip(FIELDS, done.models[1], strict=True))
        assert seen["controls"] == MESSAGES
        assert seen["disorder"] == seen["torn"] == 0
        assert 1 <= seen["vectors"] <= MESSAGES
        assert seen["newest"] == MESSAGES
        assert seen["whole"] == 1

    def test_a_message_wakes_a_waiting_peer(self) -> None:
        done = self.run(Scripted("ping_pong"), peers=2, steps=1, delays="none()", graph="path()")
        assert not done.stopped
        assert {model[0] for model in done.models} == {ROUNDS - 1.0, ROUNDS}
        assert done.seconds < 0.2 * TIME_LIMIT  # a wait that no message ends would take that long

    def test_an_exception_of_a_peer_ends_the_run_with_its_text(self) -> None:
        with pytest.raises(Exception, match="peer 1 cannot go on"):
            self.run(Scripted("raising"), peers=2, steps=5, graph="path()")

    @pytest.mark.parametrize("policy", ["full()", "dynamic()"])
    @at_some_pace
    def test_a_crashed_peer_is_left_out_and_rejoins(self, policy: str, pace: float) -> None:
        faults = [Crash(1, 0.1 * pace, 0.4 * pace)]
        done = self.run(policy, steps=int(250 * pace), faults=faults, orphans="taken over", split="even()")
        assert not done.stopped
        assert done.present == [0, 1, 2, 3]
        assert [row.gone for row in done.view_changes] == [[1], []]
        assert done.view_changes[0].shares == "taken over"
        assert sum(map(len, done.shares)) == 120
        noticed, rejoined = (row.time for row in done.view_changes)
        assert 0.1 * pace <= noticed < rejoined
        assert {(by, whom) for by, whom, _ in done.view_changes[0].noticed} <= {(0, 1), (2, 1)}
        without = [row for row in done.rows if noticed < row.begin and row.end < rejoined]
        assert without
        assert all(row.peer != 1 and 1 not in row.links for row in without)
        assert any(row.peer == 1 and row.begin > rejoined and row.links for row in done.rows)
        assert done.objective < 0.75 * done.means[0].objective

    @at_some_pace
    def test_a_disconnected_graph_is_reconnected(self, pace: float) -> None:
        done = self.run("full()", peers=5, graph="path()", steps=int(40 * pace), faults=[Crash(2, 0.1)])
        assert not done.stopped
        assert done.present == [0, 1, 3, 4]
        assert done.view_changes[0].added_links == [[1, 3]]
        # One or both neighbours have detected the crash, and told the others.
        assert {(by, whom) for by, whom, _ in done.view_changes[0].noticed} in ({(1, 2)}, {(3, 2)}, {(1, 2), (3, 2)})
        assert done.view_changes[0].time == min(when for _, _, when in done.view_changes[0].noticed)
        assert any(row.peer == 1 and 3 in row.links for row in done.rows)

    @pytest.mark.parametrize("policy", ["dynamic()", "local(window=4)"])
    @at_some_pace
    def test_both_sides_of_a_partition_train_on_and_the_network_heals(self, policy: str, pace: float) -> None:
        done = self.run(policy, steps=int(150 * pace), faults=[NetworkPartition((0, 1), 0.1 * pace, 0.4 * pace)])
        assert not done.stopped
        assert len(done.view_changes) == 2
        partitioned, healed = (row.time for row in done.view_changes)
        across = {(0, 3), (3, 0), (1, 2), (2, 1)}
        links = [(row, {(row.peer, other) for other in row.links}) for row in done.rows]
        within = [pairs for row, pairs in links if partitioned < row.begin and row.end < healed]
        assert any(within)
        assert not any(pairs & across for pairs in within)
        assert any(pairs & across for row, pairs in links if row.begin > healed)


class PeerStateConformance(PeerConformance):
    """Conformance tests of what runs peers and can save its state, such as virtual clocks."""

    def test_a_resumed_run_continues_bit_for_bit(self) -> None:
        half, whole = self.run("dynamic()", steps=10, keep_state=True), self.run("dynamic()", steps=20)
        assert (self.run("dynamic()", steps=20, resume=half.state).models == whole.models).all()
