"""Where runs and comparisons leave their files: the names, stated in this one place, and folders for them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from erasurehead.errors import InvalidArgument
from erasurehead.records.locks import check_unlocked

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
COMPARISON = "comparison.json"
TABLE = "comparison.md"
FIGURES = "figures"

_OF_A_RUN = frozenset({CONFIG, STEPS, ARRIVALS, EVALUATIONS, MODEL, ENCODING, SUMMARY, CONTROL, LOCK.removeprefix(".")})
_OF_A_COMPARISON = frozenset({COMPARISON, TABLE, FIGURES})
_PICTURES = frozenset({".png", ".svg", ".pdf"})
_PROBE = ".erasurehead-"
_OF_A_CHECKPOINT = re.compile(r"(step-\d+\.json|tensors-\d+\.safetensors)")


def check_free(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Return the path of a folder to be, which must not be used and must be writable; it is not made yet.

    Arguments:
        path: of the folder.
        overwrite: whether it may hold an earlier run or comparison, and nothing else. A run that ended before its
            first step is no more than an empty folder.

    Raises:
        InvalidArgument: if it is used, or cannot be written to.
    """
    place = Path(path).expanduser()
    try:
        if place.is_dir():
            _check_contents(place, overwrite)
        elif place.exists():
            raise InvalidArgument(f"The run folder {str(place)!r} is a file; name a folder that is empty or not there.")
    except OSError as error:
        raise _unwritable(place, error.strerror or str(error)) from None
    check_writable(place)
    return place


def check_writable(place: Path, what: str = "The run folder") -> None:
    """Raise if a folder, or the folders above it that are not there yet, cannot be written to.

    Arguments:
        place: the folder, or where it is to be.
        what: it is, for errors.

    Raises:
        InvalidArgument: saying why.
    """
    above = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise _unwritable(place, f"{str(above)!r} is a file", what)
    try:
        os.rmdir(tempfile.mkdtemp(prefix=_PROBE, dir=above))  # asking for permission alone is not enough
    except OSError as error:
        raise _unwritable(place, f"nothing can be made in {str(above)!r} ({error.strerror})", what) from None


def make_folder(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Make an empty folder; arguments and errors as for `check_free`."""
    place = check_free(path, overwrite)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for entry in place.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    except OSError as error:
        raise _unwritable(place, error.strerror or str(error)) from None
    return place


def _check_contents(place: Path, overwrite: bool) -> None:
    entries = sorted(place.iterdir())
    for run in (place, *(entry for entry in entries if entry.is_dir())):
        check_unlocked(run / LOCK)
    if entries and not overwrite and (has_steps(place) or not (place / STEPS).is_file()):
        raise InvalidArgument(
            f"The run folder {str(place)!r} is used already: it is not empty; name another one, leave it out to have a"
            " new one made, or say overwrite (--overwrite)."
        )
    strange = next((entry for entry in entries if not _is_ours(entry)), None)
    if strange is not None:
        raise InvalidArgument(
            f"The run folder {str(place)!r} is not overwritten: it holds {strange.name!r}, which no run wrote there;"
            " name another one."
        )


def has_steps(place: Path) -> bool:
    """Whether a folder holds steps of a run. One that ended before its first step leaves nothing worth keeping."""
    steps = place / STEPS
    return (steps.is_file() and steps.stat().st_size > 0) or (place / CHECKPOINTS).exists()


def _is_ours(entry: Path) -> bool:
    """Whether a run or a comparison wrote this."""
    if entry.is_symlink() or not entry.is_dir():
        return _whole_name(entry) in _OF_A_RUN | _OF_A_COMPARISON
    if entry.name.startswith(_PROBE):
        return not any(entry.iterdir())
    if entry.name == CHECKPOINTS:
        return all(_OF_A_CHECKPOINT.fullmatch(_whole_name(file)) is not None for file in entry.iterdir())
    if entry.name == FIGURES:
        return all(picture.suffix in _PICTURES for picture in entry.iterdir())
    return (entry / STEPS).is_file() and all(map(_is_ours, entry.iterdir()))


def _whole_name(entry: Path) -> str:
    """Return a file's name without what marks one that is not whole yet."""
    return entry.name.removeprefix(".").removesuffix(".new")


def next_free(folder: str | os.PathLike[str], name: str) -> Path:
    """Return the first of `name-1`, `name-2`, ... in a folder that is not there yet."""
    number = 1
    while (place := Path(folder) / f"{name}-{number}").exists():
        number += 1
    return place


def _unwritable(place: Path, why: str, what: str = "The run folder") -> InvalidArgument:
    return InvalidArgument(f"{what} {str(place)!r} cannot be written to: {why}; name another one (--out).")
