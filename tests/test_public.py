"""The surface: what `import erasurehead` offers, and that it is light."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import erasurehead

ROOT = Path(__file__).resolve().parent.parent


def imported_by(script: str) -> set[str]:
    """Return all modules that a script has imported at its end, in a process of its own."""
    script = f"{script}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_public_name_is_there() -> None:
    for name in erasurehead.__all__:
        assert getattr(erasurehead, name) is not None
    assert set(erasurehead.__all__) <= set(dir(erasurehead))
    assert not hasattr(erasurehead, "nonsense")


def test_the_version_is_told_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert erasurehead.__version__ == project["project"]["version"]


def test_importing_it_imports_nothing_heavy() -> None:
    assert imported_by("import erasurehead").isdisjoint({"numpy", "scipy", "numba", "sklearn"})


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["mpi.job", "ray.actor", "processes.worker"])
def test_a_worker_imports_no_code_no_decoder_and_no_other_engine(worker: str) -> None:
    modules = f"erasurehead.engines._{worker}, erasurehead.training._programs"
    script = f"import {modules}, erasurehead.delays as d; d.Exponential(0.5)"
    others = {"mpi", "ray", "processes"} - {worker.split(".")[0]}
    heavy = {"numba", "sklearn", "scipy.special", "erasurehead.codes._base", "erasurehead.decoding._base"}
    assert imported_by(script).isdisjoint({*heavy, *(f"erasurehead.engines._{other}" for other in others)})


def test_what_comes_later_is_what_type_checkers_are_told() -> None:
    for package in (erasurehead, erasurehead.delays, erasurehead.engines, erasurehead.runs, erasurehead.testing):
        tree = ast.parse(Path(package.__file__ or "").read_text(encoding="utf-8"))
        told = {
            (alias.asname or alias.name)
            for block in tree.body
            if isinstance(block, ast.If)
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert told
        for name in told:
            assert getattr(package, name) is not None, f"{package.__name__}.{name}"
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            _ = package.nonsense


def test_training_on_the_virtual_clock_needs_no_plotting_and_no_numba_for_dense_data() -> None:
    script = (
        "import numpy as np, erasurehead as eh\n"
        "eh.schemes.erasurehead(6, 2, 3); eh.engines.ProcessEngine; eh.delays.Exponential(mean=1.0)"
    )
    heavy = {"numba", "sklearn", "matplotlib", "pyarrow", "pydantic", "scipy.stats"}
    assert imported_by(script).isdisjoint(heavy)
