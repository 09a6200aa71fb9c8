"""The directives `code-catalogue` and `decoder-catalogue`: tables of codes and decoders, made from the code itself."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Sequence
from pkgutil import iter_modules
from typing import Any

from docstrings import readable
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from erasurehead import codes, decoding
from erasurehead.codes import _registry


def code_rows(names: Sequence[str]) -> list[list[str]]:
    """Return what the catalogue says of some families: name and kind, guarantee, when to choose it, source."""
    return [
        [
            f":py:func:`~erasurehead.codes.{family.name}` ({family.status}). {_line(family.summary)}",
            *map(_line, (family.guarantee, family.choose, family.source)),
        ]
        for family in map(_registry.family, names)
    ]


def decoder_rows() -> list[list[str]]:
    """Return each decoder with its summary and the families whose examples it is chosen for."""
    chosen: dict[str, list[str]] = {}
    for family in codes.catalogue():
        chosen.setdefault(type(decoding.make_decoder(family.example_code)).__name__, []).append(f"`{family.name}`")
    return [
        [
            f"``{decoder.__name__}``",
            _line(_summary(decoder)),
            ", ".join(chosen.get(decoder.__name__, [])) or "–",
        ]
        for decoder in decoders()
    ]


def decoders() -> list[type[decoding.Decoder]]:
    """Return all decoders in the order of their names: each file of the room is loaded for that."""
    modules = [importlib.import_module(f"{decoding.__name__}.{file.name}") for file in iter_modules(decoding.__path__)]
    found = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    concrete = [value for value in found if issubclass(value, decoding.Decoder) and not inspect.isabstract(value)]
    return sorted((value for value in concrete if not value.__name__.startswith("_")), key=lambda value: value.__name__)


def _summary(decoder: type) -> str:
    return (inspect.getdoc(decoder) or "").split("\n\n")[0].replace("\n", " ")


def _line(text: str) -> str:
    """Return a sentence as reStructuredText, beginning with a capital letter."""
    return " ".join(line.strip() for line in readable([text[0].upper() + text[1:]])).strip()


def table(headers: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in (headers, *rows):
        lines += [f"   {'* -' if not place else '  -'} {cell}" for place, cell in enumerate(row)]
    return [*lines, ""]


class _Table(SphinxDirective):
    """Puts lines of reStructuredText into a page."""

    def written(self, lines: list[str]) -> list[nodes.Node]:
        node = nodes.section(document=self.state.document)
        self.state.nested_parse(StringList(lines, source="catalogue"), self.content_offset, node)
        return node.children


class CodeCatalogue(_Table):
    """`.. code-catalogue:: uncoded fractional_repetition`: a row for each of these families."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        headers = "Code", "What it guarantees", "When to choose it", "Source"
        return self.written(table(headers, (30, 30, 25, 15), code_rows(self.arguments[0].split())))


class CodePages(_Table):
    """`.. code-pages::`: what `erasurehead codes show` says of each family, one below the other."""

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for family in codes.catalogue():
            page = _registry.describe(family.name, width=88).strip().splitlines()
            lines += [
                f".. py:function:: {page[0].partition('  [')[0]}",
                "   :module: erasurehead.codes",
                *(["   :no-index:"] if family.name in dir(codes) else []),  # which the names above have
                "",
                "   ::",
                "",
            ]
            lines += [f"      {line}".rstrip() for line in page[1:]]
            lines.append("")
        return self.written(lines)


class DecoderCatalogue(_Table):
    """`.. decoder-catalogue::`: a row for each decoder."""

    def run(self) -> list[nodes.Node]:
        return self.written(table(("Decoder", "What it does", "Chosen for"), (25, 45, 30), decoder_rows()))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("code-catalogue", CodeCatalogue)
    app.add_directive("code-pages", CodePages)
    app.add_directive("decoder-catalogue", DecoderCatalogue)
    return {"parallel_read_safe": True}
