"""Random streams by purpose: those of different purposes are independent under the same seed."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from erasurehead.errors import check_count


def stream(purpose: str, seed: int) -> np.random.Generator:
    """Return the random stream of a purpose: the same numbers on every machine for the same seed.

    If a code and its stragglers were drawn by plain generators of the same seed, the stragglers would repeat the code's
    own numbers: the first permutation of the workers is that of a stochastic block code, and "random" stragglers
    would be whole blocks.

    >>> float(stream("stragglers", 0).random()) == float(np.random.default_rng(0).random())
    False
    """
    key = zlib.crc32(purpose.encode())
    return np.random.default_rng(np.random.SeedSequence(check_count("seed", seed, at_least=0), spawn_key=(key,)))


def scrambled(words: Any) -> Any:
    """Return words of 64 bits, each made into another by the finaliser of splitmix64 (Steele, Lea, Flood 2014).

    Arguments:
        words: of type uint64, of any shape; the map is one-to-one.
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
