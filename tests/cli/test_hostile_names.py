"""Names, labels and texts that would steer a terminal or mislead whoever reads it: they are shown, and do nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from erasurehead.cli._output import Terminal

from ..bounded import PATIENCE
from ..typed import Finished
from .shop import Typed

EVIL = "\x1b[31mred\x1b]0;title\x07\x1b[2J\u202ebidi\u2066\u200b\u2028\x9b31m\x7f\x08\ufeff[red]b[/red][link=x]:smile:"
"""Escape sequences, controls of both kinds, bidirectional overrides, zero widths, and what rich takes for markup."""

NAME = EVIL.replace("/", "|")  # of a file
T = ("--engine", "virtual", "-w", 4, "-n", 3, "--scheme", "uncoded", "--rate", 0.1)


def unseen(text: str) -> set[str]:
    """Return what cannot be seen in a text, but for the ends of lines."""
    return {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n"}


def check(done: Finished, code: int = 0) -> None:
    assert done.code == code, done.err
    assert not unseen(done.out), done.out
    assert not unseen(done.err), done.err


def rows(path: Path, header: str, label: str = "yes") -> Path:
    """Write 60 rows of three columns, the last of them a label of two values."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*"ab", header])
    writer.writerows([k % 7, k % 5, label if k % 2 else "no"] for k in range(60))
    path.write_text(text.getvalue())
    return path


@pytest.fixture
def hostile(typed: Typed, tmp_path: Path) -> Path:
    """A folder, the current one, with data whose file, columns and labels have such names, and a run on them."""
    rows(tmp_path / f"{NAME}.csv", f"y{EVIL}", f"yes{EVIL}")
    check(typed("train", "--data", f"{NAME}.csv", *T, "--out", f"o{NAME}", "--label", f"y{EVIL}"))
    return tmp_path


@pytest.mark.slow
def test_of_data_columns_and_labels(typed: Typed, hostile: Path) -> None:
    file, run = f"{NAME}.csv", f"o{NAME}"
    for words in (
        ("data", file),
        ("evaluate", run, file),
        ("train", "--resume", run, "-n", 5),
        ("shard", file, "--tasks", 4, "--out", f"s{NAME}"),
        ("train", "--data", f"s{NAME}", *T, "--out", "o2"),
        ("compare", run, "o2", "--no-figures"),
        (
            "consensus",
            "--data",
            file,
            "--loss",
            "logistic",
            "--peers",
            4,
            "--graph",
            "ring()",
            "--steps",
            2,
            "--no-against-full",
            "--out",
            f"p{NAME}",
        ),
        ("plan", "--delays", "exponential(1)", "-w", 4, "--data", file, "--out", f"q{NAME}", "--no-figures"),
    ):
        done = typed(*words)
        check(done)
        named = words[0] not in ("evaluate", "compare")
        assert ":smile:" in done.err + done.out or not named, words
    done = typed("data", file, "--json")
    check(done)
    assert any(f"y{EVIL}" in text for text in flat(done.json))  # escaped as JSON does, it is what it was
    (picture,) = (hostile / f"p{NAME}" / "figures").glob("consensus.svg")
    assert not unseen(picture.read_text())


def flat(tree: object) -> list[str]:
    if isinstance(tree, dict):
        return [text for key, item in tree.items() for text in (key, *flat(item))]
    return [text for item in tree for text in flat(item)] if isinstance(tree, list) else [str(tree)]


def test_of_errors(typed: Typed, hostile: Path) -> None:
    file = f"{NAME}.csv"
    (hostile / "r.toml").write_text(f'[data]\nsource = {json.dumps(EVIL)}\n["{json.dumps(EVIL)[1:-1]}"]\na = 1\n')
    (hostile / "s.toml").write_text(f"scheme = {json.dumps(EVIL)}\n")
    (hostile / f"t{NAME}.csv").write_text(f"worker,step,seconds\n{EVIL},0,x\n")
    (hostile / f"t{NAME}.jsonl").write_text(f'{{"{EVIL}')
    for words in (
        ("train", f"nowhere{NAME}.csv"),
        ("train", "r.toml"),
        ("train", "s.toml"),
        ("train", "--data", file, "--label", "nothing", *T),
        ("train", "--data", file, "--scheme", EVIL),
        ("train", "--data", file, *T, "--delays", EVIL),
        ("train", "--data", file, "--engine", EVIL),
        ("train", "--data", file, EVIL, EVIL),
        ("train", f"--{EVIL}"),
        (EVIL,),
        ("codes", EVIL),
        ("codes", "show", EVIL),
        ("consensus", "--graph", f"edges(['{EVIL}-b', 'c-d'])", "--peers", 4),
        ("delays", "show", f"t{NAME}.csv"),
        ("delays", "fit", f"t{NAME}.jsonl"),
        ("drill", "--schedule", "r.toml"),
        ("predict", "nowhere", file),
        ("predict", f"o{NAME}", f"t{NAME}.csv"),
        ("resize", f"o{NAME}", 3),
        ("decompile", f"{EVIL}.py:f"),
        ("reproduce", EVIL),
    ):
        check(typed(*words), 2)


@pytest.mark.slow
def test_of_workers_in_traces(typed: Typed, tmp_path: Path) -> None:
    lines = [f"w{k % 3}{EVIL},{k // 3},{1 + k % 4}.5" for k in range(60)]
    (tmp_path / f"{NAME}.csv").write_text("worker,step,seconds\n" + "\n".join(lines) + "\n")
    for words in (
        ("delays", "show", f"{NAME}.csv"),
        ("delays", "fit", f"{NAME}.csv"),
        ("plan", "--trace", f"{NAME}.csv", "-w", 3, "--no-figures"),
    ):
        check(typed(*words))


def test_predictions_are_data_in_a_pipe(typed: Typed, hostile: Path) -> None:
    done = typed("predict", f"o{NAME}", f"{NAME}.csv")
    header, *predicted = csv.reader(io.StringIO(done.out))
    assert {row[0] for row in predicted} <= {f"yes{EVIL}", "no"}
    assert f"probability of yes{EVIL}" in header
    assert not unseen(done.err)


@pytest.mark.slow
@pytest.mark.parametrize("command", [("data",), ("predict", f"o{NAME}"), ("train", *T, "--out", "new", "--data")])
def test_on_a_terminal(hostile: Path, command: tuple[object, ...]) -> None:
    """Rich itself may steer the terminal, to show colours and progress; what came from data may not."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "erasurehead", *map(str, command), f"{NAME}.csv"]
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    ) as done:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # nobody has the other end open any more
                break
            said += piece
            if not piece:
                break
        done.wait(PATIENCE)
    os.close(ours)
    text = said.decode()
    assert ":smile:" in text
    assert r"\x1b]0;title\x07\x1b[2J" in text.replace("\r\n", "")
    assert not unseen(text) - {"\x1b", "\r"}
    assert not any(steering in text for steering in ("\x1b]0;title", "\x1b[2J", "\x9b"))


def test_rich_still_steers_the_terminal_and_nobody_else() -> None:
    console = Terminal()
    console.file = io.StringIO()
    console._force_terminal = True
    console.print(EVIL, style="yellow", soft_wrap=True)
    assert not unseen(console.file.getvalue()) - {"\x1b"}
    assert "[red]b[/red][link=x]:smile:" in console.file.getvalue()
