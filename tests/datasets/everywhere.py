"""Reading a text table in all ways: as a whole, in blocks into shards, and with the saved encoding."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead import datasets
from erasurehead.datasets import shard
from erasurehead.datasets._sharded import ShardFolder


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def read_everywhere(path: Path, **arguments: Any) -> datasets.Dataset:
    """Read a file as a whole, in blocks into shards, and with the saved encoding; all must be the same."""
    data = datasets.read(path, test_fraction=None, **arguments)
    folder = shard(path, 3, tempfile.mkdtemp(dir=path.parent), test_fraction=None, **arguments)
    sharded = ShardFolder.open(folder.path)
    assert sharded.encoding.to_json() == data.encoding.to_json()
    assert [*folder.manifest.notes] == [*data.notes]
    again = data.encoding.from_json(data.encoding.to_json()).apply(path)
    dense = [matrix if isinstance(matrix, np.ndarray) else matrix.toarray() for matrix in (data.X_train, again.X)]
    np.testing.assert_array_equal(*dense)
    np.testing.assert_array_equal(data.y_train, again.y)
    return data
