"""The surface: what `import erasurehead` offers, and that it is light."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import erasurehead

ROOT = Path(__file__).resolve().parent.parent


def test_every_public_name_is_there() -> None:
    for name in erasurehead.__all__:
        assert getattr(erasurehead, name) is not None
    assert set(erasurehead.__all__) <= set(dir(erasurehead))
    assert not hasattr(erasurehead, "nonsense")


def test_the_version_is_told_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert erasurehead.__version__ == project["project"]["version"]


def test_importing_it_imports_nothing_heavy() -> None:
    script = "import sys, erasurehead; print(*sorted(set(sys.modules) & {'numpy', 'scipy', 'numba', 'sklearn'}))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_training_on_the_virtual_clock_needs_no_plotting_and_no_numba_for_dense_data() -> None:
    script = (
        "import sys, numpy as np, erasurehead as eh\n"
        "eh.schemes.erasurehead(6, 2, 3); eh.engines.ProcessEngine; eh.delays.Exponential(mean=1.0)\n"
        "print(*sorted(set(sys.modules) & {'numba', 'sklearn', 'matplotlib', 'pyarrow', 'pydantic', 'scipy.stats'}))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
