"""MNIST and CIFAR-10 from their original files, or synthetic stand-ins of their shape."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array
from erasurehead._internal.user_files import StrPath, printable
from erasurehead.datasets._base import Dataset
from erasurehead.datasets._preprocessing.array_encoding import ArrayEncoding
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._preprocessing.vocabulary import vocabulary_of
from erasurehead.datasets._published.search import VARIABLE
from erasurehead.datasets._readers.table import NumberColumn
from erasurehead.errors import DataError, check_choice, check_count, invalid

Bytes = NDArray[np.uint8]
_Part: TypeAlias = tuple[Bytes, Bytes]
"""Images and labels."""

_Read: TypeAlias = tuple[_Part, _Part, list[str]]
"""Those for training and those for testing, and notes."""

_MNIST = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
"""The files of MNIST, each with the published MD5 of its compressed form."""

_RECORD = 1 + 3 * 32 * 32
"""Bytes of a record of CIFAR-10's binary version: a label, then the planes of red, green and blue."""

_TEST_ROWS = 2_000
"""Number of test rows of a stand-in."""


@dataclass(frozen=True)
class _Set:
    name: str
    shape: tuple[int, int, int]  # planes, height, width
    n_train: int
    read: Callable[[Path], _Read | None]

    @property
    def n_pixels(self) -> int:
        return int(np.prod(self.shape))


def read_idx(path: Path) -> Bytes:
    """Read a file in the format of MNIST (idx): bytes with their dimensions; compressed or not.

    Raises:
        DataError: if it cannot be read, has another format, or is truncated.
    """
    data = _content(path)
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise DataError(f"{printable(str(path))} is not an idx file of bytes: it does not begin with 00 00 08.")
    dimensions = data[3]
    if len(data) < 4 + 4 * dimensions:
        raise DataError(f"{printable(str(path))} is cut off within its header.")
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    wanted, length = int(np.prod(shape, dtype=np.int64)), len(data) - 4 - 4 * dimensions
    if length != wanted:
        raise DataError(f"{printable(str(path))} has {length} bytes of data, but its header announces {wanted}.")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_cifar(path: Path) -> _Part:
    """Read a file of CIFAR-10's binary version: images, shape (n, 3072), and labels, shape (n,).

    Raises:
        DataError: if it cannot be read, or does not consist of whole records with labels from 0 to 9.
    """
    data = _content(path)
    if not data or len(data) % _RECORD:
        raise DataError(f"{printable(str(path))} does not consist of records of {_RECORD} bytes: it has {len(data)}.")
    records = np.frombuffer(data, np.uint8).reshape(-1, _RECORD)
    if (wrong := np.flatnonzero(records[:, 0] > 9)).size:
        place, label = int(wrong[0]), int(records[wrong[0], 0])
        raise DataError(f"{printable(str(path))}, record {place}: the label must be 0 to 9, but it is {label}.")
    return records[:, 1:], records[:, 0]


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{printable(str(path))} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from None


def _mnist(folder: Path) -> _Read | None:
    arrays: list[Bytes] = []
    notes: list[str] = []
    for name, digest in _MNIST.items():
        path = next((folder / f"{name}{end}" for end in (".gz", "") if (folder / f"{name}{end}").is_file()), None)
        if path is None:
            return None
        if path.suffix == ".gz" and hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() != digest:
            notes.append(f"{path.name} is not the published file: its MD5 differs")
        arrays.append(read_idx(path))
    images, labels, test_images, test_labels = arrays
    for pictures, numbers, name in ((images, labels, "train"), (test_images, test_labels, "t10k")):
        if pictures.ndim != 3 or numbers.ndim != 1 or len(pictures) != len(numbers) or numbers.max(initial=0) > 9:
            raise DataError(
                f"The {name} files of MNIST in {folder} do not match: {pictures.shape} images, {numbers.shape} labels."
            )
    return (images.reshape(len(images), -1), labels), (test_images.reshape(len(test_images), -1), test_labels), notes


def _cifar10(folder: Path) -> _Read | None:
    batches = [path for number in range(1, 6) if (path := folder / f"data_batch_{number}.bin").is_file()]
    tests = [path for name in ("test_batch.bin", "test_batch_first1000.bin") if (path := folder / name).is_file()]
    if not batches or not tests:
        return None
    parts = [read_cifar(path) for path in batches]
    notes = [] if len(batches) == 5 else [f"{len(batches)} of the 5 training batches are there"]
    if tests[0].name != "test_batch.bin":
        notes.append("the first 1,000 test records are used for all 10,000")
    train = np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])
    return train, read_cifar(tests[0]), notes


_SETS: Mapping[str, _Set] = {
    "mnist": _Set("mnist", (1, 28, 28), 60_000, _mnist),
    "cifar10": _Set("cifar10", (3, 32, 32), 50_000, _cifar10),
}

