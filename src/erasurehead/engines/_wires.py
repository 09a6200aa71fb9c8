"""Wires: how vectors cross in fewer bytes than they are computed in.

The last element of a vector, the loss of its tasks, is sent in full precision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal import text_parser
from erasurehead._internal.arrays import Array
from erasurehead.engines._base import MessageLost
from erasurehead.errors import InvalidArgument, check_choice, check_count, invalid

Key: TypeAlias = tuple[int, int]
"""Identifies a vector: the step, and its content. Equal vectors with equal keys are encoded to equal bits."""

Bytes: TypeAlias = NDArray[np.uint8]

_FRONT = 16
"""Bytes at the beginning: the length of the vector, and the loss in float64."""


class Wire(ABC):
    """How vectors are encoded. A wire is immutable data without state: random numbers depend only on the key."""

    @property
    @abstractmethod
    def error(self) -> float:
        """The largest difference after decoding between vectors that are equal up to rounding.

        It is relative to the largest element. Verification tolerates differences up to this size.
        """

    @property
    @abstractmethod
    def rounding(self) -> float:
        """The largest error of an element, relative to the largest element of the vector; inf if unbounded."""

    @abstractmethod
    def nbytes(self, length: int) -> int:
        """Return the bytes that a vector of `length` elements takes, including its loss."""

    def encode(self, vector: Array, key: Key, out: Bytes) -> None:
        """Write a vector as bytes.

        Arguments:
            vector: the gradient and, as its last element, the loss; shape (length,), at least one element.
            key: identifies the vector.
            out: output, shape (nbytes(length),); every byte is written.
        """
        out[:8].view(np.int64)[0] = len(vector)
        out[8:_FRONT].view(np.float64)[0] = vector[-1]
        self._encode(vector[:-1], key, out[_FRONT:])

    def decode(self, sent: Bytes) -> Array:
        """Return the decoded vector, in float64, shape (length,).

        Arguments:
            sent: the bytes that `encode` wrote.

        Raises:
            MessageLost: if they are not what `encode` writes.
        """
        length = int(sent[:8].view(np.int64)[0])
        if not 0 < length < 2**48 or self.nbytes(length) != len(sent):
            raise MessageLost(f"a message of {len(sent)} bytes is not one of {length} elements on the wire {self}")
        vector = np.empty(length)
        vector[-1] = sent[8:_FRONT].view(np.float64)[0]
        self._decode(sent[_FRONT:], vector[:-1])
        return vector

    @abstractmethod
    def _encode(self, gradient: Array, key: Key, out: Bytes) -> None: ...

    @abstractmethod
    def _decode(self, sent: Bytes, gradient: Array) -> None: ...

    @abstractmethod
    def __str__(self) -> str:
        """Return the wire as it is written in a run file: `"cast('float32')"`."""


@final
@dataclass(frozen=True)
class Cast(Wire):
    """Rounds elements to the nearest number of a shorter floating-point type.

    Arguments:
        dtype: `"float32"`, `"float16"` or `"bfloat16"`, which needs no package here. In float16, whose range is small,
            a vector crosses over a power of two that brings its largest element near the upper end; what is beyond the
            range of the others (3e38) becomes infinite, and the message is refused.
    """

    dtype: str = "float32"

    _DIGITS: ClassVar[dict[str, int]] = {"float32": 24, "float16": 11, "bfloat16": 8}

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, sorted(self._DIGITS))

    @property
    def error(self) -> float:
        return 2.0 * self.rounding

    @property
    def rounding(self) -> float:
        return 2.0 ** -self._DIGITS[self.dtype]

    def nbytes(self, length: int) -> int:
        return _FRONT + {"float32": 0, "float16": 8, "bfloat16": 0}[self.dtype] + self._itemsize * (length - 1)

    @property
    def _itemsize(self) -> int:
        return 4 if self.dtype == "float32" else 2

    def _encode(self, gradient: Array, key: Key, out: Bytes) -> None:
        if self.dtype == "float16":
            unit = _unit_of_half(gradient)
            out[:8].view(np.float64)[0] = unit
            out[8:].view(np.float16)[:] = gradient / unit
            return
        with np.errstate(over="ignore"):
            if self.dtype == "float32":
                out.view(np.float32)[:] = gradient
                return
            single = gradient.astype(np.float32)
        bits = single.view(np.uint32)
        rounded = bits + (((bits >> 16) & 1) + 0x7FFF)
        out.view(np.uint16)[:] = np.where(np.isnan(single), 0x7FC0, rounded >> 16)

    def _decode(self, sent: Bytes, gradient: Array) -> None:
        if self.dtype == "bfloat16":
            gradient[:] = (sent.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        elif self.dtype == "float16":
            with np.errstate(invalid="ignore", over="ignore"):  # of what a liar may have written
                np.multiply(sent[8:].view(np.float16), sent[:8].view(np.float64)[0], out=gradient)
        else:
            gradient[:] = sent.view(np.float32)

    def __str__(self) -> str:
        return f"cast({self.dtype!r})"


def _unit_of_half(vector: Array) -> float:
    """Return the power of two over which a vector fits the range of float16, its largest element in 2^14..2^15."""
    size = float(np.abs(vector).max(initial=0.0))
    return math.ldexp(1.0, math.frexp(size)[1] - 15) if 0.0 < size < math.inf else 1.0


@final
@dataclass(frozen=True)
class Dithered(Wire):
    """Rounds elements at random to one of a few levels, so that their expectation is right (QSGD).

    Levels are multiples of (the largest element / the number of levels); of the two neighbouring levels, the nearer is
    the more probable. The random numbers depend on the key, and on nothing that was sent before.

    Source: Alistarh, Grubic, Li, Tomioka and Vojnovic, NIPS 2017, section 3.1, scaled by the largest element in place
    of the length, as in their experiments.

    Arguments:
        levels: number of positive levels, 1 to 32,767. An element takes one byte up to 127 levels, and two beyond.
        seed: seed of the rounding, at least 0.
    """

    levels: int = 127
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("levels", self.levels, at_most=32_767)
        check_count("seed", self.seed, at_least=0)

    @property
    def error(self) -> float:
        return 1.01 / self.levels

    @property
    def rounding(self) -> float:
        return 1.0 / self.levels

    def nbytes(self, length: int) -> int:
        return _FRONT + 8 + self._whole.itemsize * (length - 1)

    @property
    def _whole(self) -> np.dtype[Any]:
        return np.dtype(np.int8 if self.levels <= 127 else np.int16)

    def _encode(self, gradient: Array, key: Key, out: Bytes) -> None:
        size = float(np.abs(gradient).max(initial=0.0))
        out[:8].view(np.float64)[0] = size  # not finite if an element is not: the message is refused on arrival
        if not (size > 0.0 and np.isfinite(size)):
            out[8:] = 0
            return
        step, content = key
        rng = np.random.Generator(np.random.SFC64([self.seed, step, content]))
        levels = np.floor(gradient * (self.levels / size) + rng.random(len(gradient)))
        out[8:].view(self._whole)[:] = np.clip(levels, -self.levels, self.levels)

    def _decode(self, sent: Bytes, gradient: Array) -> None:
        size = sent[:8].view(np.float64)[0]
        if np.isfinite(size):
            np.multiply(sent[8:].view(self._whole), size / self.levels, out=gradient)
        else:
            gradient[:] = size

    def __str__(self) -> str:
        return f"dithered({self.levels}, seed={self.seed})"


def parse_wire(text: str) -> Wire | None:
    """Return the wire that a text stands for; None for `none`.

    Arguments:
        text: `cast('float32')`, `dithered(127, seed=0)` or `none`. A bare name is a call without
            arguments.

    Raises:
        InvalidArgument: if the text is not a wire.

    >>> parse_wire("cast('bfloat16')"), parse_wire("dithered")
    (Cast(dtype='bfloat16'), Dithered(levels=127, seed=0))
    """
    bare = isinstance(text, str) and text.strip().isidentifier()  # pyright: ignore[reportUnnecessaryIsInstance]
    call = f"{text}()" if bare else text
    makers: dict[str, Any] = {"cast": Cast, "dithered": Dithered, "none": _Whole}
    try:
        made = text_parser.read(call, "wire", object, makers, {})
        if not isinstance(made, Wire | _Whole):
            raise invalid("wire", "must be a call", text, f"known are {', '.join(makers)}")
    except InvalidArgument as error:
        if error.value == call:
            error = error.but(value=text)
        raise error.inside("wire", text) from None
    return made if isinstance(made, Wire) else None


class _Whole:
    """No wire: messages are sent as they are."""
