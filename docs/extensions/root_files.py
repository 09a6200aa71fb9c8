"""Links between the files at the root of the project, which pages include: they lead to these pages."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

PAGES = {
    "README.md": "index",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "SECURITY.md": "security",
}


def _lead_to_pages(app: Sphinx, document: nodes.document) -> None:
    for link in document.findall(pending_xref):
        if link["reftype"] == "myst" and link["reftarget"] in PAGES:
            link.attributes |= {"refdomain": "doc", "reftarget": PAGES[link["reftarget"]], "reftargetid": None}


def setup(app: Sphinx) -> dict[str, Any]:
    """Change links when a page has been read."""
    app.connect("doctree-read", _lead_to_pages)
    return {"parallel_read_safe": True}
