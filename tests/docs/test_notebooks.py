"""The notebooks show what they promise, and say nothing on stderr: as the site has run them, from top to bottom."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Site
from .pages import DOCS

FOLDER = DOCS / "notebooks"
NAMES = ["own-data", "a-code", "plan-from-a-trace"]


def shown(cell: Any, kind: str) -> list[str]:
    """Return what a cell shows of a kind, such as `text/html`."""
    return [output["data"][kind] for output in cell.outputs if kind in output.get("data", {})]


def test_every_notebook_is_in_the_table_of_contents() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert index.split("```{toctree}")[1].split("```")[0].split()[2:] == NAMES
    assert {path.stem for path in FOLDER.glob("*.md")} == {*NAMES, "index"}


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.xdist_group("documentation")  # which runs them
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_shows_what_it_promises(name: str, site: Site) -> None:
    notebook = site.notebook(f"notebooks/{name}")
    assert "widgets" not in notebook.metadata
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) >= 6
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.get("name") != "stderr", output["text"]
            assert "widget" not in str(output.get("data", {}).keys())
        if cell.source.rstrip().endswith(");") and ".plot(" in cell.source:
            (picture,) = shown(cell, "image/png")
            assert len(picture) > 5_000
        bars = [text for text in shown(cell, "text/html") if "<progress" in text]
        assert bars == []  # the last line of each run has replaced it
        runs = cell.source.count("    train(eh.schemes.")
        lines = [text for text in shown(cell, "text/plain") if "steps: loss" in text]
        assert len(lines) == runs
    tables = [text for cell in cells for text in shown(cell, "text/html") if text.startswith("<div><table>")]
    assert tables
    assert all(len(text.encode()) < 50_000 for text in tables)
