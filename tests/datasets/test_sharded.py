"""A file in shards is the file that `read` reads, to the bit: rows, split, labels, encoding, notes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from safetensors.numpy import load_file
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from erasurehead._internal.partition import split_samples
from erasurehead.datasets import Dataset, read, shard
from erasurehead.datasets._base import split_rows
from erasurehead.datasets._readers import csv
from erasurehead.datasets._sharded import ShardFolder

Write = Callable[[Path], Path]


def _csv(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    lines = ["id,size,town,rooms,age,price"]
    for row in range(157):
        town = ("Ely", "Rye", "Ayr", "", "Wick")[rng.integers(5)]
        size = "" if row % 31 == 7 else f"{rng.normal(100, 20):.3f}"
        lines.append(f"{rng.integers(20)},{size},{town},{rng.integers(4)},{rng.integers(1, 9)},{rng.normal():.4f}")
    path = folder / "homes.csv"
    path.write_text("\n".join(lines))  # without a last newline, as many files are
    return path


def _bare_csv(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    path = folder / "bare.csv"
    np.savetxt(path, np.column_stack([rng.normal(size=(90, 3)), rng.integers(0, 2, 90)]), delimiter=",", fmt="%.4g")
    return path


def _parquet(folder: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(3)
    columns = {
        "town": [None if row % 17 == 3 else ("Ely", "Rye", "Ayr")[rng.integers(3)] for row in range(200)],
        "size": [None if row % 23 == 5 else float(rng.normal(3, 2)) for row in range(200)],
        "shop": [int(number) for number in rng.integers(0, 9, 200)],
        "kind": [("a", "b", "c")[rng.integers(3)] for _ in range(200)],
    }
    path = folder / "homes.parquet"
    parquet.write_table(pyarrow.table(columns), path, row_group_size=37)
    return path


def _svmlight(folder: Path) -> Path:
    rng = np.random.default_rng(4)
    X = sparse.random_array((120, 60), density=0.1, rng=rng, format="csr")
    path = folder / "rows.svm"
    dump_svmlight_file(X, rng.integers(0, 2, 120), str(path), zero_based=False)
    path.write_text(path.read_text().replace("\n", " 61:0\n", 3))  # zeros that are written down
    return path


def _pattern(folder: Path) -> Path:
    rng = np.random.default_rng(5)
    ones = (rng.random((80, 300)) < 0.02).astype(float)
    ones[0, 299] = 1.0
    X = sparse.csr_array(ones)
    path = folder / "ones.svm"
    dump_svmlight_file(X, rng.integers(0, 3, 80), str(path), zero_based=True)
    return path


def _npy(folder: Path) -> Path:
    path = folder / "dense.npy"
    np.save(path, np.random.default_rng(6).normal(size=(101, 7)).astype(np.float32))
    return path


def _npy_with_labels(folder: Path) -> Path:
    rng = np.random.default_rng(7)
    np.save(folder / "y.npy", rng.integers(0, 2, 64))
    path = folder / "X.npy"
    np.save(path, np.asfortranarray(rng.normal(size=(64, 3))))
    return path


def _npz(folder: Path) -> Path:
    path = folder / "rows.npz"
    sparse.save_npz(path, sparse.random_array((70, 20), density=0.3, rng=np.random.default_rng(8), format="csr"))
    return path


CASES: list[tuple[Write, dict[str, Any]]] = [
    (_csv, {"target": "price", "one_hot": ["town", "id"]}),
    (_csv, {"target": "price", "one_hot": "all", "test_fraction": None}),
    (_csv, {"target": "rooms", "categorical": True, "task": "softmax", "seed": 3}),
    (_csv, {"target": "rooms", "task": "least_squares", "categorical": True, "standardize": False, "constant": False}),
    (_csv, {"categorical": True, "interactions": [("town", "rooms"), ("rooms", "age", "id")], "test_fraction": 0.3}),
    (_bare_csv, {}),
    (_bare_csv, {"target": "2", "test_fraction": 0}),
    (_parquet, {"categorical": True}),
    (_parquet, {"one_hot": ["shop", "town"], "interactions": [("shop", "town")], "target": "kind"}),
    (_parquet, {"categorical": True, "interactions": [("town", "kind")], "target": "shop", "test_fraction": None}),
    (_svmlight, {}),
    (_svmlight, {"constant": False, "test_fraction": None}),
    (_pattern, {"constant": True}),
    (_npy, {}),
    (_npy_with_labels, {"target": "y.npy", "test_fraction": 0.25}),
    (_npz, {"test_fraction": 0.1}),
]


def _form(X: Any) -> Any:
    """The matrix as a problem has it: without stored zeros."""
    if isinstance(X, np.ndarray):
        return X
    X = X.copy()
    X.eliminate_zeros()
    return X


def _same(found: Any, expected: Any) -> None:
    expected = _form(expected)
    assert type(found) is type(expected)
    assert found.shape == expected.shape
    if isinstance(found, np.ndarray):
        np.testing.assert_array_equal(found, expected)
        return
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype


def _check(folder: ShardFolder, data: Dataset, n_tasks: int) -> None:
    manifest = folder.manifest
    assert folder.check() == []
    assert (manifest.name, manifest.task, manifest.classes) == (data.name, data.task, data.n_classes)
    assert (manifest.n_train, manifest.n_test, manifest.columns) == (data.n_train, data.n_test, data.n_columns)
    assert sorted(manifest.notes) == sorted(data.notes)
    assert folder.encoding.to_json() == data.encoding.to_json()
    whole = _form(data.X_train)
    for number, rows in enumerate(split_samples(data.n_train, n_tasks)):
        X, y = folder.rows_of(number)
        _same(X, whole[rows])
        np.testing.assert_array_equal(y, data.y_train[rows])
        assert y.dtype == data.y_train.dtype
    if manifest.form == "dense":
        assert isinstance(whole, np.ndarray)
    else:
        assert (manifest.form == "pattern") == bool((whole.data == 1.0).all())
    test = folder.test_rows()
    if data.X_test is None:
        assert test is None
    else:
        assert test is not None
        _same(test.X, data.X_test)
        np.testing.assert_array_equal(test.y, data.y_test)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__[1:]}-{'-'.join(case[1]) or 'plain'}")
@pytest.mark.parametrize("block", [300, 1 << 24], ids=["many buckets", "one bucket"])
def test_shards_are_what_read_makes_of_the_file(tmp_path: Path, case: Any, block: int) -> None:
    write, options = case
    path = write(tmp_path)
    folder = shard(path, 6, tmp_path / "shards", **options, block=block)
    _check(folder, read(path, **options), 6)
    assert sorted(entry.name for entry in folder.path.iterdir()) == sorted(
        ["manifest.json", *(file.name for file in folder.manifest.files)]
    )
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]
    assert ShardFolder.open(folder.path).manifest == folder.manifest


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_blocks_of_any_size_give_the_same_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    from erasurehead.datasets._readers import csv as csvfile

    path = _csv(tmp_path)
    options: dict[str, Any] = {"categorical": True, "interactions": [("town", "id")]}
    whole = read(path, **options)
    monkeypatch.setattr(csvfile, "_CHUNK_FIELDS", chunk)  # how many fields of text are held at a time
    _check(shard(path, 5, tmp_path / "shards", **options), whole, 5)


@pytest.mark.slow
@settings(max_examples=15)
@given(data=st.data())
def test_any_table_of_numbers_and_towns(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("any")
    field = st.one_of(st.just(""), st.floats(-1e6, 1e6).map(repr))
    town = st.sampled_from(["Ely", "Rye", "", "7", "7.0", "Ayr"])
    rows = data.draw(st.lists(st.tuples(field, town, town), min_size=12, max_size=40))
    fixed = [("1", "Ely", "Rye")] * 12  # so that no column is empty in training
    lines = ["a,b,c,y", *(",".join([*row, str(n % 2)]) for n, row in enumerate([*rows, *fixed]))]
    path = folder / "any.csv"
    path.write_text("\n".join(lines) + "\n")
    options: dict[str, Any] = {"one_hot": ["b", "c"], "interactions": [("b", "c")], "task": "logistic"}
    seed, tasks = data.draw(st.integers(0, 50)), data.draw(st.integers(1, 9))
    made = shard(path, tasks, folder / "shards", **options, seed=seed, block=data.draw(st.integers(1, 2000)))
    _check(made, read(path, **options, seed=seed), tasks)


def test_the_library_safetensors_reads_the_files(tmp_path: Path) -> None:
    folder = shard(_svmlight(tmp_path), 4, tmp_path / "shards")
    tensors = load_file(folder.path / "task-00002.safetensors")
    X, y = folder.rows_of(2)
    assert set(tensors) == {"labels", "edges", "columns", "values"}
    np.testing.assert_array_equal(tensors["labels"], y)
    np.testing.assert_array_equal(tensors["values"], X.data)


def test_supports_are_the_columns_that_tasks_touch(tmp_path: Path) -> None:
    folder = shard(_pattern(tmp_path), 5, tmp_path / "shards")
    for tasks in ([0], [3], [1, 4], range(5)):
        touched = np.zeros(folder.manifest.columns, dtype=bool)
        for task in tasks:
            touched[folder.rows_of(task).X.indices] = True
        found = folder.support(list(tasks))
        if touched.all():
            assert found is None
        else:
            np.testing.assert_array_equal(found, np.flatnonzero(touched))
    assert shard(_npy(tmp_path), 2, tmp_path / "dense").support([0]) is None


def test_the_same_file_gives_the_same_fingerprint_and_another_one_another(tmp_path: Path) -> None:
    path = _npy(tmp_path)
    first = shard(path, 3, tmp_path / "a").manifest.fingerprint
    assert shard(path, 3, tmp_path / "b").manifest.fingerprint == first
    assert shard(path, 4, tmp_path / "c").manifest.fingerprint != first
    assert shard(path, 3, tmp_path / "d", seed=1).manifest.fingerprint != first


@given(st.integers(0, 10_000), st.sampled_from(["csv", "svm"]))
@settings(max_examples=12, deadline=None)
def test_of_every_class_a_row_is_for_training_in_shards_and_in_the_whole_file(seed: int, ending: str) -> None:
    rng = np.random.default_rng(seed)
    labels = np.r_[rng.integers(0, 2, 30), np.arange(1, 1 + rng.integers(1, 5)), rng.integers(5, 9, 3)]
    labels = rng.permutation(labels)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as small:
        small.setattr(csv, "_CHUNK_FIELDS", 15)
        lines = [
            f"{row % 5},c{label}" if ending == "csv" else f"{label} 1:{row % 5}" for row, label in enumerate(labels)
        ]
        path = Path(folder) / f"rare.{ending}"
        path.write_text("\n".join([*(["x,y"] if ending == "csv" else []), *lines]) + "\n")
        whole = read(path, seed=seed)
        held = shard(path, 3, Path(folder) / "shards", seed=seed)
        train, test = split_rows(len(labels), 0.2, seed)
        lost = sorted({*labels.tolist()} - {*labels[train].tolist()})
        expected = [*train, *sorted(int(np.argmax(labels == label)) for label in lost)]
        codes = np.unique(labels, return_inverse=True)[1]
        y = (codes if whole.task == "softmax" else 2.0 * codes - 1)[expected]
        np.testing.assert_array_equal(whole.y_train, y)
        assert whole.n_test == len(test) - len(lost)
        assert held.encoding.to_json() == whole.encoding.to_json()
        np.testing.assert_array_equal(np.concatenate([held.rows_of(task).y for task in range(3)]), y)
        said = [note for note in whole.notes if "would be for testing" in note]
        assert len(said) == (len(lost) > 0)
        assert [note for note in held.manifest.notes if "would be for testing" in note] == said
        assert all(repr(f"{'c' * (ending == 'csv')}{label}") in said[0] for label in lost[:5])
