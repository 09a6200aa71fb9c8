"""Who computes what: every published gradient code, one file a family; a code is plain immutable data."""

from erasurehead.codes.base import GradientCode as GradientCode
from erasurehead.codes.bernoulli import bernoulli as bernoulli
from erasurehead.codes.bernoulli import regularised_bernoulli as regularised_bernoulli
from erasurehead.codes.bernoulli import stochastic_block as stochastic_block
from erasurehead.codes.cyclic import cyclic_repetition as cyclic_repetition
from erasurehead.codes.cyclic_mds import complex_cyclic_mds as complex_cyclic_mds
from erasurehead.codes.cyclic_mds import cyclic_mds as cyclic_mds
from erasurehead.codes.cyclic_mds import exact_cyclic as exact_cyclic
from erasurehead.codes.graph_code import edge_code as edge_code
from erasurehead.codes.graph_code import graph_code as graph_code
from erasurehead.codes.reed_solomon import reed_solomon as reed_solomon
from erasurehead.codes.regular import expander as expander
from erasurehead.codes.regular import margulis as margulis
from erasurehead.codes.regular import regular as regular
from erasurehead.codes.repetition import fractional_repetition as fractional_repetition
from erasurehead.codes.repetition import uncoded as uncoded
from erasurehead.codes.spectrum import Spectrum as Spectrum
from erasurehead.codes.stochastic import batched_coupons as batched_coupons
from erasurehead.codes.stochastic import stochastic_gradient as stochastic_gradient
