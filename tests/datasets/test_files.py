from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from erasurehead.datasets._readers.files import blocks, suffix, text_lines
from erasurehead.errors import DataError

TEXT = "".join(f"line {number}\n" for number in range(1, 5001))


@pytest.mark.parametrize(
    ("name", "ending"), [("a.csv", ".csv"), ("b.CSV.gz", ".csv"), ("c.svm.bz2", ".svm"), ("rcv1", ""), ("x.gz", "")]
)
def test_the_ending_is_that_without_compression(name: str, ending: str) -> None:
    assert suffix(Path("folder.gz") / name) == ending


def _write(folder: Path, kind: str) -> Path:
    path = folder / f"text.txt{kind}"
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[kind]
    path.write_bytes(pack(TEXT.encode()))
    return path


@pytest.mark.parametrize("kind", ["", ".gz", ".bz2"])
def test_lines_and_blocks_hold_the_whole_text(tmp_path: Path, kind: str) -> None:
    path = _write(tmp_path, kind)
    with text_lines(path) as lines:
        assert "".join(lines) == TEXT
        assert (lines.count, lines.last) == (5000, "line 5000\n")
    parts = list(blocks(path, size=1000))
    assert b"".join(text for _, text in parts) == TEXT.encode()
    assert len(parts) > 10
    for first, text in parts:
        assert text.startswith(b"line %d\n" % first)
        assert text.endswith(b"\n")


def test_the_last_block_gets_the_newline_that_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\ntwo")
    assert list(blocks(path)) == [(1, b"one\n"), (2, b"two\n")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".gz", ".bz2"])
def test_a_compressed_file_that_is_cut_off_is_an_error_with_its_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"text.txt{kind}"
    noise = "".join(f"{(number * 2654435761) % 2**32}\n" for number in range(200_000))  # compresses badly
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}[kind]
    whole = pack(noise.encode())
    path.write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(DataError, match=r"after line \d+: the file is cut off or damaged"), text_lines(path) as lines:
        list(lines)
    with pytest.raises(DataError, match=r"after line \d+: the file is cut off or damaged"):
        list(blocks(path))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("before", [0, 1, 2, 9_999])
def test_a_text_in_another_encoding_is_an_error_with_its_line(tmp_path: Path, before: int, newline: str) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes((f"Göttingen{newline}" * before).encode() + f"München{newline}Ulm{newline}".encode("latin-1"))
    said = rf"latin\.csv, line {before + 1}: not UTF-8 text \(byte 0xfc\)"
    with pytest.raises(DataError, match=said), text_lines(path) as lines:
        list(lines)


def test_a_compressed_file_that_is_cut_off_before_its_first_line_is_not_called_so_after_line_0(tmp_path: Path) -> None:
    path = tmp_path / "text.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:40])
    with pytest.raises(DataError, match=r"text\.csv\.gz: the file is cut off or damaged"), text_lines(path) as lines:
        list(lines)
