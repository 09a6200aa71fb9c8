"""What `docs/networks-jax.md` says: a script that trains by itself becomes a team's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..bounded import PATIENCE
from ..docs.pages import DOCS, blocks


@pytest.mark.processes
@pytest.mark.timeout(PATIENCE)
def test_the_difference_that_the_documentation_shows_applies_and_works(tmp_path: Path) -> None:
    script = tmp_path / "digits.py"
    script.write_bytes(Path(__file__).with_name("stock_digits.py").read_bytes())
    (difference,) = blocks(DOCS / "networks-jax.md", "diff")
    added = [
        line for line in difference.text.splitlines() if line.startswith("+") and line.strip("+ ") and line[1] != "+"
    ]
    assert len(added) <= 10
    subprocess.run(
        ["git", "apply", "-p0", "--unidiff-zero"], cwd=tmp_path, input=difference.text, text=True, check=True
    )
    done = subprocess.run(
        [sys.executable, "-m", "erasurehead.torch.run", "-n", "2", str(script), "--epochs", "6"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last = next(line for line in done.stdout.splitlines() if "epoch 5: " in line)
    assert float(last.split("epoch 5: ")[1].split("%")[0]) > 80.0
