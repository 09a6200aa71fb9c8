"""The first mention of a word of the glossary on a page leads to its entry, and full names in code to the reference.

Pages stay free of markup for that. Words that often have their everyday meaning are left alone; a page leads to their
entries where it says so, as by `` {term}`order` ``.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

EVERYDAY = {
    *("age", "alpha", "assignment", "by task", "carry", "code", "converged", "crash", "curvature", "draw", "driver"),
    *("drop", "gap", "generation", "load", "message", "mixing", "neighbour", "notice", "order", "part", "peer message"),
    *("position", "preempt", "preset", "rejoin", "resized", "round", "share", "shortened", "step", "task", "view"),
    *("wire", "worker"),
}
ELSEWHERE = ("api/", "changelog", "command-line", "guide-", "index", "pictures/", "results.", "words")
"""Pages, by the beginning of their names, where mentions lead nowhere: lists, and what is read elsewhere, too."""

_SETTLED = (
    nodes.title,
    nodes.reference,
    nodes.literal,
    nodes.literal_block,
    nodes.term,
    nodes.thead,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.rubric,
)


def _mark(app: Sphinx, document: nodes.document, page: str) -> None:
    if app.builder.format == "html":
        _names(app, document, page)
    if f"{page}.".startswith(ELSEWHERE) or app.builder.format != "html":
        return
    known: dict[str, tuple[str, str]] = app.env.domaindata["std"]["terms"]
    left = {word: place for word, place in known.items() if word not in EVERYDAY}
    if not left:
        return
    either = "|".join(sorted(map(re.escape, left), key=len, reverse=True))
    mention = re.compile(rf"\b({either})s?\b", re.IGNORECASE)
    for text in list(document.findall(nodes.Text)):
        if _settled(text):
            continue
        made: list[nodes.Node] = []
        rest = text.astext()
        begin = 0
        for found in mention.finditer(rest):
            place = left.pop(found[1].lower(), None)
            if place is not None:
                inner = nodes.inline("", found[0], classes=["mention"])
                made += [nodes.Text(rest[begin : found.start()])]
                made += [make_refnode(app.builder, page, *place, inner)]
                begin = found.end()
        if made:
            text.parent.replace(text, [*made, nodes.Text(rest[begin:])])


def _names(app: Sphinx, document: nodes.document, page: str) -> None:
    """Let code that is the full name of something public lead to it."""
    known = app.env.get_domain("py").objects  # type: ignore[attr-defined]
    for code in list(document.findall(nodes.literal)):
        name = code.astext()
        if name.startswith("erasurehead.") and name in known and not isinstance(code.parent, nodes.reference):
            place = known[name]
            code.parent.replace(code, make_refnode(app.builder, page, place.docname, place.node_id, code.deepcopy()))


def _settled(text: nodes.Node) -> bool:
    above = text.parent
    while above is not None:
        if isinstance(above, _SETTLED):
            return True
        above = above.parent
    return False


def setup(app: Sphinx) -> dict[str, Any]:
    """Change pages before they are written."""
    app.connect("doctree-resolved", _mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
