"""Memory of late results (PIAG): its table against brute force, its convergence, its records, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes, delays, engines, schemes, training
from erasurehead.codes import _transforms
from erasurehead.decoding import make_decoder
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order, VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import LeastSquares
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.schemes import LateMessage, parse_scheme
from erasurehead.schemes._aggregation import Plain, Vectors
from erasurehead.schemes._incremental import IncrementalAggregated
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Timetable
from erasurehead.training import Callback, Resumption, Run, find_optimum

from ..arrays import Array

WIDTH = 3


def order(step: int) -> Order:
    return Order(step, (np.zeros(WIDTH),))


def estimated(memory: IncrementalAggregated, came: Mapping[int, Array], step: int) -> Array | None:
    """Return the estimate of a step in which these messages came in time."""
    code = memory.code
    decoder = make_decoder(code)
    session = decoder.begin()
    for row in came:
        session.add(row)
    found = session.decoding()
    vectors = Vectors([came[row] for row in found.messages.tolist()], came)
    return memory.estimate(found, vectors, Layout(WIDTH, [None] * code.n_messages), order(step))


def late(row: int, step: int, now: int, vector: Array) -> LateMessage:
    return LateMessage(row, row, None, step, step, now - step, None, vector)


CODES = [codes.uncoded(4), codes.fractional_repetition(6, load=2), codes.build("multi_message", n_workers=4, load=2)]


@given(st.sampled_from(CODES), st.integers(0, 2**31))
def test_it_is_the_sum_of_the_newest_message_of_each_group(code: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, newest = IncrementalAggregated(code).begin(), dict[int, tuple[int, Array]]()
    for step in range(8):
        older = [(int(row), int(rng.integers(0, step))) for row in rng.permutation(code.n_messages)[:2] if step]
        for row, made in sorted(older, key=lambda one: (one[1], one[0])):
            vector = rng.standard_normal(WIDTH)
            memory.late(late(row, made, step, vector))
            group = int(code.groups[row])
            if group not in newest or newest[group][0] < made:
                newest[group] = made, vector
        said = {int(group): rng.standard_normal(WIDTH) for group in np.unique(code.groups)}  # replicas say the same
        rows = sorted(rng.permutation(code.n_messages)[: int(rng.integers(0, 3))].tolist())
        came = {row: said[int(code.groups[row])] for row in rows}
        newest |= {int(code.groups[row]): (step, vector) for row, vector in came.items()}
        found = estimated(memory, came, step)
        if not newest:
            assert found is None
            continue
        row_of = {int(code.groups[row]): row for row in range(code.n_messages)}
        known = sum(len(code.tasks_of_message(row_of[group])) for group in newest)
        expected = sum((vector for _, vector in newest.values()), np.zeros(WIDTH)) * code.n_tasks / known
        assert found == pytest.approx(expected, abs=1e-12)
        again = memory.begin()
        again.restore(memory.state())
        assert repr(again.state()) == repr(memory.state())
        memory = again


def test_when_all_have_come_it_is_the_full_gradient_to_the_bit() -> None:
    code = codes.fractional_repetition(6, load=2)
    rng = np.random.default_rng(0)
    memory, vectors = IncrementalAggregated(code), rng.standard_normal((3, WIDTH))
    estimated(memory, {0: rng.standard_normal(WIDTH)}, 0)
    came = {1: vectors[0], 2: vectors[1], 3: vectors[1], 5: vectors[2]}
    session = make_decoder(code).begin()
    for row in came:
        session.add(row)
    found = session.decoding()
    plain = Plain().estimate(found, [came[row] for row in found.messages.tolist()], Layout(WIDTH, [None] * 6), order(1))
    whole = estimated(memory, came, 1)
    assert plain is not None
    assert whole is not None
    assert whole.tobytes() == plain.tobytes()
    assert memory.share == 1.0


def test_groups_that_nobody_holds_any_more_are_forgotten() -> None:
    code = codes.uncoded(3)
    memory = IncrementalAggregated(code)
    ones = {row: np.full(WIDTH, 10.0**row) for row in range(3)}
    assert estimated(memory, ones, 0) == pytest.approx(np.full(WIDTH, 111.0))
    left = make_decoder(_transforms.shortened(code, [1]))
    session = left.begin()
    session.add(0)
    found = session.decoding()
    layout = Layout(WIDTH, [None] * 3)
    assert memory.estimate(found, Vectors([ones[0]], {0: ones[0]}), layout, order(1)) == pytest.approx(
        np.full(WIDTH, 101.0)  # of the remaining tasks; the training loop scales it up by samples
    )


def test_codes_whose_messages_are_no_plain_sums_are_refused() -> None:
    for code in (
        codes.build("cyclic_mds", n_workers=7, stragglers=2),
        codes.build("communication_efficient_groups", n_workers=6, load=3, n_pieces=2),
    ):
        with pytest.raises(InvalidArgument, match="groups of workers that send equal sums"):
            IncrementalAggregated(code)


def differing(n: int = 480) -> LeastSquares:
    """Return a problem whose tasks differ as much as they can: rows in the order of what is to be predicted."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 5))
    y = X @ rng.standard_normal(5) + rng.standard_normal(n)
    rows = np.argsort(y)
    return LeastSquares(X[rows], y[rows], l2=1 / n)


