"""The command line as a whole: help that is quick and teaches, version, exit codes."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from .shop import Typed

HEAVY = ("numba", "sklearn", "scipy", "numpy", "matplotlib", "pyarrow")


def test_the_version(typed: Typed) -> None:
    done = typed("--version")
    assert (done.code, done.out.strip()) == (0, version("erasurehead"))


@pytest.mark.parametrize("command", [(), ("train",), ("compare",), ("data",), ("predict",), ("evaluate",)])
def test_every_help_has_an_example_that_can_be_typed(typed: Typed, command: tuple[str, ...]) -> None:
    done = typed(*command, "--help")
    assert done.code == 0
    name = command[0] if command else "compare"
    assert f"erasurehead {name}" in done.out


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from erasurehead.cli.app import build\n"
        "try: build()(['train', '--help'])\n"
        f"except SystemExit: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert done.stderr.strip() == "[]"


def test_no_command_shows_the_help(typed: Typed) -> None:
    done = typed()
    assert "Usage: erasurehead" in done.out + done.err
