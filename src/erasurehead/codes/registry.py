"""The catalogue of all codes, generated from the constructors themselves, and building a code by its name."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Mapping
from typing import cast

from erasurehead.codes.base import GradientCode
from erasurehead.codes.catalogue_row import Family
from erasurehead.codes.families import FAMILIES
from erasurehead.errors import InvalidArgument, invalid, real
from erasurehead.resources import check_memory

_MANY = 100_000  # workers from which on it is looked whether a code fits into memory
_BYTES = 40  # for each coefficient while a code is built, at least

_BY_NAME = {entry.name: entry for entry in FAMILIES}


def catalogue() -> tuple[Family, ...]:
    """Return all families, in the order of the catalogue.

    >>> [family.name for family in catalogue()][:3]
    ['uncoded', 'fractional_repetition', 'binary_repetition']
    """
    return FAMILIES


_ABBREVIATIONS = {
    "frc": ["fractional_repetition"],
    "crc": ["cyclic_repetition", "cyclic_mds"],
    "mds": ["cyclic_mds"],
    "rs": ["reed_solomon"],
    "bgc": ["bernoulli"],
    "rbgc": ["regularised_bernoulli"],
    "sbc": ["stochastic_block"],
    "sgc": ["stochastic_gradient"],
    "bibd": ["projective_plane", "affine_plane", "paley", "block_design"],
    "bcc": ["batched_coupons"],
    "draco": ["draco_repetition", "draco_cyclic"],
}
"""What the papers call them for short."""


def family(name: str) -> Family:
    """Return the family of a name.

    Raises:
        InvalidArgument: there is none; the message lists all names, or the nearest.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = _ABBREVIATIONS.get(str(name).lower()) or difflib.get_close_matches(str(name), _BY_NAME, n=3)
    hint = f"the nearest is {' or '.join(near)}" if near else f"there are {', '.join(_BY_NAME)}"
    raise invalid("name", "must be a code of the catalogue", name, hint)


def build(name: str, **parameters: object) -> GradientCode:
    """Build a code by its name, as configuration files and the command line do.

    Arguments:
        name: of a family in the catalogue.
        **parameters: the constructor's; where it takes a code, a mapping with that code's `name` and parameters.

    Raises:
        InvalidArgument: no such family, a parameter that it does not have or lacks, or one of the wrong type.

    >>> build("fractional_repetition", n_workers=12, load=3)
    fractional_repetition(n_workers=12, load=3, n_tasks=12)
    >>> build("refine", code={"name": "cyclic_mds", "n_workers": 6, "stragglers": 3}, n_tasks=12).n_tasks
    12
    """
    chosen = family(name)
    known = inspect.signature(chosen.constructor).parameters
    for key in parameters:
        if key not in known:
            raise InvalidArgument(f"{name} has no parameter {key!r}; it has {', '.join(known)}: {chosen.signature}.")
    n_workers, load = real(parameters.get("n_workers", 1)), real(parameters.get("load", 0))
    if n_workers > _MANY:
        each = max(load, real(parameters.get("stragglers", 0)) + 1, 1.0)
        check_memory(f"{name} of {n_workers:,.0f} workers", _BYTES * n_workers * each, "name fewer workers")
    missing = [key for key, spec in known.items() if spec.default is spec.empty and key not in parameters]
    if missing:
        raise InvalidArgument(f"{name} needs {' and '.join(missing)}: {chosen.signature}.")
    return chosen.constructor(**{key: _argument(known[key], value) for key, value in parameters.items()})


def describe(name: str | None = None) -> str:
    """Return the page of one family, or one line for each family, as text.

    >>> describe().splitlines()[0].split()[:3]
    ['uncoded', 'approximate', 'Every']
    """
    if name is None:
        return "\n".join(f"{row.name:<31} {row.status:<12} {row.summary}" for row in catalogue())
    row = family(name)
    arguments = "\n".join(f"    {key}: {text}" for key, text in row.arguments.items())
    parts = {
        "Guarantees": row.guarantee,
        "Choose it": row.choose,
        "Source": row.source,
        "Example": f"{row.example_code!r}: {row.example_code.n_workers} workers, load {row.example_code.load},"
        f" tolerance {row.example_code.tolerance}",
    }
    body = "\n".join(textwrap.fill(f"{key}: {text}", 100, subsequent_indent="    ") for key, text in parts.items())
    return f"{row.signature}  [{row.status}]\n{row.summary}\n\nParameters:\n{arguments}\n\n{body}\n"


def _argument(spec: inspect.Parameter, value: object) -> object:
    """Return a parameter's value, a described code built; raise if its type cannot be meant."""
    wanted = str(spec.annotation)
    if wanted == "GradientCode":
        if isinstance(value, GradientCode):
            return value
        inner = cast("Mapping[str, object]", value if isinstance(value, Mapping) else {})
        if "name" not in inner:
            given = dict(inner) or f"{value}"
            raise invalid(spec.name, "must be a code, or a mapping with the name and parameters of one", given)
        return build(str(inner["name"]), **{key: inner[key] for key in inner if key != "name"})
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted in ("int", "float") and not number:
        raise invalid(spec.name, "must be a number", value)
    if wanted in ("int | None", "float | None") and not number and value is not None:
        raise invalid(spec.name, "must be a number, or be left out", value)
    if wanted == "bool" and not isinstance(value, bool):
        raise invalid(spec.name, "must be true or false", value)
    return value
