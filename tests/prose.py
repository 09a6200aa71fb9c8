"""The links and the spelling of what people read: pages, README, changelog and docstrings; for `make check`.

Links within the project must lead to a file, and to a heading of it; addresses elsewhere must be well formed (`make
links` asks them). Spelling is British, but for words that are names in the code, such as `optimizer`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
WORDS = Path(__file__).with_name("american.txt")
"""American spellings with the British ones, for codespell."""

NAMES = "coo,pre-empted,worstcase"
"""What codespell takes for mistakes, and is none."""

_FENCE = re.compile(r" *(`{3,}|~{3,}|:{3,})(.*)")
_READ = re.compile(r"\{(glossary|note|tip|warning)\}")
"""Directives whose content is text."""

_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
_TARGET = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)
_ADDRESS = re.compile(r"\bhttps?:[^\s<>\"'`]*")
_HOST = re.compile(r"(localhost|127\.0\.0\.1|[a-z0-9-]+(\.[a-z0-9-]+)+)(:\d+)?", re.IGNORECASE)


def pages() -> list[Path]:
    """Return the Markdown files of the project."""
    made = ("_build", "pictures")
    return sorted(
        [*ROOT.glob("*.md"), *(path for path in (ROOT / "docs").rglob("*.md") if not set(path.parts) & set(made))]
    )


def blanked(text: str, *patterns: re.Pattern[str]) -> str:
    """Return a text with what the patterns match as blanks, on the same lines."""
    for pattern in patterns:
        text = pattern.sub(lambda found: re.sub(r"\S", " ", found[0]), text)
    return text


def without_fences(text: str) -> str:
    """Return a page without blocks of code, with an empty line for each of theirs."""
    lines: list[str] = []
    open_fence, shown = "", False
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if found and not open_fence:
            open_fence, shown = found[1], bool(_READ.match(found[2]))
        elif open_fence and line.strip() == open_fence:
            open_fence = ""
        elif not open_fence or shown:
            lines.append(line)
            continue
        lines.append("")
    return "\n".join(lines)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return what the headings of a page are called in addresses, and its own targets."""
    text = without_fences(path.read_text(encoding="utf-8"))
    slugs: dict[str, int] = {}
    found: set[str] = set(_TARGET.findall(text))
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(f"{slug}-{slugs[slug]}" if slug in slugs else slug)
        slugs[slug] = slugs.get(slug, 0) + 1
    return frozenset(found)


def malformed(address: str) -> bool:
    """Return whether an address of the web is none."""
    try:
        parts = urlsplit(address)
        return parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.netloc) or parts.port == 0
    except ValueError:
        return True


def broken(path: Path) -> Iterator[str]:
    """Yield what is wrong with the links of a page, with its line."""
    text = blanked(without_fences(path.read_text(encoding="utf-8")), _CODE)
    for found in _LINK.finditer(text):
        target, place = found[1], f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}"
        if re.match(r"https?:", target):
            if malformed(target):
                yield f"{place}: {target} is no address"
        elif re.match(r"\w+:", target):
            yield f"{place}: {target} has a scheme that no page needs"
        else:
            name, _, anchor = target.partition("#")
            leads_to = (path.parent / name).resolve() if name else path
            if not target or not leads_to.exists():
                yield f"{place}: there is no {target or 'target'}"
            elif not leads_to.is_relative_to(ROOT):
                yield f"{place}: {target} is outside of the project"
            elif anchor and leads_to.suffix == ".md" and anchor not in anchors(leads_to):
                yield f"{place}: {leads_to.relative_to(ROOT)} has no heading #{anchor}"


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts for people in a file of code, with their first lines: docstrings, and those of attributes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def sources() -> list[Path]:
    """Return the files of code that have docstrings for users."""
    return sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "docs" / "gallery").glob("*.py")])


def misspelled(texts: dict[str, str]) -> list[str]:
    """Return the misspelled words in some texts, each with the name of its text and the line."""
    with tempfile.TemporaryDirectory() as place:
        for name, text in texts.items():
            file = Path(place) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        options = ["--dictionary", "-", "--dictionary", str(WORDS), "--ignore-words-list", NAMES, "."]
        command = [sys.executable, "-m", "codespell_lib", *options]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 65) or done.stderr:
        raise RuntimeError(f"codespell failed: {done.stderr}")
    return [line.removeprefix("./") for line in done.stdout.splitlines()]


def read() -> dict[str, str]:
    """Return what people read, without code, on the lines where it stands."""
    texts = {
        path.relative_to(ROOT).as_posix(): blanked(without_fences(path.read_text(encoding="utf-8")), _CODE, _ADDRESS)
        for path in pages()
    }
    for path in sources():
        lines: dict[int, str] = {}
        for first, text in docstrings(path):
            lines |= dict(enumerate(blanked(text, _CODE, _ADDRESS).splitlines(), first))
        kept = [lines.get(line, "") for line in range(1, max(lines, default=0) + 1)]
        texts[path.relative_to(ROOT).as_posix()] = "\n".join(re.sub(r"^ *(>>>|\.\.\.) .*", "", line) for line in kept)
    return texts


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    wrong = [fault for page in pages() for fault in broken(page)]
    for path in sources():
        for _, text in docstrings(path):
            found = (address.rstrip(".,;:)") for address in _ADDRESS.findall(text))
            wrong += [f"{path.relative_to(ROOT)}: {one} is no address" for one in found if malformed(one)]
    wrong += misspelled(read())
    print("\n".join(wrong) or f"{len(pages())} pages and {len(sources())} files of code: links and spelling are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
