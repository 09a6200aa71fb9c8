"""The rule that waits for equal messages to compare: `confirmed(copies)`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode
from erasurehead.decoding import Decoder
from erasurehead.errors import check_count, invalid
from erasurehead.schemes.wait_rules._base import Verdict, WaitRule, WrittenRule, scaled_count
from erasurehead.schemes.wait_rules._view import View


class Copies:
    """Who can send which content: a worker counts once, however often it sends the same content.

    Attributes:
        content: of each message, numbered 0, 1, 2, ..., shape (n_messages,).
        voice: the number of each message's pair of content and worker, shape (n_messages,).
        spoken: the content of each voice, shape (n_voices,).
        sizes: number of voices of each content, shape (n_contents,).
    """

    def __init__(self, code: GradientCode) -> None:
        self.content: IntArray = np.unique(code.content, return_inverse=True)[1].astype(np.int64)
        pairs, voice = np.unique(self.content * code.n_workers + code.owner, return_inverse=True)
        self.voice: IntArray = voice.astype(np.int64)
        self.spoken: IntArray = pairs // code.n_workers
        self.sizes: IntArray = np.bincount(self.spoken).astype(np.int64)
        self._order = np.argsort(self.voice, kind="stable")
        self._starts = np.searchsorted(self.voice[self._order], np.arange(len(pairs)))
        self._starts_of: IntArray = np.cumsum(self.sizes) - self.sizes

    def counts(self, messages: IntArray) -> IntArray:
        """Return how many workers' copies of each content are among the given messages, shape (n_contents,)."""
        heard = np.zeros(len(self.spoken), dtype=bool)
        heard[self.voice[messages]] = True
        return np.bincount(self.spoken[heard], minlength=len(self.sizes)).astype(np.int64)

    def between(self, times: Array, copies: int) -> tuple[Array, Array]:
        """Return when each content's first copy arrives, and when `copies` of them have (all, where there are fewer).

        Arguments:
            times: when each message arrives, shape (rounds, n_messages).
            copies: at least 1.

        Returns:
            Two arrays of shape (rounds, n_contents), in seconds.
        """
        voices = np.minimum.reduceat(times[:, self._order], self._starts, axis=1)
        first, enough = np.empty((2, len(times), len(self.sizes)))
        for size in map(int, np.unique(self.sizes)):
            chosen = np.flatnonzero(self.sizes == size)
            members = np.add.outer(self._starts_of[chosen], np.arange(size))
            table = np.sort(voices[:, members], axis=2)
            first[:, chosen], enough[:, chosen] = table[:, :, 0], table[:, :, min(copies, size) - 1]
        return first, enough


@lru_cache(maxsize=8)
def copies_of(code: GradientCode) -> Copies:
    """Return the copies of a code, computed once per code."""
    return Copies(code)


@final
@dataclass(frozen=True, repr=False)
class Confirmed(WrittenRule):
    """Stop while each content that arrived has come from several workers, or from all that can still send it.

    This gives verification something to compare: `(first(11) | decodable()) & confirmed(2)`. If `copies` is one more
    than the number of workers that may lie, then whatever all copies agree on is right. On its own, the rule stops as
    soon as the first content is confirmed. A rule that is met may cease to be met when another content arrives.

    Arguments:
        copies: number of workers, at least 1 and at most the number of equal messages in the code.
    """

    name = "confirmed"
    copies: int
    lasting = False

    def __post_init__(self) -> None:
        check_count("confirmed(copies)", self.copies)

    @property
    def agreeing(self) -> int:
        return self.copies

    def verdict(self, view: View) -> Verdict:
        copies = copies_of(view.code)
        pending = view.pending
        if not view.arrived:
            return Verdict.WAIT if len(pending) else Verdict.UNREACHABLE
        arrived = np.array(view.arrived, dtype=np.int64)
        counts = copies.counts(arrived)
        possible = copies.counts(np.concatenate([arrived, pending]))
        missing = (counts > 0) & (counts < np.minimum(self.copies, possible))
        return Verdict.WAIT if missing.any() else Verdict.STOP

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        return self.stop_times_since(times, decoder, np.zeros(len(times)))

    def stop_times_since(self, times: Array, decoder: Decoder, since: Array) -> Array:
        first, enough = copies_of(decoder.code).between(times, self.copies)
        stop = np.maximum(since, first.min(axis=1))
        while True:  # what has arrived by then must be confirmed; meanwhile more arrives
            arrived = first <= stop[:, None]
            later = np.where(arrived, enough, stop[:, None]).max(axis=1)
            later = np.maximum(later, stop)
            if (later == stop).all():
                return stop
            stop = later

    def check(self, decoder: Decoder) -> None:
        most = int(copies_of(decoder.code).sizes.max())
        if self.copies > most:
            raise invalid(
                "confirmed(copies)",
                f"must be at most {most}, as no more messages of the code are equal",
                self.copies,
                "use a code of replicas with a larger load",
            )

    def for_workers(self, before: int, after: int) -> WaitRule:
        return Confirmed(min(self.copies, scaled_count(self.copies, before, after)))
