"""Workers whose equal messages differ: they are questioned, who lies is named and put aside, and the model is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import FaultPolicy, codes, schemes
from erasurehead.codes import GradientCode
from erasurehead.delays import Exponential
from erasurehead.delays._fixed import Recorded
from erasurehead.engines import Arrived, Engine, InProcessEngine, ProcessEngine, VirtualEngine
from erasurehead.errors import Unreachable
from erasurehead.optimizers import GradientDescent, Optimizer, QuasiNewton
from erasurehead.problems import LogisticRegression, Problem
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Resumption, Run, train

from ..engines.mpi_inside import Lie, LyingEngine, check_liars

PROBLEM = Quadratic.random(96, 6, seed=4, l2=0.01)
RULE = "decodable() & confirmed(2)"
PAIRS = codes.fractional_repetition(8, load=2)


def groups(workers: int, replicas: int, each: int) -> GradientCode:
    """Groups of so many workers with the same tasks, so many each."""
    tasks = workers // replicas * each
    return codes.build("fractional_repetition", n_workers=workers, load=each, n_tasks=tasks)


ANSWERS = ["alike", "truth", "task", "noise", "nan", "huge"]


def go(
    lies: dict[int, Lie],
    code: GradientCode = PAIRS,
    engine: Engine | None = None,
    *watching: Callback,
    problem: Problem = PROBLEM,
    optimizer: Optimizer | None = None,
    steps: int = 6,
    policy: FaultPolicy | None = None,
    rule: str = RULE,
    **how: Any,
) -> Run:
    engine = VirtualEngine(Exponential(0.5, seed=1)) if engine is None else engine
    optimizer = GradientDescent(problem.initial(), 0.05) if optimizer is None else optimizer
    return train(
        problem,
        schemes.custom(code, rule),
        optimizer,
        LyingEngine(engine, lies),
        steps,
        watching,
        evaluate_every=0,
        fault_policy=policy or FaultPolicy(verify=True),
        **how,
    )


def named(run: Run) -> list[int]:
    return [notice.worker for row in run.steps for notice in row.noticed("lied") if notice.worker is not None]


def asked(run: Run) -> int:
    return sum(event.kind == "asked" for row in run.steps for event in row.events)


EXACT = go({}).x


@st.composite
def who_lies(draw: st.DrawFn, load: int, workers: int = 12) -> dict[int, Lie]:
    """Draw liars, so that one of each group is honest, who tell different lies."""
    found: dict[int, Lie] = {}
    for group in range(0, workers, load):
        for worker in draw(st.sets(st.integers(group, group + load - 1), max_size=load - 1)):
            size = draw(st.sampled_from([1e-5, 1e-2, 1.0, 1e6])) * (1.0 + 0.1 * worker)
            steps = draw(st.none() | st.sets(st.integers(0, 5), min_size=1).map(frozenset))
            found[worker] = Lie(draw(st.sampled_from([-size, size])), draw(st.sampled_from(ANSWERS)), steps)
    return found


@pytest.mark.slow
@given(st.sampled_from([2, 3, 4]), st.integers(1, 4), st.sampled_from(["preempt", "carry"]), st.data())
@settings(max_examples=30, deadline=None)
def test_whoever_lies_whenever_and_however_it_answers_nobody_else_is_named_and_the_model_is_right(
    replicas: int, each: int, late: Any, data: st.DataObject
) -> None:
    lies = data.draw(who_lies(replicas))
    code = groups(12, replicas, each)
    run = go(lies, code, VirtualEngine(Exponential(0.5, seed=1), late), rule="first(12)")
    assert set(named(run)) <= set(lies)
    assert {worker for worker, lie in lies.items() if lie.steps is None} <= set(named(run))
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-8)


@pytest.mark.parametrize("late", ["preempt", "drop(1)", "carry"])
@pytest.mark.parametrize("answers", ANSWERS)
def test_one_of_two_who_lies_is_named_by_its_task_and_the_other_is_used(answers: str, late: Any) -> None:
    lie = Lie(1e-3, answers, frozenset({5}))  # in the last step
    run = go({3: lie}, groups(8, 2, 8), VirtualEngine(None, late))
    assert named(run) == [3]
    (notice,) = [notice for notice in run.notices if notice.kind == "lied"]
    assert notice.step == 5
    facts = notice.data
    assert (facts["against"], facts["rounds"], facts["numbers"], facts["computed"]) == (2, 3, 6, 1)
    assert facts["task"] in range(8, 16)
    assert "its message 3 differs from that of worker 2, and comes to" in notice.text
    assert run.steps[5].residual < 1e-12
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)


def test_two_liars_of_three_over_sixteen_tasks_take_two_tasks_here_and_eight_rounds_of_two_numbers() -> None:
    code = groups(3, 3, 16)
    for lies in ({1: Lie(0.5, "task")}, {0: Lie(0.5, "task"), 1: Lie(0.25, "truth")}):
        run = go(lies, code, rule="first(3)")
        assert sorted(named(run)) == sorted(lies)
        facts = [notice.data for notice in run.notices if notice.kind == "lied"]
        assert sum(one.get("computed", 0) for one in facts) <= len(lies)
        assert asked(run) <= 4 * len(lies)
        assert sum(one.get("numbers", 0) for one in facts) <= 8 * len(lies)
        np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)


def test_questions_take_the_time_of_the_tasks_that_they_are_about_and_no_bytes_to_speak_of() -> None:
    code = groups(2, 2, 16)
    lie = {1: Lie(0.5, "task", frozenset({2}))}
    run = go(lie, code, VirtualEngine(seconds_per_task=1.0), policy=FaultPolicy("leave", verify=True))
    row = run.steps[2]
    assert [event.time - (event.begin or 0.0) for event in row.events if event.kind == "asked"] == [8.0, 4.0, 2.0, 1.0]
    assert row.waited == 16.0
    assert row.end == row.begin + 31.0
    assert row.received == run.steps[1].received + 8 * 8
    rows = [arrival for arrival in run.arrivals if arrival.step == 2 and arrival.round != row.round]
    assert [arrival.used for arrival in rows] == [False] * 8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_lie_of_the_stated_size_is_named_at_the_precision_of_the_messages(dtype: str) -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((640, 8)).astype(dtype)
    y = np.sign(random.standard_normal(640)).astype(dtype)
    problem = LogisticRegression(X, y, l2=0.01)
    code = groups(4, 2, 16)
    largest = 300.0
    size = largest * 2 * 16 * {"float32": 1e-4, "float64": 1e-11}[dtype]
    for answers in ANSWERS:
        run = go({1: Lie(size, answers)}, code, problem=problem, steps=2)
        assert named(run) == [1]
        assert run.x == pytest.approx(
            go({}, code, problem=problem, steps=2).x, rel=1e-9 if dtype == "float64" else 1e-4
        )


def test_what_may_be_rounding_is_taken_for_it() -> None:
    run = go({3: Lie(1e-14)})
    assert not named(run)
    assert not asked(run)
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)


def test_sparse_shards_curvatures_and_several_messages_a_worker() -> None:
    from scipy import sparse

    random = np.random.default_rng(0)
    rows = sparse.random(144, 60, 0.05, format="csr", random_state=0)
    problem = LogisticRegression(rows, np.sign(random.standard_normal(144)), l2=0.01)
    for code in (codes.fractional_repetition(6, load=2), codes.build("multi_message", n_workers=6, load=2)):
        runs = [
            go(lies, code, problem=problem, optimizer=QuasiNewton(problem.initial()), steps=10, rule="first(6)")
            for lies in ({}, {4: Lie(0.5, "task", frozenset({0, 7}))})
        ]
        assert named(runs[1]) == [4]
        assert runs[1].x == pytest.approx(runs[0].x, rel=1e-6)


@pytest.mark.parametrize("wire", ["cast('float32')", "dithered(seed=5)"])
def test_messages_cross_wires_and_answers_as_they_are(wire: str) -> None:
    run = go({3: Lie(50.0, "task")}, wire=wire)
    assert named(run) == [3]
    assert run.x == pytest.approx(go({}, wire=wire).x, rel=0.05)


@pytest.mark.parametrize("answers", ["task", "truth", "alike", "noise"])
def test_two_of_three_in_league_are_named_where_three_must_agree(answers: str) -> None:
    lies = {0: Lie(0.5, answers), 2: Lie(0.5, answers)}
    code = groups(3, 3, 16)
    assert named(go(lies, code, rule="first(3)")) == [1]
    run = go(lies, code, rule="decodable() & confirmed(3)")
    assert sorted(named(run)) == [0, 2]
    assert asked(run) <= 8
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)
    assert named(go({1: Lie(0.5)}, code, rule="decodable() & confirmed(3)")) == [1]


def test_two_who_lie_alike_are_believed_and_both_are_named_who_lie_otherwise_about_one_task() -> None:
    assert not named(go({2: Lie(0.5), 3: Lie(0.5)}))
    run = go({2: Lie(0.5, "task"), 3: Lie(0.25, "task")})
    assert sorted(named(run)) == [2, 3]
    assert "broken_off" in {event.kind for event in run.steps[0].events}  # nobody has their tasks: the code is resized
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)


def test_a_worker_that_fails_to_answer_convicts_nobody_and_neither_message_is_used() -> None:
    with pytest.raises(Unreachable, match=r"step 0: .* cannot be met any more.*messages were refused"):
        go({3: Lie(0.5, "fails")}, policy=FaultPolicy("leave", verify=True))
    run = go({3: Lie(0.5, "fails", frozenset({2}))}, policy=FaultPolicy(verify=True, on_loss="go_on"))
    assert not named(run)
    assert run.steps[2].lost == [2, 3]
    assert asked(run) == 1
    (refused,) = [notice for notice in run.notices if notice.kind == "refused"]
    text = "messages 2, 3 refused: the equal messages of workers 2, 3 differ, and no majority says who lies"
    assert refused.text == f"{text}; worker 3 has not said more when asked"


def test_where_the_task_cannot_be_computed_here_it_is_said_and_neither_message_is_used() -> None:
    class Elsewhere(Quadratic):
        """Its samples are out of reach as soon as messages contradict each other."""

        gone = False

        def shard(self, tasks: Any) -> Any:
            shard = super().shard(tasks)
            inner = shard.combine

            def combine(local: Any, coefficients: Any, step: int, out: Any) -> float:
                if self.gone and np.count_nonzero(coefficients) == 1 and not engine.answering:
                    raise OSError("no such file")
                return inner(local, coefficients, step, out)

            shard.combine = combine
            return shard

    class Answering(VirtualEngine):
        answering = False

        def next_event(self, until: Any = None) -> Any:
            event = super().next_event(until)
            if isinstance(event, Arrived):
                self.answering = True
                event.read()
                self.answering = False
            return event

    engine, problem = Answering(Exponential(0.5, seed=1)), Elsewhere(PROBLEM.rows, PROBLEM.centres, l2=0.01)
    watching = WhenHeld(lambda: setattr(problem, "gone", True))
    with pytest.raises(Unreachable, match="step 0"):
        go({3: Lie(0.5, "task")}, PAIRS, engine, watching, problem=problem)
    assert "no majority says who lies; task 2 cannot be computed here: OSError: no such file (in " in watching.said[-1]


class WhenHeld(Callback):
    """Does something once, when messages are found to contradict each other."""

    def __init__(self, does: Any) -> None:
        self.does, self.done = does, False
        self.said: list[str] = []

    def on_notice(self, notice: Any) -> None:
        self.said.append(notice.text)
        if notice.kind == "held" and not self.done:
            self.done = True
            self.does()


@pytest.mark.parametrize("death", ["replace", "spread", "leave"])
@pytest.mark.parametrize("worker", [2, 3])
def test_a_step_begins_anew_where_one_of_the_two_dies_before_it_has_answered(worker: int, death: Any) -> None:
    engine = VirtualEngine(Exponential(0.5, seed=1))
    lies = {3: Lie(0.5, "task", frozenset({2}))}
    policy = FaultPolicy(death, verify=True)
    run = go(lies, PAIRS, engine, WhenHeld(lambda: engine.kill(worker)), policy=policy)
    events = [event.kind for event in run.steps[2].events]
    assert events.index("asked") < events.index("broken_off")
    if worker == 3 or death == "replace":
        np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)
    rows = [row.as_dict() for row in run.arrivals]
    recorded = VirtualEngine(Recorded.from_rows(rows, steps=[row.as_dict() for row in run.steps]))
    again = go(lies, PAIRS, recorded, policy=policy)
    assert again.x.tobytes() == run.x.tobytes()


def test_a_worker_that_is_silent_when_asked_is_suspected_as_ever_and_neither_is_used() -> None:
    engine = VirtualEngine(Exponential(0.5, seed=1))
    lies = {3: Lie(0.5, "task", frozenset({2}))}
    how: dict[str, Any] = {"suspect_after": 30.0, "verify": True}
    pauses = WhenHeld(lambda: engine.pause(3))
    with pytest.raises(Unreachable, match="step 2"):
        go(lies, PAIRS, engine, pauses, policy=FaultPolicy(**how))
    engine = VirtualEngine(Exponential(0.5, seed=1))
    run = go(
        lies,
        PAIRS,
        engine,
        pauses := WhenHeld(lambda: engine.pause(3)),
        policy=FaultPolicy(on_suspicion="replace", **how),
    )
    assert pauses.done
    assert run.steps[2].workers_noticed("suspected") == [3]
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)


def test_a_worker_that_delays_its_answers_is_waited_for() -> None:
    code = groups(4, 2, 8)
    slow = VirtualEngine(Exponential(5.0, seed=1))
    run = go({1: Lie(0.5, "noise")}, code, slow)
    assert named(run) == [1]
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)


def test_runs_with_liars_are_resumed_and_replayed_to_the_same_bits() -> None:
    lies = {3: Lie(0.5, "truth", frozenset({1, 4})), 6: Lie(-1.0, "noise", frozenset({4}))}
    states: list[Any] = []

    class States(Callback):
        def on_state(self, step: int, state: Any) -> None:
            states.append(state())

    whole = go(lies, PAIRS, None, States())
    assert named(whole) == [3, 6]
    for half in (1, 2, 4, 5):
        resumed = go(lies, resume=Resumption(states[half], whole.steps[:half], []))
        assert resumed.x.tobytes() == whole.x.tobytes()
        assert [*resumed.steps] == [*whole.steps]
    rows = [row.as_dict() for row in whole.arrivals]
    recorded = VirtualEngine(Recorded.from_rows(rows, steps=[row.as_dict() for row in whole.steps]))
    again = go(lies, PAIRS, recorded)
    assert again.x.tobytes() == whole.x.tobytes()
    assert [(row.waited, row.end, row.events) for row in again.steps] == [
        (row.waited, row.end, row.events) for row in whole.steps
    ]


def test_liars_are_questioned_in_this_process() -> None:
    run = go({3: Lie(0.5, "truth", frozenset({2}))}, PAIRS, InProcessEngine())
    assert named(run) == [3]
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)


@pytest.mark.processes
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_processes_are_questioned_and_a_run_is_replayed_to_the_same_bits(late: str) -> None:
    check_liars(ProcessEngine, late)


@pytest.mark.processes
def test_a_run_of_processes_goes_on_without_the_liar_that_was_put_aside() -> None:
    lies, states = {3: Lie(0.5, "truth", frozenset({1, 4}))}, list[Any]()

    class States(Callback):
        def on_state(self, step: int, state: Any) -> None:
            states.append(state())

    begun = go(lies, PAIRS, ProcessEngine(), States(), steps=3)
    assert named(begun) == [3]
    run = go(lies, PAIRS, ProcessEngine(), resume=Resumption(states[3], begun.steps, begun.arrivals))
    assert named(run) == [3]
    assert run.steps[-1].workers == 7
    np.testing.assert_allclose(run.x, EXACT, rtol=1e-9)
