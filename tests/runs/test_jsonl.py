"""Rows end up as whole lines, or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from erasurehead.errors import DataError, RecordsError
from erasurehead.runs._jsonl import JsonlWriter, read_lines

from ..bounded import PATIENCE


def rows_of(path: Path) -> list[int]:
    return [row["n"] for row in read_lines(path)]


def test_rows_are_there_once_they_are_flushed(tmp_path: Path) -> None:
    file = JsonlWriter(tmp_path / "rows")
    file.add({"n": 1})
    assert rows_of(tmp_path / "rows") == []
    file.flush()
    file.add({"n": 2})
    file.flush()
    file.close()
    file.close()
    assert rows_of(tmp_path / "rows") == [1, 2]
    assert file.size == (tmp_path / "rows").stat().st_size


def test_what_follows_a_cut_is_gone_and_rows_are_added_there(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text('{"n":1}\n{"n":2}\n{"n":')
    file = JsonlWriter(path, 8)
    file.add({"n": 3})
    file.flush()
    file.close()
    assert rows_of(path) == [1, 3]


@pytest.mark.parametrize(("size", "said"), [(9, "no line ends at byte 9"), (99, "has 16 bytes, where the checkpoint")])
def test_a_file_is_cut_between_two_lines_only(tmp_path: Path, size: int, said: str) -> None:
    path = tmp_path / "rows"
    path.write_text('{"n":1}\n{"n":2}\n')
    with pytest.raises(DataError, match=said):
        JsonlWriter(path, size)
    assert rows_of(path) == [1, 2]


ROWS = 200
FIRST = 1000  # so that all of them have as many digits
SIZE = 11 * ROWS


def written(path: Path, rows: int) -> JsonlWriter:
    file = JsonlWriter(path)
    for number in range(rows):
        file.add({"n": FIRST + number})
        file.flush()
    return file


def _cut_to(size: int) -> Callable[[Path], object]:
    return lambda path: os.truncate(path, size)


def _more(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"n":"more"}\n')


@pytest.mark.parametrize(
    ("act", "kept", "said"),
    [
        (_cut_to(0), 0, f"something else has changed it ({ROWS} rows lost)"),
        (_cut_to(600), 54, f"something else has changed it ({ROWS - 54} rows lost)"),
        (_cut_to(SIZE - 1), ROWS - 1, "something else has changed it (1 row lost)"),
        (_more, ROWS, "something else has changed it while"),
        (Path.unlink, ROWS, "it was removed"),
    ],
)
def test_nothing_is_written_to_a_file_that_was_cut_or_extended_and_the_rows_that_are_left_can_be_read(
    tmp_path: Path, act: Callable[[Path], object], kept: int, said: str
) -> None:
    path = tmp_path / "rows"
    file = written(path, ROWS)
    assert file.size == SIZE
    act(path)
    left = path.read_bytes() if path.exists() else b""
    file.add({"n": FIRST + ROWS})
    for reason in (said, "it was removed" if said == "it was removed" else "something else has changed it while"):
        with pytest.raises(RecordsError, match=re.escape(f"{path} cannot be written: {reason}")):
            file.flush()
        file.settle()
    assert (path.read_bytes() if path.exists() else b"") == left
    expected = [*range(FIRST, FIRST + kept), FIRST + ROWS]
    assert len(file) == len(expected)
    assert [row["n"] for row in map(json.loads, file.read(0, len(file)))] == expected
    file.close()


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda path: (path.rename(path.with_name("old")), path.write_text("")), "another file was put in its place"),
        (lambda path: path.parent.rename(path.parent.with_name("new")), "its folder was removed or moved"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/null")), "another file was put in its place"),
    ],
)
def test_what_takes_the_place_of_a_file_is_never_written_to(
    tmp_path: Path, act: Callable[[Path], object], said: str
) -> None:
    (tmp_path / "run").mkdir()
    file = written(tmp_path / "run" / "rows", 3)
    act(tmp_path / "run" / "rows")
    file.add({"n": 3})
    with pytest.raises(RecordsError, match=f"rows cannot be written: {said} while the run went on"):
        file.flush()
    assert [row["n"] for row in map(json.loads, file.read(0, len(file)))] == [FIRST, FIRST + 1, FIRST + 2, 3]
    file.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="nowhere/rows cannot be written: No such file or directory"):
        JsonlWriter(tmp_path / "nowhere" / "rows")


def test_rows_that_found_no_room_are_written_with_the_next_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = JsonlWriter(tmp_path / "rows")
    for number in range(9):
        file.add({"n": number})
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 60:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data[:20])  # two lines, and half a third one

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(RecordsError, match="rows cannot be written: full"):
            file.flush()
    assert rows_of(tmp_path / "rows") == [0, 1]
    file.add({"n": 9})
    file.flush()
    file.close()
    assert rows_of(tmp_path / "rows") == list(range(10))
    assert file.size == (tmp_path / "rows").stat().st_size


_LIMITED = """
import resource, sys
from pathlib import Path
from erasurehead.errors import RecordsError
from erasurehead.runs._jsonl import JsonlWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
file = JsonlWriter(Path(sys.argv[1]))
for number in range(0, 100, 3):
    for more in range(3):
        file.add({"n": number + more})
    try:
        file.flush()
    except RecordsError as error:
        print(error)
        break
file.close()
print(file.size)
"""


def test_where_the_disk_is_full_the_file_ends_with_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, path], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.splitlines() == [f"{path} cannot be written: {os.strerror(errno.EFBIG)}.", "98"]
    assert path.read_bytes().endswith(b"}\n")
    assert rows_of(path) == list(range(12))  # 9 rows of 8 bytes, then of 9: 26 bytes are left, and two more fit
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN  # as Python has it, else the limit would kill