IMAGES = tuple(_SETS)
"""Names of the data sets of images."""


def _set(name: str) -> _Set:
    check_choice("name", name, _SETS)
    return _SETS[name]


def load_images(
    name: str,
    path: StrPath | None = None,
    *,
    synthetic: Literal["never", "fallback", "always"] = "fallback",
    rows: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Load a data set of images: pixels from 0 to 1, and a column of ones.

    Arguments:
        name: `mnist` or `cifar10`.
        path: a folder that holds the original files, also in a subfolder named after the set; by default the one that
            the environment variable ERASUREHEAD_DATA names.
        synthetic: whether to make a stand-in of the same shape: if the files are missing, always, or never.
        rows: number of training rows, taken from the beginning of the files; None for all.
        seed: seed of the stand-in.

    Raises:
        InvalidArgument: if there is no such data set.
        DataError: if the files are missing or cannot be used.
    """
    image_set = _set(name)
    if synthetic not in ("never", "fallback", "always"):
        raise invalid("synthetic", "must be 'never', 'fallback' or 'always'", synthetic)
    wanted = None if rows is None else check_count("rows", rows, 20, image_set.n_train)
    looked = os.environ.get(VARIABLE) if path is None else os.fspath(path)
    if synthetic != "always" and looked:
        for folder in (Path(looked).expanduser() / name, Path(looked).expanduser()):
            if folder.is_dir() and (parts := image_set.read(folder)) is not None:
                train, test, notes = parts
                return _dataset(image_set, train, test, wanted, str(folder), notes, name)
    where = f"in {printable(looked)}" if looked else f"as {VARIABLE} is not set"
    if synthetic == "never" or (synthetic == "fallback" and path is not None):
        files = ", ".join(_MNIST) if name == "mnist" else "data_batch_1.bin to data_batch_5.bin and test_batch.bin"
        raise DataError(
            f"There are no files of {name} {where}: they are {files}; name their folder, or take a synthetic stand-in."
        )
    train, test = _stand_in(image_set, wanted or 10_000, seed)
    notes = [] if synthetic == "always" else [f"no files of {name} were found, {where}"]
    return _dataset(
        image_set, train, test, None, f"synthetic stand-in of {name}, seed {seed}", notes, f"{name}-synthetic"
    )


def _dataset(
    image_set: _Set,
    train: _Part,
    test: _Part,
    rows: int | None,
    source: str,
    notes: list[str],
    name: str,
) -> Dataset:
    (images, labels), (test_images, test_labels) = train, test
    kept = len(images) if rows is None else min(rows, len(images))
    if kept < len(images):
        notes = [*notes, f"the first {kept:,} of {len(images):,} training rows"]
    if images.shape[1] != image_set.n_pixels or test_images.shape[1] != image_set.n_pixels:
        raise DataError(f"The images in {source} must have {image_set.n_pixels} pixels, but have {images.shape[1]}.")
    target = Target("", "softmax", vocabulary_of(NumberColumn(np.arange(10.0))))
    return Dataset(
        name=name,
        X_train=_design(images[:kept]),
        y_train=labels[:kept].astype(np.int64),
        X_test=_design(test_images),
        y_test=test_labels.astype(np.int64),
        task="softmax",
        encoding=ArrayEncoding(image_set.n_pixels, target),
        source=source,
        notes=tuple(notes),
    )


def _design(images: Bytes) -> Array:
    design = np.ones((len(images), images.shape[1] + 1))
    np.divide(images, 255.0, out=design[:, :-1])
    design.flags.writeable = False
    return design


def _stand_in(image_set: _Set, rows: int, seed: int) -> tuple[_Part, _Part]:
    """Return images of ten smooth patterns in many styles, with noise: about as hard as the originals."""
    rng = np.random.default_rng([seed, image_set.n_pixels])
    planes, side, _ = image_set.shape

    def smooth(count: int) -> Any:
        coarse = rng.standard_normal((count, planes, 7, 7))
        places = np.linspace(0, 6, side)
        low = np.minimum(places.astype(int), 5)
        share = places - low
        lines = coarse[:, :, low] * (1 - share)[:, None] + coarse[:, :, low + 1] * share[:, None]
        return (lines[..., low] * (1 - share) + lines[..., low + 1] * share).reshape(count, -1)

    patterns, styles = smooth(10), smooth(24)
    parts: list[_Part] = []
    for count in (rows, _TEST_ROWS):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        values: Array = 0.8 * patterns[labels] + 0.25 * rng.standard_normal((count, 24)) @ styles
        values += 0.5 * rng.standard_normal(values.shape)
        parts.append((np.clip(127.0 + 50.0 * values, 0, 255).astype(np.uint8), labels))
    return parts[0], parts[1]
