"""The documentation builds without a warning, and the API reference has every public name."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import DOCS, blocks

pytest.importorskip("sphinx")
pytest.importorskip("furo")
pytest.importorskip("myst_parser")


pytestmark = pytest.mark.xdist_group("documentation")  # built once

PACKAGES = sorted(
    match
    for page in (DOCS / "api").glob("*.md")
    for block in blocks(page, "{eval-rst}")
    for match in re.findall(r"public-names:: (\S+)", block.text)
)


SPHINX = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
"""Sphinx without a look for garbage, which takes a sixth of its time: there is none worth it in so short a life."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            SPHINX,
            "-W",
            "--keep-going",
            "-q",
            "-t",
            "without_source",
            "-D",
            "toc_object_entries=0",
            "-D",
            "smartquotes=0",
            "-b",
            "html",
            "-d",
            str(out / "trees"),
            str(DOCS),
            str(out / "html"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(built: Path) -> None:
    assert (built / "index.html").is_file()
    assert (built / "architecture.html").is_file()


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    exported = importlib.import_module("public_names").public_names
    for module in PACKAGES:
        value = importlib.import_module(module)
        names = exported(value)
        assert names, module
        pages = "".join(page.read_text() for page in (built / "api").glob("*.html"))
        for name in names:
            home = getattr(getattr(value, name), "__name__", name)  # `first` is documented as the class `First`
            assert f'<span class="pre">{name}</span>' in pages or f'<span class="pre">{home}</span>' in pages, name


def test_every_package_has_a_page() -> None:
    import erasurehead

    packages = {f"erasurehead.{name}" for name in erasurehead.__all__ if inspect.ismodule(getattr(erasurehead, name))}
    assert packages <= set(PACKAGES)
