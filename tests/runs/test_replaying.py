"""A recorded run, replayed on the virtual clock: the same arrivals, and the same model to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from erasurehead import delays, engines, optimizers, problems, schemes, training
from erasurehead.engines import Engine, LateWork
from erasurehead.errors import DataError
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.runs.names import ARRIVALS
from erasurehead.training.result import Run

STEPS = 12


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
    return [{row.message for row in run.arrivals if row.step == step and not row.censored and not row.late}
            for step in range(STEPS)]  # fmt: skip


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
def test_a_replay_is_the_same_whatever_late_workers_did(tmp_path: Path, late: LateWork) -> None:
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
    path = tmp_path / ARRIVALS
    RunFolder(tmp_path).rows_may_change()  # as when it was killed
    path.write_bytes(path.read_bytes()[:-5])
    table = replay(tmp_path)
    arrived = {row.worker: row.seconds for row in first.arrivals if row.step == 0 and not row.censored}
    assert {worker: table.seconds(worker, 0) for worker in arrived} == pytest.approx(arrived)
    assert np.isinf(table.row(0, 6)).sum() == 2


def test_there_must_be_something_to_replay(tmp_path: Path) -> None:
    RunFolder.create(tmp_path)
    with pytest.raises(DataError, match="nothing to replay"):
        replay(tmp_path)
