"""Packages that load their names when they are used give the names that they promise, whatever was imported before."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import erasurehead

ROOT = Path(erasurehead.__file__).parent


def _package(init: Path) -> str:
    return ".".join(("erasurehead", *init.parent.relative_to(ROOT).parts))


def _promised(init: Path) -> list[tuple[str, str, str]]:
    """Return module, its name, and the package's name, of all that the package tells type checkers that it offers."""
    found: list[tuple[str, str, str]] = []
    for node in ast.walk(ast.parse(init.read_text())):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom) and statement.module:
                    found += [(statement.module, alias.name, alias.asname or alias.name) for alias in statement.names]
    return found


LAZY = [init for init in sorted(ROOT.rglob("__init__.py")) if "= lazy_names(" in init.read_text()]


@pytest.mark.parametrize("init", LAZY, ids=_package)
def test_no_module_takes_the_place_of_a_name_that_its_package_offers(init: Path) -> None:
    # Python sets a module as an attribute of its package when it is imported, by whomever.
    promised = _promised(init)
    assert promised
    modules = {module.name for module in pkgutil.iter_modules([str(init.parent)])}
    taken = [offered for home, _, offered in promised if offered in modules and home != _package(init)]
    assert not taken


def test_a_name_whose_package_is_not_installed_says_which_extra_brings_it() -> None:
    # In a process of its own, where nothing has imported PyTorch.
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import erasurehead.torch as eht\n"
        "from erasurehead.errors import MissingExtra\n"
        "try: eht.join\n"
        "except MissingExtra as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "erasurehead.torch.join needs torch: pip install 'erasurehead[torch]'.\n", done.stderr
