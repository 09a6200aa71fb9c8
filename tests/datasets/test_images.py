"""MNIST and CIFAR-10: the original formats, what is wrong with a file in a sentence, and stand-ins."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from erasurehead.datasets._published.images import load_images, read_cifar, read_idx
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.problems import SoftmaxRegression


def idx(array: np.ndarray) -> bytes:
    return b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(folder: Path, n_rows: int = 40) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("train", n_rows), ("t10k", 20)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx((np.arange(count) % 10).astype(np.uint8)))


def test_idx_files_compressed_or_not(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    data = load_images("mnist", tmp_path, rows=30)
    assert data.X_train.shape == (30, 785)
    assert data.X_test is not None
    assert data.X_test.shape == (20, 785)
    assert float(np.max(data.X_train)) == 1.0
    assert data.n_classes == 10
    assert any("not the published file" in note for note in data.notes)
    assert any("the first 30 of 40" in note for note in data.notes)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin with 00 00 08"),
        (b"PK\x03\x04", "does not begin with 00 00 08"),
        (b"\x00\x00\x08\x03\x00", "cut off within its header"),
        (idx(np.zeros((2, 3), np.uint8))[:-1], "has 5 bytes of data, but its header announces 6"),
        (gzip.compress(idx(np.zeros(9, np.uint8)), mtime=0)[:-9], "cannot be read"),
    ],
)
def test_what_is_no_idx_file_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(DataError) as caught:
        read_idx(tmp_path / "file")
    assert said in str(caught.value)


def test_cifar_records(tmp_path: Path) -> None:
    records = np.random.default_rng(0).integers(0, 256, (30, 3073), dtype=np.uint8)
    records[:, 0] = np.arange(30) % 10
    (tmp_path / "data_batch_2.bin").write_bytes(records.tobytes())
    (tmp_path / "test_batch.bin").write_bytes(records[:20].tobytes())
    data = load_images("cifar10", tmp_path)
    assert data.X_train.shape == (30, 3073)
    assert data.notes == ("1 of the 5 training batches are there",)
    records[3, 0] = 11
    (tmp_path / "data_batch_2.bin").write_bytes(records.tobytes())
    with pytest.raises(DataError, match="record 3: the label must be 0 to 9, but it is 11"):
        load_images("cifar10", tmp_path)
    (tmp_path / "data_batch_2.bin").write_bytes(b"abc")
    with pytest.raises(DataError, match="records of 3073 bytes: it has 3"):
        read_cifar(tmp_path / "data_batch_2.bin")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_stand_ins_say_that_they_are_and_can_be_learned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ERASUREHEAD_DATA", raising=False)
    data = load_images(name, rows=600)
    assert data.name == f"{name}-synthetic"
    assert data.source.startswith("synthetic stand-in")
    assert (data.X_train == load_images(name, rows=600).X_train).all()
    problem = SoftmaxRegression(data.X_train, data.y_train, l2=1e-3, test=(data.X_test, data.y_test))
    x = problem.initial()
    for _ in range(40):
        x = x - 0.02 * (problem.gradient(x) + problem.penalty_gradient(x))
    assert problem.metrics(x)["accuracy"] > 0.5


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There are no files of mnist in"):
        load_images("mnist", tmp_path)
    with pytest.raises(InvalidArgument, match="must be one of mnist, cifar10"):
        load_images("letters")


@pytest.mark.slow
def test_the_real_mnist(data_folder: Path) -> None:
    data = load_images("mnist", data_folder, rows=100)
    assert data.notes == ("the first 100 of 60,000 training rows",)
    assert data.y_train[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.n_test == 10_000


def test_the_real_cifar10(data_folder: Path) -> None:
    data = load_images("cifar10", data_folder, rows=100)
    assert "the first 1,000 test records are used for all 10,000" in data.notes
    assert data.y_train[:5].tolist() == [6, 9, 9, 4, 1]
