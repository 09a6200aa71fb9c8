"""What becomes of the workers: replaced, spread, left alone, added; and what becomes of the gradient meanwhile."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from erasurehead import codes, schemes
from erasurehead.delays import Exponential
from erasurehead.engines import Arrived, Died, Joined, VirtualEngine
from erasurehead.errors import EngineError, InvalidArgument, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import Shard
from erasurehead.runs._summaries import figures
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Timetable
from erasurehead.training import ArrivalRow, Callback, Run, StepRow, train
from erasurehead.training._hosts import spread

from ..arrays import Array

PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)
SECOND = Timetable({(w, s, 0): 1.0 for w in range(12) for s in range(20)})


def descend(steps: int, rate: float = 0.1, problem: Quadratic = PROBLEM) -> Array:
    x = np.zeros(problem.n_parameters)
    for _ in range(steps):
        x = x - rate * (problem.gradient(x) + problem.penalty_gradient(x))
    return x


def run_with(
    scheme: schemes.Scheme, deaths: Mapping[int, float], fault_policy: FaultPolicy, steps: int = 8, **others: object
) -> Run:
    engine = VirtualEngine(SECOND, hosts={"one": scheme.code.n_workers} if fault_policy.on_death != "replace" else None)
    for worker, at in deaths.items():
        engine.kill(worker, at=at)
    optimizer = GradientDescent(np.zeros(6), 0.1)
    return train(PROBLEM, scheme, optimizer, engine, steps, fault_policy=fault_policy, **others)  # type: ignore[arg-type]


def said(run: Run) -> str:
    return "\n".join(notice.text for notice in run.notices)


def test_a_dead_worker_is_replaced_and_its_replacement_takes_the_current_order() -> None:
    run = run_with(schemes.uncoded(6), {2: 3.5}, FaultPolicy())
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert run.seconds == pytest.approx(8.5)  # half of a step's work was lost, nothing else
    assert all(row.residual == 0 and not row.dead for row in run.steps)
    assert "worker 2 died: killed; another takes its place" in said(run)
    assert "worker 2 has joined, on virtual" in said(run)


def test_who_dies_again_and_again_is_given_up_and_its_tasks_go_to_the_others() -> None:
    engine = VirtualEngine(SECOND)
    for number in range(4):
        engine.kill(0, at=0.5 + 2 * number)
    fault_policy = FaultPolicy(replacements=2)
    run = train(PROBLEM, schemes.uncoded(6), GradientDescent(np.zeros(6), 0.1), engine, 8, fault_policy=fault_policy)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert "worker 0 died: killed; it was replaced 2 times" in said(run)
    assert "the code is resized for 5 workers" in said(run)
    assert [row.workers for row in run.steps][-1] == 5


@pytest.mark.parametrize(
    "scheme",
    [
        schemes.uncoded(6),
        schemes.exact(6, 2),
        schemes.exact(6, 3, code="cyclic"),
        schemes.erasurehead(6, 2, wait_for=6),
    ],
    ids=str,
)
def test_tasks_are_spread_over_the_living_in_the_same_step(scheme: schemes.Scheme) -> None:
    run = run_with(scheme, {4: 2.5, 5: 2.6}, FaultPolicy(on_death="spread"))
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert [row.step for row in run.steps] == list(range(8))
    assert all(row.residual == pytest.approx(0.0, abs=1e-9) for row in run.steps)
    assert run.steps[-1].workers == 4
    assert all(not row.dead for row in run.steps[4:])


def test_no_room_for_a_replacement_means_that_its_tasks_are_spread() -> None:
    engine = VirtualEngine(SECOND, hosts={"one": 6})
    engine.kill(3, at=1.5)

    class Full(VirtualEngine):
        def _place(self, host: str | None) -> str:
            if self.now() > 0:
                self._hosts["one"] = 5
            return super()._place(host)

    engine = Full(SECOND, hosts={"one": 6})
    engine.kill(3, at=1.5)
    run = train(PROBLEM, schemes.uncoded(6), GradientDescent(np.zeros(6), 0.1), engine, 8)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert "there is no room for another" in said(run)
    assert run.steps[-1].workers == 5


def test_repetition_moves_only_the_data_that_must_move() -> None:
    run = run_with(schemes.exact(12, 3), {4: 2.5}, FaultPolicy(on_death="spread"))
    # Four groups of three: when one has two left, nobody needs other data.
    assert "the code is resized for 11 workers" in said(run)
    assert "0 of them get other data, 0 of" in said(run)
    run = run_with(schemes.exact(12, 3), {0: 2.5, 1: 2.5, 2: 2.6}, FaultPolicy(on_death="spread"))
    assert "2 of them get other data" in said(run)  # two workers are needed where nobody is left
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)


def test_tasks_lost_for_good_are_left_out_if_the_user_wants_and_every_record_names_them() -> None:
    run = run_with(schemes.exact(6, 2), {0: 0.5, 1: 0.5}, FaultPolicy(on_death="leave", on_loss="go_on"))
    remaining = Quadratic(PROBLEM.rows[8:], PROBLEM.centres[8:], l2=0.01)
    np.testing.assert_allclose(run.x, descend(8, problem=remaining), rtol=1e-9)
    for row in run.steps:
        assert row.lost == [0, 1]
        assert row.residual == pytest.approx(2.0)
        assert row.coverage == pytest.approx(4 / 6)
    assert run.losses[0] == pytest.approx(remaining.objective(np.zeros(6)))


def test_a_rule_that_cannot_be_met_gives_way_to_all_that_can_come() -> None:
    scheme = schemes.custom(codes.fractional_repetition(6, 2), "first(5)")
    run = run_with(scheme, {0: 0.5, 2: 0.5}, FaultPolicy(on_death="leave", on_loss="go_on"))
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert all(row.arrived == 4 and not row.lost for row in run.steps)


def test_nobody_left_is_the_end_whatever_the_policy() -> None:
    deaths = dict.fromkeys(range(6), 2.5)
    for fault_policy in (
        FaultPolicy(on_death="spread", on_loss="go_on"),
        FaultPolicy(on_death="leave", on_loss="go_on"),
    ):
        with pytest.raises(Unreachable, match=r"step 2: .* 0 of \d workers are left \(worker \d died: killed"):
            run_with(schemes.exact(6, 2), deaths, fault_policy)


def test_the_worker_set_grows_and_shrinks_on_demand_without_losing_a_step() -> None:
    wishes = {2: 9, 5: 4}
    run = run_with(schemes.exact(6, 2), {}, FaultPolicy(), wanted=wishes.get)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert [row.workers for row in run.steps] == [6, 6, 9, 9, 9, 4, 4, 4]
    assert all(row.residual == 0 for row in run.steps)


def test_room_that_the_engine_offers_is_taken_if_the_user_wants_to_grow() -> None:
    for grow, workers in ((True, 8), (False, 6)):
        engine = VirtualEngine(SECOND, hosts={"one": 6})
        engine.offer(2, "two", at=2.5)
        optimizer = GradientDescent(np.zeros(6), 0.1)
        run = train(PROBLEM, schemes.exact(6, 2), optimizer, engine, 8, fault_policy=FaultPolicy(grow=grow))
        np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
        assert run.steps[-1].workers == workers
        assert "host two has room for 2 more workers" in said(run)


def test_more_workers_than_there_is_room_for_means_as_many_as_there_are_places() -> None:
    engine = VirtualEngine(SECOND, hosts={"one": 8})
    optimizer = GradientDescent(np.zeros(6), 0.1)
    run = train(PROBLEM, schemes.exact(6, 2), optimizer, engine, 5, wanted={1: 16}.get)
    np.testing.assert_allclose(run.x, descend(5), rtol=1e-9)
    assert run.steps[-1].workers == 8


def test_a_code_that_cannot_be_resized_stays_as_it_is_and_says_so() -> None:
    run = run_with(schemes.exact(6, 3, code="cyclic"), {}, FaultPolicy(), wanted={2: 9}.get)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert run.steps[-1].workers == 6
    assert "the code stays as it is" in said(run)


class _Stillborn(VirtualEngine):
    """Some workers die before they have joined."""

    stillborn = frozenset({1})

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        if event is not None and getattr(event, "worker", None) in self.stillborn:
            return Died(event.worker, "no licence", self.now())  # type: ignore[union-attr]
        return event


def test_a_worker_that_does_not_start_is_a_death_like_others() -> None:
    optimizer = GradientDescent(np.zeros(6), 0.1)
    run = train(PROBLEM, schemes.exact(6, 2), optimizer, _Stillborn(SECOND), 8)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert "worker 1 did not start: no licence" in said(run)


def test_if_nobody_starts_the_reason_is_told() -> None:
    engine = _Stillborn(SECOND)
    engine.stillborn = frozenset(range(6))
    with pytest.raises(EngineError, match="worker 0 did not start: no licence"):
        train(PROBLEM, schemes.exact(6, 2), GradientDescent(np.zeros(6), 0.1), engine, 8)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    death=st.sampled_from(["replace", "spread"]),
    late=st.sampled_from(["preempt", "carry"]),
    load=st.integers(1, 3),
)
def test_whatever_dies_when_an_exact_scheme_ends_at_the_model_of_plain_gradient_descent(
    seed: int, death: str, late: str, load: int
) -> None:
    rng = np.random.default_rng(seed)
    delays = Timetable({(w, s, 0): float(rng.exponential()) for w in range(9) for s in range(6)})
    engine = VirtualEngine(delays, late)  # type: ignore[arg-type]
    for worker in rng.choice(6, size=int(rng.integers(0, 5)), replace=False).tolist():
        engine.kill(worker, at=float(rng.uniform(0, 6)))
    fault_policy = FaultPolicy(on_death=death)  # type: ignore[arg-type]
    run = train(
        PROBLEM, schemes.exact(6, load), GradientDescent(np.zeros(6), 0.1), engine, 6, fault_policy=fault_policy
    )
    np.testing.assert_allclose(run.x, descend(6), rtol=1e-9)
    assert [row.step for row in run.steps] == list(range(6))


@pytest.mark.slow
@settings(max_examples=60)
@given(n_hosts=st.integers(2, 5), groups=st.integers(1, 6), load=st.integers(2, 5))
def test_replicas_of_a_task_are_never_all_on_one_host(n_hosts: int, groups: int, load: int) -> None:
    hosts: dict[str, int | None] = {f"host{number}": None for number in range(n_hosts)}
    coded = [codes.fractional_repetition(groups * load, load)]
    if n_hosts > 2:  # with two, an odd circle of overlapping workers cannot be parted
        coded.append(codes.cyclic_repetition(load + groups, load - 1))
    for code in coded:
        placed = spread(code, hosts)
        assert None not in placed
        for task in np.flatnonzero(code.replication > 1).tolist():
            holders = [worker for worker in range(code.n_workers) if task in code.tasks_of(worker)]
            assert len({placed[worker] for worker in holders}) > 1


def test_hosts_are_never_filled_beyond_what_they_bear() -> None:
    code = codes.fractional_repetition(6, 3)
    assert sorted(map(str, spread(code, {"a": 2, "b": 1, "c": 1}))) == ["None", "None", "a", "a", "b", "c"]


def test_workers_run_where_their_code_says_that_the_data_are() -> None:
    def went(code: codes.GradientCode, **hosts: int | None) -> dict[int, str]:
        found: dict[int, str] = {}

        class Watched(VirtualEngine):
            def next_event(self, until: float | None = None) -> Any:
                event = super().next_event(until)
                if isinstance(event, Joined):
                    found[event.worker] = event.host
                return event

        scheme = schemes.custom(code, "decodable()")
        train(PROBLEM, scheme, GradientDescent(np.zeros(6), 0.1), Watched(hosts=hosts), 2)
        return found

    held = [[0, 1], [1, 2], [2, 0], [0, 1]]
    code = codes.placed(held, 1, hosts=["b", "b", "a", "a"])
    assert went(code, a=2, b=None) == {0: "b", 1: "b", 2: "a", 3: "a"}
    assert spread(code, {"a": 9, "b": None, "c": None}, {2: "a", 3: "c"}) == ["b", "b", "a", "c"]
    assert spread(code, {"a": 9, "c": 9})[2:] == ["a", "a"]  # that machine is gone: its workers go elsewhere
    rule = r"hosts must be machines of the engine with room for their workers, but it is \['b', 'b', 'a', 'a'\]"
    with pytest.raises(InvalidArgument, match=rule + r"; there are a \(1\), b \(any number\)"):
        went(code, a=1, b=None)
    with pytest.raises(InvalidArgument, match="hosts must name one machine for each of the 4 workers"):
        codes.placed(held, 1, hosts=["a"])


def test_policies_that_do_not_exist_are_refused() -> None:
    with pytest.raises(
        InvalidArgument, match=r"fault_policy\.on_death must be one of 'replace', 'spread', 'leave', but"
    ):
        FaultPolicy(on_death="revive")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="suspect_after must be a positive number"):
        FaultPolicy(suspect_after=0)


def train_with_a_pause(
    scheme: schemes.Scheme, steps: int, until: int | None = None, fault_policy: FaultPolicy | None = None
) -> Run:
    """Train on the virtual clock, with worker 3 stopped after step 20, until after another step if one is given."""
    engine = VirtualEngine(Exponential(mean=0.5, seed=1))

    class Hangs(Callback):
        def on_step_end(self, row: StepRow, x: Array) -> None:
            if row.step == 20:
                engine.pause(3)
            if row.step == until:
                engine.proceed(3)

    return train(
        PROBLEM, scheme, GradientDescent(np.zeros(6), 0.1), engine, steps, [Hangs()], fault_policy=fault_policy
    )


def test_a_worker_that_hangs_is_named_and_cleared_when_it_answers_again() -> None:
    run = train_with_a_pause(schemes.exact(6, 3), 80, until=60)
    told = [(notice.step, notice.text) for notice in run.notices]
    assert len(told) == 2
    assert 21 <= told[0][0] <= 60
    assert told[0][1].startswith("worker 3 is suspected to hang: silent for ")
    assert told[1][0] >= 60
    assert told[1][1].startswith("worker 3 does not hang: it answered after ")


def test_a_worker_that_hangs_is_replaced_if_the_user_wants() -> None:
    # Nobody else holds its task: without a replacement this would wait for ever.
    run = train_with_a_pause(schemes.uncoded(6), 40, fault_policy=FaultPolicy(on_suspicion="replace"))
    np.testing.assert_allclose(run.x, descend(40), rtol=1e-9)
    assert "worker 3 is suspected to hang" in said(run)
    assert "worker 3 is ended; another takes its place" in said(run)
    assert "worker 3 has joined, on virtual" in said(run)


def test_a_fixed_silence_may_stand_in_for_the_derived_one() -> None:
    delays = Timetable({(2, s, 0): 4.0 for s in range(5)})
    engine = VirtualEngine(delays)
    optimizer = GradientDescent(np.zeros(6), 0.1)
    run = train(PROBLEM, schemes.uncoded(6), optimizer, engine, 2, fault_policy=FaultPolicy(suspect_after=2.5))
    assert [notice.text for notice in run.notices] == [
        "worker 2 is suspected to hang: silent for 2.5 s; 2.5 s were allowed",
        "worker 2 does not hang: it answered after 4 s",
    ] * 2


class _SlowToStart(VirtualEngine):
    """Every worker takes longer to start than the one before it."""

    def _push(self, time: float, worker: int, number: int, event: Any) -> None:
        super()._push(time + 0.1 * worker if isinstance(event, Joined) else time, worker, number, event)


def test_a_worker_that_dies_while_others_are_still_started_is_not_waited_for() -> None:
    engine = _SlowToStart(SECOND)
    engine.kill(1, at=0.25)
    run = train(PROBLEM, schemes.exact(6, 2), GradientDescent(np.zeros(6), 0.1), engine, 4)
    np.testing.assert_allclose(run.x, descend(4), rtol=1e-9)
    assert run.seconds == pytest.approx(4.0)
    assert run.steps[0].workers == 6
    assert run.steps[0].workers_noticed("died") == run.steps[0].workers_noticed("joined") == [1]
    assert (figures(run)["deaths"], figures(run)["joined"], figures(run)["workers_at_end"]) == (1, 1, 6)


@settings(max_examples=30)
@given(
    struck=st.lists(st.integers(0, 5), max_size=24), death=st.sampled_from(["replace", "spread"])
)  # each start of a worker that is named once more fails
def test_who_dies_before_it_has_joined_is_replaced_recorded_and_counted_as_who_dies_later(
    struck: list[int], death: str
) -> None:
    engine = _Struck(SECOND)
    engine.left.clear()
    engine.left.update(struck)
    fault_policy = FaultPolicy(on_death=death, replacements=3)  # type: ignore[arg-type]
    fatal = {worker for worker, count in Counter(struck).items() if count > 3 or (count and death == "spread")}
    optimizer = GradientDescent(np.zeros(6), 0.1)
    if len(fatal) == 6:
        with pytest.raises(EngineError, match=r"worker \d did not start: struck"):
            train(PROBLEM, schemes.exact(6, 2), optimizer, engine, 2, fault_policy=fault_policy)
        return
    run = train(PROBLEM, schemes.exact(6, 2), optimizer, engine, 2, fault_policy=fault_policy)
    np.testing.assert_allclose(run.x, descend(2), rtol=1e-9)
    assert run.steps[-1].workers == 6 - len(fatal)
    deaths = sum(min(count, 4 if death == "replace" else 1) for count in Counter(struck).values())
    assert figures(run)["deaths"] == len(run.steps[0].workers_noticed("died")) == deaths
    if death == "replace":
        assert {*run.steps[0].workers_noticed("joined")} == {*struck} - fatal


class _Struck(VirtualEngine):
    """Workers die as often as it says while they are started."""

    left: ClassVar[Counter[int]] = Counter()

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        if isinstance(event, Joined) and self.left[event.worker]:
            self.left[event.worker] -= 1
            return Died(event.worker, "struck", self.now())
        return event


def test_what_nobody_can_run_is_sent_to_nobody_again() -> None:
    engine = _Broken(SECOND)
    with pytest.raises(EngineError, match=r"worker 0 did not start: no such file\."):
        train(PROBLEM, schemes.exact(6, 2), GradientDescent(np.zeros(6), 0.1), engine, 2)
    assert engine.begun == 6


class _Broken(VirtualEngine):
    """No worker can open its program."""

    begun = 0

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        if isinstance(event, Joined):
            self.begun += 1
            return Died(event.worker, "no such file", self.now(), broken=True)
        return event


def test_room_that_is_offered_while_workers_start_is_taken() -> None:
    engine = _SlowToStart(SECOND, hosts={"one": 6})
    engine.offer(2, "two", at=0.25)
    run = train(
        PROBLEM, schemes.exact(6, 2), GradientDescent(np.zeros(6), 0.1), engine, 2, fault_policy=FaultPolicy(grow=True)
    )
    assert run.steps[0].workers == 8


def test_a_code_that_cannot_be_resized_goes_on_without_what_is_lost_if_the_user_wants() -> None:
    scheme = schemes.custom(codes.build("projective_plane", order=2), "first(6)")
    run = run_with(scheme, {0: 0.5, 1: 0.5}, FaultPolicy(on_death="spread", on_loss="go_on"))
    assert "the code stays as it is" in said(run)
    assert [row.step for row in run.steps] == list(range(8))
    assert all(row.arrived == 5 and not row.lost for row in run.steps)
    with pytest.raises(Unreachable, match=r"step 0: .*first\(6\).* workers 0, 1 will not answer"):
        run_with(scheme, {0: 0.5, 1: 0.5}, FaultPolicy(on_death="spread"))


def test_a_wish_that_cannot_be_granted_does_not_keep_the_living_from_taking_over() -> None:
    run = run_with(schemes.uncoded(6), {5: 0.5}, FaultPolicy(on_death="spread"), wanted=dict.fromkeys(range(8), 50).get)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert run.steps[0].workers == 5


def test_those_leave_first_whose_tasks_others_hold() -> None:
    run = run_with(schemes.exact(12, 3), {}, FaultPolicy(), wanted={3: 8}.get)
    assert "the code is resized for 8 workers" in said(run)
    assert "0 of them get other data" in said(run)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)


def test_fewer_workers_than_a_cyclic_code_bears_stragglers_hold_all_tasks() -> None:
    run = run_with(schemes.exact(6, 5, code="cyclic"), {}, FaultPolicy(), wanted={2: 3}.get)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert run.steps[-1].workers == 3


def test_a_replacement_goes_where_no_replica_of_its_tasks_is() -> None:
    code = codes.fractional_repetition(4, load=2)
    hosts: dict[str, int | None] = {"a": None, "b": None}
    assert spread(code, hosts, {0: "a", 2: "b", 3: "b"})[1] == "b"  # though more are there already
    assert spread(code, hosts, {0: "elsewhere", 2: "b", 3: "b"}) == ["elsewhere", "a", "b", "b"]


def test_what_is_lost_later_in_the_same_step_is_left_out_too() -> None:
    run = run_with(
        schemes.exact(6, 2), {0: 0.2, 1: 0.2, 2: 0.5, 3: 0.5}, FaultPolicy(on_death="leave", on_loss="go_on")
    )
    remaining = Quadratic(PROBLEM.rows[16:], PROBLEM.centres[16:], l2=0.01)
    np.testing.assert_allclose(run.x, descend(8, problem=remaining), rtol=1e-9)
    assert all(row.lost == [0, 1, 2, 3] and row.residual == pytest.approx(4.0) for row in run.steps)


def test_a_loss_while_all_others_are_waited_for_is_left_out_too() -> None:
    scheme = schemes.custom(codes.fractional_repetition(6, 2), "first(6)")
    run = run_with(scheme, {2: 0.2, 0: 0.5, 1: 0.6}, FaultPolicy(on_death="leave", on_loss="go_on"), steps=1)
    remaining = Quadratic(PROBLEM.rows[8:], PROBLEM.centres[8:], l2=0.01)
    np.testing.assert_allclose(run.x, descend(1, problem=remaining), rtol=1e-9)
    assert run.steps[0].lost == [0, 1]


def test_a_worker_with_nothing_to_send_is_neither_missed_nor_suspected() -> None:
    code = codes.GradientCode("idle", {}, sparse.csr_array(np.eye(2)), np.array([0, 1]), 3, 2)
    fault_policy = FaultPolicy(on_suspicion="replace", suspect_after=1.5)
    run = run_with(schemes.custom(code, "decodable()"), {}, fault_policy, steps=4)
    assert all(row.notices == [] and row.missing == [] for row in run.steps)


def test_a_worker_that_is_given_other_data_is_not_suspected_while_it_starts() -> None:
    class Slow(VirtualEngine):
        def _push(self, time: float, worker: int, number: int, event: Any) -> None:
            super()._push(time + 3.0 * (isinstance(event, Joined) and time > 0), worker, number, event)

    fault_policy = FaultPolicy(on_suspicion="replace", suspect_after=2.0)
    scheme = schemes.custom(codes.uncoded(4, 6), "first(1)")
    delays = Timetable({(w, s, 0): 0.5 + w for w in range(6) for s in range(9)})
    optimizer = GradientDescent(np.zeros(6), 0.1)
    run = train(PROBLEM, scheme, optimizer, Slow(delays, "carry"), 4, fault_policy=fault_policy, wanted={1: 3}.get)
    assert run.steps[-1].workers == 3
    assert "suspected" not in said(run)


def test_an_idle_message_is_no_step() -> None:
    code = codes.custom([[0.5, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]])
    delays = Timetable({(w, s, 0): 1.0 for w in (0, 2) for s in range(3)})
    run = train(
        PROBLEM, schemes.custom(code, "first(1)"), GradientDescent(np.ones(6), 0.1), VirtualEngine(delays), 3
    )  # the first to come is a difference, and says nothing of the sum
    assert not any(row.stepped for row in run.steps)
    assert (run.x == 1.0).all()


class _Raises(Quadratic):
    """A problem that cannot be computed."""

    def shard(self, tasks: Sequence[slice]) -> Shard:
        shard = super().shard(tasks)

        def fail(*_: object) -> float:
            raise ValueError("no such column")

        shard.combine = fail  # type: ignore[method-assign]
        return shard


def test_programs_that_fail_are_not_taken_for_a_diverged_model() -> None:
    problem = _Raises(PROBLEM.rows, PROBLEM.centres)
    with pytest.raises(Unreachable, match="message 0 is refused: ValueError: no such column"):
        train(problem, schemes.uncoded(6), GradientDescent(np.zeros(6), 0.1), VirtualEngine(), 3)


class _Lies(VirtualEngine):
    """Worker 1 answers something else."""

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        if isinstance(event, Arrived) and event.worker == 1:
            read = event.read
            return replace(event, read=lambda: read() + 1.0)
        return event


def test_a_message_in_doubt_is_here_but_not_used() -> None:
    delays = Timetable({(2, s, 0): 10.0 for s in range(2)})
    scheme = schemes.custom(codes.fractional_repetition(3, 3), "deadline(1.0)")
    run = train(
        PROBLEM, scheme, GradientDescent(np.zeros(6), 0.1), _Lies(delays), 1, fault_policy=FaultPolicy(verify=True)
    )
    assert [(row.message, row.used, row.censored) for row in run.arrivals] == [
        (0, False, False),
        (1, False, False),
        (2, False, True),
    ]
    assert run.steps[0].missing == [2]
    assert not run.steps[0].stepped


@pytest.mark.parametrize("where", ["arrival", "step"])
def test_ctrl_c_waits_until_a_step_is_recorded(where: str) -> None:
    class Impatient(Callback):
        def on_arrival(self, row: ArrivalRow) -> None:
            if where == "arrival" and row.step == 2 and row.worker == 3:
                signal.raise_signal(signal.SIGINT)

        def on_step_end(self, row: StepRow, x: Array) -> None:
            if where == "step" and row.step == 2:
                signal.raise_signal(signal.SIGINT)

    class After(Callback):
        steps = 0

        def on_step_end(self, row: StepRow, x: Array) -> None:
            self.steps += 1

    after = After()
    optimizer = GradientDescent(np.zeros(6), 0.1)
    run = train(PROBLEM, schemes.uncoded(6), optimizer, VirtualEngine(), 9, [Impatient(), after])
    assert run.stopped == "stopped by Ctrl-C"
    assert len(run.steps) == after.steps == 3
    np.testing.assert_allclose(run.x, descend(3), rtol=1e-9)
