"""Late ranks of real processes that train with PyTorch's `DistributedDataParallel`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from erasurehead import errors, torch as eht

from ..bounded import PATIENCE

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'erasurehead[torch]'")


@pytest.mark.alone  # it measures time
def test_all_name_a_slow_rank_soon_with_its_stage_and_training_is_the_same_to_the_bit(tmp_path: Path) -> None:
    script = Path(__file__).with_name("ranks.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    for rank in range(4):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["same"]
        assert found["inner"]
        assert found["same, pairs"]  # each pair of ranks averages a model of its own
        for run, stage in (("", ""), (", data", "data")):
            assert [2, stage] in found[f"late{run}"]
            assert found[f"named{run}"] <= 6  # 3, where nothing else keeps the machine busy
        assert found["twice"].startswith("PyTorch takes no communication hook for this model")
    assert "Rank 2 on " in done.stderr  # as a warning, of the first rank only


def test_a_module_that_is_not_wrapped_is_refused() -> None:
    with pytest.raises(errors.InvalidArgument, match="DistributedDataParallel, but it is 'Linear'"):
        eht.measure(torch.nn.Linear(1, 1))
