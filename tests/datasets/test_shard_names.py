"""What leads out of a folder of shards is not the name of a file in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from erasurehead._internal.storage.sealed import sealed
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.datasets._sharded.folder import read_checked
from erasurehead.datasets._sharded.manifest import StoredFile
from erasurehead.errors import DataError

from .._internal.storage.test_names import HOSTILE


@pytest.mark.parametrize("name", [name for name in HOSTILE if isinstance(name, str)], ids=repr)
def test_what_leads_elsewhere_is_not_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"is not the name of a file in"):
        read_checked(tmp_path, StoredFile(name, 0, "0" * 64))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in HOSTILE if not isinstance(name, bytes)], ids=repr)
@pytest.mark.parametrize("which", ["encoding", "supports", "test", "tasks"])
def test_a_manifest_of_shards_names_files_of_its_folder(tmp_path: Path, which: str, name: Any) -> None:
    entry = {"name": name, "bytes": 3, "sha256": "0" * 64, "rows": 1}
    good = {**entry, "name": "file"}
    manifest: dict[str, Any] = {
        "name": "x",
        "task": "logistic",
        "classes": 2,
        "form": "sparse",
        "columns": 3,
        "origin": {"file": "x", "bytes": 1, "rows": 1, "test_fraction": 0.0, "seed": 0},
        "notes": [],
        "encoding": good,
        "supports": good,
        "test": good,
        "tasks": [good],
    }
    (tmp_path / "manifest.json").write_bytes(sealed("erasurehead-shards", 2, "shards", manifest))
    assert ShardFolder.open(tmp_path).manifest.n_tasks == 1
    manifest[which] = [entry] if which == "tasks" else entry
    (tmp_path / "manifest.json").write_bytes(sealed("erasurehead-shards", 2, "shards", manifest))
    with pytest.raises(DataError, match=r"must be the name of a file in the folder|surrogates not allowed"):
        ShardFolder.open(tmp_path)
