"""The format of a user's file, detected by its first bytes, or otherwise by the suffix of its name."""

from __future__ import annotations

import re
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
_PANDAS = "write the table as CSV or Parquet"
_ARRAYS = "write the table as CSV or Parquet, or the matrix with numpy.save"
_SPSS, _STATA, _SAS = "an SPSS file", "a Stata file", "a SAS file"
_TAR = ("a TAR archive", "unpack it (tar -xf), and name the file in it")
_XZ, _ZSTD = ("compressed with xz", "unpack it (unxz)"), ("compressed with zstd", "unpack it (unzstd)")
_HDF5, _FEATHER = (
    ("an HDF5 file", _ARRAYS),
    ("an Arrow (Feather) file", "write it as Parquet (pyarrow.parquet.write_table)"),
)
_PICKLE = ("a Python pickle", _ARRAYS)
_EXCEL = ("an Excel file", _EXPORT)
_7Z, _RAR = ("a 7z archive", "unpack it (7z x), and name the file in it"), ("a RAR archive", _UNPACK)
_BINARY: tuple[tuple[bytes, tuple[str, str]], ...] = (
    (b"\xd0\xcf\x11\xe0", _EXCEL),
    (b"\xfd7zXZ", _XZ),
    (b"(\xb5/\xfd", _ZSTD),
    (b"\x04\x22M\x18", ("compressed with lz4", "unpack it (unlz4)")),
    (b"\x1f\x9d", ("compressed with compress", "unpack it (uncompress)")),
    (b"7z\xbc\xaf", _7Z),
    (b"Rar!", _RAR),
    (b"%PDF", ("a PDF document", _EXPORT)),
    (b"\x89HDF", _HDF5),
    (b"ARROW1", _FEATHER),
    (b"ORC", ("an ORC file", "write it as Parquet")),
    (b"Obj\x01", ("an Avro file", "write it as Parquet")),
    (b"SQLite", ("an SQLite database", _EXPORT)),
    (b"\x80\x03", _PICKLE),
    (b"\x80\x04", _PICKLE),
    (b"\x80\x05", _PICKLE),
    (b"$FL2", (_SPSS, _EXPORT)),
    (b"$FL3", (_SPSS, _EXPORT)),
    (b"<stata_dta>", (_STATA, _EXPORT)),
    (b"RDX", ("a file of R", "write the table with write.csv")),
    (b"X\n\x00\x00\x00", ("a file of R", "write the table with write.csv")),
    (b"MATLAB", ("a MATLAB file", "write the matrix with numpy.save or scipy.sparse.save_npz")),
)
"""First bytes of files that cannot be read, what they are, and what to do."""
_TEXTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys((".json", ".geojson"), ("JSON", _PANDAS)),
    **dict.fromkeys((".jsonl", ".ndjson"), ("JSON lines", _PANDAS)),
    **dict.fromkeys((".yaml", ".yml"), ("YAML", _PANDAS)),
    ".arff": ("ARFF", _EXPORT),
    ".xml": ("XML", _EXPORT),
    **dict.fromkeys((".html", ".htm"), ("HTML", _EXPORT)),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls"), _EXCEL),
    ".ods": ("an OpenDocument file", _EXPORT),
    **dict.fromkeys((".sav", ".zsav", ".por"), (_SPSS, _EXPORT)),
    ".dta": (_STATA, _EXPORT),
    **dict.fromkeys((".sas7bdat", ".xpt"), (_SAS, _EXPORT)),
    **dict.fromkeys((".rds", ".rda", ".rdata"), ("a file of R", "write the table with write.csv")),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3", ".mdb", ".accdb", ".dbf"), ("a database", _EXPORT)),
    ".sql": ("a dump of a database", _EXPORT),
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), _HDF5),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _FEATHER),
    ".orc": ("an ORC file", "write it as Parquet"),
    ".avro": ("an Avro file", "write it as Parquet"),
    **dict.fromkeys((".pkl", ".pickle"), _PICKLE),
    ".zip": ("a ZIP archive", "unpack it (unzip), and name the file in it"),
    **dict.fromkeys((".tar", ".tgz", ".tbz2", ".txz"), _TAR),
    ".7z": _7Z,
    ".rar": _RAR,
    ".xz": _XZ,
    ".zst": _ZSTD,
    ".mat": ("a MATLAB file", "write the matrix with numpy.save or scipy.sparse.save_npz"),
    ".toml": ("TOML", "a run file goes without --data: erasurehead train RUN_FILE"),
}
"""Suffixes of files that cannot be read, what they are, and what to do."""
_PAGE = (b"<!doctype html", b"<html")
_CONTENTS: tuple[tuple[bytes, tuple[str, str]], ...] = (
    (rb"\s*(\{\s*\"|\[\s*[\[{])", ("JSON", _PANDAS)),
    (rb"\s*<\?xml", ("XML", _EXPORT)),
    (rb"([ \t\r\n]|%[^\n]*\n)*@relation\b", ("ARFF", _EXPORT)),
    (rb"version https://git-lfs", ("a pointer to a file in Git LFS", "fetch the file itself (git lfs pull)")),
)
"""How texts begin that are no tables, whatever their names say, what they are, and what to do."""
_FIELDS = re.compile(rb"[,;\t|]|^[ \t]*[-+.\d]\S*[ \t]+[-+.\d]", re.MULTILINE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


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
    if first[257:262] == b"ustar":
        raise DataError(f"{path} is {_TAR[0]}, which is not read; {_TAR[1]}.")
    if first.lstrip()[:14].lower().startswith(_PAGE) and ending not in (".html", ".htm"):
        raise DataError(
            f"{path} holds a page of the web (HTML) and no table, as where a download needs a login; fetch it again."
        )
    for magic, (what, remedy) in _BINARY:
        if first.startswith(magic):
            raise DataError(f"{path} is {what}, which is not read; {remedy}.")
    if ending in (".parquet", ".pq"):
        return "parquet"  # and damaged, as the reader will report
    if ending in (".npy", ".npz"):
        if not _CONTROL.search(first):
            raise DataError(
                f"{path} is not a matrix of numbers saved by scipy or numpy, but a text; if it is a table, end its "
                "name in .csv."
            )
        return "npy" if ending == ".npy" else "npz"
    if ending not in _TEXTS:
        for begins, (what, remedy) in _CONTENTS:
            if re.match(begins, first, re.IGNORECASE):
                raise DataError(f"{path} is {what}, which is not read; {remedy}.")
    else:
        what, remedy = _TEXTS[ending]
        raise DataError(f"{path}: {what} is not read here; {remedy}.")
    return "csv" if delimited and ending not in _SVMLIGHT else _text_form(path, first, ending)


def _text_form(path: Path, first: bytes, ending: str) -> Form:
    if ending in _TABLES:
        if looks_like_svmlight(path):
            raise DataError(
                f"{path}: its first line is of the form label index:value, as in svmlight files; end its name in .svm, "
                "or say how its fields stand apart if it is a table (--delimiter blanks)."
            )
        return "csv"
    if ending in _SVMLIGHT:
        return "svmlight"
    if first.lstrip().startswith((b"{", b"[", b"<")):
        raise DataError(
            f"{path} is neither a table nor a matrix; it begins with {chr(first.lstrip()[0])!r}. Name a "
            f"file that ends in {READ}."
        )
    if looks_like_svmlight(path):
        return "svmlight"
    lines = b"\n".join(first.split(b"\n", 2)[:2])  # the first may be a title
    if ending in _EITHER or (not _CONTROL.search(first) and _FIELDS.search(lines)):
        return "csv"
    said = f"its ending {ending!r} says" if ending else "its name says"
    raise DataError(
        f"{path}: {said} not what it is, and its first lines are neither fields of a table nor of the form label "
        f"index:value; end its name in {READ}."
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
    held = [name for name in names if not name.endswith("/")]
    inside = f"it: {', '.join(held[:3])}{', ...' * (len(held) > 3)}" if held else "it"
    raise DataError(f"{path} is a ZIP archive, which is not read; unpack it (unzip), and name the file in {inside}.")
