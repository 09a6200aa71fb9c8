"""The choice of a decoder for a code: a structured one where there is one, otherwise least squares."""

from __future__ import annotations

import numpy as np

from erasurehead.codes import GradientCode
from erasurehead.decoding._alternatives import Alternatives
from erasurehead.decoding._base import Decoder
from erasurehead.decoding._blocks import Blocks
from erasurehead.decoding._design import UniformOverlap, overlap_of
from erasurehead.decoding._folded import fold
from erasurehead.decoding._graph import GraphComponents, is_graph
from erasurehead.decoding._groups import FirstPerGroup
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._null_space import NullSpace
from erasurehead.decoding._sparse import SparseLeastSquares
from erasurehead.decoding._subcodes import components

_TINY = 24  # up to this many messages, nothing is quicker than least squares
_SMALL = 256
_SMALL_EXACT = 1024  # exact codes are ill-conditioned: iterations stop before they are accurate enough
_SPARSE = 0.1
_WHOLE = 0.6  # a code with more of its messages than this in one block is decoded as a whole


def make_decoder(code: GradientCode) -> Decoder:
    """Return the quickest optimal decoder for a code, chosen by the structure of its encoding, not by its name.

    In this order: replicas, graphs, blocks without a common task, exact codes of one shifted row by their null space,
    alternatives (`Structure.classes` or `levels`), repetitions that can be folded away, designs, other exact codes by
    their null space or by elimination, and least squares: dense for small or ill-conditioned codes, sparse for large
    ones.

    Arguments:
        code: any code.
    """
    if code.replicas:
        return FirstPerGroup(code)
    if is_graph(code):
        return GraphComponents(code)
    if code.structure.design is not None and overlap_of(code) is not None:
        return UniformOverlap(code)
    blocks = components(code)
    if np.bincount(blocks).max() <= _WHOLE * code.n_messages:
        return Blocks(code, blocks, make_decoder)
    if code.tolerance and code.structure.shift is not None and code.n_messages > _TINY:
        return NullSpace(code, general(code))
    for alternatives in (code.structure.classes, code.structure.levels):
        if alternatives is not None and alternatives.max(initial=0) > 0:
            return Alternatives(code, alternatives, make_decoder, fold(code, make_decoder) or general(code))
    folded = fold(code, make_decoder)
    if folded is not None:
        return folded
    if overlap_of(code) is not None:
        return UniformOverlap(code)
    if code.tolerance and code.n_messages > _TINY:
        return NullSpace(code, general(code))
    return general(code)


def general(code: GradientCode) -> Decoder:
    """Return the decoder for a code without structure: dense for small or dense codes, otherwise sparse."""
    rows, columns = code.encoding.shape
    small = max(rows, columns) <= (_SMALL_EXACT if code.tolerance else _SMALL)
    if small or code.n_pieces != 1 or code.encoding.nnz > _SPARSE * rows * columns:
        return LeastSquaresDecoder(code)
    return SparseLeastSquares(code)
