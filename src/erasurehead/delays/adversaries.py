"""Adversarial delays: workers that are dead or slow for good, and the worst such workers for a given code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays.base import Delays, room
from erasurehead.delays.written import written
from erasurehead.errors import check_count, invalid, real

if TYPE_CHECKING:
    from erasurehead.decoding.base import Decoder

_EXHAUSTIVE = 5_000  # number of sets up to which all are tried; beyond it the search is greedy


@final
@dataclass(frozen=True)
class Late(Delays):
    """The same workers are late in every step, and the others immediate: an adversary, or broken machines.

    Arguments:
        workers: the workers that are late, at least one, each at least 0.
        by: their delay in seconds, at least 0; inf, the default, means that they never answer.
        since: the first step in which they are late.
    """

    workers: tuple[int, ...]
    by: float = math.inf
    since: int = 0

    def __post_init__(self) -> None:
        given: Any = self.workers
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise invalid("workers", "must be a list of workers", self.workers, "late([3]) makes worker 3 late")
        if not len(self.workers):
            raise invalid("workers", "must name at least one worker", self.workers, "none() is for no delays at all")
        for position, worker in enumerate(self.workers):
            check_count(f"workers[{position}]", worker, at_least=0)
        if not real(self.by) >= 0.0:
            raise invalid("by", "must be at least 0", self.by)
        check_count("since", self.since, at_least=0)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = room(out, count, n_workers)
        values[:] = 0.0
        values[max(0, self.since - first) :, [worker for worker in self.workers if worker < n_workers]] = self.by
        return values

    def check_workers(self, n_workers: int) -> None:
        beyond = [worker for worker in self.workers if worker >= n_workers]
        if beyond:
            raise invalid("workers", f"must be among the {n_workers} workers, from 0 to {n_workers - 1}", beyond[0])

    def __str__(self) -> str:
        return written("late", self)


def worst_workers(decoder: Decoder, count: int) -> tuple[int, ...]:
    """Return the workers whose loss leaves the largest residual: the adversary's choice, for `Late`.

    Exact for codes whose groups hold equal messages, one per worker and all of the same gain (whole groups are lost
    first), and where there are at most 5,000 sets to try. Otherwise a greedy search, one worker at a time, gives a
    lower bound on the harm: finding the worst set is NP-hard in general (Charles, Papailiopoulos and Ellenberg 2017).

    Arguments:
        decoder: decoder of the code that is attacked.
        count: number of workers that are lost, from 0 to all.

    Returns:
        The workers, ascending.
    """
    code = decoder.code
    check_count("count", count, at_least=0, at_most=code.n_workers)
    if code.replicas and (code.messages_per_worker <= 1).all():
        return _whole_groups(decoder, count)
    if math.comb(code.n_workers, count) <= _EXHAUSTIVE:
        sets = itertools.combinations(range(code.n_workers), count)
        return max(sets, key=lambda lost: round(_residual_without(decoder, lost), 9))
    lost: tuple[int, ...] = ()
    for _ in range(count):
        candidates = [worker for worker in range(code.n_workers) if worker not in lost]
        worst = max(candidates, key=lambda worker: round(_residual_without(decoder, (*lost, worker)), 9))
        lost = (*lost, worst)
    return tuple(sorted(lost))


def _residual_without(decoder: Decoder, lost: tuple[int, ...]) -> float:
    return decoder.residual(np.flatnonzero(~np.isin(decoder.code.owner, lost)).tolist())


def _whole_groups(decoder: Decoder, count: int) -> tuple[int, ...]:
    code = decoder.code
    assert code.groups is not None
    members = [code.owner[code.groups == group] for group in np.unique(code.groups)]
    everybody = set(range(code.n_workers))
    full = decoder.residual(range(code.n_messages))
    gains = [_residual_without(decoder, tuple(group.tolist())) - full for group in members]
    # The best-paying groups first: most residual for each worker lost.
    order = sorted(range(len(members)), key=lambda group: -gains[group] / len(members[group]))
    lost: list[int] = []
    for group in order:
        if len(lost) + len(members[group]) <= count:
            lost.extend(members[group].tolist())
    spare = sorted(everybody.difference(lost))
    return tuple(sorted([*lost, *spare[: count - len(lost)]]))
