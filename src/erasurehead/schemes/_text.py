"""Schemes and step sizes as texts, the same in run files, on the command line and in Python."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from erasurehead._internal import text_parser
from erasurehead.codes import catalogue
from erasurehead.codes._text import parse_code
from erasurehead.errors import InvalidArgument, check_type, invalid
from erasurehead.optimizers import Schedule
from erasurehead.optimizers._schedules import as_schedule
from erasurehead.schemes import _named, wait_rules
from erasurehead.schemes._aggregation import rescaling
from erasurehead.schemes._scheme import Scheme, custom

_T = TypeVar("_T")

_NAMED = (
    "adaptive",
    "uncoded",
    "ignore_stragglers",
    "exact",
    "compute_once",
    "nested",
    "erasurehead",
    "piag",
    "asynchronous",
    "ringmaster",
    "ringleader",
    "rennala",
)
"""The schemes that a text may name, as `erasurehead.schemes` has them."""

PAPER_WORKERS = 30
PAPER_LOAD = 3
PAPER_WAIT_FOR = 11


def parse_scheme(text: str, n_workers: int) -> Scheme:
    """Return the scheme that a text stands for.

    Arguments:
        text: `adaptive()`, `uncoded()`, `ignore_stragglers(wait_for=20)`, `exact(load=3)`,
            `exact(load=3, code='cyclic')`, `compute_once()`, `nested(load=4)`, `erasurehead(load=3, wait_for=11)`,
            `piag()`, `asynchronous()`, `ringmaster(threshold=30)`, `ringleader()`, `rennala(batch=5)`, each with the
            arguments of `erasurehead.schemes`; or `custom(code='...', wait='...', rescale='none')` of any code and wait
            rule. A bare name is a call without arguments.
        n_workers: number of workers.

    Raises:
        InvalidArgument: if the text is not a scheme, or the scheme does not exist for that many workers.

    >>> print(parse_scheme("erasurehead(load=3, wait_for=11)", 30).rule)
    first(11) | decodable()
    """
    check_type("scheme", text, str, "must be a text", "such as 'exact(load=3)'")
    makers: dict[str, Callable[..., Scheme]] = {name: partial(getattr(_named, name), n_workers) for name in _NAMED}
    makers["custom"] = partial(_custom, n_workers)
    if _name(text) not in makers and any(_name(text) == family.name for family in catalogue()):
        hint = f"write custom(code={text.strip()!r}, wait='decodable()') or another wait rule"
        raise invalid("scheme", "must be a scheme, not a code", text, hint)
    return _naming("scheme", text, lambda: text_parser.read(_call(text), "scheme", Scheme, makers, {}))


def by_speed(text: str | None, speeds: str) -> str:
    """Return the text of a scheme whose tasks go by speed.

    Arguments:
        text: of the scheme; None for that without redundancy.
        speeds: as in a run file.

    Raises:
        InvalidArgument: if that scheme does not deal tasks out by speed, or has speeds already.

    >>> by_speed(None, "1,2,4,4"), by_speed("exact(load=3)", "measured")
    ('uncoded(speeds=[1, 2, 4, 4])', "exact(load=3, speeds='measured')")
    """
    call = _call(text or "uncoded").strip()
    if not deals_by_speed(call):
        hint = "leave out one of them" if "speeds" in call else "take uncoded, or exact(load=3)"
        raise invalid("run.speeds", "must be for the scheme uncoded or exact, without speeds of its own", text, hint)
    told = repr("measured") if speeds.strip() == "measured" else f"[{', '.join(_numbers(speeds))}]"
    return f"{call[:-1]}{'' if call.endswith('()') else ', '}speeds={told})"


def deals_by_speed(text: str) -> bool:
    """Return whether a text stands for a scheme that can be told speeds, and has none of its own."""
    return _name(text) in ("uncoded", "exact") and "speeds" not in text


def _numbers(speeds: str) -> list[str]:
    """Return the numbers of a list of speeds, as they are written."""
    numbers = [item.strip() for item in speeds.split(",")]
    if not all(re.fullmatch(r"\d+\.?\d*(e[+-]?\d+)?", number) and 0.0 < float(number) < math.inf for number in numbers):
        rule = "must be positive numbers with commas between them, or measured"
        raise invalid("run.speeds", rule, speeds, "such as 1,2,4,4")
    return numbers


def workers_of(speeds: str | None) -> int | None:
    """Return for how many workers speeds are given; None if none are."""
    return None if speeds is None or speeds.strip() == "measured" else len(_numbers(speeds))


def is_adaptive(text: str) -> bool:
    """Return whether a text stands for `schemes.adaptive`.

    >>> is_adaptive("adaptive(load=2)"), is_adaptive("uncoded()")
    (True, False)
    """
    return _name(text) == "adaptive"


def gives_whole_gradients(text: str) -> bool:
    """Return whether a text stands for a scheme whose optimizer, unless it is said, is one that finds its own steps."""
    return _name(text) in ("adaptive", "compute_once", "nested")


def _name(text: str) -> str:
    return text.strip().partition("(")[0].strip()


def waits_for_all(text: str) -> bool:
    """Return whether a text stands for `schemes.uncoded`."""
    return _name(text) == "uncoded"


def takes_old_gradients(text: str) -> bool:
    """Return whether a text stands for a scheme whose steps use gradients of earlier models.

    >>> takes_old_gradients("piag(load=2)"), takes_old_gradients("uncoded()")
    (True, False)
    """
    return _name(text) in ("asynchronous", "piag", "ringmaster", "ringleader")


def parse_rate(rate: float | str) -> Schedule:
    """Return the step sizes that a number or a text stands for.

    Arguments:
        rate: a number, or `constant(rate)`, `geometric(rate, factor)` or `inverse_time(rate, half_life)`.

    >>> parse_rate("geometric(0.1, 0.99)")
    Geometric(rate=0.1, factor=0.99)
    """
    return _naming("rate", str(rate), lambda: as_schedule(rate))


def default_scheme(n_workers: int) -> str:
    """Return ErasureHead as published for 30 workers; for other numbers it waits for the same fraction of them.

    >>> default_scheme(30), default_scheme(8)
    ('erasurehead(load=3, wait_for=11)', 'erasurehead(load=3, wait_for=3)')
    """
    wait_for = max(1, round(n_workers * PAPER_WAIT_FOR / PAPER_WORKERS))
    return f"erasurehead(load={_load(n_workers)}, wait_for={wait_for})"


def paper_schemes(n_workers: int) -> tuple[str, ...]:
    """Return the schemes that the paper's figures compare: uncoded, exact coding, ErasureHead."""
    return "uncoded()", f"exact(load={_load(n_workers)})", default_scheme(n_workers)


def _load(n_workers: int) -> int:
    return min(PAPER_LOAD, n_workers)


def _custom(n_workers: int, code: str, wait: str, rescale: str = "none", name: str = "") -> Scheme:
    built = parse_code(_call(code), n_workers)
    if rescale not in ("none", "coverage"):
        raise invalid(
            "rescale",
            "must be 'none' or 'coverage' in a custom scheme",
            rescale,
            "erasurehead and ignore_stragglers know 'expectation' as well",
        )
    return custom(built, wait_rules.parse(wait), rescaling(rescale, built, None), name)


def _call(text: str) -> str:
    return f"{text}()" if text.strip().isidentifier() else text


def _naming(key: str, text: str, build: Callable[[], _T]) -> _T:
    """Build; errors about parts of the text are raised again, naming the key and the whole text."""
    try:
        return build()
    except InvalidArgument as error:
        if error.value == f"{text}()":  # a bare name is a call without arguments
            error = error.but(value=text)
        raise error.inside(key, text) from None
