"""What tests read off the pages of the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^( *)(`{3,})(\S*)[^\n]*\n(.*?)^\1\2$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Arguments:
        language: as the fence says it.
        text: between the fences.
        line: of the page, counted from 1, where the text begins.
    """

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """Return all pages, the README first."""
    return [ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)]


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the fenced blocks of a page in the given languages."""
    text = page.read_text(encoding="utf-8")
    found = (Block(match[3], match[4], text.count("\n", 0, match.start(4)) + 1) for match in _FENCE.finditer(text))
    return [block for block in found if block.language in languages]


def name(page: Path) -> str:
    """Return a page's path from the root of the project, for people."""
    return page.relative_to(ROOT).as_posix()
