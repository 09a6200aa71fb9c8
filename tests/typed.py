"""Commands as a user types them, in the process of the tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from erasurehead.cli._app import build


class Finished:
    """What a command did.

    Attributes:
        code: exit code.
        out: stdout.
        err: stderr.
    """

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """Stdout as JSON."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    @property
    def sentence(self) -> str:
        """The last line of stderr."""
        return self.err.rstrip("\n").rpartition("\n")[2]


def other(words: Sequence[object], *options: object) -> tuple[object, ...]:
    """Return the words of a command with other values of some options, as each is given once."""
    left = list(words)
    for option in [word for word in options if word in left and str(word).startswith("--")]:
        place = left.index(option)
        del left[place : place + 2]
    return (*left, *options)


@cache
def command_line() -> Any:
    """Return the command line: it keeps nothing from one command to the next, and is built once for all tests."""
    return typer.main.get_command(build())


def typed(*words: object) -> Finished:
    """Run a command to its end; an error that it does not turn into a sentence is raised."""
    code: Any = 0
    with CliRunner().isolation() as (out, err, _):
        try:
            command_line().main([str(word) for word in words], prog_name="erasurehead")
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        return Finished(code, *(text.getvalue().decode().replace("\r\n", "\n") for text in (out, err)))
