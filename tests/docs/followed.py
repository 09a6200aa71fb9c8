"""Pages followed as a reader would: files are written, commands run, and what is printed is what the page shows."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..bounded import PATIENCE, in_time
from .pages import ROOT, Block, blocks

_FILE = re.compile(r"(?:#![^\n]*\n)?(?:#|//|--) ([\w./-]+\.\w+|Dockerfile)\n")
_NUMBER = re.compile(r"(?<![\w.])-?\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[+-]?\d+)?")
_VARIES = re.compile(r"\d[\d.,]*(?: ?(?:s|ms|µs|min|h|seconds|kB|MB|GB)\b|(?= (?:passed|skipped)\b))")
_MISSING = "..."

STAND_INS = {
    "srun": ROOT / "tests" / "torch" / "stand_in_srun.py",
    "sbatch": Path(__file__).with_name("stand_in_sbatch.py"),
}
"""What a page may call that is not here."""


def named(block: Block) -> str | None:
    """Return the file that a block is to be saved as, which its first comment says; None if it is to be run."""
    found = _FILE.match(block.text)
    return found[1] if found else None


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a session with what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        n = next(n for n, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        if lines[0].endswith("<< END\n"):
            n = lines.index("END\n") + 1
        yield "".join(lines[:n]).strip(), "".join(lines[n:])


def agrees(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed.

    Times and sizes vary with the machine, numbers with a point in their last digits, those after "about" by a tenth,
    and after "roughly" by 20. `...` stands for any text, and in a line of its own for any lines.
    """
    lines = _plain(printed).strip("\n").split("\n")
    ends = {0}  # after how many of the printed lines what has been compared may end
    for line in _plain(shown).strip("\n").split("\n"):
        if line.strip() == _MISSING:
            ends = set(range(min(ends), len(lines) + 1))
        else:
            parts = _parts(line)
            ends = {end + 1 for end in ends if end < len(lines) and _is_made_of(parts, lines[end])}
        if not ends:
            return False
    return len(lines) in ends


def _plain(text: str) -> str:
    """Return a text without blanks at the ends of lines, and without what varies with the machine."""
    return _VARIES.sub("#", "\n".join(line.rstrip() for line in text.splitlines()))


_Part = re.Pattern[str] | tuple[str, str] | None
"""Of a line: text, a number that may differ a little with the word before it, or what may be anything."""


def _parts(line: str) -> list[_Part]:
    """Return what a line is made of, one part after the other."""
    out, at = list[_Part](), 0

    def add(text: str) -> None:
        for number, piece in enumerate(text.split(_MISSING)):
            out.extend([None] if number else [])
            literal = re.sub(r"(?:\\ )+", r" +", re.escape(piece))  # columns are as wide as their widest
            out.extend([re.compile(literal)] if literal else [])

    for number in _NUMBER.finditer(line):
        word = next((word for word in ("about", "roughly") if line[: number.start()].endswith(f"{word} ")), "")
        if word or "." in number[0] or "e" in number[0]:
            add(line[at : number.start()])
            out.append((number[0], word))
            at = number.end()
    add(line[at:])
    return out


def _is_made_of(parts: list[_Part], line: str) -> bool:
    """Return whether a printed line is made of these parts.

    All places where a part may end are kept at once: an expression for the whole line would try their combinations.
    """
    ends = {0}
    for part in parts:
        if part is None:
            ends = set(range(min(ends), len(line) + 1))
        elif isinstance(part, tuple):
            found = (_NUMBER.match(line, end) for end in ends)
            ends = {number.end() for number in found if number and _close(part[0], number[0], part[1])}
        else:
            texts = (part.match(line, end) for end in ends)
            ends = {text.end() for text in texts if text}
        if not ends:
            return False
    return len(line) in ends


def _close(shown: str, printed: str, word: str) -> bool:
    """Return whether two numbers agree to two units of the last digit shown, or to two in a hundred."""
    one, other = (float(text.replace(",", "")) for text in (shown, printed))
    digits = len(shown.partition("e")[0].partition(".")[2])
    unit = 10.0 ** (float(shown.partition("e")[2] or 0) - digits)
    parts, units = {"": (0.02, 2.0), "about": (0.1, 2.0), "roughly": (0.0, 20.0)}[word]
    return abs(one - other) <= max(units * unit, parts * abs(one)) * 1.000001


class Shell:
    """A reader's terminal, in which commands run one after the other; what they leave in the background ends with it.

    Arguments:
        folder: where it is opened.
        environment: what differs from that of the tests.
    """

    _DONE = "the command is done"

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=_environment(folder) | dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; return its exit code and what it prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{ {command}\n}} < /dev/null; printf '\\n{self._DONE} %s\\n' $?\n")
        self._process.stdin.flush()
        printed = ""
        while (line := self._process.stdout.readline()) and not line.startswith(self._DONE):
            printed += line
        return int(line.split()[-1]) if line else -1, printed.removesuffix("\n")

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.communicate()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def follow(page: Path, folder: Path, environment: Mapping[str, str] | None = None, port: str = "") -> int:
    """Do what a page says, in a folder that is the present one; return how many outputs were compared.

    A block whose first line is a comment with a name is saved as that file. Other blocks of Python are run, one after
    the other in one namespace, and the block `text` that follows shows what is printed. A block `console` has
    commands after `$`, each with what it prints.

    Arguments:
        page: that is followed.
        folder: where its files are written.
        environment: what differs from that of the tests.
        port: of this machine that is taken in place of the page's 6390.

    Raises:
        AssertionError: if something else is printed than the page shows, or a command fails.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed, compared = "", 0
    with Shell(folder, environment or {}) as shell, in_time(2 * PATIENCE):
        for block in blocks(page, "python", "text", "console", "toml", "bash", "diff"):
            place, name = f"{page.name}, line {block.line}", named(block)
            if name:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
                if path.suffix == ".py":
                    compile(block.text, name, "exec")  # also where it needs what is not here
            elif block.language == "python":
                padding = "\n" * (block.line - 1)  # so that tracebacks show the line of the page
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(padding + block.text, str(page), "exec"), namespace)
                printed = out.getvalue()
            elif block.language == "text":
                assert agrees(block.text, printed), f"{place} shows\n{block.text}\nbut what is printed is\n{printed}"
                compared += 1
            elif block.language == "console":
                for command, shown in steps(block.text.replace("6390", port or "6390")):
                    code, said = shell.run(command)
                    assert code == 0, f"{place}: {command} ended with {code}:\n{said}"
                    if shown.strip():
                        assert agrees(shown, said), f"{place}: {command} prints\n{said}\nrather than\n{shown}"
                        compared += 1
    return compared


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a reader's terminal, in which what is not here has stand-ins."""
    own, temporary = folder / ".bin", folder / ".tmp"
    own.mkdir()
    temporary.mkdir()
    for name, script in STAND_INS.items():
        (own / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} "$@"\n')
        (own / name).chmod(0o755)
    path = [str(own), str(Path(sys.executable).parent), os.environ["PATH"]]
    return os.environ | {
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONUNBUFFERED": "1",  # so that lines of both streams come in their order
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "HOME": str(folder),
        "TMPDIR": str(temporary),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_btl_sm_backing_directory": str(temporary),
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
