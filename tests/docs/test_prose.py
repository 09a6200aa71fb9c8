"""What `make check` finds in pages and docstrings: links that lead nowhere, and words that are spelled otherwise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from .. import prose


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("[a](docs/words.md)", ""),
        ("[a](docs/words.md#training)", ""),
        ("[](#here)", ""),
        ("[a](https://example.org/a_(b)?c=d)", ""),
        ("[a](https://127.0.0.1:8000/)", ""),
        ("`[a](none.md)`", ""),
        ("```sh\n[a](none.md)\n```", ""),
        ("[a](none.md)", "README.md:3: there is no none.md"),
        ("![a](docs/images/none.png)", "README.md:3: there is no docs/images/none.png"),
        ("[a](docs/words.md#none)", "README.md:3: docs/words.md has no heading #none"),
        ("[a](#none)", "README.md:3: README.md has no heading #none"),
        ("[a]()", "README.md:3: there is no target"),
        ("[a](../../etc/passwd)", "README.md:3: there is no ../../etc/passwd"),
        ("[a](https://example)", "README.md:3: https://example is no address"),
        ("[a](http:/example.org)", "README.md:3: http:/example.org is no address"),
        ("[a](javascript:alert)", "README.md:3: javascript:alert has a scheme that no page needs"),
        ("```{note}\n[a](none.md)\n```\n```sh\n[b](none.md)\n```", "README.md:4: there is no none.md"),
    ],
)
def test_links(link: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "words.md").write_text("# Words\n\n## Training\n")
    page = tmp_path / "README.md"
    page.write_text(f"# Here\n\n{link}\n")
    assert list(prose.broken(page)) == ([fault] if fault else [])


def test_headings_are_called_as_on_the_web(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# `train`, and *more*\n\n## [Of](a.md) it\n\n## Twice\n\n## Twice\n\n```sh\n# none\n```\n\n(mark)=\n"
    )
    assert prose.anchors(page) == {"train-and-more", "of-it", "twice", "twice-1", "mark"}


def test_spelling() -> None:
    if importlib.util.find_spec("codespell_lib") is None:
        pytest.skip("codespell is not installed: pip install --group docs")
    texts = {"docs/a.md": "All is well.\n\nTeh colour of\na neighbor.", "b.py": "An optimizer."}
    assert prose.misspelled(texts) == ["docs/a.md:3: Teh ==> The", "docs/a.md:4: neighbor ==> neighbour"]


def test_code_is_not_read() -> None:
    text = "A `neighbor` in\n\n```python\ncolor = 1\n```\n\n```{glossary}\nword\n  Its color.\n```\n"
    lines = prose.blanked(prose.without_fences(text), prose._CODE).splitlines()
    assert [line.strip() for line in lines if line.strip()] == ["A            in", "word", "Its color."]


def test_all_pages_and_all_rooms_are_read() -> None:
    names = {path.relative_to(prose.ROOT).as_posix() for path in (*prose.pages(), *prose.sources())}
    assert {"README.md", "CHANGELOG.md", "docs/words.md", "docs/api/index.md", "docs/notes/schemes.md"} <= names
    assert {"src/erasurehead/training/_loop.py", "docs/gallery/plot_codes.py"} <= names