@pytest.mark.parametrize("late", ["preempt", "carry", "drop(4)"])
@pytest.mark.slow
def test_it_reaches_the_optimum_where_tasks_differ_and_a_worker_is_slow_for_good(late: str) -> None:
    problem = differing()
    optimum = find_optimum(problem, problem.initial())
    slow = delays.parse(f"scaled(exponential(0.5, seed=1), {[20.0] + [1.0] * 11})")

    def gap(scheme: schemes.Scheme) -> float:
        optimizer = GradientDescent(problem.initial(), rate=0.4)
        run = training.train(problem, scheme, optimizer, VirtualEngine(slow, late), 1500, max_seconds=60.0)
        return optimum.gap(problem.objective(run.x))

    assert gap(schemes.piag(12, wait_for=4, load=3)) < 1e-12
    assert gap(schemes.erasurehead(12, load=3, wait_for=4)) > 1e-4  # it stalls at the noise of what it leaves out


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_one_step_size_suits_all_bounded_delays(data: st.DataObject) -> None:
    workers = data.draw(st.integers(2, 6))
    fixed = data.draw(st.lists(st.sampled_from([0.3, 0.5, 1.0, 1.7, 3.0]), min_size=workers, max_size=workers))
    jitter = np.random.default_rng(data.draw(st.integers(0, 99))).choice([1.0, 1.0, 1.0, 5.0], size=(workers, 400))
    table = Timetable({(w, s, 0): fixed[w] * jitter[w, s] for w in range(workers) for s in range(400)})
    problem = differing(120)
    zero = np.zeros(problem.n_parameters)
    slopes = [
        problem.gradient(one) + problem.penalty_gradient(one) - problem.gradient(zero) for one in np.eye(len(zero))
    ]
    curvature = float(np.linalg.eigvalsh(np.array(slopes)).max())
    optimum = find_optimum(problem, problem.initial())
    engine = VirtualEngine(table, data.draw(st.sampled_from(["carry", "preempt"])))
    optimizer = GradientDescent(problem.initial(), rate=0.9 / curvature)
    scheme = schemes.piag(workers, load=data.draw(st.integers(1, 2)))
    run = training.train(problem, scheme, optimizer, engine, 400, evaluate_every=0)
    assert optimum.gap(problem.objective(run.x)) < 1e-2
    objectives = [row.loss for row in run.steps if row.loss is not None]
    assert max(objectives) < 1.5 * objectives[0]  # it never runs away meanwhile


def test_every_task_counts_in_every_step() -> None:
    problem = differing(120)
    slow = delays.parse(f"scaled(exponential(0.5, seed=1), {[20.0] + [1.0] * 5})")
    optimizer, engine = GradientDescent(problem.initial(), 0.2), VirtualEngine(slow, "carry")
    run = training.train(problem, schemes.piag(6), optimizer, engine, 120, evaluate_every=0)
    assert {row.coverage for row in run.steps} == {1.0}
    assert run.neglected == ()
    assert not any(row.neglected for row in run.steps)


