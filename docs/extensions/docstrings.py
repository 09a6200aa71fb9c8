"""Docstrings as reStructuredText: what they say in plain text that would otherwise be taken for markup.

Docstrings are written for `help()`: with asterisks and bars as in mathematics, sections on one line
(`Guarantees: exact if ...`), and outlines by indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_CODE = re.compile(r"(``.+?``|`[^`]+`|(?<!\S)\*[A-Za-z][\w -]+\*(?![\w*]))")  # and *emphasis*, which is meant
_SECTION = re.compile(r"[A-Z]\w+( \w+)?:$")
_INLINE_SECTION = re.compile(r"([A-Z]\w+( \w+)?): (?=\S)")
_ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
_FITTED = re.compile(r"^(:(?:ivar|vartype) \w*)_:")  # as coef_
_MARKUP = re.compile(r"\s*(>>>|\.\.\. |- |\d+\. |==|\|)")


def readable(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText that napoleon understands."""
    made: list[str] = []
    literal = False
    for block in _blocks(lines):
        indented = block[0].startswith(" ")
        literal = literal and indented
        if literal or _MARKUP.match(block[0]):
            made += [*block, ""]
        else:
            made += [*(_escaped(line) for line in _tidied(block)), ""]
        literal = literal or block[-1].endswith("::")
    return made


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield runs of lines without an empty one, cut before each section."""
    for filled, run in groupby(lines, key=lambda line: bool(line.strip())):
        block: list[str] = []
        for line in run if filled else ():
            if block and (_SECTION.match(line) or _INLINE_SECTION.match(line)):
                yield block
                block = []
            block.append(line)
        if block:
            yield block


def _tidied(block: list[str]) -> list[str]:
    if block[0] == "Returns:" and len(block) > 1:  # napoleon takes what stands before a colon for the type
        return [f":returns: {block[1].strip()}", *block[2:]]
    if _SECTION.match(block[0]):
        return block
    first = _INLINE_SECTION.match(block[0])
    if first:
        rest = " ".join(line.strip() for line in block)[first.end() :]
        return [f"**{first[1]}:** {rest}"]
    depths = [len(line) - len(line.lstrip()) for line in block]
    if len(set(depths)) == 1:
        return block
    # An outline: entries begin at the left, or with code; other indented lines continue the entry above them.
    entries: list[str] = []
    for line, depth in zip(block, depths, strict=True):
        if not entries or depth == min(depths) or line.lstrip().startswith("`"):
            entries.append(" " * min(depths) + "| " + " " * (depth - min(depths)) + line.strip())
        else:
            entries[-1] += " " + line.strip()
    return entries


def _escaped(line: str) -> str:
    """Escape asterisks and bars outside of code, but for the marks made above."""
    mark = re.match(r"\s*\| +|\*\*[\w ]+:\*\* ", line)
    start = mark.end() if mark else 0
    parts = _CODE.split(line[start:])
    parts[::2] = [re.sub(r"(?<!\\)([*|])", r"\\\1", part) for part in parts[::2]]
    return line[:start] + "".join(parts)


def _plain_aliases(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Write type aliases by their names, also within other types, and what is no Python, `<factory>`, as three dots."""
    plain = (text and _ALIAS.sub(r"\1", text).replace("<factory>", "...") for text in (signature, returned))
    return next(plain), next(plain)


_KEPT: dict[str, list[str]] = {}


def _before_napoleon(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = readable(lines)
    _KEPT[name] = list(lines)


def _after_napoleon(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what in ("attribute", "data", "property"):  # napoleon takes what stands before a colon for the type
        lines[:] = _KEPT[name]
    lines[:] = [_FITTED.sub(r"\1\_:", line) for line in lines]  # a link elsewhere


def _dashes(app: Sphinx, document: nodes.document) -> None:
    """Write the dashes between arguments and what they are, which are left to smart quotes otherwise."""
    for text in list(document.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to autodoc, before and after napoleon does."""
    app.connect("doctree-read", _dashes)
    app.connect("autodoc-process-signature", _plain_aliases)
    app.connect("autodoc-process-docstring", _before_napoleon, priority=100)
    app.connect("autodoc-process-docstring", _after_napoleon, priority=900)
    return {"parallel_read_safe": True}
