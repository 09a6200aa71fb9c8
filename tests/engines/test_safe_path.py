"""Files that lie about in the current folder are not imported by workers; what lies beside the user's script is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..bounded import PATIENCE
from .mpi_jobs import environment, job

TRAPS = ("numpy", "erasurehead", "scipy", "signal", "threading", "pickle", "selectors", "mpi4py", "ray", "cloudpickle")

SCRIPT = """
import sys
import numpy as np
from erasurehead import engines, optimizers, schemes, train
from erasurehead.engines import MPIEngine
from mine import Bowl, Late, lazy

if __name__ == "__main__":
    name = sys.argv[1]
    if name == "mpi":
        MPIEngine.serve_unless_coordinator()
    engine = {
        "processes": lambda: engines.ProcessEngine(Late()),
        "mpi": lambda: engines.MPIEngine(Late()),
        "ray": lambda: engines.RayEngine(Late()),
    }[name]()
    problem = Bowl()
    run = train(problem, lazy(2), optimizers.GradientDescent(np.zeros(3), rate=0.5), engine, steps=3)
    assert len(run.steps) == 3 and not run.notices, run.notices
    print("trained", round(float(run.x[0]), 3))
"""

MINE = """
import numpy as np
from erasurehead import schemes
from erasurehead.delays import Delays
from erasurehead.delays._base import room
from erasurehead.problems import Problem, Shard


class Bowl(Problem):
    n_samples, n_parameters, l2 = 2, 3, 0.0

    def shard(self, tasks):
        return Slope(len(tasks))

    def loss(self, x):
        return 0.5 * float((x - 1.0) @ (x - 1.0))

    def gradient(self, x):
        return x - 1.0

    def metrics(self, x):
        return {}


class Slope(Shard):
    def __init__(self, n_tasks):
        self.n_tasks, self.support = n_tasks, None

    def combine(self, local, coefficients, step, out):
        import helper  # on the worker only, and not before it is used
        np.subtract(local, helper.target, out=out)
        share = float(coefficients.sum()) / 2
        loss = 0.5 * share * float(out @ out)
        out *= share
        return loss


class Late(Delays):
    def rows(self, first, count, n_workers, unit=0, work=1.0, out=None):
        values = room(out, count, n_workers)
        values[:] = 0.001
        return values

    def __str__(self):
        return "late()"


def lazy(n):
    return schemes.uncoded(n)
"""


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with traps, and another one with a script and what it imports."""
    trapped, own = tmp_path / "trapped", tmp_path / "own"
    trapped.mkdir()
    own.mkdir()
    for name in TRAPS:
        (trapped / f"{name}.py").write_text("import os\nos.write(2, b'trapped')\nos._exit(7)\n")
    (own / "script.py").write_text(SCRIPT)
    (own / "mine.py").write_text(MINE)
    (own / "helper.py").write_text("target = 1.0\n")
    return trapped, own


def told(command: list[str], where: Path, env: dict[str, str] | None = None) -> str:
    """Run a command in a folder, and return what it prints."""
    done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "trapped" not in done.stderr
    return done.stdout


@pytest.mark.processes
def test_processes_import_nothing_from_the_current_folder_and_what_lies_beside_the_script(
    places: tuple[Path, Path],
) -> None:
    trapped, own = places
    assert told([sys.executable, str(own / "script.py"), "processes"], trapped) == "trained 0.875\n"


@pytest.mark.processes
def test_the_command_line_trains_in_a_folder_with_traps(places: tuple[Path, Path]) -> None:
    command = [
        str(Path(sys.executable).with_name("erasurehead")),
        "train",
        "--data",
        "covertype",
        "--synthetic",
        "always",
        "--rows",
        "500",
        "--workers",
        "2",
        "--steps",
        "2",
        "--scheme",
        "uncoded",
        "--delays",
        "none()",
        "--json",
    ]
    assert '"status": "finished"' in told(command, places[0])


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.xdist_group("mpi")
def test_ranks_import_nothing_from_the_current_folder(places: tuple[Path, Path], tmp_path: Path) -> None:
    trapped, own = places
    said = told(job(3, str(own / "script.py"), "mpi"), trapped, environment(tmp_path))
    assert said == "trained 0.875\n"


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.xdist_group("clusters")
def test_actors_import_nothing_from_the_current_folder(places: tuple[Path, Path]) -> None:
    pytest.importorskip("ray")
    trapped, own = places
    assert "trained 0.875" in told([sys.executable, str(own / "script.py"), "ray"], trapped)


@pytest.mark.processes
def test_what_a_worker_starts_has_the_environment_of_the_user(places: tuple[Path, Path]) -> None:
    trapped, own = places
    (own / "helper.py").write_text("import os\nassert 'PYTHONSAFEPATH' not in os.environ\ntarget = 1.0\n")
    assert "PYTHONSAFEPATH" not in os.environ
    assert told([sys.executable, str(own / "script.py"), "processes"], trapped) == "trained 0.875\n"
