"""The format of a user's file, detected by its first bytes, or otherwise by the suffix of its name."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Literal, TypeAlias

from erasurehead._internal.user_files import beginning
from erasurehead.datasets.readers.files import suffix
from erasurehead.datasets.readers.svmlight import looks_like_svmlight
from erasurehead.errors import DataError

Form: TypeAlias = Literal["csv", "parquet", "npy", "npz", "svmlight"]
"""Tables (`csv`, `parquet`), and matrices."""

READ = ".csv, .tsv, .parquet, .svm, .npz or .npy"
"""The suffixes of files that can be read, for messages."""

_TABLES = frozenset({".csv", ".tsv"})
_SVMLIGHT = frozenset({".svm", ".svmlight", ".libsvm"})
_EITHER = frozenset({".txt", ".data"})
_EXPORT = "export it as CSV, and name that file"
_UNPACK = "unpack it, and name the file in it"
_BINARY: tuple[tuple[bytes, str, str], ...] = (
    (b"\xd0\xcf\x11\xe0", "an Excel file", _EXPORT),
    (b"\xfd7zXZ", "compressed with xz", "unpack it (unxz)"),
    (b"(\xb5/\xfd", "compressed with zstd", "unpack it (unzstd)"),
    (b"7z\xbc\xaf", "a 7z archive", _UNPACK),
    (b"Rar!", "a RAR archive", _UNPACK),
    (b"%PDF", "a PDF document", _EXPORT),
    (b"\x89HDF", "an HDF5 file", "write the table as CSV or Parquet, or the matrix with numpy.save"),
    (b"ARROW1", "an Arrow (Feather) file", "write it as Parquet (pyarrow.parquet.write_table)"),
    (b"SQLite", "an SQLite database", _EXPORT),
    (b"\x80\x04", "a Python pickle", "write the table as CSV or Parquet, or the matrix with numpy.save"),
    (b"\x80\x05", "a Python pickle", "write the table as CSV or Parquet, or the matrix with numpy.save"),
)
"""First bytes of files that cannot be read, what they are, and what to do."""
_TEXTS: dict[str, tuple[str, str]] = {
    ".json": ("JSON", "write the table as CSV or Parquet"),
    ".jsonl": ("JSON lines", "write the table as CSV or Parquet"),
    ".ndjson": ("JSON lines", "write the table as CSV or Parquet"),
    ".arff": ("ARFF", _EXPORT),
    ".xml": ("XML", _EXPORT),
    ".html": ("HTML", _EXPORT),
    ".htm": ("HTML", _EXPORT),
    ".xlsx": ("an Excel file", _EXPORT),
    ".xls": ("an Excel file", _EXPORT),
    ".ods": ("an OpenDocument file", _EXPORT),
    ".zip": ("a ZIP archive", _UNPACK),
    ".tar": ("a TAR archive", _UNPACK),
    ".tgz": ("a TAR archive", _UNPACK),
    ".mat": ("a MATLAB file", "write the matrix with numpy.save or scipy.sparse.save_npz"),
    ".toml": ("TOML", "a run file goes without --data: erasurehead train RUN_FILE"),
}
"""Suffixes of files that cannot be read, what they are, and what to do."""


def form(path: Path, delimited: bool = False) -> Form:
    """Return the format of a file.

    Arguments:
        path: of the file.
        delimited: whether a delimiter was given, so that a text is a table.

    Raises:
        DataError: if the format cannot be read; the message says what it is, and what to do.
    """
    first, ending = beginning(path), suffix(path)
    if not first:
        raise DataError(f"{path} is empty.")
    if first.startswith(b"PAR1"):
        return "parquet"
    if first.startswith(b"\x93NUMPY"):
        return "npy"
    if first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(path)
    for magic, what, remedy in _BINARY:
        if first.startswith(magic):
            raise DataError(f"{path} is {what}, which is not read; {remedy}.")
    if ending in (".parquet", ".pq"):
        return "parquet"  # and damaged, as the reader will report
    if ending == ".npy":
        return "npy"
    if ending == ".npz":
        return "npz"
    if ending in _TEXTS:
        what, remedy = _TEXTS[ending]
        raise DataError(f"{path}: {what} is not read here; {remedy}.")
    return "csv" if delimited and ending not in _SVMLIGHT else _text_form(path, first, ending)


def _text_form(path: Path, first: bytes, ending: str) -> Form:
    if ending in _TABLES:
        return "csv"
    if ending in _SVMLIGHT:
        return "svmlight"
    if first.lstrip().startswith((b"{", b"[", b"<")):
        raise DataError(f"{path} is neither a table nor a matrix; it begins with {chr(first.lstrip()[0])!r}. Name a "
                        f"file that ends in {READ}.")  # fmt: skip
    if looks_like_svmlight(path):
        return "svmlight"
    if ending in _EITHER or (not ending and any(mark in first.split(b"\n", 1)[0] for mark in b",;\t|")):
        return "csv"
    said = f"its ending {ending!r} says" if ending else "its name says"
    raise DataError(
        f"{path}: {said} not what it is, and its first line is not of the form label index:value; end its name in "
        f"{READ}."
    )


def _zipped(path: Path) -> Form:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        names = []
    if suffix(path) == ".npz" or (names and all(name.endswith(".npy") for name in names)):
        return "npz"
    if any(name.startswith("xl/") for name in names):
        raise DataError(f"{path} is an Excel file, which is not read; {_EXPORT}.")
    if "content.xml" in names:
        raise DataError(f"{path} is an OpenDocument file, which is not read; {_EXPORT}.")
    raise DataError(f"{path} is a ZIP archive, which is not read; {_UNPACK}.")
