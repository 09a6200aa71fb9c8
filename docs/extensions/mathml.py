"""Mathematics as MathML, which browsers draw by themselves: no script, and nothing is fetched when a page is opened."""

from __future__ import annotations

import html
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(f'<span class="math">{_drawn(node, "inline")}</span>')
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{_drawn(node, "block")}</div>')
    raise nodes.SkipNode


def _drawn(node: nodes.Element, display: str) -> str:
    """Return a formula as MathML that says its TeX to whoever asks, such as a screen reader without mathematics."""
    text = node.astext()
    return convert(text, display=display).replace("<math ", f'<math alttext="{html.escape(text)}" ', 1)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True}
