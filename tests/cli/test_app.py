"""The command line as a whole: help that is quick and teaches, version, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
import typer

from erasurehead.cli._app import _COMMANDS, build

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


@pytest.mark.slow
def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from erasurehead.cli._app import build\n"
        "try: build()(['train', '--help'])\n"
        f"except SystemExit: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert done.stderr.strip() == "[]"


def loaded_by(*words: str) -> set[str]:
    """Return what the command has loaded when it ends."""
    code = (
        "import sys; from erasurehead.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [("--help",), (), ("--version",)])
def test_the_list_of_commands_loads_none_of_them(words: tuple[str, ...]) -> None:
    loaded = loaded_by(*words)
    assert not {"erasurehead.cli._train", "erasurehead.runs", *HEAVY} & loaded
    assert len([name for name in loaded if name.startswith("erasurehead")]) <= 14


@pytest.mark.slow
def test_a_command_loads_no_other() -> None:
    loaded = {name for name in loaded_by("train", "--help") if name.startswith("erasurehead")}
    assert "erasurehead.cli._train" in loaded
    assert (
        not {f"erasurehead.cli._{name.replace('-', '_').replace(' ', '_')}" for name in _COMMANDS if name != "train"}
        & loaded
    )
    assert not {name for name in loaded if name.startswith("erasurehead.consensus")}


def test_every_command_is_listed_by_the_first_sentence_of_its_help(typed: Typed) -> None:
    whole: Any = typer.main.get_command(build())
    assert set(whole.commands) == set(_COMMANDS)
    for name, text in _COMMANDS.items():
        assert " ".join(whole.commands[name].help.strip().split("\n\n")[0].split()) == text, name
    short: Any = typer.main.get_command(build("--help"))
    assert {name: command.help for name, command in short.commands.items()} == _COMMANDS


@pytest.mark.alone
@pytest.mark.slow
def test_help_is_there_at_once() -> None:
    def best(*words: str) -> float:
        times: list[float] = []
        for _ in range(5):
            begin = time.perf_counter()
            subprocess.run([sys.executable, *words], capture_output=True, check=True)
            times.append(time.perf_counter() - begin)
        return min(times)

    bare = best("-c", "pass")  # about 15 ms: 0.4 s are 27 times as much
    assert best("-m", "erasurehead", "--help") < 27 * bare
    assert best("-m", "erasurehead", "train", "--help") < 40 * bare


@pytest.mark.slow
def test_python_m_is_the_same_command(typed: Typed) -> None:
    words = [sys.executable, "-m", "erasurehead", "data", "--no-such-option"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    same = typed("data", "--no-such-option")
    assert (done.returncode, done.stdout, done.stderr) == (same.code, same.out, same.err)


def test_no_command_shows_the_help(typed: Typed) -> None:
    done = typed()
    assert "Usage: erasurehead" in done.out + done.err
