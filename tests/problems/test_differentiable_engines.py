"""Problems of JAX and PyTorch on every engine: to the same bits as on the virtual clock."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ..bounded import PATIENCE
from ..engines.mpi_jobs import environment, job
from . import differentiable_driver

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.xdist_group("clusters")]  # with one baseline

for library in ("jax", "torch"):
    pytest.importorskip(library, reason=f"the problems need {library}: pip install 'erasurehead[{library}]'")


Outcomes = dict[tuple[str, str], str]


def outcomes(folder: Path, engines: str, problems: str, ranks: int = 0) -> Outcomes:
    """Return what the driver prints: by engine and problem."""
    words = [str(differentiable_driver.__file__), engines, problems]
    command = job(ranks, *words) if ranks else [sys.executable, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(folder)
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("came to")]
    return {(engine, what): " ".join(rest) for _, _, engine, what, *rest in lines}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return outcomes(tmp_path_factory.mktemp("here"), "virtual,processes", "torch,jax,numpy")


@pytest.mark.parametrize("what", ["jax", "numpy", "torch"])
def test_processes_train_to_the_bits_of_the_virtual_clock(what: str, here: Outcomes) -> None:
    assert here["processes", what] == here["virtual", what]


@pytest.mark.parametrize("engine", ["mpi", "ray"])
def test_engines_of_clusters_train_to_the_same_bits(engine: str, here: Outcomes, tmp_path: Path) -> None:
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed (pip install 'erasurehead[ray]')")
    ranks = differentiable_driver.WORKERS + 1 if engine == "mpi" else 0
    found = outcomes(tmp_path, engine, "torch,jax", ranks)
    assert found == {(engine, what): here["virtual", what] for what in ("torch", "jax")}
