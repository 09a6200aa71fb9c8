"""Names of the files of runs and comparisons, and creation of their folders."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from erasurehead._internal.storage.access import Access
from erasurehead._internal.storage.checksums import CHECKSUMS
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.runs._locks import check_unlocked
from erasurehead.trackers._tracked_run import TRACKED

RUNS = "runs"
"""The default folder in which run folders are created."""

CONFIG = "config.toml"
STEPS = "steps.jsonl"
ARRIVALS = "arrivals.jsonl"
EVALUATIONS = "evaluations.jsonl"
MODEL = "model.safetensors"
ENCODING = "encoding.json"
SUMMARY = "summary.json"
CHECKPOINTS = "checkpoints"
LOCK = ".lock"
CONTROL = "control.json"
PEERS = "peers.jsonl"
MEANS = "means.jsonl"
VIEW_CHANGES = "view_changes.jsonl"
WAITING = "waiting.json"
"""Which workers are late now: written during a step, at most once a second, and removed when the run has ended."""
COMPARISON = "comparison.json"
TABLE = "comparison.md"
FIGURES = "figures"
PICTURES = ("comparison", "progress", "step_times", "speed_up", "timeline", "gap", "consensus", "links")
"""The names of figures, without suffixes."""

ROWS = (STEPS, ARRIVALS)
"""Files that grow during a run, and are written in place."""

ROWS_OF_PEERS = (PEERS, MEANS, VIEW_CHANGES)
"""The same for a run without a coordinator."""

OF_A_RUN = frozenset(
    {CONFIG, *ROWS, *ROWS_OF_PEERS, EVALUATIONS, MODEL, ENCODING, SUMMARY, CONTROL, WAITING, TRACKED, CHECKSUMS}
)
MANIFEST_NAME = re.compile(r"step-(\d{7,15})\.json", re.ASCII)
TENSORS_NAME = re.compile(r"tensors-(\d{7,15})\.safetensors", re.ASCII)

_OF_A_COMPARISON = frozenset({COMPARISON, TABLE})
_OF_FIGURES = frozenset(f"{name}.{form}" for name in PICTURES for form in ("png", "svg", "pdf"))
_PROBE = ".erasurehead-"


def of_checkpoints(name: str) -> bool:
    """Return whether a file name is one of checkpoints."""
    whole = _whole(name)
    return MANIFEST_NAME.fullmatch(whole) is not None or TENSORS_NAME.fullmatch(whole) is not None


def _whole(name: str) -> str:
    """Return the final name of a file, which is called `.NAME.new` while it is written."""
    return name[1:-4] if name.startswith(".") and name.endswith(".new") else name


def _of_a_run(name: str) -> bool:
    return name == LOCK or _whole(name) in OF_A_RUN


def check_free(path: StrPath, overwrite: bool = False) -> Path:
    """Return the path of a folder to create, which must be unused and writable; it is not created yet.

    Arguments:
        path: of the folder.
        overwrite: whether it may hold an earlier run or comparison, but nothing else. A run that ended before its
            first step counts as an empty folder.

    Raises:
        InvalidArgument: if it is in use, or cannot be written to.
    """
    place = Path(path).expanduser()
    try:
        if place.is_dir():
            with Folder.open(place) as folder, contextlib.ExitStack() as opened:
                _earlier(folder, overwrite, opened)
        elif place.exists():
            sentence = f"The run folder {str(place)!r} is a file; name a folder that is empty or not there."
            raise InvalidArgument("run.out", "must be a folder", str(place), sentence=sentence)
    except OSError as error:
        raise _unwritable(place, error.strerror or str(error)) from None
    check_writable(place)
    return place


def check_writable(place: Path, what: str = "The run folder") -> None:
    """Raise if a folder cannot be written to, or cannot be created.

    Arguments:
        place: path of the folder, which need not exist.
        what: name of the folder, for errors.

    Raises:
        InvalidArgument: if so; the error says why.
    """
    if "\0" in str(place):
        raise _unwritable(place, "a NUL character is in its name", what)
    above = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise _unwritable(place, f"{str(above)!r} is a file", what)
    try:
        os.rmdir(tempfile.mkdtemp(prefix=_PROBE, dir=above))  # checking permissions is not enough
    except OSError as error:
        raise _unwritable(place, f"nothing can be made in {str(above)!r} ({error.strerror})", what) from None


def make_folder(path: StrPath, overwrite: bool = False, access: Access = "private") -> Path:
    """Create an empty folder; errors as for `check_free`.

    Everything in it is checked before anything is removed.

    Arguments:
        path: path of the folder. An existing one keeps its mode.
        overwrite: as for `check_free`.
        access: who may read it.
    """
    place = check_free(path, overwrite)
    try:
        with Folder.made(place, access) as folder, contextlib.ExitStack() as opened:
            for entry in _earlier(folder, overwrite, opened):
                entry.remove()
    except OSError as error:
        raise _unwritable(place, error.strerror or str(error)) from None
    return place


def remove_run(place: Path, folders: Sequence[Path]) -> None:
    """Remove what a run that has not begun has left in its folder, and then the folders that were made for it.

    Arguments:
        place: path of its folder.
        folders: those to be removed if they are empty, each before the one that it is in.
    """
    with contextlib.suppress(OSError, InvalidArgument):
        with Folder.open(place) as folder, contextlib.ExitStack() as opened:
            for entry in _earlier(folder, True, opened):
                entry.remove()
        for folder in folders:
            folder.rmdir()


@dataclass(frozen=True, eq=False)
class _Entry:
    """A file of an earlier run that is to be removed."""

    folder: Folder
    name: str
    is_folder: bool

    def remove(self) -> None:
        if self.is_folder:
            self.folder.remove_folder(self.name)
        else:
            self.folder.remove(self.name)


def _earlier(folder: Folder, overwrite: bool, opened: contextlib.ExitStack) -> list[_Entry]:
    """Return what an earlier run or comparison left in a folder, files before their folders.

    Arguments:
        folder: the folder to examine.
        overwrite: whether there may be an earlier run.
        opened: closes the subfolders that are kept open for removal.

    Raises:
        InvalidArgument: if it is in use, or holds something that no run wrote.
    """
    names = folder.names()
    inner = [name for name in names if _ours_in_a_comparison(name) and folder.kind(name) == "folder"]
    for place in (folder.path, *(folder.path / name for name in inner)):
        check_unlocked(place / LOCK)
    if names and not overwrite and (_has_steps(folder) or folder.kind(STEPS) != "file"):
        raise InvalidArgument(
            "run.out",
            "must be empty, or not there",
            str(folder.path),
            "name another one",
            sentence=f"The run folder {str(folder.path)!r} is already in use: it is not empty; name another, leave "
            "it out for a new one, or give --overwrite.",
        )
    return _found(folder, names, opened, whole=True)


def _ours_in_a_comparison(name: str) -> bool:
    return name.isprintable() and name not in (CHECKPOINTS, FIGURES) and not name.startswith(_PROBE)


def _found(folder: Folder, names: list[str], opened: contextlib.ExitStack, whole: bool) -> list[_Entry]:
    """Return everything in the folder of a run, or, if `whole`, of a comparison."""
    entries: list[_Entry] = []
    for name in names:
        kind = folder.kind(name) if name.isprintable() else ""
        if kind == "file" and (_of_a_run(name) or (whole and _whole(name) in _OF_A_COMPARISON)):
            entries.append(_Entry(folder, name, False))
        elif kind == "folder" and (whole or name == CHECKPOINTS):
            entries += [*_found_inside(folder, name, opened), _Entry(folder, name, True)]
        else:
            raise _strange(folder, name, kind)
    return entries


def _found_inside(folder: Folder, name: str, opened: contextlib.ExitStack) -> list[_Entry]:
    """Return everything in a subfolder of a run or a comparison."""
    inner = opened.enter_context(folder.inside(name))
    names = inner.names()
    if name not in (CHECKPOINTS, FIGURES) and not name.startswith(_PROBE):
        if inner.kind(STEPS) != "file":
            raise _strange(folder, name, "folder")
        return _found(inner, names, opened, whole=False)
    for entry in names:
        ours = (name == CHECKPOINTS and of_checkpoints(entry)) or (name == FIGURES and _whole(entry) in _OF_FIGURES)
        if not ours or inner.kind(entry) != "file":
            raise _strange(inner, entry, inner.kind(entry) if ours else "")
    return [_Entry(inner, entry, False) for entry in names]


def _strange(folder: Folder, name: str, kind: str) -> InvalidArgument:
    what = f" (it is a {kind})" if kind not in ("", "file", "folder") else ""
    return InvalidArgument(
        "run.out",
        "must hold only what a run wrote",
        str(folder.path),
        "name another one",
        sentence=f"The run folder {str(folder.path)!r} is not overwritten: it holds {name!r}, which no run wrote "
        f"there{what}; name another one.",
    )


def check_tame(place: Path) -> None:
    """Raise if something in the folder of a run has a name that runs use, but is not what runs create.

    Called before anything in it is changed. Other files are ignored.

    Raises:
        DataError: if so; the error names it.
    """
    try:
        with Folder.open(place) as folder:
            for name in folder.names():
                if name in (CHECKPOINTS, FIGURES):
                    with folder.inside(name) as inner:
                        for file in filter(of_checkpoints, inner.names()):  # pictures are replaced, whatever they are
                            inner.check_file(file)
                elif _of_a_run(name):
                    folder.check_file(name, single=name in (*ROWS, *ROWS_OF_PEERS, LOCK))
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError) and error.filename == str(place):
            raise no_run_folder(place, error) from None
        raise DataError(f"{error.filename or place} cannot be used: {error.strerror}.") from None


def no_run_folder(place: Path, error: OSError) -> DataError:
    """Return the error for a run folder that cannot be opened because it is missing, or a file."""
    why = "it is a file" if isinstance(error, NotADirectoryError) else "it does not exist"
    return DataError(f"{str(place)!r} is not a run folder: {why}.")


def has_steps(place: Path) -> bool:
    """Whether a folder holds steps of a run. A run without steps leaves nothing worth keeping."""
    try:
        with Folder.open(place) as folder:
            return _has_steps(folder)
    except OSError:
        return False


def _has_steps(folder: Folder) -> bool:
    return folder.size(STEPS) > 0 or folder.kind(CHECKPOINTS) != ""


def has_checkpoints(place: Path) -> bool:
    """Whether a folder holds a checkpoint of a run, usable or not."""
    try:
        with Folder.open(place) as folder, folder.inside(CHECKPOINTS) as inner:
            return any(MANIFEST_NAME.fullmatch(name) for name in inner.names())
    except OSError:
        return False


def next_free(folder: StrPath, name: str) -> Path:
    """Return the first of `name-1`, `name-2`, ... in a folder that does not exist yet."""
    number = 1
    while os.path.lexists(place := Path(folder) / f"{name}-{number}"):
        number += 1
    return place


def _unwritable(place: Path, why: str, what: str = "The run folder") -> InvalidArgument:
    sentence = f"{what} {str(place)!r} cannot be written to: {why}; name another one (--out)."
    return InvalidArgument("run.out", "must be a place that can be written to", str(place), sentence=sentence)
