"""Every Python example of the README and the documentation runs, page by page, from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import NEEDS, blocks, name, pages, run_examples

FOLLOWED = {"tutorials", "moving"}
"""Folders whose pages are followed from top to bottom, files, commands and all: `test_tutorials.py`."""

WITH_PYTHON = [
    page for page in pages() if blocks(page, "python") and page.parent.name not in FOLLOWED and name(page) not in NEEDS
]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(page)
