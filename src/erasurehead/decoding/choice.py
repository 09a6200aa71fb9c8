"""Which decoder a code deserves: the structured one where there is one, else least squares."""

from __future__ import annotations

from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoder
from erasurehead.decoding.design import UniformOverlap, overlap_of
from erasurehead.decoding.graph import GraphComponents, is_graph
from erasurehead.decoding.groups import FirstPerGroup
from erasurehead.decoding.least_squares import LeastSquares
from erasurehead.decoding.sparse import SparseLeastSquares

_SMALL = 256
_SPARSE = 0.1


def for_code(code: GradientCode) -> Decoder:
    """Return the quickest optimal decoder for a code, chosen by the structure of its encoding, not by its name."""
    if code.replicas:
        return FirstPerGroup(code)
    if is_graph(code):
        return GraphComponents(code)
    if overlap_of(code) is not None:
        return UniformOverlap(code)
    return general(code)


def general(code: GradientCode) -> Decoder:
    """Return the decoder for a code without structure: dense for small or dense codes, else sparse."""
    rows, columns = code.encoding.shape
    sparse = code.encoding.nnz <= _SPARSE * rows * columns
    if sparse and rows > _SMALL and code.n_pieces == 1:
        return SparseLeastSquares(code)
    return LeastSquares(code)
