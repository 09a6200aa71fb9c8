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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.zip",
            packed("zip"),
            r"is a ZIP archive, .*; unpack it \(unzip\), and name the file in it: folder/houses.csv",
        ),
        ("a.csv", packed("zip"), r"is a ZIP archive"),
        ("a.tar", packed("tar"), r"is a TAR archive, .*; unpack it \(tar -xf\), and name the file in it"),
        ("a.csv.gz", packed("tar.gz"), r"is a TAR archive"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c", r"is a 7z archive, .*; unpack it \(7z x\)"),
        ("a.csv.xz", b"\xfd7zXZ\x00", r"is compressed with xz, .*; unpack it \(unxz\)"),
        ("a.csv.lz4", b"\x04\x22M\x18", r"is compressed with lz4, .*; unpack it \(unlz4\)"),
        ("a.json", b"[1]", r"JSON is not read here; write the table as CSV or Parquet"),
        ("a.yaml", b"a: 1", r"YAML is not read here"),
        ("a.xlsb", b"x", r"an Excel file is not read here; export it as CSV"),
        ("a.sav", b"$FL2@(#)", r"is an SPSS file, which cannot be read; export it as CSV"),
        ("a.dta", b"<stata_dta>", r"is a Stata file, which cannot be read; export it as CSV"),
        ("a.sas7bdat", b"x", r"a SAS file is not read here; export it as CSV"),
        (
            "a.RData",
            gzip.compress(b"RDX3\n", mtime=0),
            "is a file of R, which cannot be read; write the table with write.csv",
        ),
        ("a.db", b"SQLite format 3", r"is an SQLite database, .*; export it as CSV"),
        ("a.orc", b"ORC", r"is an ORC file, which cannot be read; write it as Parquet"),
        ("a.mat", b"MATLAB 5.0", r"is a MATLAB file, .* numpy.save"),
        ("a.csv", b'[{"a": 1, "y": 2}]', r"is JSON, which cannot be read; write the table as CSV or Parquet"),
        ("a.txt", b'{"a": 1}', r"is JSON, which cannot be read"),
        ("a.csv", b"% made by x\n@RELATION w\n@attribute a real\n@data\n1\n", r"is ARFF, .*; export it as CSV"),
        ("a.csv", b"version https://git-lfs.github.com/spec/v1\nsize 12\n", r"Git LFS, .* \(git lfs pull\)"),
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
