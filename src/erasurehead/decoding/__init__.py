"""Which weights undo the erasures: from the messages that arrived to the sum of all partial gradients."""

from erasurehead.decoding.alternatives import Alternatives as Alternatives
from erasurehead.decoding.base import EXACT as EXACT
from erasurehead.decoding.base import Decoder as Decoder
from erasurehead.decoding.base import Decoding as Decoding
from erasurehead.decoding.base import Session as Session
from erasurehead.decoding.base import residual_of as residual_of
from erasurehead.decoding.blocks import Blocks as Blocks
from erasurehead.decoding.choice import for_code as for_code
from erasurehead.decoding.conditioning import Conditioning as Conditioning
from erasurehead.decoding.conditioning import check_dtype as check_dtype
from erasurehead.decoding.conditioning import conditioning as conditioning
from erasurehead.decoding.corruption import Fingerprints as Fingerprints
from erasurehead.decoding.corruption import Inspection as Inspection
from erasurehead.decoding.corruption import inspect as inspect
from erasurehead.decoding.design import UniformOverlap as UniformOverlap
from erasurehead.decoding.folded import Folded as Folded
from erasurehead.decoding.graph import GraphComponents as GraphComponents
from erasurehead.decoding.groups import FirstPerGroup as FirstPerGroup
from erasurehead.decoding.least_squares import LeastSquares as LeastSquares
from erasurehead.decoding.null_space import NullSpace as NullSpace
from erasurehead.decoding.prescribed import Algorithmic as Algorithmic
from erasurehead.decoding.prescribed import FixedWeights as FixedWeights
from erasurehead.decoding.prescribed import OneStep as OneStep
from erasurehead.decoding.sparse import SparseLeastSquares as SparseLeastSquares
