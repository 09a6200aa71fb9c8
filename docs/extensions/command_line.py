"""The directive `command-line`: every command with its help and all of its options, made from the program itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from erasurehead.cli._app import build

_BOLD = re.compile(r"\[bold\](.*?)\[/bold\]", re.DOTALL)
_OTHER = re.compile(r"\[/?(?:bold|italic|dim)\]")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*[a-z])")
_MARKUP = re.compile(r"([\\*`|_<>])")


def commands(group: Any, words: tuple[str, ...] = ("erasurehead",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words and the object of each command, those that only hold others included."""
    for name, command in group.commands.items():
        yield (*words, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))


def written(words: tuple[str, ...], command: Any) -> list[str]:
    """Return what the help of a command says, as reStructuredText, with each option a target of its own."""
    given = [one for one in command.params if "--help" not in one.opts and "--help-all" not in one.opts]
    arguments = [one for one in given if one.param_type_name == "argument"]
    options = [one for one in given if one.param_type_name != "argument"]
    usage = [*words, *(["[OPTIONS]"] if options else []), *(_argument(one) for one in arguments)]
    if hasattr(command, "commands"):
        usage = [*words, "COMMAND ..."]
    lines = [*_said(command.help or ""), ".. code-block:: none", "", f"   {' '.join(usage)}", ""]
    for one in arguments:
        lines += [f"``{one.metavar or one.name.upper()}``", f"   {_plain(one.help or '')}", ""]
    lines += [f".. program:: {' '.join(words)}", ""]
    panels: dict[str, list[Any]] = {}
    for one in options:
        named = getattr(one, "rich_help_panel", None)
        panels.setdefault(named if isinstance(named, str) else "", []).append(one)
    for panel, several in panels.items():
        lines += [f".. rubric:: {panel}", ""] if panel else []
        for one in several:
            spelled = [*one.opts, *one.secondary_opts]
            value = f" {one.metavar}" if one.metavar else ""
            lines += [f".. option:: {', '.join(f'{name}{value}' for name in spelled)}", ""]
            lines += [f"   {_plain(one.help or '')}{_default(one)}", ""]
    return lines


def _argument(one: Any) -> str:
    name = one.metavar or one.name.upper()
    return f"{name}..." if one.nargs == -1 and not name.endswith("...") else name


def _default(one: Any) -> str:
    if not getattr(one, "show_default", False) or one.default in (None, False, ()):
        return ""
    return f" Default: ``{one.default}``."


def _plain(text: str) -> str:
    """Return a text without markup; options in it are code."""
    parts = _OPTION.split(_OTHER.sub("", " ".join(text.split())))
    parts[::2] = [_MARKUP.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"\\ ``{part}``\\ " for part in parts[1::2]]
    return "".join(parts)


def _said(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text, with commands as code."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        rest = paragraph
        if found := _BOLD.match(paragraph.strip()):
            code, rest = found[1], paragraph.strip()[found.end() :]
            yield from (".. code-block:: sh", "", *(f"   {line}" for line in code.splitlines()), "")
        yield from (_plain(rest), "")


class CommandLine(SphinxDirective):
    """`.. command-line::`: a section for each command, and within it one for each of its own commands."""

    def run(self) -> list[nodes.Node]:
        found: list[nodes.section] = []
        for words, command in commands(typer.main.get_command(build())):
            named = " ".join(words[1:])
            section = nodes.section(ids=[named.replace(" ", "-")], names=[named])
            section += nodes.title("", "", nodes.literal("", named))
            lines = StringList(written(words, command), source="the command line")
            self.state.nested_parse(lines, self.content_offset, section)
            if " " in named:
                found[-1] += section
            else:
                found.append(section)
        return list(found)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
