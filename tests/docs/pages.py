"""What tests read off the pages of the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

NEEDS: dict[str, tuple[str, ...]] = {
    "README.md": ("torch",),
    "docs/clusters-ray.md": ("ray",),
    "docs/decompile.md": ("jax",),
    "docs/late_ranks.md": ("torch",),
    "docs/launchers.md": ("torch",),
    "docs/networks.md": ("torch",),
    "docs/networks-jax.md": ("jax", "optax"),
    "docs/problems.md": ("jax", "torch"),
}
"""Pages whose Python starts PyTorch, JAX or Ray, and what each needs."""

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


def run_examples(page: Path) -> dict[str, Any]:
    """Run the Python of a page from top to bottom, and return the names that it leaves."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        padding = "\n" * (block.line - 1)  # so that tracebacks show the line of the page
        exec(compile(padding + block.text, str(page), "exec"), namespace)
    return namespace


def name(page: Path) -> str:
    """Return a page's path from the root of the project, for people."""
    return page.relative_to(ROOT).as_posix()
