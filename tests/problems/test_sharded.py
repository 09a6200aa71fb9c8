"""Training from shards is training from the file: same model, no data on the way; a damaged copy costs a replica."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from erasurehead import codes, delays, engines, optimizers, schemes
from erasurehead._internal.partition import split_samples
from erasurehead.datasets import Dataset, read, shard
from erasurehead.engines import Engine
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.optimizers import Answer
from erasurehead.problems import LeastSquares, LogisticRegression, Problem, Shard, ShardedProblem, SoftmaxRegression
from erasurehead.problems._stored import StoredShard
from erasurehead.schemes import Scheme
from erasurehead.training import Run, train
from erasurehead.training._programs import build_programs

from ..arrays import Array

TASKS = 12


def write(folder: Path, kind: str, n_rows: int = 200) -> Path:
    """Write a file whose design matrix has a form, and whose labels ask for a task."""
    form, _, task = kind.partition(" ")
    rng = np.random.default_rng(1)
    y: Any = rng.normal(size=n_rows) if task == "numbers" else rng.integers(0, 3 if task == "classes" else 2, n_rows)
    if form == "dense":
        np.save(folder / "y.npy", y)
        np.save(folder / "rows.npy", rng.normal(size=(n_rows, 5)))
        return folder / "rows.npy"
    ones = rng.random((n_rows, 400)) < 0.01
    X = sparse.csr_array(ones * (1.0 if form == "pattern" else rng.normal(size=ones.shape)))
    dump_svmlight_file(X, y, str(folder / "rows.svm"), zero_based=True)
    return folder / "rows.svm"


PROBLEMS: dict[str, Any] = {
    "least_squares": LeastSquares,
    "logistic": LogisticRegression,
    "softmax": SoftmaxRegression,
}


def in_memory(data: Dataset) -> Any:
    """The problem of data in memory, whose constant, if there is one, is not penalised."""
    more: dict[str, Any] = {"n_classes": data.n_classes} if data.task == "softmax" else {}
    if data.X_test is not None:
        more["test"] = data.X_test, data.y_test
    return PROBLEMS[data.task](
        data.X_train, data.y_train, intercept=-1 if data.encoding.constant else None, l2=0.01, **more
    )


def both(folder: Path, kind: str) -> tuple[Problem, ShardedProblem]:
    """The problem of a file in memory, and that of its shards."""
    path = write(folder, kind)
    options: dict[str, Any] = {"target": "y.npy"} if path.suffix == ".npy" else {}
    data = read(path, **options)
    shards = shard(path, TASKS, folder / "shards", **options)
    assert shards.manifest.form == kind.split()[0]
    return in_memory(data), ShardedProblem(shards, l2=0.01)


def trained(problem: Problem, scheme: Scheme, engine: Engine, steps: int = 8) -> Run:
    return train(problem, scheme, optimizers.Nesterov(problem.initial(), rate=0.05), engine, steps)


KINDS = ["dense numbers", "dense labels", "sparse labels", "pattern labels", "pattern classes", "sparse numbers"]
SCHEMES = [
    schemes.uncoded(12),
    schemes.uncoded(4),  # three files a task
    schemes.erasurehead(6, load=3, wait_for=2),
    schemes.custom(codes.cyclic_repetition(12, stragglers=2), "decodable()"),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: f"{scheme.name}-{scheme.code.n_tasks}")
def test_the_model_is_that_of_the_file_to_the_bit(tmp_path: Path, kind: str, scheme: Scheme) -> None:
    whole, sharded = both(tmp_path, kind)
    law = delays.Exponential(mean=0.5, seed=2)
    expected = trained(whole, scheme, engines.VirtualEngine(law))
    found = trained(sharded, scheme, engines.VirtualEngine(law))
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.losses, expected.losses)
    assert [row.metrics for row in found.evaluations] == [row.metrics for row in expected.evaluations]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_loss_and_gradient_are_read_task_by_task(tmp_path: Path, kind: str) -> None:
    whole, sharded = both(tmp_path, kind)
    x = np.random.default_rng(3).normal(size=whole.n_parameters)
    assert sharded.loss(x) == pytest.approx(whole.loss(x), rel=1e-12)
    np.testing.assert_allclose(sharded.gradient(x), whole.gradient(x), rtol=1e-9, atol=1e-13)
    assert sharded.objective(x) == pytest.approx(whole.objective(x), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_newton_steps_of_shards_are_those_of_the_file(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(4)
    steps: list[np.ndarray] = []
    point, vector = None, None
    for problem in both(tmp_path, kind):
        assert problem.newton
        part = problem.shard(list(split_samples(problem.n_samples, TASKS))[:3])
        if point is None:
            point, vector = rng.standard_normal((2, problem.n_parameters))
        out = np.full(len(part.take(point)), np.nan)
        part.newton_step(part.take(point), part.take(vector), np.ones(3), 0.01, 5, out)
        steps.append(out)
    assert np.abs(steps[0]).max() > 0.0
    np.testing.assert_array_equal(steps[1], steps[0])


def test_programs_carry_no_data(tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", np.random.default_rng(0).normal(size=(4_000, 60)))
    problem = ShardedProblem(shard(tmp_path / "big.npy", 8, tmp_path / "shards"))
    programs, _ = build_programs(schemes.exact(8, load=2).code, problem)
    assert all(len(pickle.dumps(program)) < 4_000 for program in programs)
    held = pickle.loads(pickle.dumps(programs[3])).shards[0]
    assert held._loaded is not None  # a worker that is ready has its data
    assert len(pickle.dumps(held)) < 4_000


def test_the_coordinator_needs_no_task_files(tmp_path: Path) -> None:
    whole, _ = both(tmp_path, "sparse labels")
    workers = tmp_path / socket.gethostname() / "copy"
    shutil.copytree(tmp_path / "shards", workers)
    for file in (tmp_path / "shards").glob("task-*"):
        file.unlink()
    problem = ShardedProblem(tmp_path / "shards", l2=0.01, at=f"{tmp_path}/{{host}}/copy")
    scheme = schemes.uncoded(6)
    expected = trained(whole, scheme, engines.VirtualEngine())
    np.testing.assert_array_equal(trained(problem, scheme, engines.VirtualEngine()).x, expected.x)
    with pytest.raises(DataError, match=r"task-00000.safetensors is missing"):
        problem.loss(problem.initial())


def test_tasks_that_are_not_unions_of_shards_are_refused(tmp_path: Path) -> None:
    _, problem = both(tmp_path, "dense labels")
    for fits in (1, 2, 3, 4, 6, 12):
        problem.check_tasks(fits)
    with pytest.raises(InvalidArgument, match=r"must divide the 12 tasks .* got 5; 1, 2, 3, 4, 6, 12 work, or"):
        problem.check_tasks(5)
    with pytest.raises(InvalidArgument, match="must begin and end where the shards do"):
        problem.shard(split_samples(problem.n_samples, 5))
    with pytest.raises(InvalidArgument, match="l2 must be a finite number"):
        ShardedProblem(problem.folder, l2=-1.0)


def test_the_fingerprint_is_that_of_the_manifest(tmp_path: Path) -> None:
    _, problem = both(tmp_path, "dense labels")
    assert problem.fingerprint == problem.folder.manifest.fingerprint == problem.folder.fingerprint
    assert len(problem.fingerprint) == 64


class Copies(Problem):
    """A problem in which the worker that holds certain tasks has a folder of its own."""

    preload = ShardedProblem.preload

    def __init__(self, usual: ShardedProblem, other: ShardedProblem, tasks: Sequence[slice]) -> None:
        self.usual, self.other, self.tasks = usual, other, list(tasks)
        self.n_samples, self.n_parameters, self.l2 = usual.n_samples, usual.n_parameters, usual.l2

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return (self.other if list(tasks) == self.tasks else self.usual).shard(tasks)

    def loss(self, x: Array) -> float:
        return self.usual.loss(x)

    def gradient(self, x: Array) -> Array:
        return self.usual.gradient(x)

    def metrics(self, x: Array) -> dict[str, float]:
        return {}


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


DAMAGES = {"is missing": remove, "bytes instead of": cut, "is damaged: its SHA-256 is": flip}
CYCLIC = schemes.custom(codes.cyclic_repetition(12, stragglers=2), "decodable()")


def with_one_bad_copy(tmp_path: Path, said: str) -> tuple[Problem, str]:
    """A problem in which one file of worker 4's folder is damaged; and the name of that file."""
    _, usual = both(tmp_path, "sparse labels")
    shutil.copytree(tmp_path / "shards", tmp_path / "worker-4")
    own = CYCLIC.code.tasks_of(4).tolist()
    bad = tmp_path / "worker-4" / f"task-{own[1]:05}.safetensors"
    DAMAGES[said](bad)
    ranges = split_samples(usual.n_samples, 12)
    other = ShardedProblem(usual.folder, l2=usual.l2, at=str(tmp_path / "worker-4"))
    return Copies(usual, other, [ranges[task] for task in own]), bad.name


