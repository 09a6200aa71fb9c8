"""The surface: what `import erasurehead` offers, and that it is light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import time
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


def test_importing_it_imports_nothing_but_its_own_few_modules() -> None:
    begun = imported_by("from __future__ import annotations; import re, importlib, typing, functools")
    assert imported_by("import erasurehead") - begun == {
        "erasurehead",
        "erasurehead._internal",
        "erasurehead._internal.lazy_import",
    }


@pytest.mark.alone
@pytest.mark.slow
def test_importing_it_costs_next_to_nothing() -> None:
    def best(script: str) -> float:
        times: list[float] = []
        for _ in range(7):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", script], check=True)
            times.append(time.perf_counter() - begin)
        return min(times)

    bare = best("pass")
    assert best("import erasurehead") < bare * 3.0  # of about 15 ms: 50 ms would be four times it
    assert best("import erasurehead.sklearn, erasurehead.torch") < bare * 4.0


def test_the_estimators_name_their_extra_where_it_is_not_installed() -> None:
    script = "import sys; sys.modules['sklearn'] = None\nfrom erasurehead.sklearn import Ridge"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "MissingExtra: The estimators need scikit-learn: pip install 'erasurehead[sklearn]'." in done.stderr


@pytest.mark.slow
def test_what_is_always_installed_is_all_that_is_imported_without_an_extra() -> None:
    """Each file imports what the wheel asks for, the standard library, or what an extra brings, when it is used."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {re.split(r"[>=<]", line)[0].replace("-", "_") for line in project["dependencies"]}
    allowed = {*asked, *sys.stdlib_module_names, "erasurehead", "pydantic_core"}
    of_extras = {"sklearn": {"sklearn"}, "torch": {"torch", "zmq"}, "testing": {"pytest"}}
    for path in sorted((ROOT / "src" / "erasurehead").rglob("*.py")):
        room = path.relative_to(ROOT / "src" / "erasurehead").parts[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            roots = {name.partition(".")[0] for name in names}
            assert roots <= allowed | of_extras.get(room, set()), path


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


@pytest.mark.slow
def test_training_on_the_virtual_clock_needs_no_plotting_and_no_numba_for_dense_data() -> None:
    script = (
        "import numpy as np, erasurehead as eh\n"
        "eh.schemes.erasurehead(6, 2, 3); eh.engines.ProcessEngine; eh.delays.Exponential(mean=1.0)"
    )
    heavy = {"numba", "sklearn", "matplotlib", "pyarrow", "pydantic", "scipy.stats"}
    assert imported_by(script).isdisjoint(heavy)
