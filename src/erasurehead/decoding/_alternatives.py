"""Codes made of several whole codes, as nested ones are: once one of them is decodable, the others do not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoder, Decoding, Session
from erasurehead.decoding._subcodes import members, part_of


@final
class Alternatives(Decoder):
    """Exact decoding by the first complete alternative; optimal decoding of all messages if none is complete.

    Examples are the classes of binary repetition (any complete class adds up to the target) and the levels of nested
    codes (level t is decodable when all but t workers have reached it). Each alternative has a decoder of its own. If
    several are exact, the one with the smallest number is used, so that the decoding depends only on the set of
    arrivals.

    Arguments:
        code: the whole code.
        labels: the alternative of each message, numbered from 0 without gaps, shape (n_messages,).
        choose: makes the decoder of an alternative.
        inner: an optimal decoder of the whole code, for sets that no alternative decodes exactly; None if messages of
            several alternatives are never decoded together: then the best alternative is taken.

    Source: Charalambides, Mahdavifar, Hero, arXiv 2109.10484 (classes); Massny et al., arXiv 2212.08580 (levels).
    """

    def __init__(
        self, code: GradientCode, labels: IntArray, choose: Callable[[GradientCode], Decoder], inner: Decoder | None
    ) -> None:
        self.code = code
        self.labels = labels
        self.members = members(labels)
        self.position: IntArray = np.empty(code.n_messages, dtype=np.int64)
        for block in self.members:
            self.position[block] = np.arange(len(block))
        tasks = np.arange(code.n_tasks)
        self.decoders = [choose(part_of(code, block, tasks)) for block in self.members]
        self.inner = inner
        self.slack = max(one.slack for one in self.decoders) if inner is None else inner.slack

    def __repr__(self) -> str:
        return f"make_decoder({self.code!r})"

    def begin(self) -> Session:
        return _AlternativesSession(self)


@final
class _AlternativesSession(Session):
    def __init__(self, decoder: Alternatives) -> None:
        self.code = decoder.code
        self._decoder = decoder
        self._sessions: list[Session] = [alternative.begin() for alternative in decoder.decoders]
        self._inner = None if decoder.inner is None else decoder.inner.begin()
        self._changed: set[int] = set()
        self._complete: set[int] = set()
        self._last = float(self.code.n_tasks)

    def _add(self, message: int) -> None:
        decoder = self._decoder
        number = int(decoder.labels[message])
        self._sessions[number].add(int(decoder.position[message]))
        self._changed.add(number)
        if self._inner is not None:
            self._inner.add(message)

    def _extend(self, added: IntArray) -> None:
        decoder = self._decoder
        numbers = decoder.labels[added]
        for number in map(int, np.unique(numbers)):
            self._sessions[number].extend(decoder.position[added[numbers == number]])
            self._changed.add(number)
        if self._inner is not None:
            self._inner.extend(added)

    def exact(self) -> bool:
        # Messages of several alternatives together may decode before any alternative does alone.
        return self._find() is not None or (self._inner is not None and self._inner.exact())

    def residual(self) -> float:
        number = self._chosen()
        session = self._inner if number is None else self._sessions[number]
        assert session is not None
        self._last = min(self._last, session.residual())
        return self._last

    def decoding(self) -> Decoding:
        number = self._chosen()
        if number is None:
            assert self._inner is not None
            return self._inner.decoding()
        decoding = self._sessions[number].decoding()
        messages = self._decoder.members[number][decoding.messages]
        return Decoding(self.code, messages, decoding.weights, decoding.residual)

    def _chosen(self) -> int | None:
        """Return the alternative to decode; None for all messages together."""
        number = self._find()
        if number is None and self._inner is None:
            return min(range(len(self._sessions)), key=lambda place: self._sessions[place].residual())
        return number

    def _find(self) -> int | None:
        """Return the exact alternative with the smallest number."""
        self._complete.update(number for number in self._changed if self._sessions[number].exact())
        self._changed.clear()
        return min(self._complete, default=None)
