"""Every command line and every run file that the README and the documentation show is one that the program takes."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from erasurehead import delays
from erasurehead.schemes import parse_scheme

from ..typed import command_line
from .pages import ROOT, blocks, name, pages

SHELL = ("sh", "console", "bash", "shell", "")

_CALL = re.compile(r"(?:(?:\w+=\S+ )*(?:mpiexec|kubectl exec) .*? )?(?:\S+/)?(erasurehead (?!-).*)")


def calls(script: str) -> list[str]:
    """Return the calls of `erasurehead` in a script or a session, those that `mpiexec` or `kubectl` starts."""
    lines = (line.removeprefix("$ ").strip() for line in script.replace("\\\n", " ").splitlines())
    return [found[1] for line in lines if (found := _CALL.fullmatch(line.removeprefix("exec ")))]


def commands(page: Path) -> list[str]:
    """Return the calls of `erasurehead` in the shell examples of a page."""
    return [call for block in blocks(page, *SHELL) for call in calls(block.text)]


AFTER = {">", "<", "|", "&", "&&", "2>&1"}
"""What ends the words of a command."""


def targets(page: Path) -> list[str]:
    """Return what a page tells to make."""
    return [
        line.split()[1]
        for block in blocks(page, *SHELL)
        for line in block.text.splitlines()
        if line.startswith("make ")
    ]


COMMANDS = [(name(page), line) for page in pages() for line in commands(page)]
RUN_FILES = [(name(page), block.text) for page in pages() for block in blocks(page, "toml")]


def parse(line: str) -> dict[str, Any]:
    """Return the arguments of a command line as the program understands them, without running it."""
    words = list(takewhile(lambda word: word not in AFTER, shlex.split(line, comments=True)))[1:]
    group: Any = command_line()
    if (both := " ".join(words[:2])) in group.commands:
        words[:2] = [both]
    if words[0] not in group.commands:
        raise ValueError(f"No such command {words[0]!r}")
    with group.commands[words[0]].make_context(words[0], words[1:]) as context:
        return dict(context.params)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_commands_are_understood(page: str, line: str) -> None:
    said = parse(line)
    schemes = said.get("scheme") or ()
    for scheme in [schemes] if isinstance(schemes, str) else schemes:
        parse_scheme(scheme, said["workers"] or 30)  # as published; with data of one's own, as many as it needs
    for model in (said.get("delays"), said.get("what")):
        if model and "(" in model and not set("'\"") & set(model):  # those in quotes are files of the reader
            delays.parse(model)


def test_there_are_commands_and_run_files_to_test() -> None:
    assert len(COMMANDS) >= 8
    assert RUN_FILES


def test_an_option_that_is_not_there_is_found_out() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("erasurehead train --no-such-option 3")
    with pytest.raises(Exception, match="No such command"):
        parse("erasurehead fly")


def test_make_has_every_target_that_is_named() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in pages():
        for target in targets(page):
            assert f"\n{target}:" in makefile, f"{name(page)} says make {target}"
