"""A recorded run, replayed on the virtual clock: the same arrivals, and the same model to the bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy import sparse

from erasurehead import FaultPolicy, codes, delays, engines, optimizers, problems, schemes, training
from erasurehead.delays._fixed import Recorded
from erasurehead.engines import Engine, VirtualEngine
from erasurehead.errors import DataError, Unreachable
from erasurehead.runs import Experiment, Recorder, RunFolder, replay
from erasurehead.runs._names import ARRIVALS
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Resumption, Run, StepRow

from ..bounded import left_of
from ..kept_states import KeptStates

STEPS = 12
PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)


def problem(dense: bool) -> problems.LogisticRegression:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((160, 12)) * (rng.random((160, 12)) < 0.3)
    y = np.where(X @ rng.standard_normal(12) + rng.standard_normal(160) > 0, 1.0, -1.0)
    return problems.LogisticRegression(X if dense else sparse.csr_array(X), y, l2=1 / 160)


def train(engine: Engine, scheme: schemes.Scheme, dense: bool = False, folder: RunFolder | None = None) -> Run:
    task = problem(dense)
    watching = [] if folder is None else [Recorder(folder)]
    return training.train(task, scheme, optimizers.Nesterov(task.initial(), 0.5), engine, STEPS, watching)


def arrivals(run: Run) -> list[set[int]]:
    """Return the messages that were in at each step, and those with a weight."""
    return [
        {row.message for row in run.arrivals if row.step == step and not row.censored and not row.late}
        for step in range(STEPS)
    ]


@pytest.mark.processes
@pytest.mark.parametrize("dense", [False, True])
def test_the_virtual_engine_replays_a_real_run_to_the_same_bits(tmp_path: Path, dense: bool) -> None:
    scheme = schemes.erasurehead(6, load=2, wait_for=3)
    real = train(engines.ProcessEngine(delays.Exponential(0.02, seed=1)), scheme, dense, RunFolder.create(tmp_path))
    again = train(engines.VirtualEngine(replay(tmp_path)), scheme, dense)
    assert arrivals(again) == arrivals(real)
    assert len({frozenset(came) for came in arrivals(real)}) > 1
    assert [row.used for row in again.steps] == [row.used for row in real.steps]
    assert again.x.tobytes() == real.x.tobytes()


@pytest.mark.parametrize("late", ["preempt", "drop(2)", "carry"])
def test_a_replay_is_the_same_whatever_late_workers_did(tmp_path: Path, late: str) -> None:
    scheme = schemes.ignore_stragglers(6, wait_for=4)
    first = train(
        engines.VirtualEngine(delays.Exponential(0.5, seed=2), late), scheme, folder=RunFolder.create(tmp_path)
    )
    again = train(engines.VirtualEngine(replay(RunFolder.open(tmp_path))), scheme)
    assert arrivals(again) == arrivals(first)
    assert again.x.tobytes() == first.x.tobytes()
    assert again.times == pytest.approx(first.times)


def test_a_run_that_was_cut_off_can_be_replayed_up_to_there(tmp_path: Path) -> None:
    scheme = schemes.ignore_stragglers(6, wait_for=4)
    first = train(engines.VirtualEngine(delays.Exponential(0.5, seed=2)), scheme, folder=RunFolder.create(tmp_path))
    path, rows = tmp_path / ARRIVALS, list(first.arrivals)
    RunFolder(tmp_path).rows_may_change()  # as when it was killed
    path.write_bytes(path.read_bytes()[:-5])
    table = replay(tmp_path)
    arrived = {row.worker: row.seconds for row in rows if row.step == 0 and not row.censored}
    assert {worker: table.seconds(worker, 0) for worker in arrived} == pytest.approx(arrived)
    assert np.isinf(table.row(0, 6)).sum() == 2


@pytest.mark.parametrize("scheme", [schemes.uncoded(6), schemes.ignore_stragglers(6, wait_for=5), schemes.uncoded(8)])
def test_a_rule_that_waits_for_more_than_the_recorded_run_is_told_so(tmp_path: Path, scheme: schemes.Scheme) -> None:
    recorded = schemes.ignore_stragglers(6, wait_for=4)
    train(engines.VirtualEngine(delays.Exponential(0.5, seed=2)), recorded, folder=RunFolder.create(tmp_path))
    said = "4 messages came in round 0 of the recorded run.* this one waits for more. A replay needs the scheme"
    with pytest.raises(DataError, match=said):
        train(engines.VirtualEngine(replay(tmp_path)), scheme)


@pytest.mark.parametrize(
    "scheme", [schemes.ignore_stragglers(6, wait_for=3), schemes.custom(codes.uncoded(6), "deadline(0.1)")]
)
def test_a_rule_that_waits_for_less_than_the_recorded_run_is_told_so(tmp_path: Path, scheme: schemes.Scheme) -> None:
    recorded = schemes.ignore_stragglers(6, wait_for=4)
    train(engines.VirtualEngine(delays.Exponential(0.5, seed=2)), recorded, folder=RunFolder.create(tmp_path))
    said = r"4 messages came in round 0 of the recorded run before .* this one stopped after [0-3]\. A replay"
    with pytest.raises(DataError, match=said):
        train(engines.VirtualEngine(replay(tmp_path)), scheme)


def test_there_must_be_something_to_replay(tmp_path: Path) -> None:
    RunFolder.create(tmp_path)
    with pytest.raises(DataError, match="nothing to replay"):
        replay(tmp_path)


SCHEMES = {
    "exact": lambda: schemes.exact(6, load=2),
    "first": lambda: schemes.erasurehead(6, load=2, wait_for=3),
    "uncoded": lambda: schemes.custom(codes.uncoded(6, 12), "decodable()"),
    "asynchronous": lambda: schemes.asynchronous(6, 12),
    "rennala": lambda: schemes.rennala(6, 7, messages=2),
    "once": lambda: schemes.compute_once(6, load=2, pieces=2),
    "sums": lambda: schemes.compute_once(6, load=2, pieces=2, sums=True),
    "nested": lambda: schemes.nested(6, load=3),
    "ringleader": lambda: schemes.ringleader(6, 12),
    "aged": lambda: replace(schemes.custom(codes.uncoded(6, 12), "arrivals(2) & aged(3)"), late="carry"),
}


def recorded(run: Run) -> VirtualEngine:
    rows = [json.loads(json.dumps(row.as_dict())) for row in run.steps]
    return VirtualEngine(Recorded.from_rows([row.as_dict() for row in run.arrivals], steps=rows))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(sorted(SCHEMES)),
    late=st.sampled_from(["preempt", "drop(1)", "carry"]),
    death=st.sampled_from(["replace", "leave", "spread"]),
    kills=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.2, 0.35, 0.8, 1.3, 2.2])), max_size=4),
    cut=st.integers(1, 11),
)
def test_deaths_are_replayed_where_they_were_and_a_replay_goes_on_from_any_step(
    kind: str, late: str, death: Any, kills: list[tuple[int, float]], cut: int
) -> None:
    scheme, policy = SCHEMES[kind](), FaultPolicy(on_death=death, on_suspicion="ignore")
    if scheme.late == "carry":
        late = "carry"

    def go(engine: VirtualEngine, states: KeptStates, resume: Resumption | None = None) -> Run:
        return training.train(
            PROBLEM,
            scheme,
            optimizers.Nesterov(np.zeros(PROBLEM.n_parameters), 0.01),
            engine,
            12,
            [states],
            fault_policy=policy,
            resume=resume,
            evaluate_every=0,
        )

    engine = VirtualEngine(delays.Exponential(0.5, seed=2), late)
    for worker, at in kills:
        engine.kill(worker, at=at)
    try:
        whole = go(engine, KeptStates())
    except Unreachable:
        assume(False)
        raise
    states = KeptStates(cut)
    again = go(recorded(whole), states)
    assert again.x.tobytes() == whole.x.tobytes()
    assert list(again.steps) == list(whole.steps)
    assert list(again.arrivals) == list(whole.arrivals)
    rest = go(recorded(whole), KeptStates(), Resumption(states.at[cut], whole.steps[:cut], []))
    assert rest.x.tobytes() == whole.x.tobytes()
    assert list(rest.steps) == list(whole.steps)


def test_a_round_that_was_broken_off_to_re_form_the_code_is_replayed_too() -> None:
    engine = VirtualEngine(delays.Exponential(0.5, seed=2))
    for worker, at in ((2, 0.3), (4, 2.5)):
        engine.kill(worker, at=at)
    policy, scheme = FaultPolicy(on_death="spread"), SCHEMES["uncoded"]()
    optimizer = lambda: optimizers.GradientDescent(np.zeros(PROBLEM.n_parameters), 0.01)  # noqa: E731
    whole = training.train(PROBLEM, scheme, optimizer(), engine, 6, fault_policy=policy)
    broken = [event for row in whole.steps for event in row.events if event.kind == "broken_off"]
    assert broken
    assert whole.steps[-1].workers == 4
    again = training.train(PROBLEM, scheme, optimizer(), recorded(whole), 6, fault_policy=policy)
    assert again.x.tobytes() == whole.x.tobytes()
    assert list(again.steps) == list(whole.steps)
    assert list(again.arrivals) == list(whole.arrivals)


def test_a_replay_by_rounds_has_a_text(tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "scheme": "asynchronous()",
        "data": {"source": "amazon", "synthetic": "always", "rows": 500},
        "delays": {"model": "exponential(mean=0.5, seed=1)", "late": "carry"},
        "run": {"engine": "virtual", "workers": 4, "steps": 12, "out": str(tmp_path / "a"), "evaluate_every": 0},
    }
    first = Experiment.from_config(tables).run()
    model = f"recorded('{tmp_path}/a/arrivals.jsonl', rounds=True)"
    again = Experiment.from_config(
        {**tables, "delays": {"model": model, "late": "carry"}, "run": {**tables["run"], "out": str(tmp_path / "b")}}
    )
    assert again.config.delays.model == model
    run = again.run()
    assert run.x.tobytes() == first.x.tobytes()
    assert list(run.arrivals) == list(first.arrivals)


@pytest.mark.processes
def test_deaths_of_real_workers_are_replayed_to_the_same_bits(tmp_path: Path) -> None:
    class Kills(Callback):
        def on_step_end(self, row: StepRow, x: Any) -> None:
            if row.step in (1, 4):
                pid = engine.pid(row.step)
                engine.kill(row.step)
                assert left_of([pid]) == []

    engine, policy = engines.ProcessEngine(delays.Exponential(0.01, seed=1), "carry"), FaultPolicy(on_death="spread")
    scheme, x, steps = schemes.asynchronous(6, 12), np.zeros(PROBLEM.n_parameters), 200  # beyond both deaths
    recorder = Recorder(RunFolder.create(tmp_path / "run"))
    real = training.train(
        PROBLEM, scheme, optimizers.GradientDescent(x, 0.01), engine, steps, [recorder, Kills()], fault_policy=policy
    )
    assert sorted(worker for row in real.steps for worker in row.workers_noticed("died")) == [1, 4]
    assert real.steps[-1].workers == 4
    again = training.train(
        PROBLEM,
        scheme,
        optimizers.GradientDescent(x, 0.01),
        VirtualEngine(replay(tmp_path / "run")),
        steps,
        fault_policy=policy,
    )
    assert again.x.tobytes() == real.x.tobytes()
    assert [(row.used, row.workers, row.dead, row.late) for row in again.steps] == [
        (row.used, row.workers, row.dead, row.late) for row in real.steps
    ]