@pytest.mark.parametrize("said", DAMAGES)
@pytest.mark.parametrize("real", [False, pytest.param(True, marks=[pytest.mark.processes, pytest.mark.slow])])
def test_a_damaged_copy_is_named_and_costs_a_replica(tmp_path: Path, said: str, real: bool) -> None:
    problem, name = with_one_bad_copy(tmp_path, said)
    engine = engines.ProcessEngine() if real else engines.VirtualEngine()
    found = trained(problem, CYCLIC, engine, steps=5)
    assert not found.stopped
    reasons = [notice.reason for notice in found.notices if notice.kind in ("refused", "failed")]
    assert any(name in reason and said in reason and str(tmp_path / "worker-4") in reason for reason in reasons)
    assert all(row.stepped and row.residual < 1e-12 for row in found.steps)
    x = optimizers.Nesterov(problem.initial(), rate=0.05)
    for _ in range(5):
        point = x.ask().points[0]
        x.tell(Answer(problem.gradient(point) + problem.penalty_gradient(point)))
    np.testing.assert_allclose(found.x, x.x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("said", DAMAGES)
def test_a_shard_says_what_is_wrong_until_it_is_mended(tmp_path: Path, said: str) -> None:
    _, problem = both(tmp_path, "pattern labels")
    path = tmp_path / "shards" / "task-00003.safetensors"
    whole = path.read_bytes()
    held = problem.shard([split_samples(problem.n_samples, 12)[3]])
    x, out = np.ones(len(held.support)), np.empty(len(held.support))  # type: ignore[arg-type]
    expected = held.combine(x, np.ones(1), 0, out)
    DAMAGES[said](path)
    arrived = pickle.loads(pickle.dumps(held))  # unpickling does not fail: the worker lives
    assert isinstance(arrived, StoredShard)
    for _ in range(2):
        with pytest.raises(DataError, match=f"task-00003.safetensors.*{said}"):
            arrived.combine(x, np.ones(1), 0, out)
    path.write_bytes(whole)
    os.utime(path, (1, 1))  # clocks of file systems tick coarsely, and a file's state is told by its time
    assert arrived.combine(x, np.ones(1), 0, out) == expected


def test_a_task_that_nobody_has_left_ends_training_with_its_number(tmp_path: Path) -> None:
    from erasurehead.errors import Unreachable

    _, problem = both(tmp_path, "dense labels")
    (tmp_path / "shards" / "task-00007.safetensors").unlink()
    with pytest.raises(Unreachable, match="7"):
        trained(problem, schemes.uncoded(12), engines.VirtualEngine())


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense labels", "pattern classes"])
def test_workers_in_processes_read_their_own_tasks(tmp_path: Path, kind: str) -> None:
    whole, sharded = both(tmp_path, kind)
    scheme = schemes.uncoded(4)
    expected = trained(whole, scheme, engines.VirtualEngine())
    np.testing.assert_array_equal(trained(sharded, scheme, engines.ProcessEngine()).x, expected.x)
