"""Delay models made of others: sums, and workers that differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import cast, final

import numpy as np

from erasurehead.arrays import Array
from erasurehead.delays.base import Delays
from erasurehead.delays.written import written
from erasurehead.errors import invalid, real


def seeds(model: object) -> Iterator[int]:
    """Yield every seed that a model draws from."""
    if isinstance(model, tuple):
        for item in cast("tuple[object, ...]", model):
            yield from seeds(item)
    elif isinstance(model, Delays) and is_dataclass(model):
        for item in fields(model):
            if item.name == "seed":
                yield int(getattr(model, item.name))
            else:
                yield from seeds(getattr(model, item.name))


@final
@dataclass(frozen=True)
class Sum(Delays):
    """Delays that add up: computing, network and queueing given apart, say. Written `a + b`.

    Arguments:
        terms: at least two; nested sums are flattened. Terms that draw must have different seeds, or they would be
            slow together.
    """

    terms: tuple[Delays, ...]

    def __post_init__(self) -> None:
        terms = tuple(part for term in self.terms for part in (term.terms if isinstance(term, Sum) else (term,)))
        if len(terms) < 2:
            raise invalid("terms", "must be at least two", len(terms))
        seen: set[int] = set()
        for term in terms:
            own = set(seeds(term))
            if own & seen:
                raise invalid(
                    "terms", "must draw from different seeds", f"seed {min(own & seen)} in several", "give each its own"
                )
            seen |= own
        object.__setattr__(self, "terms", terms)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = self.terms[0].rows(first, count, n_workers, unit, work, out)
        for term in self.terms[1:]:
            values += term.rows(first, count, n_workers, unit, work)
        return values

    def check_workers(self, n_workers: int) -> None:
        for term in self.terms:
            term.check_workers(n_workers)

    def __str__(self) -> str:
        return " + ".join(str(term) for term in self.terms)


@final
@dataclass(frozen=True)
class Scaled(Delays):
    """Workers of unequal speed: each worker's delay times its own factor.

    Arguments:
        model: the delays of a worker whose factor is 1.
        factors: one a worker, at least 0 and finite. Workers beyond the last factor are refused.
    """

    model: Delays
    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        for worker, factor in enumerate(self.factors):
            if not (math.isfinite(real(factor)) and factor >= 0.0):
                raise invalid(f"factors[{worker}]", "must be at least 0 and finite", factor)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        self.check_workers(n_workers)
        values = self.model.rows(first, count, n_workers, unit, work, out)
        values *= np.array(self.factors[:n_workers])
        return values

    def check_workers(self, n_workers: int) -> None:
        if n_workers > len(self.factors):
            raise invalid("factors", f"must have one for each of {n_workers} workers", f"{len(self.factors)} factors")
        self.model.check_workers(n_workers)

    def __str__(self) -> str:
        return written("scaled", self)


@final
@dataclass(frozen=True)
class PerWorker(Delays):
    """Workers of several kinds, each kind with its own model.

    Arguments:
        models: one a kind.
        kinds: the kind of each worker, 0..len(models)-1; workers beyond the last are refused. Left out, worker i is
            of kind i.
    """

    models: tuple[Delays, ...]
    kinds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        kinds = self.kinds or tuple(range(len(self.models)))
        for worker, kind in enumerate(kinds):
            if kind not in range(len(self.models)):
                raise invalid(f"kinds[{worker}]", f"must name one of {len(self.models)} models, from 0", kind)
        object.__setattr__(self, "kinds", () if kinds == tuple(range(len(self.models))) else kinds)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        kinds = np.array(self.kinds or range(len(self.models)))
        self.check_workers(n_workers)
        values = np.empty((count, n_workers)) if out is None else out
        for kind, model in enumerate(self.models):
            mine = np.flatnonzero(kinds[:n_workers] == kind)
            if len(mine):
                values[:, mine] = model.rows(first, count, n_workers, unit, work)[:, mine]
        return values

    def check_workers(self, n_workers: int) -> None:
        n_kinds = len(self.kinds or self.models)
        if n_workers > n_kinds:
            raise invalid("kinds", f"must have one for each of {n_workers} workers", f"{n_kinds} kinds")
        for model in self.models:
            model.check_workers(n_workers)

    def __str__(self) -> str:
        return written("per_worker", self)
