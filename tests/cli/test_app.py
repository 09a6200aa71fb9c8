"""The command line as a whole: help that is quick and teaches, version, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
import typer

from erasurehead.cli._app import build

from ..typed import command_line
from .shop import Typed

COMMANDS = (
    "train",
    "resize",
    "compare",
    "data",
    "shard",
    "predict",
    "evaluate",
    "coefficients",
    "plan",
    "drill",
    "reproduce",
)
HEAVY = ("numba", "sklearn", "scipy", "numpy", "matplotlib", "pyarrow", "mpi4py", "ray")


def test_the_version(typed: Typed) -> None:
    done = typed("--version")
    assert (done.code, done.out.strip()) == (0, version("erasurehead"))


def test_every_help_has_an_example_that_can_be_typed(typed: Typed) -> None:
    whole = typed("--help")
    assert whole.code == 0
    for name in COMMANDS:
        assert name in whole.out
        done = typed(name, "--help")
        assert done.code == 0
        assert f"erasurehead {name}" in done.out
        assert "--json" in done.out


def test_no_option_is_cut_off_on_80_columns(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in (*COMMANDS, "consensus", "decompile", "codes show", "delays fit"):
        for which in ("--help", "--help-all")[: 1 + (name in LONG)]:
            shown = typed(*name.split(), which).out
            assert "…" not in shown
            assert max(map(len, shown.splitlines())) <= 80
    train = typed("train", "--help-all").out
    for option in ("--checkpoint-seconds SECONDS", "--keep-checkpoints / --no-keep-checkpoints\n"):
        assert f"\n  {option}" in train


LONG = ("train", "compare", "consensus", "plan")


def options(text: str) -> set[str]:
    """Return the long options that a help lists."""
    return set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", LONG)
def test_help_shows_the_common_options_and_names_the_way_to_all_others(typed: Typed, name: str) -> None:
    short, whole = typed(name, "--help").out, typed(name, "--help-all").out
    declared = {one.opts[0] for one in command_line().commands[name].params if one.param_type_name == "option"}
    assert options(whole) == declared | {"--help"}
    common = sys.modules[f"erasurehead.cli._{name}"].COMMON
    assert options(short) == {*common, "--help", "--help-all"}
    assert 12 <= len(common) <= 16
    assert f"Show all {len(declared)} options and exit." in short


def helps(command: Any, name: str = "erasurehead") -> Iterator[tuple[str, str]]:
    """Return every command with its help, without markup."""
    yield name, re.sub(r"\[/?(bold|italic)\]", "", command.help or "")
    for below, one in getattr(command, "commands", {}).items():
        yield from helps(one, f"{name} {below}")


def test_examples_and_explanations_fit_on_80_columns() -> None:
    for name, text in helps(typer.main.get_command(build())):
        for line in text.splitlines():
            assert len(line) <= 78, f"{name} --help breaks {line!r}"  # a column is left free on either side


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from erasurehead.cli._app import build\n"
        "try: build()(['train', '--help'])\n"
        f"except SystemExit: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert done.stderr.strip() == "[]"


def test_python_m_is_the_same_command(typed: Typed) -> None:
    words = [sys.executable, "-m", "erasurehead", "data", "--no-such-option"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    same = typed("data", "--no-such-option")
    assert (done.returncode, done.stdout, done.stderr) == (same.code, same.out, same.err)


def test_no_command_shows_the_help(typed: Typed) -> None:
    done = typed()
    assert "Usage: erasurehead" in done.out + done.err
