"""Which decoder a code deserves: the structured one where there is one, else least squares."""

from __future__ import annotations

from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoder
from erasurehead.decoding.groups import FirstPerGroup
from erasurehead.decoding.least_squares import LeastSquares


def for_code(code: GradientCode) -> Decoder:
    """Return the quickest optimal decoder for a code, chosen by the structure of its encoding, not by its name."""
    if code.replicas:
        return FirstPerGroup(code)
    return LeastSquares(code)
