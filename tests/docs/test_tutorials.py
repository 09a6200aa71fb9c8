"""Each tutorial, and each page for those who come from elsewhere, prints what it shows: a reader can follow it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .followed import agrees, follow, named, steps
from .pages import DOCS, blocks, name

STACKS = {"containers", "mpi", "slurm", "ray", "pytorch", "ddp", "ray-train", "horovod"}
"""Pages that start MPI, Ray or PyTorch: `test_stack_tutorials.py` has them."""

ALL = [page for folder in ("tutorials", "moving") for page in sorted((DOCS / folder).glob("*.md"))]
TUTORIALS = [page for page in ALL if page.parent.name == "tutorials" and page.stem != "index"]
FOLLOWED = [page for page in ALL if blocks(page, "python", "console") and page.stem not in STACKS]


def _pages(chosen: list[Path]) -> list[object]:
    return [pytest.param(page, id=name(page)) for page in chosen]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("page", _pages(FOLLOWED))
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow(page, tmp_path) >= 2


@pytest.mark.parametrize("page", _pages(TUTORIALS))
def test_a_tutorial_begins_with_its_time_and_its_goal_and_ends_with_where_to_go(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.split("\n\n")[1].startswith(("In ten minutes you ", "In fifteen minutes you "))
    assert "\n## Where to go\n\n- " in text
    assert page.stem in (page.parent / "index.md").read_text(encoding="utf-8").split()


@pytest.mark.parametrize("page", _pages(ALL))
def test_every_block_of_a_page_is_saved_run_or_compared(page: Path) -> None:
    """Blocks `sh` alone are for other machines; that their commands exist, `test_commands.py` holds."""
    assert all(named(block) for block in blocks(page, "bash", "toml"))
    assert all(block.text.startswith("$ ") for block in blocks(page, "console"))


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a 3", "a 3", True),
        ("a 3", "a 4", False),
        ("took 500 ms: reading 1.2 s", "took 2 s: reading 40 ms", True),
        ("rmse 4.22e+04", "rmse 4.23e+04", True),
        ("rmse 4.22e+04", "rmse 5.22e+04", False),
        ("4,000 rows", "4,001 rows", False),
        ("loss 0.086", "loss 0.087", True),
        ("loss 0.086", "loss 0.186", False),
        ("about 94% right", "about 97% right", True),
        ("about 94% right", "about 50% right", False),
        ("first\n...\nlast", "first\nand\nmore\nlast", True),
        ("first\nlast", "first\nand\nlast", False),
        ("on ... is gone", "on a host is gone", True),
        ("column      a", "column   a", True),
        ("one line", "", False),
        pytest.param("1.5 ... " * 20 + "end", "1.5 x " * 200, False, id="more ways than can be tried"),
    ],
)
def test_what_agrees_with_a_page(shown: str, printed: str, same: bool) -> None:
    assert agrees(f"{shown}\n", f"{printed}\n") == same


def test_a_session_is_taken_apart() -> None:
    session = "$ one \\\n    more\nsaid\n$ cat > a << END\nx\nEND\n$ last\n"
    assert list(steps(session)) == [("one \\\n    more", "said\n"), ("cat > a << END\nx\nEND", ""), ("last", "")]
