"""The interface of decoders: from arrived messages to weights that recover the sum of all partial gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray, check_among
from erasurehead.codes import GradientCode
from erasurehead.codes._exactness import EXACT as EXACT
from erasurehead.decoding._matrix_products import backward
from erasurehead.errors import invalid


@dataclass(frozen=True, eq=False)
class Decoding:
    """The outcome of decoding: which messages to add up, and with which weights.

    Arguments:
        code: the code that was decoded.
        messages: the messages to add up, ascending, shape (k,).
        weights: their weights, one row for each piece, shape (n_pieces, k).
        residual: squared distance of `alpha` from the target, divided by the number of pieces, in tasks: 0 is exact,
            and n_tasks means that nothing is known.
    """

    code: GradientCode
    messages: IntArray
    weights: Array
    residual: float

    @cached_property
    def alpha(self) -> Array:
        """How often each piece of a task counts, `weights @ encoding[messages]`: (n_pieces, n_tasks * n_pieces)."""
        return np.asarray((self.code.encoding[self.messages].T @ self.weights.T).T)

    @property
    def used(self) -> IntArray:
        """Messages with a nonzero weight, ascending."""
        return self.messages[(self.weights != 0.0).any(axis=0)]

    @property
    def coverage(self) -> float:
        """Fraction of the full gradient that is counted: the mean of `alpha` where the target is one."""
        # Summed by messages rather than by tasks: it is needed at every step, and alpha is not.
        counted = float((self.weights * self.code.totals[self.messages].T).sum())
        return counted / (self.code.n_tasks * self.code.n_pieces)

    @property
    def exact(self) -> bool:
        """Whether the weighted sum is the full gradient."""
        return self.residual <= EXACT * self.code.n_tasks


class Session(ABC):
    """The decoding of one round with a `code`, which is given messages one by one."""

    code: GradientCode

    def add(self, message: int) -> None:
        """Add a message that has arrived. Adding one again changes nothing.

        Arguments:
            message: its number, 0..n_messages-1.

        Raises:
            InvalidArgument: if the code has no such message.
        """
        if not 0 <= message < self.code.n_messages:
            as_messages([message], self.code)
        self._add(message)

    @abstractmethod
    def _add(self, message: int) -> None: ...

    def extend(self, messages: Iterable[int]) -> None:
        """Add many messages at once: the same as adding them one by one, but possibly quicker.

        Raises:
            InvalidArgument: if the code has no such message.
        """
        self._extend(as_messages(messages, self.code))

    def _extend(self, added: IntArray) -> None:
        for message in added.tolist():
            self._add(message)

    @abstractmethod
    def residual(self) -> float:
        """Return the smallest residual that the messages added so far allow; it never rises as messages arrive.

        A decoder for huge codes may return an upper bound: see `Decoder.slack`.
        """

    @abstractmethod
    def decoding(self) -> Decoding:
        """Return the weights for the messages added so far."""

    def exact(self) -> bool:
        """Whether the messages added so far give the full gradient."""
        return self.residual() <= EXACT * self.code.n_tasks


class Decoder(ABC):
    """Decodes one code, its `code`. It holds whatever can be prepared in advance; each round begins a `Session`."""

    code: GradientCode

    slack: float = 0.0
    """The fraction of itself by which `Session.residual` may exceed the optimum: 0 for rounding only; infinite for an
    upper bound without any guarantee."""

    @abstractmethod
    def begin(self) -> Session:
        """Return a session without any messages yet."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r})"

    def decode(self, messages: Iterable[int]) -> Decoding:
        """Decode one set of arrived messages, given in any order.

        Raises:
            InvalidArgument: if the code has no such message.
        """
        session = self.begin()
        session.extend(messages)
        return session.decoding()

    def residual(self, messages: Iterable[int]) -> float:
        """Return the smallest residual that a set of messages allows; raises as `decode` does."""
        session = self.begin()
        session.extend(messages)
        return session.residual()

    def residuals(self, messages: Iterable[int]) -> Array:
        """Return the residual after each arrival of a sequence, shape (number of messages,): never rising."""
        return self._residuals(as_messages(messages, self.code))

    def _residuals(self, sequence: IntArray) -> Array:
        session = self.begin()

        def after(message: int) -> float:
            session.add(message)
            return session.residual()

        return np.array([after(message) for message in sequence.tolist()])


def combine(code: GradientCode, messages: IntArray, weights: Array) -> Array:
    """Return `weights @ encoding[messages]` without slicing a sparse matrix, which is slow."""
    spread = np.zeros((code.n_messages, len(weights)))
    spread[messages] = weights.T
    return backward(code, spread).T


def residual_of(code: GradientCode, messages: IntArray, weights: Array) -> float:
    """Return the residual of given weights, by its definition, in float64.

    Arguments:
        code: the code.
        messages: the messages, shape (k,).
        weights: their weights, shape (n_pieces, k).
    """
    error = combine(code, messages, weights) - code.target
    return float(np.einsum("pt,pt->", error, error)) / code.n_pieces


def as_messages(messages: Iterable[int], code: GradientCode) -> IntArray:
    """Return message indices as an array.

    Raises:
        InvalidArgument: if they are something else, such as a mask, or the code has no such message.
    """
    given: Any = messages
    try:
        whole = isinstance(messages, np.ndarray) and given.dtype.kind in "iu"
        arrived = np.asarray(given, np.int64) if whole else np.fromiter(map(index, given), np.int64)
    except TypeError:
        hint = "numpy.flatnonzero makes them of a mask"
        raise invalid("messages", "must be the numbers of messages", given, hint) from None
    check_among("messages", arrived, code.n_messages)
    return arrived


def first_times(labels: IntArray, n_labels: int) -> BoolArray:
    """Return where in a sequence each label, in 0..n_labels-1, occurs for the first time."""
    first = np.full(n_labels, -1, dtype=np.int64)
    first[labels[::-1]] = np.arange(len(labels))[::-1]  # of several writes to one place, the last one remains
    return first[labels] == np.arange(len(labels))
