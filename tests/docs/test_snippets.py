"""Every Python example of the README and the documentation runs, page by page, from top to bottom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .pages import blocks, name, pages

FOLLOWED = {"tutorials", "moving"}
"""Folders whose pages are followed from top to bottom, files, commands and all: `test_tutorials.py`."""

WITH_PYTHON = [page for page in pages() if blocks(page, "python") and page.parent.name not in FOLLOWED]


_CLUSTER = (pytest.mark.slow, pytest.mark.processes, pytest.mark.xdist_group("clusters"))


_NEEDS = {
    "README.md": ("torch",),
    "problems.md": ("jax", "torch"),
    "decompile.md": ("jax",),
    "late_ranks.md": ("torch",),
    "networks.md": ("torch",),
    "networks-jax.md": ("jax", "optax"),
}

_IMPORTED = (pytest.mark.xdist_group("networks"),)  # one after the other, as importing these takes as long as a page
_MARKS: dict[str, tuple[Any, ...]] = {"clusters-ray.md": _CLUSTER, **dict.fromkeys(_NEEDS, _IMPORTED)}

TORCHRUN = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
"""What `torchrun` tells the only rank of a job."""


def _marked(page: Path) -> Any:
    return pytest.param(page, id=name(page), marks=_MARKS.get(page.name, ()))


@pytest.mark.slow
@pytest.mark.parametrize("page", [_marked(page) for page in WITH_PYTHON])
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in _NEEDS.get(page.name, ()):
        pytest.importorskip(library, reason=f"the page needs {library}: pip install 'erasurehead[{library}]'")
    monkeypatch.chdir(tmp_path)
    for variable, value in TORCHRUN.items():
        monkeypatch.setenv(variable, value)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        padding = "\n" * (block.line - 1)  # so that tracebacks show the line of the page
        exec(compile(padding + block.text, str(page), "exec"), namespace)
    if "dist" in namespace and namespace["dist"].is_initialized():
        namespace["dist"].destroy_process_group()
