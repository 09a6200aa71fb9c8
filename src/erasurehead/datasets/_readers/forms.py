"""The format of a user's file, detected by its first bytes, or otherwise by the suffix of its name."""

from __future__ import annotations

import re
import zipfile
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
_EXPORT = "export it as CSV, and name that file"
_PANDAS = "write the table as CSV or Parquet"
_ARRAYS = "write the table as CSV or Parquet, or the matrix with numpy.save"
_INSIDE = "and name the file in it"
_FOREIGN: tuple[tuple[str, str, str, tuple[bytes, ...]], ...] = (
    ("an Excel file", _EXPORT, ".xlsx .xlsm .xlsb .xls", (b"\xd0\xcf\x11\xe0",)),
    ("an OpenDocument file", _EXPORT, ".ods", ()),
    ("a ZIP archive", f"unpack it (unzip), {_INSIDE}", ".zip", ()),
    ("a TAR archive", f"unpack it (tar -xf), {_INSIDE}", ".tar .tgz .tbz2 .txz", ()),
    ("a 7z archive", f"unpack it (7z x), {_INSIDE}", ".7z", (b"7z\xbc\xaf",)),
    ("a RAR archive", f"unpack it, {_INSIDE}", ".rar", (b"Rar!",)),
    ("compressed with xz", "unpack it (unxz)", ".xz", (b"\xfd7zXZ",)),
    ("compressed with zstd", "unpack it (unzstd)", ".zst", (b"(\xb5/\xfd",)),
    ("compressed with lz4", "unpack it (unlz4)", "", (b"\x04\x22M\x18",)),
    ("compressed with compress", "unpack it (uncompress)", "", (b"\x1f\x9d",)),
    ("a PDF document", _EXPORT, "", (b"%PDF",)),
    ("an HDF5 file", _ARRAYS, ".h5 .hdf5 .hdf", (b"\x89HDF",)),
    (
        "an Arrow (Feather) file",
        "write it as Parquet (pyarrow.parquet.write_table)",
        ".feather .arrow .ipc",
        (b"ARROW1",),
    ),
    ("an ORC file", "write it as Parquet", ".orc", (b"ORC",)),
    ("an Avro file", "write it as Parquet", ".avro", (b"Obj\x01",)),
    ("an SQLite database", _EXPORT, "", (b"SQLite",)),
    ("a database", _EXPORT, ".db .sqlite .sqlite3 .mdb .accdb .dbf", ()),
    ("a dump of a database", _EXPORT, ".sql", ()),
    ("a Python pickle", _ARRAYS, ".pkl .pickle", (b"\x80\x03", b"\x80\x04", b"\x80\x05")),
    ("an SPSS file", _EXPORT, ".sav .zsav .por", (b"$FL2", b"$FL3")),
    ("a Stata file", _EXPORT, ".dta", (b"<stata_dta>",)),
    ("a SAS file", _EXPORT, ".sas7bdat .xpt", ()),
    ("a file of R", "write the table with write.csv", ".rds .rda .rdata", (b"RDX", b"X\n\x00\x00\x00")),
    ("a MATLAB file", "write the matrix with numpy.save or scipy.sparse.save_npz", ".mat", (b"MATLAB",)),
    ("JSON", _PANDAS, ".json .geojson", ()),
    ("JSON lines", _PANDAS, ".jsonl .ndjson", ()),
    ("YAML", _PANDAS, ".yaml .yml", ()),
    ("ARFF", _EXPORT, ".arff", ()),
    ("XML", _EXPORT, ".xml", ()),
    ("HTML", _EXPORT, ".html .htm", ()),
    ("TOML", "a run file goes without --data: erasurehead train RUN_FILE", ".toml", ()),
)
"""Files that cannot be read: what they are, what to do, the suffixes of their names, and their first bytes."""
_BY_SUFFIX = {ending: (what, remedy) for what, remedy, endings, _ in _FOREIGN for ending in endings.split()}
_PAGE = (b"<!doctype html", b"<html")
_CONTENTS: tuple[tuple[bytes, str, str], ...] = (
    (rb"\s*(\{\s*\"|\[\s*[\[{])", "JSON", _PANDAS),
    (rb"\s*<\?xml", "XML", _EXPORT),
    (rb"([ \t\r\n]|%[^\n]*\n)*@relation\b", "ARFF", _EXPORT),
    (rb"version https://git-lfs", "a pointer to a file in Git LFS", "fetch the file itself (git lfs pull)"),
)
"""How texts begin that are no tables, whatever their names say, what they are, and what to do."""
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
    if place.is_dir() and any(place.glob("*.csv*")):
        raise DataError(
            f"{str(place)!r} is a folder of CSV files, which are read one at a time; put their rows into one file, or "
            "write each as Parquet: a folder of Parquet files is read as one table."
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
        raise _foreign(path, ".tar")
    if first.lstrip()[:14].lower().startswith(_PAGE) and ending not in (".html", ".htm"):
        raise DataError(
            f"{path} holds a web page (HTML), not a table, perhaps because the download needs a login; fetch it again."
        )
    for what, remedy, _, begins in _FOREIGN:
        if first.startswith(begins):
            raise DataError(f"{path} is {what}, which cannot be read; {remedy}.")
    if ending in (".parquet", ".pq"):
        return "parquet"  # and damaged, as the reader will report
    if ending in (".npy", ".npz"):
        if not _CONTROL.search(first):
            raise DataError(
                f"{path} is not a matrix of numbers saved by scipy or numpy, but a text; if it is a table, end its "
                "name in .csv."
            )
        return "npy" if ending == ".npy" else "npz"
    if ending in _BY_SUFFIX:
        what, remedy = _BY_SUFFIX[ending]
        raise DataError(f"{path}: {what} is not read here; {remedy}.")
    for begin, what, remedy in _CONTENTS:
        if re.match(begin, first, re.IGNORECASE):
            raise DataError(f"{path} is {what}, which cannot be read; {remedy}.")
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
    if any(name.startswith("xl/") for name in names):
        raise _foreign(path, ".xlsx")
    if "content.xml" in names:
        raise _foreign(path, ".ods")
    files = [name for name in names if not name.endswith("/")]
    inside = f"it: {', '.join(files[:3])}{', ...' * (len(files) > 3)}" if files else "it"
    raise DataError(f"{path} is a ZIP archive, which cannot be read; unpack it (unzip), and name the file in {inside}.")


def _foreign(path: Path, ending: str) -> DataError:
    what, remedy = _BY_SUFFIX[ending]
    return DataError(f"{path} is {what}, which cannot be read; {remedy}.")
