"""What cannot be sharded is refused in a sentence, and nothing half-made is left."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from erasurehead.datasets import shard
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.datasets._sharded.manifest import KEY, VERSION
from erasurehead.errors import DataError, InvalidArgument

LAST_ROW_IS_FOR_TESTING = 1  # of 40, by the split of this seed

HOMES = "size,town,sold\n" + "".join(f"{n % 7},{('Ely', 'Rye')[n % 2]},{n % 3 % 2}\n" for n in range(40))


def homes(folder: Path, text: str = HOMES) -> Path:
    path = folder / "homes.csv"
    path.write_text(text)
    return path


def refused(folder: Path, path: Path, error: type[Exception], said: str, tasks: int = 4, **options: Any) -> None:
    before = sorted(folder.iterdir())
    with pytest.raises(error, match=said):
        shard(path, tasks, folder / "shards", **{"categorical": True, **options})
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "homes.csv is empty"),
        ("size,town,sold\n", "homes.csv has no rows of data"),
        (HOMES + "1,Ely\n", r"line 42: 2 fields instead of 3"),
        (HOMES + "1,Ely,\n", r"line 42: the label 'sold' is missing"),
        (HOMES.replace("3,Rye", "inf,Rye", 1), r"line 5, column 'size': 'inf' is not a finite number"),
        (HOMES.replace(",1\n", ",0\n"), "the label 'sold' is '0', as in every row"),
        (
            "size,sold\n" + "".join(f"{row % 7},c{row}\n" for row in range(40)),
            "has 40 different values, almost one a row",
        ),
        ("size,town,sold\n" + ",Ely,0\n,Rye,1\n" * 20, "no row has a value in column 'size'"),
        ("size,town,sold\n" + "1,,0\n2,,1\n" * 20, "no row has a value in column 'town'"),
        ("size,sold\n" + "1e200,0\n-1e200,1\n" * 20, "too large to square"),
        ("sold\n1\n", "has one column only"),
    ],
)
def test_a_csv_file_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    options: dict[str, Any] = {"one_hot": ["town"]} if ",town" in text.split("\n")[0] else {}
    refused(tmp_path, homes(tmp_path, text), DataError, said, seed=LAST_ROW_IS_FOR_TESTING, **options)


def test_texts_that_nobody_said_are_categories(tmp_path: Path) -> None:
    path = homes(tmp_path)
    refused(tmp_path, path, DataError, r"line 2, column 'town': 'Ely' is not a number; name", categorical=False)
    late = homes(tmp_path, HOMES.replace("Ely", "").replace("Rye", "", 10))
    refused(tmp_path, late, DataError, "'Rye' is not a number", categorical=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tasks": 33}, r"n_tasks must be at most the number of training samples \(32\), but it is 33"),
        ({"tasks": 0}, "n_tasks must be at least 1"),
        ({"target": "price"}, "target must name columns of homes.csv"),
        ({"one_hot": ["city"]}, "one_hot must name columns"),
        ({"interactions": [("town",)]}, "interactions must combine two or more"),
        ({"test_fraction": 1.5}, r"test_fraction must lie in \[0, 1\)"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"task": "guess"}, "task must be one of logistic"),
        ({"block": 0}, "block must be at least 1"),
    ],
)
def test_arguments_that_do_not_fit(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    refused(tmp_path, homes(tmp_path), InvalidArgument, said, **options)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    refused(tmp_path, tmp_path / "nowhere.csv", DataError, "There is no file")
    refused(tmp_path, tmp_path, DataError, "is a folder")
    np.save(tmp_path / "cube.npy", np.zeros((3, 3, 3)))
    np.save(tmp_path / "nan.npy", np.where(np.eye(20, 4, -9) > 0, np.nan, np.arange(80.0).reshape(20, 4)))
    np.save(tmp_path / "y.npy", np.arange(7.0))
    (tmp_path / "bad.svm").write_text("1 2:1\n0 3:1 2:1\n")
    (tmp_path / "torn.npy").write_bytes((tmp_path / "nan.npy").read_bytes()[:300])
    for name, said, target in [
        ("cube.npy", "two dimensions", None),
        ("nan.npy", "row 9, column 0: nan is not a finite number", None),
        ("nan.npy", "holds 7 labels, but", "y.npy"),
        ("torn.npy", "torn.npy is not a matrix of numbers", None),
        ("bad.svm", "bad.svm, line 2: indices must ascend", None),
    ]:
        refused(tmp_path, tmp_path / name, DataError, said, categorical=False, target=target)
    refused(
        tmp_path, tmp_path / "bad.svm", InvalidArgument, "svmlight files, which hold", categorical=False, target="y"
    )
    refused(tmp_path, tmp_path / "bad.svm", InvalidArgument, "is for CSV and Parquet", categorical=True)


def test_a_folder_that_is_used(tmp_path: Path) -> None:
    path, used = homes(tmp_path), tmp_path / "shards"
    used.mkdir()
    assert shard(path, 2, used, categorical=True).manifest.n_tasks == 2  # an empty one will do
    with pytest.raises(InvalidArgument, match="is already in use: it is not empty"):
        shard(path, 2, used, categorical=True)
    with pytest.raises(InvalidArgument, match="is a file"):
        shard(path, 2, path, categorical=True)
    with pytest.raises(InvalidArgument, match="must be a folder that can be made"):
        shard(path, 2, path / "below", categorical=True)


def appended(path: Path) -> None:
    with path.open("a") as file:
        file.write("5,Ely,1\n")


def other_town_same_state(path: Path) -> None:
    status = path.stat()
    path.write_text(HOMES.replace("Ely", "Wye"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def row_less_same_state(path: Path) -> None:
    status = path.stat()
    lines = HOMES.splitlines()
    path.write_text("\n".join([*lines[:-1], " " * len(lines[-1]), ""]).replace(" " * len(lines[-1]), "\n" * 7))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [appended, other_town_same_state, row_less_same_state])
@pytest.mark.parametrize("fraction", [0.2, None])
def test_a_file_that_changes_between_the_passes(
    tmp_path: Path, change: Callable[[Path], None], fraction: float | None
) -> None:
    path = homes(tmp_path)

    def say(text: str) -> None:
        if text.startswith("encoding"):
            change(path)

    refused(tmp_path, path, DataError, "has changed while it was read", test_fraction=fraction, say=say)


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", np.random.default_rng(0).normal(size=(4_000, 20)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:  # a file may grow to 20 kB, as on a disk that is full then
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        refused(
            tmp_path,
            tmp_path / "big.npy",
            OSError,
            "File too large; the shards that were begun were removed",
            categorical=False,
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    def say(text: str) -> None:
        if text.startswith("writing"):
            raise KeyboardInterrupt("enough")

    refused(tmp_path, homes(tmp_path), KeyboardInterrupt, "enough", say=say)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"form": "odd"}, "is not a manifest of shards"),
        ({"tasks": []}, "is not a manifest of shards"),
        (
            {"tasks": [{"name": "../x", "bytes": 1, "sha256": "", "rows": 1}]},
            "must be the name of a file",
        ),
        ({"origin": {}}, "is not a manifest of shards"),
    ],
)
def test_a_manifest_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    made = shard(homes(tmp_path), 2, tmp_path / "shards", categorical=True)
    folder = made.path
    (folder / "manifest.json").write_text(replace(made.manifest, **change).text)
    with pytest.raises(DataError, match=said):
        ShardFolder.open(folder)
    (folder / "manifest.json").write_text(
        made.manifest.text.replace(f'"version":{VERSION}', f'"version":{VERSION - 1}', 1)
    )
    with pytest.raises(DataError, match=f"has version {VERSION - 1} of the format"):
        ShardFolder.open(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="is not a manifest of shards"):
        ShardFolder.open(folder)


@pytest.mark.parametrize(
    "change",
    [{"columns": 3}, {"task": "least_squares"}, {"classes": 3}, {"tasks": "the first one twice"}, {"name": "other"}],
    ids=str,
)
def test_a_manifest_that_was_edited_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """One shard counted twice, or another loss was fitted, and `--check` said that all is intact."""
    folder = shard(homes(tmp_path), 2, tmp_path / "shards", categorical=True).path
    data = json.loads((folder / "manifest.json").read_text())
    if "tasks" in change:
        change = {"tasks": [data[KEY]["tasks"][0]] * 2}
    (folder / "manifest.json").write_text(json.dumps({**data, KEY: {**data[KEY], **change}}))
    with pytest.raises(DataError, match=r"its checksum is not that of what it holds.*shard the data again"):
        ShardFolder.open(folder)


def test_damaged_files_are_all_named(tmp_path: Path) -> None:
    folder = shard(homes(tmp_path), 5, tmp_path / "shards", categorical=True)
    (folder.path / "task-00001.safetensors").unlink()
    (folder.path / "encoding.json").write_text("{}")
    data = bytearray((folder.path / "test.safetensors").read_bytes())
    data[-1] ^= 128
    (folder.path / "test.safetensors").write_bytes(data)
    complaints = folder.check()
    assert [Path(complaint.split()[0]).name for complaint in complaints] == [
        "encoding.json",
        "test.safetensors",
        "task-00001.safetensors",
    ]
    with pytest.raises(DataError, match=r"encoding.json holds 2 bytes instead of"):
        assert folder.encoding


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": "softmax"}, r"softmax with 2 classes, and the encoding, logistic with 2"),
        ({"task": "least_squares", "classes": 0}, r"least_squares with 0 classes"),
        ({"classes": 3}, "logistic with 3 classes"),
        ({"classes": 10**12}, "logistic with 1000000000000 classes"),
        ({"classes": 0}, "its values contradict each other"),
        ({"task": "softmax", "classes": 1}, "its values contradict each other"),
    ],
)
def test_a_manifest_that_tells_another_loss_than_the_encoding(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    """A manifest with a checksum of its own, whatever it says: a loss would take the labels for numbers of classes."""
    made = shard(homes(tmp_path), 2, tmp_path / "shards", categorical=True)
    (made.path / "manifest.json").write_text(replace(made.manifest, **change).text)
    with pytest.raises(DataError, match=said):
        _ = ShardFolder.open(made.path).encoding


def _with(made: ShardFolder, entry: Any, data: bytes, **change: Any) -> ShardFolder:
    """Return a folder in which a file was replaced, and the checksums of it and of the manifest computed anew."""
    (made.path / entry.name).write_bytes(data)
    new = replace(entry, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    fields = {name: new if held == entry else held for name, held in vars(made.manifest).items() if name != "tasks"}
    tasks = tuple(new if task == entry else task for task in made.manifest.tasks)
    (made.path / "manifest.json").write_text(replace(made.manifest, **{**fields, "tasks": tasks}).text)
    return ShardFolder.open(made.path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda held: held["edges"].fill(10**6), "does not hold the columns"),
        (lambda held: held["columns"].fill(-1), "does not hold the columns"),
        (lambda held: held["columns"].fill(10**6), "does not hold the columns"),
        (lambda held: held.pop("edges"), "does not hold the columns"),
        (lambda held: held.update(edges=held["edges"].astype(float)), "does not hold the columns"),
        (lambda held: held.clear(), "does not hold the columns"),
    ],
    ids=range(6),
)
def test_supports_that_name_other_columns_than_there_are(tmp_path: Path, change: Any, said: str) -> None:
    made = shard(homes(tmp_path), 2, tmp_path / "shards", categorical=True)
    assert made.manifest.supports is not None
    held = dict(safetensors.numpy.load((made.path / made.manifest.supports.name).read_bytes()))
    held = {name: values.copy() for name, values in held.items()}
    change(held)
    new = _with(made, made.manifest.supports, safetensors.numpy.save(held))
    with pytest.raises(DataError, match=said):
        new.support([0])


def test_rows_that_are_no_finite_numbers_or_have_a_header_without_end(tmp_path: Path) -> None:
    made = shard(homes(tmp_path), 2, tmp_path / "shards", categorical=True)
    entry = made.manifest.tasks[0]
    whole = (made.path / entry.name).read_bytes()
    held = dict(safetensors.numpy.load(whole))
    if "values" in held:
        new = _with(made, entry, safetensors.numpy.save({**held, "values": np.full_like(held["values"], np.nan)}))
        with pytest.raises(DataError, match="not finite float64 numbers"):
            new.rows_of(0)
    header = b"[" * 10**5
    new = _with(made, entry, len(header).to_bytes(8, "little") + header)
    with pytest.raises(DataError, match="nested more than 64 deep"):
        new.rows_of(0)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"manifest.json cannot be read: No such file .*; is .* a folder of shards"):
        ShardFolder.open(tmp_path)
