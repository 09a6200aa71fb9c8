"""The Python examples of pages that start PyTorch, JAX or Ray run, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .pages import NEEDS, ROOT, run_examples

TORCHRUN = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
"""What `torchrun` tells the only rank of a job."""


def _marked(page: str) -> Any:
    """One after the other, as importing the libraries takes as long as a page."""
    real = [pytest.mark.processes] if "ray" in NEEDS[page] else []
    return pytest.param(page, marks=[pytest.mark.xdist_group("clusters" if real else "networks"), *real])


@pytest.mark.slow
@pytest.mark.parametrize("page", [_marked(page) for page in NEEDS])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in NEEDS[page]:
        pytest.importorskip(library, reason=f"the page needs {library}: pip install 'erasurehead[{library}]'")
    monkeypatch.chdir(tmp_path)
    for variable, value in TORCHRUN.items():
        monkeypatch.setenv(variable, value)
    namespace = run_examples(ROOT / page)
    if "dist" in namespace and namespace["dist"].is_initialized():
        namespace["dist"].destroy_process_group()
