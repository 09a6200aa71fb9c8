"""The data sets of the paper by name: from a file, a download, or a synthetic stand-in."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._base import Dataset, Published
from erasurehead.datasets._published.fetching import Fetch, fetch_public
from erasurehead.datasets._published.recipe import Recipe, follow, read_recipe
from erasurehead.datasets._published.recipes import AMAZON, COVERTYPE, KC_HOUSING
from erasurehead.datasets._published.search import VARIABLE, Where, locate
from erasurehead.datasets._published.synthetic import synthetic
from erasurehead.errors import DataError, check_choice, invalid

_RECIPES = {recipe.name: recipe for recipe in (AMAZON, KC_HOUSING, COVERTYPE)}

NAMES = tuple(_RECIPES)
"""Names of the data sets of the paper."""


def _recipe(name: str) -> Recipe:
    check_choice("name", name, _RECIPES, "read a file of your own with datasets.read")
    return _RECIPES[name]


def published(name: str) -> Published:
    """Return the settings of the paper's runs on a data set.

    Arguments:
        name: of a data set of the paper, one of `NAMES`.

    >>> published("amazon").rate
    10.0
    """
    return _recipe(name).published


def where(name: str, path: StrPath | None = None) -> Where:
    """Return where a data set's file is, and where it was looked for; see `load` for the places.

    Arguments:
        name: of a data set of the paper, one of `NAMES`.
        path: as for `load`.
    """
    return locate(_recipe(name), path)


def available(path: StrPath | None = None) -> tuple[Where, ...]:
    """Return, for each data set of the paper, where it is, and where it was looked for.

    Arguments:
        path: as for `load`.
    """
    return tuple(where(name, path) for name in NAMES)


def load(
    name: str,
    path: StrPath | None = None,
    *,
    fallback: Literal["synthetic"] | None = None,
    seed: int = 0,
    fetch: Fetch | None = fetch_public,
) -> Dataset:
    """Load a data set of the paper, preprocessed exactly as in its experiments.

    Arguments:
        name: `amazon`, `kc_housing` or `covertype`.
        path: the public file, or a folder that holds it, also in a subfolder named after the data set. If left out:
            the folder that the environment variable ERASUREHEAD_DATA names; if the file is missing, scikit-learn's
            cache; then the network.
        fallback: `"synthetic"` for the synthetic stand-in if there is neither a file, a copy nor a network; the data
            set's source and notes then say so. A `path` that does not hold the file is an error nevertheless.
        seed: seed of the synthetic stand-in.
        fetch: fetches the raw columns if there is no file; None never to use the network.

    Raises:
        InvalidArgument: if there is no such data set.
        DataError: if the file is missing or cannot be used; the message says what was tried, or names the line
            and the column.
    """
    recipe = _recipe(name)
    if fallback not in (None, "synthetic"):
        raise invalid("fallback", "must be None or 'synthetic'", fallback)
    place = locate(recipe, path)
    if place.file is not None:
        notes = (f"{place.file.name} holds {place.part}",) if place.part else ()
        return follow(recipe, read_recipe(recipe, place.file), str(place.file), notes)
    looked = f"looked for {' or '.join((*recipe.files, *recipe.parts))} (also .gz, .bz2) in {', '.join(place.looked)}"
    if path is not None:
        raise DataError(
            f"There is no {name} data: {looked}, also in a subfolder {name}; name another folder, or take synthetic "
            "data of its shape (--synthetic always)."
        )
    try:
        if fetch is None:
            raise DataError("the network may not be used")
        table = fetch(recipe)
    except DataError as error:
        if fallback == "synthetic":
            stand_in = synthetic(name, seed)
            return replace(stand_in, notes=(*stand_in.notes, f"{looked}; {error}"))
        raise DataError(
            f"There is no {name} data: {looked}; {error}; put the file into a folder that {VARIABLE} names, give its"
            f" path (--path), or take synthetic data of its shape, which need neither: datasets.synthetic({name!r}), or"
            " --synthetic always."
        ) from None
    return follow(recipe, table, table.source)
