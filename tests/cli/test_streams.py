"""Standard streams that are closed, full, cut off by their reader or in ASCII, of every command: the work is done.

Each command runs in a forked child with such streams, made as the interpreter makes them when it starts.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from pathlib import Path

import pytest

from erasurehead.cli import main

from ..typed import other, typed
from .shop import SMALL, write_shop

SHORT = other(SMALL, "--steps", 3)

COMMANDS: list[tuple[object, ...]] = [
    ("--version",),
    ("--help",),
    ("train", "--help"),
    ("delays", "fit", "-h"),
    ("delays",),
    ("train", "--data", "shop.csv", *SHORT, "--out", "OUT", "--json"),
    ("train", "--data", "nowhere.csv"),
    ("train", "--resume", "run", "--steps", 14),
    ("resize", "run", 3),
    ("compare", "--data", "shop.csv", *SHORT, "-s", "uncoded", "-s", "exact(load=2)", "--no-figures", "--out", "OUT"),
    ("data", "shop.csv", "--categorical"),
    ("shard", "shop.csv", "--categorical", "--tasks", 2, "--out", "OUT"),
    ("predict", "run", "shop.csv"),
    ("evaluate", "run", "shop.csv"),
    ("plan", "--delays", "exponential(1)", "-w", 2, "-s", "exact(load=2)", "--no-figures", "--out", "OUT"),
    ("drill", "--workers", 1),
    ("codes", "show", "fractional_repetition(6, load=2)"),
    ("codes", "compare", "uncoded(5)", "--stragglers", 2),
    ("delays", "show", "trace.csv"),
    ("delays", "fit", "trace.csv", "--no-figures"),
]

STREAMS = {
    "as usual": {},
    "stdout closed": {1: None},
    "stderr closed": {2: None},
    "all closed": {0: None, 1: None, 2: None},
    "stdout full": {1: "/dev/full"},
    "stderr full": {2: "/dev/full"},
    "nobody reads stdout": {1: "|"},
    "nobody reads either": {1: "|", 2: "|"},
}
"""What it is called -> descriptor -> what it is: closed, a file, or a pipe whose reader has gone."""


def _stream(descriptor: int, mode: str, encoding: str) -> io.TextIOWrapper | None:
    try:
        os.fstat(descriptor)
    except OSError:
        return None  # as Python has it
    return io.TextIOWrapper(open(descriptor, mode + "b", closefd=False), encoding, line_buffering=descriptor == 2)


def _become(streams: dict[int, str | None], out: int, err: int, encoding: str) -> None:
    for descriptor, usual in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
        os.dup2(usual, descriptor)
    for descriptor, name in streams.items():
        if name is None:
            os.close(descriptor)
        elif name == "|":
            reader, writer = os.pipe()
            os.dup2(writer, descriptor)
            os.close(writer)
            os.close(reader)
        else:
            os.dup2(os.open(name, os.O_WRONLY), descriptor)
    sys.stdin, sys.stdout, sys.stderr = (  # pyright: ignore[reportAttributeAccessIssue]
        _stream(number, mode, encoding) for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )


def run(words: list[str], streams: dict[int, str | None], folder: Path, encoding: str = "utf-8") -> tuple[int, str]:
    """Run the command line in a child; return its exit code and what it said on stderr, or in a traceback."""
    said, printed = folder / "said", folder / "printed"
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.read_text(errors="replace")
    code = 70
    try:
        signal.alarm(60)
        os.chdir(folder)
        err = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        _become(streams, os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.dup(err), encoding)
        sys.argv = ["erasurehead", *words]
        try:
            main()
            code = 0
        except SystemExit as end:
            code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        except BaseException:
            os.write(err, traceback.format_exc().encode())
    finally:
        os._exit(code)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    write_shop(folder / "shop.csv", 60)
    (folder / "trace.csv").write_text("worker,step,seconds\n" + "".join(f"{k % 5},{k // 5},1.{k}\n" for k in range(50)))
    words = ["train", "--data", str(folder / "shop.csv"), *SMALL, "--out", folder / "run"]
    assert typed(*words).code == 0
    return folder


def worded(command: tuple[object, ...], number: int) -> list[str]:
    """Return a command as it is typed for the so many-th time: with another place to write to, or more steps to go."""
    words = [str(word).replace("OUT", f"{command[0]}{number}") for word in command]
    return [*words[:-1], str(14 + number)] if "--resume" in words else words


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:2])))
def test_streams(made: Path, command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    typed(*worded(command, 0))  # here, so that what it imports at its first use is there in every child
    usual, prints = 0, False
    for number, (name, streams) in enumerate(STREAMS.items(), start=1):
        words = worded(command, number)
        code, said = run(words, streams, made, "utf-8" if number % 2 else "ascii")
        if not streams:
            usual, prints = code, (made / "printed").stat().st_size > 0
        unwritten = name == "stdout full" and prints and code != 2
        nowhere = command[0] in ("predict", "evaluate") and 1 in streams and streams[1] is None
        assert "Traceback" not in said, (name, words, said)
        assert code == (1 if unwritten or nowhere else usual), (name, words, said)
        if nowhere and 2 not in streams:
            assert "Standard output is closed, and this command writes its result nowhere else" in said
        if unwritten:
            assert "No space left on device" in said, (words, said)
