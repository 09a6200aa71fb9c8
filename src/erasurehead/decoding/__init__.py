"""Which weights undo the erasures: from the messages that arrived to the sum of all partial gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names

if TYPE_CHECKING:
    from erasurehead.decoding.adversary import WorstCase as WorstCase
    from erasurehead.decoding.adversary import worst_case as worst_case
    from erasurehead.decoding.alternatives import Alternatives as Alternatives
    from erasurehead.decoding.analysis import Analysis as Analysis
    from erasurehead.decoding.analysis import Cost as Cost
    from erasurehead.decoding.analysis import Curves as Curves
    from erasurehead.decoding.analysis import analyse as analyse
    from erasurehead.decoding.averages import MeanResidual as MeanResidual
    from erasurehead.decoding.averages import mean_residual as mean_residual
    from erasurehead.decoding.base import EXACT as EXACT
    from erasurehead.decoding.base import Decoder as Decoder
    from erasurehead.decoding.base import Decoding as Decoding
    from erasurehead.decoding.base import Session as Session
    from erasurehead.decoding.base import residual_of as residual_of
    from erasurehead.decoding.blocks import Blocks as Blocks
    from erasurehead.decoding.bounds import adversarial_threshold as adversarial_threshold
    from erasurehead.decoding.bounds import one_step_bound as one_step_bound
    from erasurehead.decoding.bounds import spectral_bound as spectral_bound
    from erasurehead.decoding.choice import make_decoder as make_decoder
    from erasurehead.decoding.design import UniformOverlap as UniformOverlap
    from erasurehead.decoding.error_location import Located as Located
    from erasurehead.decoding.error_location import locate as locate
    from erasurehead.decoding.fixed_weights import Algorithmic as Algorithmic
    from erasurehead.decoding.fixed_weights import FixedWeights as FixedWeights
    from erasurehead.decoding.fixed_weights import OneStep as OneStep
    from erasurehead.decoding.folded import Folded as Folded
    from erasurehead.decoding.graph import GraphComponents as GraphComponents
    from erasurehead.decoding.groups import FirstPerGroup as FirstPerGroup
    from erasurehead.decoding.inspection import Fingerprints as Fingerprints
    from erasurehead.decoding.layout import Layout as Layout
    from erasurehead.decoding.least_squares import LeastSquaresDecoder as LeastSquaresDecoder
    from erasurehead.decoding.null_space import NullSpace as NullSpace
    from erasurehead.decoding.parity_checks import Checks as Checks
    from erasurehead.decoding.rounding import Conditioning as Conditioning
    from erasurehead.decoding.rounding import check_dtype as check_dtype
    from erasurehead.decoding.rounding import check_rounding as check_rounding
    from erasurehead.decoding.rounding import conditioning as conditioning
    from erasurehead.decoding.sparse import SparseLeastSquares as SparseLeastSquares

# Workers need only the layout of messages: they do not decode.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Algorithmic": "fixed_weights",
        "Alternatives": "alternatives",
        "Analysis": "analysis",
        "Blocks": "blocks",
        "Checks": "parity_checks",
        "Conditioning": "rounding",
        "Cost": "analysis",
        "Curves": "analysis",
        "Decoder": "base",
        "Decoding": "base",
        "EXACT": "base",
        "Fingerprints": "inspection",
        "FirstPerGroup": "groups",
        "FixedWeights": "fixed_weights",
        "Folded": "folded",
        "GraphComponents": "graph",
        "Layout": "layout",
        "LeastSquaresDecoder": "least_squares",
        "Located": "error_location",
        "MeanResidual": "averages",
        "NullSpace": "null_space",
        "OneStep": "fixed_weights",
        "Session": "base",
        "SparseLeastSquares": "sparse",
        "UniformOverlap": "design",
        "WorstCase": "adversary",
        "adversarial_threshold": "bounds",
        "analyse": "analysis",
        "check_dtype": "rounding",
        "check_rounding": "rounding",
        "conditioning": "rounding",
        "locate": "error_location",
        "make_decoder": "choice",
        "mean_residual": "averages",
        "one_step_bound": "bounds",
        "residual_of": "base",
        "spectral_bound": "bounds",
        "worst_case": "adversary",
    },
)
