"""Files that are neither tables nor matrices: each gets a sentence that says what it is, and what to do."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from erasurehead import datasets
from erasurehead.datasets._readers.forms import form
from erasurehead.errors import DataError


def packed(kind: str) -> bytes:
    """Return an archive with a table in it."""
    content, held = b"a,y\n1,0\n", io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(held, "w") as archive:
            archive.writestr("folder/", "")
            archive.writestr("folder/houses.csv", content)
    else:
        with tarfile.open(fileobj=held, mode="w") as archive:
            member = tarfile.TarInfo("houses.csv")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return held.getvalue() if kind != "tar.gz" else gzip.compress(held.getvalue())


PACKED = r"is an archive, or packed in a way that is not read here; unpack it, and name the file in it"
OTHER = r"is a file of another kind that is not read here; write its table as CSV or Parquet, .* numpy.save"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.zip", packed("zip"), PACKED),
        ("a.csv", packed("zip"), PACKED),
        ("a.tar", packed("tar"), PACKED),
        ("a.csv.gz", packed("tar.gz"), PACKED),
        ("a.7z", b"7z\xbc\xaf\x27\x1c", PACKED),
        ("a.csv.xz", b"\xfd7zXZ\x00", PACKED),
        ("a.csv.lz4", b"\x04\x22M\x18", PACKED),
        ("a.json", b"[1]", OTHER),
        ("a.yaml", b"a: 1", OTHER),
        ("a.xlsb", b"x", OTHER),
        ("a.sav", b"$FL2@(#)", OTHER),
        ("a.dta", b"<stata_dta>", OTHER),
        ("a.sas7bdat", b"x", OTHER),
        ("a.RData", gzip.compress(b"RDX3\n", mtime=0), OTHER),
        ("a.db", b"SQLite format 3", OTHER),
        ("a.orc", b"ORC", OTHER),
        ("a.mat", b"MATLAB 5.0", OTHER),
        ("a.csv", b'[{"a": 1, "y": 2}]', OTHER),
        ("a.txt", b'{"a": 1}', OTHER),
        ("a.csv", b"% made by x\n@RELATION w\n@attribute a real\n@data\n1\n", OTHER),
        ("a.csv", b"version https://git-lfs.github.com/spec/v1\nsize 12\n", r"Git LFS; .* \(git lfs pull\)"),
        ("a.npy", b"a,y\n1,2\n", r"is not a matrix of .*, but a text; if it is a table, end its name in .csv"),
        ("a.npz", b"a,y\n1,2\n", r"is not a matrix of numbers saved by scipy or numpy, but a text"),
        (
            "a.md",
            b"# Title\nSome words\n",
            r"its ending '.md' does not say what it is, and its first lines are neither",
        ),
        ("a.csv", b"\n<!DOCTYPE HTML><html>", r"holds a web page \(HTML\), not a table, .*; fetch it again"),
        (
            "a.csv",
            b"1 3:1 4:2.5\n",
            r"form label index:value, .*; end its name in .svm, or say .*\(--delimiter blanks\)",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_remedy(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        datasets.read(tmp_path / name)
    if "blanks" in said:
        assert form(tmp_path / name, delimited=True) == "csv"


def test_a_file_that_is_only_compressed_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1,0\n2,1\n" * 9))
    assert datasets.read(tmp_path / "a.csv.gz", test_fraction=None).n_train == 18


@pytest.mark.parametrize("name", ["adult.test", "t.dat", "t.csv.bak", "t.all-data", "t", "t.2024"])
@pytest.mark.parametrize("delimiter", [",", "\t", " "])
def test_a_text_of_fields_is_a_table_whatever_its_name(tmp_path: Path, name: str, delimiter: str) -> None:
    rows = [[f"{row}.5", str(row % 7), str(row % 2)] for row in range(20)]
    (tmp_path / name).write_text("".join(delimiter.join(row) + "\n" for row in rows))
    assert datasets.read(tmp_path / name, test_fraction=None).n_train == 20
