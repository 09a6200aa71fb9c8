"""Where the public files are: at a given path, in the folder that ERASUREHEAD_DATA names, or in a cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._published.recipe import Recipe

VARIABLE = "ERASUREHEAD_DATA"


@dataclass(frozen=True)
class Where:
    """Where a data set's file is, and where it was looked for.

    Arguments:
        name: name of the data set.
        file: the file; None if there is none.
        part: what the file holds if it is not the whole set, else empty.
        cache: scikit-learn's copy of an earlier download; None if there is none. It is read if there is no file.
        looked: the places that were searched, for people.
    """

    name: str
    file: Path | None
    part: str
    cache: Path | None
    looked: tuple[str, ...]


def locate(recipe: Recipe, path: StrPath | None = None) -> Where:
    """Look for a data set's public file.

    Arguments:
        recipe: recipe of the data set.
        path: the file, whatever its name, or a folder that holds it itself or in a subfolder named after the data
            set; None for the folder that the environment variable ERASUREHEAD_DATA names.
    """
    named = os.environ.get(VARIABLE) if path is None else path
    if not named:
        return Where(recipe.name, None, "", cached(recipe), (f"{VARIABLE}, which is not set",))
    place = Path(named).expanduser()
    described = str(place) if path is not None else f"{place} ({VARIABLE})"
    if path is not None and place.is_file():
        file, part = place, recipe.parts.get(_bare(place), "")
    else:
        file, part = _in_folder(recipe, place)
    return Where(recipe.name, file, part, cached(recipe) if path is None else None, (described,))


def _in_folder(recipe: Recipe, folder: Path) -> tuple[Path | None, str]:
    for name, part in (*((name, "") for name in recipe.files), *recipe.parts.items()):
        for place in (folder / recipe.name, folder):
            for ending in ("", ".gz", ".bz2"):
                file = place / f"{name}{ending}"
                if file.is_file():
                    return file, part
    return None, ""


def _bare(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".bz2")


def cached(recipe: Recipe) -> Path | None:
    """Return scikit-learn's copy of an earlier download, or None. scikit-learn itself is not imported."""
    home = Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser()
    if recipe.openml is None:
        copy = home / "covertype"
        return copy if copy.is_dir() and any(copy.iterdir()) else None
    # scikit-learn stores each answer under its address: the first request is for the description of the data set
    copy = home / "openml" / "openml.org" / "api" / "v1" / "json" / "data" / f"{recipe.openml}.gz"
    return copy if copy.is_file() else None
