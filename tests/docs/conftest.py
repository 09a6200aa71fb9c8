"""The site, built once for all tests that look at it."""

from __future__ import annotations

import importlib
import pickle
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .pages import ROOT

SPHINX = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
"""Sphinx without a look for garbage, which takes a sixth of its time: there is none worth it in so short a life."""


@dataclass(frozen=True)
class Site:
    """The documentation as it is read.

    Arguments:
        folder: with its pages.
        complaints: what Sphinx had to say; nothing if all is well.
        environment: what Sphinx knows of the pages.
    """

    folder: Path
    complaints: str
    environment: Any

    @property
    def pages(self) -> list[str]:
        """The addresses of all pages within the site."""
        found = sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.html"))
        return [page for page in found if not page.startswith("_")]

    def notebook(self, name: str) -> Any:
        """Return a notebook with what its cells have shown when the site was built."""
        assert self.complaints == ""
        path = self.folder.parent / "jupyter_execute" / f"{name}.ipynb"
        return importlib.import_module("nbformat").reads(path.read_text(encoding="utf-8"), as_version=4)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Build the site from a copy, as the gallery writes what it has drawn beside the pages."""
    for needed in ("sphinx", "furo", "myst_nb", "sphinx_gallery", "latex2mathml", "matplotlib"):
        pytest.importorskip(needed, reason=f"the site needs {needed}: pip install --group docs '.[report]'")
    place = tmp_path_factory.mktemp("site")
    for path in ROOT.iterdir():
        if path.name == "docs":
            shutil.copytree(path, place / "docs", ignore=shutil.ignore_patterns("_build", "pictures", "__pycache__"))
        elif path.suffix == ".md":  # which pages include, from where they seem to be
            shutil.copyfile(path, place / path.name)
        elif not path.name.startswith("."):
            (place / path.name).symlink_to(path)
    to, trees = place / "html", place / "trees"
    options = ["-W", "--keep-going", "-q", "-t", "without_source", "-b", "html", "-d", str(trees)]
    done = subprocess.run(
        [sys.executable, "-c", SPHINX, *options, str(place / "docs"), str(to)],
        capture_output=True,
        text=True,
        check=False,
    )
    environment = pickle.loads((trees / "environment.pickle").read_bytes()) if done.returncode == 0 else None
    return Site(to, done.stderr if done.returncode else "", environment)
