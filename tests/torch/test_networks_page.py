"""What the pages on networks say: a script for `DistributedDataParallel` becomes a team's; what teams do is tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ..bounded import PATIENCE
from ..docs.pages import DOCS, blocks
from .digits import DIGITS

HERE = Path(__file__).parent


@pytest.mark.processes
@pytest.mark.timeout(PATIENCE)
@pytest.mark.usefixtures("quick_start")
def test_the_difference_that_the_documentation_shows_applies_and_works(tmp_path: Path) -> None:
    script = tmp_path / "mnist.py"
    script.write_bytes((HERE / "stock_mnist.py").read_bytes())
    (difference,) = blocks(DOCS / "moving" / "ddp.md", "diff")
    applied = subprocess.run(
        ["git", "apply", "-p0", "--unidiff-zero"], cwd=tmp_path, input=difference.text, text=True, check=False
    )
    assert applied.returncode == 0
    assert "DistributedDataParallel" not in script.read_text()
    (tmp_path / "torchvision.py").write_text(DIGITS)
    done = subprocess.run(
        [sys.executable, "-m", "erasurehead.torch.run", "-n", "2", str(script), "--epochs", "3", "--batch-size", "16"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"], *sys.path])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last = next(line for line in done.stdout.splitlines() if "epoch 2: " in line)
    assert float(last.split("epoch 2: ")[1].split("%")[0]) > 90.0
    assert len(torch.load(tmp_path / "mnist.pt")) == 8


def test_what_a_team_does_beside_others_is_tested_where_the_page_says() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (DOCS / "networks.md").read_text(encoding="utf-8"))
    assert len(named) == 9
    for file, test in named:
        assert f"def {test}(" in (HERE / file).read_text(encoding="utf-8"), f"{file}::{test}"
