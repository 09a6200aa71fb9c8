"""Random numbers for a purpose, that have nothing to do with those of another under the same seed."""

from __future__ import annotations

import zlib

import numpy as np

from erasurehead.errors import check_count


def stream(purpose: str, seed: int) -> np.random.Generator:
    """Return the random stream of a purpose: the same numbers on every machine for the same seed.

    Were a code built and its stragglers drawn by plain generators of one seed, the stragglers would repeat the code's
    own numbers: the first permutation of the workers is that of a stochastic block code, and "random" stragglers
    would be whole blocks.

    >>> float(stream("stragglers", 0).random()) == float(np.random.default_rng(0).random())
    False
    """
    key = zlib.crc32(purpose.encode())
    return np.random.default_rng(np.random.SeedSequence(check_count("seed", seed, at_least=0), spawn_key=(key,)))
