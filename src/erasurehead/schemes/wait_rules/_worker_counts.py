"""Rules that count workers: `first(r)` and `fraction(d)`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode
from erasurehead.decoding import Decoder
from erasurehead.errors import check_count, invalid, real
from erasurehead.schemes.wait_rules._base import Verdict, WaitRule, WrittenRule, scaled_count
from erasurehead.schemes.wait_rules._kth_smallest import kth_smallest
from erasurehead.schemes.wait_rules._view import View


def participants(code: GradientCode) -> int:
    """Return the number of workers that send anything; others, if any, are neither waited for nor counted."""
    return int(np.count_nonzero(code.messages_per_worker))


def finish_times(times: Array, code: GradientCode) -> Array:
    """Return when all messages of each worker have arrived.

    Arguments:
        times: when each message arrives, shape (rounds, n_messages).
        code: the code, which says who sends which message.

    Returns:
        Shape (rounds, participants), in seconds; inf where one of a worker's messages never arrives.
    """
    order, starts = _by_worker(code)
    return times if order is None else np.maximum.reduceat(times[:, order], starts, axis=1)


@lru_cache(maxsize=8)
def _by_worker(code: GradientCode) -> tuple[IntArray | None, IntArray]:
    # Messages sorted by who sends them, and where each worker's begin; None if every worker sends one, in order.
    if len(code.owner) == code.n_workers and (np.diff(code.owner) > 0).all():
        return None, code.owner
    order = np.argsort(code.owner, kind="stable")
    return order, np.flatnonzero(np.diff(code.owner[order], prepend=-1))


def _verdict(view: View, workers: int) -> Verdict:
    if view.finished >= workers:
        return Verdict.STOP
    if not view.whole and view.can_finish() < workers:
        return Verdict.UNREACHABLE
    return Verdict.WAIT


def _stop_times(times: Array, code: GradientCode, workers: int) -> Array:
    finished = finish_times(times, code)
    if workers > finished.shape[1]:
        return np.full(len(times), np.inf)
    return kth_smallest(finished, workers)


@final
@dataclass(frozen=True, repr=False)
class First(WrittenRule):
    """Stop when a given number of workers have sent all of their messages (r in the papers).

    Arguments:
        workers: at least 1. A worker that sends several messages counts once all of them have arrived.
    """

    name = "first"
    workers: int

    def __post_init__(self) -> None:
        check_count("first(workers)", self.workers)

    def verdict(self, view: View) -> Verdict:
        return _verdict(view, self.workers)

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return _stop_times(times, decoder.code, self.workers)

    def check(self, decoder: Decoder) -> None:
        most = participants(decoder.code)
        if self.workers > most:
            raise invalid(
                "first(workers)",
                f"must be at most the {most} workers that send messages",
                self.workers,
                f"first({most}) waits for all of them",
            )

    def for_workers(self, before: int, after: int) -> WaitRule:
        return First(scaled_count(self.workers, before, after))


@final
@dataclass(frozen=True, repr=False)
class Fraction(WrittenRule):
    """Stop when a fraction of the workers have sent all of their messages (delta in ErasureHead's Algorithm 1).

    Arguments:
        share: greater than 0, at most 1; `ceil(share * n_workers)` workers are waited for.
    """

    name = "fraction"
    share: float

    def __post_init__(self) -> None:
        if not 0.0 < real(self.share) <= 1.0:
            raise invalid("fraction(share)", "must be greater than 0 and at most 1", self.share)

    def workers(self, code: GradientCode) -> int:
        """Return the number of workers to wait for. The product is rounded first, so that 0.07 of 100 is 7, not 8."""
        return max(1, math.ceil(round(self.share * participants(code), 9)))

    def verdict(self, view: View) -> Verdict:
        return _verdict(view, self.workers(view.code))

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return _stop_times(times, decoder.code, self.workers(decoder.code))
