"""The step size that a run file begins with is the same for shards and for the file that they are of."""

from __future__ import annotations

from pathlib import Path

import pytest

from erasurehead.datasets import read
from erasurehead.runs._config import parts

from ...problems.test_sharded import KINDS, both


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_shards_have_the_step_size_of_the_whole(tmp_path: Path, kind: str) -> None:
    _, sharded = both(tmp_path, kind)
    data = sharded.folder
    memory = read(data.manifest.origin.file, *(["y.npy"] if "dense" in kind else []))
    for loss in ("logistic", "least_squares", "softmax"):
        assert parts.default_rate(data, loss, 0.1) == parts.default_rate(memory, loss, 0.1)
