"""The gallery: scripts of `docs/gallery`, run when the site is built, and the `pictures` that they have drawn.

Commands draw without `pyplot`, so there is no open figure to be found. A script lists the PNG files that it shows, each
with its text for whoever cannot see it, under the name `pictures`.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

SETTINGS: dict[str, Any] = {
    "examples_dirs": "gallery",
    "gallery_dirs": "pictures",
    "filename_pattern": "/plot_",
    "image_scrapers": ("gallery.scraped",),
    "reset_modules": (),
    "abort_on_example_error": True,
    "within_subsection_order": "gallery.in_order",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "notebook_extensions": set(),
    "write_computation_times": False,  # a page that would fetch scripts from elsewhere
    "min_reported_time": 3600.0,  # the seconds are those of whoever has built the site
    "backreferences_dir": None,
}
ORDER = ("comparison", "figure", "paper", "codes", "delays", "plan", "drill", "peers", "dybw")


def in_order(name: str) -> tuple[int, str]:
    """Return where a script stands: by the word after `plot_`, and last if that is not in the order."""
    word = name.removeprefix("plot_").removesuffix(".py").split("_")[0]
    return ORDER.index(word) if word in ORDER else len(ORDER), name


def scraped(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Return the pictures that a block of a script lists, one below the other, each leading to its file."""
    lines: list[str] = []
    for picture, text in variables["example_globals"].pop("pictures", {}).items():
        shown = Path(next(variables["image_path_iterator"]))
        shutil.copyfile(picture, shown)
        place = shown.relative_to(settings["src_dir"]).as_posix()
        lines += [f".. image:: /{place}", f"   :alt: {text}", f"   :target: ../_images/{shown.name}", ""]
    return "\n".join(lines)


def _described(app: Sphinx, document: nodes.document) -> None:
    """Let pictures of notebooks, which come without a text, say which line has drawn them."""
    for picture in document.findall(nodes.image):
        cell = picture.parent
        while cell is not None and "cell" not in cell.get("classes", ()):
            cell = cell.parent
        code = next(cell.findall(nodes.literal_block), None) if cell is not None else None
        if code is not None and "alt" not in picture:
            picture["alt"] = f"Drawn by {code.astext().strip().splitlines()[-1]}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Let scripts find the command `erasurehead` where Sphinx is run by its path, and tell of no run that ends well."""
    logging.getLogger("erasurehead").setLevel(logging.WARNING)
    app.connect("doctree-read", _described)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"parallel_read_safe": True}