def test_a_bound_on_the_age_is_kept() -> None:
    scheme = schemes.piag(6, max_age=3)
    assert str(scheme.rule) == "arrivals(1) & heard() & aged(3)"
    problem = differing(120)
    slow = delays.parse(f"scaled(exponential(0.5, seed=1), {[10.0] + [1.0] * 5})")
    ages = list[int]()

    class Watch(Callback):
        def on_state(self, done: int, state: Any) -> None:
            entries = state()["aggregation"]["table"]["map"]
            ages.append(max((done - 1 - int(entry["tuple"][0]) for _, entry in entries), default=0))

    engine = VirtualEngine(slow, "carry")
    training.train(problem, scheme, GradientDescent(problem.initial(), 0.2), engine, 60, [Watch()], evaluate_every=0)
    assert ages
    assert max(ages) <= 3


PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)


class States(Callback):
    def __init__(self) -> None:
        self.taken: list[Mapping[str, Any]] = []

    def on_state(self, step: int, state: Any) -> None:
        self.taken.append(state())


def go(scheme: schemes.Scheme, model: Any, steps: int, *watching: Callback, **more: Any) -> Run:
    optimizer = GradientDescent(np.zeros(6), 0.2)
    return training.train(PROBLEM, scheme, optimizer, model, steps, watching, evaluate_every=0, **more)


@pytest.mark.parametrize("load", [1, 2])
def test_it_goes_on_from_any_step_to_the_bit_and_its_records_replay_it(tmp_path: Path, load: int) -> None:
    scheme, states = schemes.piag(6, load=load), States()

    def engine() -> VirtualEngine:
        return VirtualEngine(delays.Exponential(0.5, seed=1), "carry")

    whole = go(scheme, engine(), 60, Recorder(RunFolder.create(tmp_path / "run")), states)
    assert any(row.taken != row.round for row in whole.arrivals if row.taken is not None)
    for step in (1, 17, 40):
        again = go(scheme, engine(), 60, resume=Resumption(states.taken[step], whole.steps[:step], []))
        assert again.x.tobytes() == whole.x.tobytes()
        assert list(again.steps) == list(whole.steps)
    again = go(scheme, VirtualEngine(replay(tmp_path / "run"), "carry"), 60)
    assert again.x.tobytes() == whole.x.tobytes()
    assert list(again.steps) == list(whole.steps)


@pytest.mark.processes
def test_the_virtual_engine_replays_it_from_real_processes_to_the_bit(tmp_path: Path) -> None:
    scheme = schemes.piag(4, load=2)
    with engines.ProcessEngine(delays.Exponential(0.01, seed=1), "carry") as engine:
        real = go(scheme, engine, 60, Recorder(RunFolder.create(tmp_path / "run")))
    assert any(row.late for row in real.arrivals)
    again = go(scheme, VirtualEngine(replay(tmp_path / "run"), "carry"), 60)
    assert again.x.tobytes() == real.x.tobytes()


def test_steps_are_accounted_for_as_long_as_entries_may_be_old() -> None:
    """With many workers entries may be older than a thousand steps: what was moved since still counts against them."""
    memory = schemes.piag(2, max_age=3_000).aggregation.begin()
    assert isinstance(memory, IncrementalAggregated)
    ones = np.ones(WIDTH)
    estimated(memory, {0: ones, 1: ones}, 0)
    for step in range(1, 2_500):
        estimated(memory, {0: ones}, step)
    assert len(memory.state()["steps"]["sums"]) == 2_501
    assert memory.state()["steps"]["sums"][-1] == 1.0  # the first step; the entry that is missing has not seen it
    assert memory.share == 0.0


def test_it_has_a_text_and_is_resized_with_the_workers() -> None:
    scheme = parse_scheme("piag(wait_for=3, load=2, max_age=8)", 8)
    assert (scheme.name, str(scheme.rule), scheme.code.load) == ("piag", "arrivals(3) & heard() & aged(8)", 2)
    again = scheme.resized(6)
    assert isinstance(again.aggregation, IncrementalAggregated)
    assert again.aggregation.code is again.code
    assert again.code.n_workers == 6
    with pytest.raises(InvalidArgument, match="wait_for must be"):
        schemes.piag(4, wait_for=5)
