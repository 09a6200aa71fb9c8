"""Random numbers by (seed, unit, step, worker): the same in whatever blocks they are drawn.

Workers and steps are cut into tiles (`_LEVELS`): tall ones for the first workers, so that a few workers over many steps
are drawn together, and flat ones for those far out, so that a million workers need only one step at a time. Every tile
is a stretch of one PCG64 sequence of period 2**128, reached by a jump to a place that is a hash of the tile's number:
stretches of a few thousand numbers do not overlap (a billion of them do with probability 2**-50), and their distances
are not powers of two, which would make the generator's low bits similar. A jump costs about two microseconds, so that
blocks are drawn at nearly the generator's own speed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from functools import lru_cache
from threading import Lock
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays._base import room

Kind: TypeAlias = Literal["exponential", "uniform", "normal"]
"""Standard exponential (mean 1), uniform on [0, 1), standard normal."""

_KINDS: tuple[Kind, ...] = ("exponential", "uniform", "normal")
_MASK = (1 << 128) - 1
_MIXERS = (0x9E3779B97F4A7C15F39CC0605CEDC835, 0xDA942042E4DD58B5C2B2AE3D27D4EB4F)
_KEPT = 128  # tiles that are kept
_LARGE = 1 << 18  # size of a block from which machine code is loaded to copy draws
_MANY = 1 << 22  # draws after which it is, if numba is loaded anyway


class _Level(NamedTuple):
    """Workers start..stop-1 are drawn in tiles of a given number of steps and of workers."""

    start: int
    stop: int
    steps: int
    width: int


_LEVELS = (_Level(0, 64, 1024, 16), _Level(64, 1024, 128, 64), _Level(1024, 1 << 62, 1, 16_384))


class _Source:
    """One sequence of random bits, with access to each of its stretches."""

    def __init__(self, kind: Kind, seed: int, unit: int, stream: int) -> None:
        key = np.random.SeedSequence(seed, spawn_key=(_KINDS.index(kind), unit, stream))
        self._bits = np.random.PCG64(key)
        self._origin = self._bits.state
        self._random = np.random.Generator(self._bits)
        self._kind = kind
        self._lock = Lock()

    def fill(self, level: int, tile: int, band: int, out: Array) -> None:
        """Write the beginning of a tile, row by row, into a contiguous array."""
        number = ((tile << 32) + band) * len(_LEVELS) + level + 1
        with self._lock:
            self._bits.state = self._origin
            self._bits.advance(_place(number))
            if self._kind == "exponential":
                self._random.standard_exponential(out=out)
            elif self._kind == "uniform":
                self._random.random(out=out)
            else:
                self._random.standard_normal(out=out)


def _place(number: int) -> int:
    # Multiply and fold, twice: a bijection of the integers below 2**128 that leaves no pattern.
    for mixer in _MIXERS:
        number = number * mixer & _MASK
        number ^= number >> 67
    return number * _MIXERS[0] & _MASK


@lru_cache(maxsize=64)
def _source(kind: Kind, seed: int, unit: int, stream: int) -> _Source:
    return _Source(kind, seed, unit, stream)


@lru_cache(maxsize=_KEPT)
def _kept_tile(kind: Kind, seed: int, unit: int, stream: int, level: int, tile: int, band: int) -> Array:
    # Engines ask for one step after the other, and blocks may be shorter than a tile.
    values = np.empty((_LEVELS[level].steps, _LEVELS[level].width))
    _source(kind, seed, unit, stream).fill(level, tile, band, values)
    values.flags.writeable = False
    return values


@lru_cache(maxsize=_KEPT)
def _times_asked(kind: Kind, seed: int, unit: int, stream: int, level: int, tile: int, band: int) -> Iterator[int]:
    """Return the number of times that a whole tile was asked for, as far as is remembered: `next` counts.

    A plan asks for the same tiles for each setting, and they are kept from the second time on. A long simulation asks
    for more tiles than could be kept, and for none of them again before it is forgotten.
    """
    return itertools.count()


def draw(
    kind: Kind,
    seed: int,
    first: int,
    count: int,
    n_workers: int,
    unit: int = 0,
    stream: int = 0,
    out: Array | None = None,
    factor: float = 1.0,
) -> Array:
    """Return independent draws for successive steps and workers 0..n_workers-1, shape (count, n_workers).

    Arguments:
        kind: the distribution, in its standard form.
        seed: at least 0.
        first: the first step, from 0.
        count: number of steps.
        n_workers: number of workers.
        unit: number of the message in its step; each has its own draws.
        stream: tells apart several draws that one model makes for the same worker and step.
        out: output, C-contiguous; None for a new array.
        factor: a factor for every draw.
    """
    values = room(out, count, n_workers)
    for index, level in enumerate(_LEVELS):
        columns = values[:, level.start : level.stop]
        if not columns.shape[1]:
            break
        if level.steps == 1:  # much wider than a few workers: only the part that is needed is drawn
            _drawn(columns, _source(kind, seed, unit, stream), index, first, factor)
        else:
            _copied(columns, (kind, seed, unit, stream), index, first, factor)
    return values


def _drawn(values: Array, source: _Source, index: int, first: int, factor: float) -> None:
    width = _LEVELS[index].width
    for row, strip_of_step in enumerate(values):
        for band, left in enumerate(range(0, values.shape[1], width)):
            strip = strip_of_step[left : left + width]
            source.fill(index, first + row, band, strip)
            strip *= factor


def _copied(values: Array, key: tuple[Kind, int, int, int], index: int, first: int, factor: float) -> None:
    level = _LEVELS[index]
    count, n_workers = values.shape
    buffer: Array | None = None
    for tile in range(first // level.steps, (first + count - 1) // level.steps + 1):
        origin = tile * level.steps
        low, high = max(first, origin), min(first + count, origin + level.steps)
        for band, left in enumerate(range(0, n_workers, level.width)):
            out = values[low - first : high - first, left : left + level.width]
            if high - low == level.steps and not next(_times_asked(*key, index, tile, band)):
                buffer = np.empty((level.steps, level.width)) if buffer is None else buffer
                _source(*key).fill(index, tile, band, buffer)
                _Copies.write(buffer, factor, out, values.size)
            else:
                kept = _kept_tile(*key, index, tile, band)
                np.multiply(kept[low - origin : high - origin, : out.shape[1]], factor, out=out)


class _Copies:
    """Copies of tiles that are not kept, and how many draws were copied so far in this process."""

    drawn = 0

    @classmethod
    def write(cls, tile: Array, factor: float, out: Array, size: int) -> None:
        """Write draws, multiplied by a factor, into a part of a block of some size; the part may be narrower."""
        cls.drawn += tile.size
        if size > _LARGE or (cls.drawn > _MANY and "numba" in sys.modules):
            from erasurehead.delays._placing import place  # numba is loaded where much is drawn, not where it is read

            place(tile, factor, out)
        else:
            np.multiply(tile[:, : out.shape[1]], factor, out=out)
