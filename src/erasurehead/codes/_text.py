"""Codes of the catalogue as texts: `cyclic_mds(stragglers=2)`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from erasurehead import codes
from erasurehead._internal import text_parser
from erasurehead.codes._base import GradientCode
from erasurehead.codes._families import Family
from erasurehead.codes._registry import family
from erasurehead.errors import counted, invalid


def parse_code(text: str, n_workers: int | None = None) -> GradientCode:
    """Return the code that a text stands for.

    Arguments:
        text: a call of a constructor of `erasurehead.codes`; calls may be nested, as in
            `refine(cyclic_mds(stragglers=3), n_tasks=60)`.
        n_workers: number of workers that the code must have, which may be left out of the text; None if the text
            contains it.

    Raises:
        InvalidArgument: if there is no such code, its parameters do not fit, or it has another number of workers.

    >>> parse_code("fractional_repetition(load=3)", 12)
    fractional_repetition(n_workers=12, load=3, n_tasks=12)
    >>> parse_code("refine(fractional_repetition(6, load=3), n_tasks=12)").n_workers
    6
    """
    named = re.match(r"\s*(\w+)", text)
    if named is not None:
        family(named[1])  # an unknown name is told with its nearest
    words = set(re.findall(r"\w+", text))
    makers = {row.name: _maker(row, n_workers) for row in codes.catalogue() if row.name in words}
    code = text_parser.read(text, "code", GradientCode, makers, {})
    if n_workers is not None and code.n_workers != n_workers:
        raise invalid(
            "the code",
            f"must have the {counted('worker', n_workers)} of the run",
            f"{code!r} with {code.n_workers}",
            f"take {counted('worker', code.n_workers)}, or choose other parameters",
        )
    return code


def _maker(row: Family, n_workers: int | None) -> Callable[..., GradientCode]:
    """Return a function that builds codes of a family, with the run's number of workers unless another is given."""
    takes = inspect.signature(row.constructor).parameters
    free = [parameter for name, parameter in takes.items() if name != "n_workers" or n_workers is None]
    if "n_workers" in takes and n_workers is not None:
        free.append(takes["n_workers"].replace(kind=inspect.Parameter.KEYWORD_ONLY, default=n_workers))
    signature = inspect.Signature(free)

    def make(*values: object, **named: object) -> GradientCode:
        given = signature.bind(*values, **named)
        given.apply_defaults()
        return codes.build(row.name, **given.arguments)

    make.__dict__["__signature__"] = signature
    return make
