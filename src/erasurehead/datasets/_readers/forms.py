"""The format of a user's file, detected by its first bytes, or otherwise by the suffix of its name."""

from __future__ import annotations

import re
import zipfile
from glob import glob
from pathlib import Path
from typing import Literal, TypeAlias

from erasurehead._internal.user_files import StrPath, beginning, readable
from erasurehead.datasets._readers.files import suffix
from erasurehead.datasets._readers.svmlight import looks_like_svmlight
from erasurehead.errors import DataError

Form: TypeAlias = Literal["csv", "parquet", "npy", "npz", "svmlight"]
"""Tables (`csv`, `parquet`), and matrices."""

READ = ".csv, .tsv, .parquet, .svm, .npz or .npy"
"""The suffixes of files that can be read, for messages."""

_TABLES = frozenset({".csv", ".tsv"})
_SVMLIGHT = frozenset({".svm", ".svmlight", ".libsvm"})
_EITHER = frozenset({".txt", ".data"})
_PACKED = "an archive, or packed in a way", "unpack it, and name the file in it"
_OTHER = "a file of another kind", "write its table as CSV or Parquet, or its matrix with numpy.save"
_KINDS: tuple[tuple[tuple[str, str], str, tuple[bytes, ...]], ...] = (
    (
        _PACKED,
        ".zip .tar .tgz .tbz2 .txz .7z .rar .xz .zst",
        (b"7z\xbc\xaf", b"Rar!", b"\xfd7zXZ", b"(\xb5/\xfd", b"\x04\x22M\x18", b"\x1f\x9d"),
    ),
    (
        _OTHER,
        ".xlsx .xlsm .xlsb .xls .ods .h5 .hdf5 .hdf .feather .arrow .ipc .orc .avro .db .sqlite .sqlite3 .mdb .accdb "
        ".dbf .sql .pkl .pickle .sav .zsav .por .dta .sas7bdat .xpt .rds .rda .rdata .mat .json .geojson .jsonl "
        ".ndjson .yaml .yml .arff .xml .html .htm",
        (
            *(
                b"\xd0\xcf\x11\xe0",
                b"%PDF",
                b"\x89HDF",
                b"ARROW1",
                b"ORC",
                b"Obj\x01",
                b"SQLite",
                b"<stata_dta>",
                b"RDX",
            ),
            *(b"\x80\x03", b"\x80\x04", b"\x80\x05", b"$FL2", b"$FL3", b"X\n\x00\x00\x00", b"MATLAB"),
        ),
    ),
)
"""Files that are not read: what they are and what to do, the suffixes of their names, and their first bytes."""
_PAGE = (b"<!doctype html", b"<html")
_TEXT = re.compile(rb"\s*(\{\s*\"|\[\s*[\[{]|<\?xml)|([ \t\r\n]|%[^\n]*\n)*@relation\b", re.IGNORECASE)
"""How texts begin that are no tables, whatever their names say: JSON, XML and ARFF."""
_POINTER = b"version https://git-lfs"
_FIELDS = re.compile(rb"[,;\t|]|^[ \t]*[-+.\d]\S*[ \t]+[-+.\d]", re.MULTILINE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def opened(path: StrPath) -> Path:
    """Return the path of a file, or of a folder of Parquet files, that can be read more than once.

    Raises:
        DataError: as for `readable`; a folder without Parquet files is refused.
    """
    place = Path(path).expanduser()
    if is_parquet_folder(path):
        return place
    what, several = ("folder", place / "*.csv*") if place.is_dir() else ("pattern", place)
    if glob(str(several)) and (what == "folder" or not place.exists()):
        raise DataError(
            f"{str(place)!r} is a {what} of CSV files, which are read one at a time; put their rows into one file (awk "
            f"'NR == 1 || FNR > 1' {several} > all.csv, where each begins with the names of columns), or write each as "
            "Parquet: a folder of Parquet files is read as one table."
        )
    return readable(path)


def is_parquet_folder(path: StrPath) -> bool:
    """Return whether a path is that of a folder with Parquet files in it, or in folders called `name=value`."""
    place = Path(path).expanduser()
    return place.is_dir() and any(
        one.suffix == ".parquet" or ("=" in one.name and is_parquet_folder(one)) for one in place.iterdir()
    )


def form(path: Path, delimited: bool = False) -> Form:
    """Return the format of a file, or of a folder of files.

    Arguments:
        path: of the file.
        delimited: whether a delimiter was given, so that a text is a table.

    Raises:
        DataError: if the format cannot be read; the message says what it is, and what to do.
    """
    if path.is_dir():
        return "parquet"
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
        raise _refused(path, _PACKED)
    if first.lstrip()[:14].lower().startswith(_PAGE) and ending not in (".html", ".htm"):
        raise DataError(
            f"{path} holds a web page (HTML), not a table, perhaps because the download needs a login; fetch it again."
        )
    if first.startswith(_POINTER):
        raise DataError(f"{path} is a pointer to a file in Git LFS; fetch the file itself (git lfs pull).")
    for kind, _, begins in _KINDS:
        if first.startswith(begins):
            raise _refused(path, kind)
    if ending in (".parquet", ".pq"):
        return "parquet"  # and damaged, as the reader will report
    if ending in (".npy", ".npz"):
        if not _CONTROL.search(first):
            raise DataError(
                f"{path} is not a matrix of numbers saved by scipy or numpy, but a text; if it is a table, end its "
                "name in .csv."
            )
        return "npy" if ending == ".npy" else "npz"
    if ending == ".toml":
        raise DataError(f"{path}: a run file goes without --data: erasurehead train RUN_FILE.")
    for kind, endings, _ in _KINDS:
        if ending in endings.split() or (kind is _OTHER and _TEXT.match(first)):
            raise _refused(path, kind)
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
    clue = f"its ending {ending!r}" if ending else "its name"
    raise DataError(
        f"{path}: {clue} does not say what it is, and its first lines are neither fields of a table nor of the form "
        f"label index:value; end its name in {READ}."
    )


def _zipped(path: Path) -> Form:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        names = []
    if suffix(path) == ".npz" or (names and all(name.endswith(".npy") for name in names)):
        return "npz"
    raise _refused(path, _OTHER if any(name.startswith("xl/") or name == "content.xml" for name in names) else _PACKED)


def _refused(path: Path, kind: tuple[str, str]) -> DataError:
    what, remedy = kind
    return DataError(f"{path} is {what} that is not read here; {remedy}.")
