"""Every file and folder that a command names, and what may lie there instead: one sentence, and nothing left."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ..bounded import in_time
from ..typed import Finished, typed
from .shop import SMALL, Typed, write_shop

NOT_UTF8 = os.fsdecode(b"sh\xffop.csv")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


THERE: dict[str, Callable[[Path], object]] = {
    "nowhere.csv": lambda path: None,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": _socket,
    "loop": lambda path: path.symlink_to(path.name),
    "dangling.csv": lambda path: path.symlink_to("nowhere"),
    "zero.csv": lambda path: path.symlink_to("/dev/zero"),
    NOT_UTF8: lambda path: write_shop(path),
    "/dev/zero": lambda path: None,
    "shop.csv/x": lambda path: None,
    "x" * 300: lambda path: None,
    "a\0b": lambda path: None,
    " ": lambda path: None,
}
"""What is named -> makes it."""

PLACE = "PLACE"
"""Stands for it in the commands."""

COMMANDS: list[tuple[object, ...]] = [
    ("train", PLACE),
    ("train", "--data", PLACE),
    ("train", "--data", "shop.csv", "--data-at", PLACE, *SMALL),
    ("train", "--data", "amazon", "--path", PLACE, *SMALL),
    ("train", "--data", "X.npy", "--label", PLACE),
    ("train", "--data", "shop.csv", *SMALL[:-1], f"recorded('{PLACE}')"),
    ("train", "--data", "shop.csv", *SMALL[:-1], f"bootstrap('{PLACE}')"),
    ("train", "--data", "shop.csv", *SMALL, "--initial", PLACE),
    ("train", "--resume", PLACE),
    ("resize", PLACE, 3),
    ("compare", PLACE),
    ("compare", "--data", PLACE),
    ("compare", "--data", "shop.csv", *SMALL, "--initial", PLACE),
    ("data", PLACE),
    ("data", "amazon", "--path", PLACE),
    ("shard", PLACE, "--tasks", 2, "--out", "new"),
    ("shard", PLACE, "--check"),
    ("predict", PLACE, "shop.csv"),
    ("predict", "run", PLACE),
    ("evaluate", PLACE, "shop.csv"),
    ("evaluate", "run", PLACE),
    ("plan", "--trace", PLACE, "-w", 6),
    ("plan", "--delays", "exponential(1)", "-w", 6, "--data", PLACE),
    ("drill", "--data", PLACE),
    ("drill", "--schedule", PLACE),
    ("reproduce", "erasurehead", "--figure", "2a", "--steps", 2, "--path", PLACE, "--synthetic", "never"),
    ("delays", "show", PLACE),
    ("delays", "fit", PLACE),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of data, one of arrays, a run, and one of everything else that may be named."""
    folder = tmp_path_factory.mktemp("p")
    write_shop(folder / "shop.csv")
    (folder / "trace.csv").write_text("worker,step,seconds\n" + "".join(f"{k % 5},{k // 5},1.{k}\n" for k in range(50)))
    np.save(folder / "X.npy", np.random.default_rng(0).normal(size=(40, 3)))
    here = Path.cwd()
    os.chdir(folder)
    try:
        words = ["train", "--data", "shop.csv", *SMALL, "--out", "run"]
        assert typed(*words).code == 0
        for name, make in THERE.items():
            make(Path(name))
    finally:
        os.chdir(here)
    return folder


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "pipe" not in path.parts}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:4])))
def test_whatever_lies_there_is_answered_with_a_sentence(
    typed: Typed, made: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...]
) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setenv("ERASUREHEAD_PIPE_SECONDS", "0.05")
    before = listing(made)
    for name in THERE:
        words = [str(word).replace(PLACE, name) for word in command]
        with in_time():
            done: Finished = typed(*words)
        assert "Traceback" not in done.err, (words, done.err)
        assert listing(made) == before, words
        if name == NOT_UTF8 and command[0] in ("predict", "evaluate") and done.code == 0:
            continue  # nothing is written down of it
        assert done.code == 2, (words, done.code, done.out, done.err)
        assert done.sentence.startswith("erasurehead: "), (words, done.err)
        assert done.sentence.endswith((".", "?")), (words, done.err)


NOT_TO_BE_MADE = (
    "pipe",
    "socket",
    "loop",
    "zero.csv",
    NOT_UTF8,
    "/dev/zero",
    "shop.csv",
    "shop.csv/x",
    "x" * 300,
    "a\0b",
)
"""What no folder can be made at, and no file be written to."""

WRITERS: list[tuple[object, ...]] = [
    ("train", "--data", "shop.csv", *SMALL, "--out", PLACE),
    ("train", "--data", "shop.csv", *SMALL, "--out", PLACE, "--overwrite"),
    ("compare", "--data", "shop.csv", *SMALL, "--out", PLACE),
    ("compare", "--data", "shop.csv", *SMALL, "--out", PLACE, "--overwrite"),
    ("shard", "shop.csv", "--categorical", "--tasks", 2, "--out", PLACE),
    ("plan", "--delays", "exponential(1)", "-w", 6, "--out", PLACE),
    ("drill", "--workers", 6, "--seconds", 5, "--out", PLACE),
    ("drill", "lives", 1, "--workers", 6, "--out", PLACE),
    (
        "reproduce",
        "erasurehead",
        "--figure",
        "2a",
        "--steps",
        2,
        "--synthetic",
        "always",
        "--rows",
        200,
        "--out",
        PLACE,
    ),
    ("delays", "fit", "trace.csv", "--out", PLACE),
    ("codes", "compare", "uncoded(5)", "--stragglers", 2, "--out", PLACE),
]


@pytest.mark.slow
@pytest.mark.parametrize("command", WRITERS, ids=lambda command: " ".join(map(str, command[:2])))
def test_what_cannot_be_written_to_is_refused_and_left_as_it_was(
    typed: Typed, made: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...]
) -> None:
    monkeypatch.chdir(made)
    before, shop = listing(made), Path("shop.csv").read_bytes()
    for name in NOT_TO_BE_MADE:
        words = [str(word).replace(PLACE, name) for word in command]
        with in_time():
            done: Finished = typed(*words)
        assert listing(made) == before, words
        assert "Traceback" not in done.err, (words, done.err)
        assert done.code == 2, (words, done.code, done.out, done.err)
        assert done.sentence.startswith("erasurehead: "), (words, done.err)
        assert done.sentence.endswith((".", "?")), (words, done.err)
    assert Path("shop.csv").read_bytes() == shop


def test_examples_of_a_function_are_files_that_end(typed: Typed, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    monkeypatch.chdir(made)
    monkeypatch.setenv("ERASUREHEAD_PIPE_SECONDS", "0.05")
    Path("loss.py").write_text("def loss(x):\n    return (x * x).sum()\n")
    for name, make in THERE.items():
        place = Path(f"{name.removesuffix('.csv')}.npz")
        if "/" not in name and "\0" not in name and len(name) < 99:
            make(place)
        for words in (("loss.py:loss", "--example", place), (f"{name}:loss",), (f"{place.with_suffix('.py')}:loss",)):
            with in_time():
                done = typed("decompile", *words)
            assert done.code == 2, (words, done.err)
            assert "Traceback" not in done.err
            assert done.sentence.endswith("."), (words, done.err)
